-- The full index: one row for each rebuild, which is the generation's too, and
-- one for each scheduled time that was skipped because another was open.
CREATE TABLE deltad_rebuild (
    id               text        COLLATE "C" PRIMARY KEY,
    pipeline         text        NOT NULL,
    cause            text        NOT NULL CHECK (cause IN ('schedule', 'manual', 'gap', 'stale', 'types')),
    due              timestamptz,
    cut              timestamptz,
    actor            text        NOT NULL,
    reason           text        NOT NULL,
    state            text        NOT NULL CHECK (state IN ('queued', 'running', 'candidate', 'held', 'promoted', 'failed', 'cancelled', 'superseded', 'skipped')),
    instance         text        NOT NULL DEFAULT '',
    epoch            bigint      NOT NULL DEFAULT 0,
    phase            text        NOT NULL DEFAULT '',
    done             bigint      NOT NULL DEFAULT 0,
    total            bigint      NOT NULL DEFAULT 0,
    rows_read        bigint      NOT NULL DEFAULT 0,
    cancel_requested boolean     NOT NULL DEFAULT false,
    -- How FinishRebuild ended it, which stays when the state moves on: a
    -- repeated call is told apart from another end by this.
    ended_as         text        NOT NULL DEFAULT '',
    manifest_key     text        NOT NULL DEFAULT '',
    manifest_sha256  text        NOT NULL DEFAULT '',
    actual_cut       timestamptz,
    documents        bigint      NOT NULL DEFAULT 0,
    checks           jsonb       NOT NULL DEFAULT '[]',
    approved         boolean     NOT NULL DEFAULT false,
    overrides        jsonb       NOT NULL DEFAULT '[]',
    promoted_by      text        NOT NULL DEFAULT '',
    error            text        NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL,
    started_at       timestamptz,
    finished_at      timestamptz
);

CREATE INDEX deltad_rebuild_by_pipeline ON deltad_rebuild (pipeline, id);

-- The last word on two rules that the code keeps too: one rebuild at a time,
-- and each scheduled time once.
CREATE UNIQUE INDEX deltad_rebuild_open ON deltad_rebuild (pipeline) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX deltad_rebuild_due ON deltad_rebuild (pipeline, due) WHERE due IS NOT NULL;

-- Since when a pipeline has its schedule. Times before that are not owed: a
-- new schedule does not make up for its own past.
CREATE TABLE deltad_schedule (
    pipeline text        NOT NULL PRIMARY KEY,
    schedule text        NOT NULL,
    since    timestamptz NOT NULL
);

-- Generations that a rollback left. The row must be there before CURRENT
-- moves, or the next run would promote what was just rolled back.
CREATE TABLE deltad_bar (
    pipeline   text        NOT NULL,
    generation text        COLLATE "C" NOT NULL,
    intent     text        NOT NULL,
    actor      text        NOT NULL,
    reason     text        NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (pipeline, generation)
);

-- What collection must keep, for a rebuild under way or for a person.
CREATE TABLE deltad_pin (
    pipeline text        NOT NULL,
    kind     text        NOT NULL CHECK (kind IN ('pane', 'base')),
    id       text        COLLATE "C" NOT NULL,
    owner    text        COLLATE "C" NOT NULL,
    reason   text        NOT NULL,
    at       timestamptz NOT NULL,
    PRIMARY KEY (pipeline, kind, id, owner)
);

-- Which configuration a replica was last given, in the order of these events.
-- A restart with the same file is no event: replicas with different files
-- would take turns otherwise.
CREATE TABLE deltad_config (
    seq      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text        NOT NULL,
    replica  text        NOT NULL,
    hash     text        NOT NULL,
    at       timestamptz NOT NULL,
    UNIQUE (pipeline, replica)
);

-- A rollback is an intent like a reset: what it copies, and what it stores
-- first so that nothing undoes it.
ALTER TABLE deltad_intent ADD COLUMN kind text NOT NULL DEFAULT 'reset' CHECK (kind IN ('reset', 'rollback'));
ALTER TABLE deltad_intent ADD COLUMN pane_key text NOT NULL DEFAULT '';
ALTER TABLE deltad_intent ADD COLUMN pane_sha256 text NOT NULL DEFAULT '';
ALTER TABLE deltad_intent ADD COLUMN bar text NOT NULL DEFAULT '';
ALTER TABLE deltad_intent ADD COLUMN pause boolean NOT NULL DEFAULT false;
