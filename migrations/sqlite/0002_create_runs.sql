-- The journal. A run is entered as planned before its first byte and ends as
-- published (CURRENT reached it), abandoned, failed or unknown.
CREATE TABLE deltad_run (
    id                 TEXT        PRIMARY KEY,
    pipeline           TEXT        NOT NULL,
    kind               TEXT        NOT NULL CHECK (kind IN ('delta', 'full')),
    status             TEXT        NOT NULL CHECK (status IN ('planned', 'published', 'abandoned', 'failed', 'unknown')),
    change_id          TEXT        NOT NULL,
    reason             TEXT        NOT NULL,
    parent_key         TEXT        NOT NULL,
    parent_sha256      TEXT        NOT NULL,
    epoch              INTEGER     NOT NULL,
    instance           TEXT        NOT NULL,
    previous_watermark INTEGER,
    watermark          INTEGER,
    coverage_from      INTEGER,
    config_hash        TEXT        NOT NULL,
    planned_at         INTEGER     NOT NULL,
    finished_at        INTEGER,
    error              TEXT        NOT NULL DEFAULT '',
    manifest_key       TEXT        NOT NULL DEFAULT '',
    manifest_sha256    TEXT        NOT NULL DEFAULT '',
    current_version    INTEGER     NOT NULL DEFAULT 0,
    documents          INTEGER     NOT NULL DEFAULT 0,
    late               INTEGER     NOT NULL DEFAULT 0,
    counts             TEXT        NOT NULL DEFAULT '{}'
) STRICT;

-- Newest first, and the few still planned, without reading the history.
CREATE INDEX deltad_run_by_pipeline ON deltad_run (pipeline, id);
CREATE INDEX deltad_run_planned ON deltad_run (pipeline, id) WHERE status = 'planned';
CREATE INDEX deltad_run_published ON deltad_run (pipeline, current_version) WHERE status = 'published';

-- What became of each partition. current_version is that of the publication
-- which said so: an older one that is journalled late never replaces it.
CREATE TABLE deltad_ledger (
    pipeline        TEXT        NOT NULL,
    source          TEXT        NOT NULL DEFAULT '',
    partition_start INTEGER     NOT NULL,
    fingerprint     TEXT        NOT NULL,
    state           TEXT        NOT NULL CHECK (state <> ''),
    run_id          TEXT        NOT NULL,
    objects         INTEGER     NOT NULL,
    members         TEXT        NOT NULL DEFAULT '',
    note            TEXT        NOT NULL,
    current_version INTEGER     NOT NULL,
    updated_at      INTEGER     NOT NULL,
    PRIMARY KEY (pipeline, source, partition_start)
) STRICT;

-- Objects outside every rule of coverage, each counted once by name.
CREATE TABLE deltad_late_object (
    pipeline        TEXT        NOT NULL,
    source          TEXT        NOT NULL DEFAULT '',
    key             TEXT        NOT NULL,
    etag            TEXT        NOT NULL,
    partition_start INTEGER,
    run_id          TEXT        NOT NULL,
    found_at        INTEGER     NOT NULL,
    PRIMARY KEY (pipeline, key, etag)
) STRICT;

CREATE INDEX deltad_late_object_found ON deltad_late_object (pipeline, found_at);

-- Objects that cannot be read: failures in a row, and skips. Keyed by ETag, so
-- a replaced object starts anew.
CREATE TABLE deltad_object_failure (
    pipeline    TEXT        NOT NULL,
    source      TEXT        NOT NULL DEFAULT '',
    key         TEXT        NOT NULL,
    etag        TEXT        NOT NULL,
    failures    INTEGER     NOT NULL DEFAULT 0,
    last_run_id TEXT        NOT NULL DEFAULT '',
    last_error  TEXT        NOT NULL DEFAULT '',
    first_at    INTEGER     NOT NULL,
    last_at     INTEGER     NOT NULL,
    skipped_at  INTEGER,
    skipped_by  TEXT        NOT NULL DEFAULT '',
    skip_reason TEXT        NOT NULL DEFAULT '',
    PRIMARY KEY (pipeline, source, key, etag)
) STRICT;
