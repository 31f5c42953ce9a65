-- The processes that share this store, for `deltad status` only: nothing is
-- decided by these rows.
CREATE TABLE deltad_instance (
    id         TEXT        PRIMARY KEY,
    host       TEXT        NOT NULL,
    pid        INTEGER     NOT NULL,
    build      TEXT        NOT NULL,
    role       TEXT        NOT NULL,
    details    TEXT        NOT NULL DEFAULT '{}',
    started_at INTEGER     NOT NULL,
    seen_at    INTEGER     NOT NULL
) STRICT;
