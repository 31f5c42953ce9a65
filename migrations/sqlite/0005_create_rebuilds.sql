-- The full index: one row for each rebuild, which is the generation's too, and
-- one for each scheduled time that was skipped because another was open.
CREATE TABLE deltad_rebuild (
    id               TEXT        PRIMARY KEY,
    pipeline         TEXT        NOT NULL,
    cause            TEXT        NOT NULL CHECK (cause IN ('schedule', 'manual', 'gap', 'stale', 'types')),
    due              INTEGER,
    cut              INTEGER,
    actor            TEXT        NOT NULL,
    reason           TEXT        NOT NULL,
    state            TEXT        NOT NULL CHECK (state IN ('queued', 'running', 'candidate', 'held', 'promoted', 'failed', 'cancelled', 'superseded', 'skipped')),
    instance         TEXT        NOT NULL DEFAULT '',
    epoch            INTEGER     NOT NULL DEFAULT 0,
    phase            TEXT        NOT NULL DEFAULT '',
    done             INTEGER     NOT NULL DEFAULT 0,
    total            INTEGER     NOT NULL DEFAULT 0,
    rows_read        INTEGER     NOT NULL DEFAULT 0,
    cancel_requested INTEGER     NOT NULL DEFAULT false,
    -- How FinishRebuild ended it, which stays when the state moves on: a
    -- repeated call is told apart from another end by this.
    ended_as         TEXT        NOT NULL DEFAULT '',
    manifest_key     TEXT        NOT NULL DEFAULT '',
    manifest_sha256  TEXT        NOT NULL DEFAULT '',
    actual_cut       INTEGER,
    documents        INTEGER     NOT NULL DEFAULT 0,
    checks           TEXT        NOT NULL DEFAULT '[]',
    approved         INTEGER     NOT NULL DEFAULT false,
    overrides        TEXT        NOT NULL DEFAULT '[]',
    promoted_by      TEXT        NOT NULL DEFAULT '',
    error            TEXT        NOT NULL DEFAULT '',
    created_at       INTEGER     NOT NULL,
    started_at       INTEGER,
    finished_at      INTEGER
) STRICT;

CREATE INDEX deltad_rebuild_by_pipeline ON deltad_rebuild (pipeline, id);

-- The last word on two rules that the code keeps too: one rebuild at a time,
-- and each scheduled time once.
CREATE UNIQUE INDEX deltad_rebuild_open ON deltad_rebuild (pipeline) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX deltad_rebuild_due ON deltad_rebuild (pipeline, due) WHERE due IS NOT NULL;

-- Since when a pipeline has its schedule. Times before that are not owed: a
-- new schedule does not make up for its own past.
CREATE TABLE deltad_schedule (
    pipeline TEXT        NOT NULL PRIMARY KEY,
    schedule TEXT        NOT NULL,
    since    INTEGER     NOT NULL
) STRICT;

-- Generations that a rollback left. The row must be there before CURRENT
-- moves, or the next run would promote what was just rolled back.
CREATE TABLE deltad_bar (
    pipeline   TEXT        NOT NULL,
    generation TEXT        NOT NULL,
    intent     TEXT        NOT NULL,
    actor      TEXT        NOT NULL,
    reason     TEXT        NOT NULL,
    at         INTEGER     NOT NULL,
    PRIMARY KEY (pipeline, generation)
) STRICT;

-- What collection must keep, for a rebuild under way or for a person.
CREATE TABLE deltad_pin (
    pipeline TEXT        NOT NULL,
    kind     TEXT        NOT NULL CHECK (kind IN ('pane', 'base')),
    id       TEXT        NOT NULL,
    owner    TEXT        NOT NULL,
    reason   TEXT        NOT NULL,
    at       INTEGER     NOT NULL,
    PRIMARY KEY (pipeline, kind, id, owner)
) STRICT;

-- Which configuration a replica was last given, in the order of these events.
-- A restart with the same file is no event: replicas with different files
-- would take turns otherwise.
CREATE TABLE deltad_config (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline TEXT        NOT NULL,
    replica  TEXT        NOT NULL,
    hash     TEXT        NOT NULL,
    at       INTEGER     NOT NULL,
    UNIQUE (pipeline, replica)
) STRICT;

-- A rollback is an intent like a reset: what it copies, and what it stores
-- first so that nothing undoes it.
ALTER TABLE deltad_intent ADD COLUMN kind TEXT NOT NULL DEFAULT 'reset' CHECK (kind IN ('reset', 'rollback'));
ALTER TABLE deltad_intent ADD COLUMN pane_key TEXT NOT NULL DEFAULT '';
ALTER TABLE deltad_intent ADD COLUMN pane_sha256 TEXT NOT NULL DEFAULT '';
ALTER TABLE deltad_intent ADD COLUMN bar TEXT NOT NULL DEFAULT '';
ALTER TABLE deltad_intent ADD COLUMN pause INTEGER NOT NULL DEFAULT false;
