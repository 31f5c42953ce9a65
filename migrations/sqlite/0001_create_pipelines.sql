-- SQLite: instants are INTEGER microseconds since 1970 UTC, booleans 0 or 1,
-- JSON is TEXT; STRICT tables keep anything else out.

-- Who this database is. The id goes into CURRENT (owner.state), so that a
-- restored or a second database is recognised. One row.
CREATE TABLE deltad_identity (
    one        INTEGER     PRIMARY KEY DEFAULT true CHECK (one),
    id         TEXT        NOT NULL CHECK (id <> ''),
    created_at INTEGER     NOT NULL
) STRICT;

-- Who may write. Rows are never deleted: the epoch must outlive every holder.
-- A released lease keeps epoch and nonce, so that a late renewal by its old
-- holder is refused and a second release is recognised.
CREATE TABLE deltad_lease (
    pipeline    TEXT        NOT NULL,
    role        TEXT        NOT NULL CHECK (role IN ('delta', 'full')),
    holder      TEXT        NOT NULL,
    epoch       INTEGER     NOT NULL CHECK (epoch > 0),
    nonce       TEXT        NOT NULL,
    ttl_us      INTEGER     NOT NULL CHECK (ttl_us > 0),
    released    INTEGER     NOT NULL DEFAULT false,
    acquired_at INTEGER     NOT NULL,
    renewed_at  INTEGER     NOT NULL,
    expires_at  INTEGER     NOT NULL,
    PRIMARY KEY (pipeline, role)
) STRICT;

-- A copy of what CURRENT says, and the switches that people set. version is
-- the ETag of plan/apply and rises with every change of the row;
-- current_version is the version of CURRENT that is copied here. The source
-- column is '' until a pipeline can have several co-grouped sources.
CREATE TABLE deltad_pipeline (
    name            TEXT        NOT NULL,
    source          TEXT        NOT NULL DEFAULT '',
    watermark       INTEGER,
    progress        INTEGER,
    version         INTEGER     NOT NULL DEFAULT 1,
    current_version INTEGER     NOT NULL DEFAULT 0,
    run_id          TEXT        NOT NULL DEFAULT '',
    manifest_key    TEXT        NOT NULL DEFAULT '',
    manifest_sha256 TEXT        NOT NULL DEFAULT '',
    config_hash     TEXT        NOT NULL DEFAULT '',
    paused          INTEGER     NOT NULL DEFAULT false,
    pause_reason    TEXT        NOT NULL DEFAULT '',
    paused_by       TEXT        NOT NULL DEFAULT '',
    paused_at       INTEGER,
    updated_at      INTEGER     NOT NULL,
    PRIMARY KEY (name, source)
) STRICT;
