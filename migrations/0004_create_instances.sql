-- The processes that share this store, for `deltad status` only: nothing is
-- decided by these rows.
CREATE TABLE deltad_instance (
    id         text        PRIMARY KEY,
    host       text        NOT NULL,
    pid        bigint      NOT NULL,
    build      text        NOT NULL,
    role       text        NOT NULL,
    details    jsonb       NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
);
