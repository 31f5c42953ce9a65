-- Ids and keys compare by bytes (COLLATE "C"), whatever the database's locale:
-- ULIDs order runs by age.

-- The journal. A run is entered as planned before its first byte and ends as
-- published (CURRENT reached it), abandoned, failed or unknown.
CREATE TABLE deltad_run (
    id                 text        COLLATE "C" PRIMARY KEY,
    pipeline           text        NOT NULL,
    kind               text        NOT NULL CHECK (kind IN ('delta', 'full')),
    status             text        NOT NULL CHECK (status IN ('planned', 'published', 'abandoned', 'failed', 'unknown')),
    change_id          text        NOT NULL,
    reason             text        NOT NULL,
    parent_key         text        NOT NULL,
    parent_sha256      text        NOT NULL,
    epoch              bigint      NOT NULL,
    instance           text        NOT NULL,
    previous_watermark timestamptz,
    watermark          timestamptz,
    coverage_from      timestamptz,
    config_hash        text        NOT NULL,
    planned_at         timestamptz NOT NULL,
    finished_at        timestamptz,
    error              text        NOT NULL DEFAULT '',
    manifest_key       text        NOT NULL DEFAULT '',
    manifest_sha256    text        NOT NULL DEFAULT '',
    current_version    bigint      NOT NULL DEFAULT 0,
    documents          bigint      NOT NULL DEFAULT 0,
    late               bigint      NOT NULL DEFAULT 0,
    counts             jsonb       NOT NULL DEFAULT '{}'
);

-- Newest first, and the few still planned, without reading the history.
CREATE INDEX deltad_run_by_pipeline ON deltad_run (pipeline, id);
CREATE INDEX deltad_run_planned ON deltad_run (pipeline, id) WHERE status = 'planned';
CREATE INDEX deltad_run_published ON deltad_run (pipeline, current_version) WHERE status = 'published';

-- What became of each partition. current_version is that of the publication
-- which said so: an older one that is journalled late never replaces it.
CREATE TABLE deltad_ledger (
    pipeline        text        NOT NULL,
    source          text        NOT NULL DEFAULT '',
    partition_start timestamptz NOT NULL,
    fingerprint     text        NOT NULL,
    state           text        NOT NULL CHECK (state <> ''),
    run_id          text        NOT NULL,
    objects         bigint      NOT NULL,
    members         text        NOT NULL DEFAULT '',
    note            text        NOT NULL,
    current_version bigint      NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (pipeline, source, partition_start)
);

-- Objects outside every rule of coverage, each counted once by name.
CREATE TABLE deltad_late_object (
    pipeline        text        NOT NULL,
    source          text        NOT NULL DEFAULT '',
    key             text        COLLATE "C" NOT NULL,
    etag            text        NOT NULL,
    partition_start timestamptz,
    run_id          text        NOT NULL,
    found_at        timestamptz NOT NULL,
    PRIMARY KEY (pipeline, key, etag)
);

CREATE INDEX deltad_late_object_found ON deltad_late_object (pipeline, found_at);

-- Objects that cannot be read: failures in a row, and skips. Keyed by ETag, so
-- a replaced object starts anew.
CREATE TABLE deltad_object_failure (
    pipeline    text        NOT NULL,
    source      text        NOT NULL DEFAULT '',
    key         text        COLLATE "C" NOT NULL,
    etag        text        NOT NULL,
    failures    bigint      NOT NULL DEFAULT 0,
    last_run_id text        NOT NULL DEFAULT '',
    last_error  text        NOT NULL DEFAULT '',
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL,
    skipped_at  timestamptz,
    skipped_by  text        NOT NULL DEFAULT '',
    skip_reason text        NOT NULL DEFAULT '',
    PRIMARY KEY (pipeline, source, key, etag)
);
