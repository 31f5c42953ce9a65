-- Who this database is. The id goes into CURRENT (owner.state), so that a
-- restored or a second database is recognised. One row.
CREATE TABLE deltad_identity (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    id         text        NOT NULL CHECK (id <> ''),
    created_at timestamptz NOT NULL
);

-- Who may write. Rows are never deleted: the epoch must outlive every holder.
-- A released lease keeps epoch and nonce, so that a late renewal by its old
-- holder is refused and a second release is recognised.
CREATE TABLE deltad_lease (
    pipeline    text        NOT NULL,
    role        text        NOT NULL CHECK (role IN ('delta', 'full')),
    holder      text        NOT NULL,
    epoch       bigint      NOT NULL CHECK (epoch > 0),
    nonce       text        NOT NULL,
    ttl_us      bigint      NOT NULL CHECK (ttl_us > 0),
    released    boolean     NOT NULL DEFAULT false,
    acquired_at timestamptz NOT NULL,
    renewed_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (pipeline, role)
);

-- A copy of what CURRENT says, and the switches that people set. version is
-- the ETag of plan/apply and rises with every change of the row;
-- current_version is the version of CURRENT that is copied here. The source
-- column is '' until a pipeline can have several co-grouped sources.
CREATE TABLE deltad_pipeline (
    name            text        NOT NULL,
    source          text        NOT NULL DEFAULT '',
    watermark       timestamptz,
    progress        timestamptz,
    version         bigint      NOT NULL DEFAULT 1,
    current_version bigint      NOT NULL DEFAULT 0,
    run_id          text        NOT NULL DEFAULT '',
    manifest_key    text        NOT NULL DEFAULT '',
    manifest_sha256 text        NOT NULL DEFAULT '',
    config_hash     text        NOT NULL DEFAULT '',
    paused          boolean     NOT NULL DEFAULT false,
    pause_reason    text        NOT NULL DEFAULT '',
    paused_by       text        NOT NULL DEFAULT '',
    paused_at       timestamptz,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (name, source)
);
