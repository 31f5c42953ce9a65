-- Append-only for 400 days: what is older may be forgotten, and nothing may
-- ever be changed. The age is this server's clock's.
CREATE OR REPLACE FUNCTION deltad_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < clock_timestamp() - interval '400 days' + interval '1 minute' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'deltad_audit is append-only: % refused', TG_OP;
END
$$;

-- The oldest first, without reading the rest.
CREATE INDEX deltad_run_by_end ON deltad_run (pipeline, finished_at);
CREATE INDEX deltad_request_by_end ON deltad_request (pipeline, finished_at);
