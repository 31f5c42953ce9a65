-- Who did what, when and why. Append-only: the database refuses the rest.
CREATE TABLE deltad_audit (
    seq      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       text        NOT NULL UNIQUE,
    at       timestamptz NOT NULL,
    actor    text        NOT NULL,
    action   text        NOT NULL,
    pipeline text        NOT NULL DEFAULT '',
    reason   text        NOT NULL,
    details  jsonb       NOT NULL DEFAULT '{}'
);

CREATE INDEX deltad_audit_by_pipeline ON deltad_audit (pipeline, seq);

CREATE FUNCTION deltad_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'deltad_audit is append-only: % refused', TG_OP;
END
$$;

CREATE TRIGGER deltad_audit_append_only
    BEFORE UPDATE OR DELETE ON deltad_audit
    FOR EACH ROW EXECUTE FUNCTION deltad_audit_refuse();

CREATE TRIGGER deltad_audit_no_truncate
    BEFORE TRUNCATE ON deltad_audit
    FOR EACH STATEMENT EXECUTE FUNCTION deltad_audit_refuse();

-- Manual resets between their decision and CURRENT.
CREATE TABLE deltad_intent (
    id               text        COLLATE "C" PRIMARY KEY,
    pipeline         text        NOT NULL,
    target           timestamptz,
    digest           text        NOT NULL,
    actor            text        NOT NULL,
    reason           text        NOT NULL,
    accept_data_loss boolean     NOT NULL,
    details          jsonb       NOT NULL DEFAULT '{}',
    state            text        NOT NULL CHECK (state IN ('pending', 'applied', 'failed')),
    note             text        NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL,
    finished_at      timestamptz
);

-- One reset at a time.
CREATE UNIQUE INDEX deltad_intent_pending ON deltad_intent (pipeline) WHERE state = 'pending';

-- What commands ask of the leader.
CREATE TABLE deltad_request (
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text        NOT NULL UNIQUE,
    pipeline    text        NOT NULL,
    kind        text        NOT NULL,
    actor       text        NOT NULL,
    reason      text        NOT NULL,
    args        jsonb       NOT NULL DEFAULT '{}',
    state       text        NOT NULL CHECK (state IN ('pending', 'taken', 'done', 'failed')),
    taken_epoch bigint      NOT NULL DEFAULT 0,
    result      jsonb       NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL,
    finished_at timestamptz
);

CREATE INDEX deltad_request_open ON deltad_request (pipeline, seq) WHERE state IN ('pending', 'taken');
