-- Who did what, when and why. Append-only: the database refuses the rest.
CREATE TABLE deltad_audit (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT        NOT NULL UNIQUE,
    at       INTEGER     NOT NULL,
    actor    TEXT        NOT NULL,
    action   TEXT        NOT NULL,
    pipeline TEXT        NOT NULL DEFAULT '',
    reason   TEXT        NOT NULL,
    details  TEXT        NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX deltad_audit_by_pipeline ON deltad_audit (pipeline, seq);

CREATE TRIGGER deltad_audit_no_update BEFORE UPDATE ON deltad_audit
BEGIN
    SELECT RAISE(ABORT, 'deltad_audit is append-only: UPDATE refused');
END;

CREATE TRIGGER deltad_audit_no_delete BEFORE DELETE ON deltad_audit
BEGIN
    SELECT RAISE(ABORT, 'deltad_audit is append-only: DELETE refused');
END;

-- INSERT OR REPLACE deletes without firing the trigger above.
CREATE TRIGGER deltad_audit_no_replace BEFORE INSERT ON deltad_audit
WHEN EXISTS (SELECT 1 FROM deltad_audit WHERE id = NEW.id OR seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'deltad_audit is append-only: REPLACE refused');
END;

-- Manual resets between their decision and CURRENT.
CREATE TABLE deltad_intent (
    id               TEXT        PRIMARY KEY,
    pipeline         TEXT        NOT NULL,
    target           INTEGER,
    digest           TEXT        NOT NULL,
    actor            TEXT        NOT NULL,
    reason           TEXT        NOT NULL,
    accept_data_loss INTEGER     NOT NULL,
    details          TEXT        NOT NULL DEFAULT '{}',
    state            TEXT        NOT NULL CHECK (state IN ('pending', 'applied', 'failed')),
    note             TEXT        NOT NULL DEFAULT '',
    created_at       INTEGER     NOT NULL,
    finished_at      INTEGER
) STRICT;

-- One reset at a time.
CREATE UNIQUE INDEX deltad_intent_pending ON deltad_intent (pipeline) WHERE state = 'pending';

-- What commands ask of the leader.
CREATE TABLE deltad_request (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT        NOT NULL UNIQUE,
    pipeline    TEXT        NOT NULL,
    kind        TEXT        NOT NULL,
    actor       TEXT        NOT NULL,
    reason      TEXT        NOT NULL,
    args        TEXT        NOT NULL DEFAULT '{}',
    state       TEXT        NOT NULL CHECK (state IN ('pending', 'taken', 'done', 'failed')),
    taken_epoch INTEGER     NOT NULL DEFAULT 0,
    result      TEXT        NOT NULL DEFAULT '{}',
    created_at  INTEGER     NOT NULL,
    finished_at INTEGER
) STRICT;

CREATE INDEX deltad_request_open ON deltad_request (pipeline, seq) WHERE state IN ('pending', 'taken');
