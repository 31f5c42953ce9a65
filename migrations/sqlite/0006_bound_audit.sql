-- Append-only for 400 days: what is older may be forgotten, and nothing may
-- ever be changed.
DROP TRIGGER deltad_audit_no_delete;

CREATE TRIGGER deltad_audit_no_delete BEFORE DELETE ON deltad_audit
WHEN OLD.at >= (unixepoch() - 400 * 86400 + 60) * 1000000
BEGIN
    SELECT RAISE(ABORT, 'deltad_audit is append-only: DELETE refused');
END;

-- The oldest first, without reading the rest.
CREATE INDEX deltad_run_by_end ON deltad_run (pipeline, finished_at);
CREATE INDEX deltad_request_by_end ON deltad_request (pipeline, finished_at);
