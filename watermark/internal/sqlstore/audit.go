package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/deltad/deltad/watermark"
)

type audit struct{ c *core }

// system is the actor of what the store does by a rule rather than a person.
const system = "deltad"

// appendAudit adds an entry and reports whether it is new. Looking first,
// rather than ON CONFLICT, because the trail's own trigger refuses even a
// colliding insert. An id that another action has used is ErrReused: its caller
// would take what was never done for done.
func appendAudit(q *query, e watermark.AuditEntry) (bool, error) {
	r, found, err := q.one(`SELECT action, pipeline, CAST(details AS text) AS details FROM deltad_audit WHERE id = $1`, e.ID)
	if err != nil {
		return false, err
	}
	if found {
		d := decode(r, "deltad_audit", e.Pipeline)
		action, pipeline, details := d.text("action"), d.text("pipeline"), d.text("details")
		if d.err == nil && (action != e.Action || pipeline != e.Pipeline || !sameSubject(details, string(e.Details))) {
			return false, fmt.Errorf("%w: %s was %s of %s", watermark.ErrReused, e.ID, action, pipeline)
		}
		return false, d.err
	}
	details := string(e.Details)
	if details == "" {
		details = "{}"
	}
	_, err = q.exec(`INSERT INTO deltad_audit (id, at, actor, action, pipeline, reason, details)
		VALUES ($1, @now, $2, $3, $4, $5, $6)`, e.ID, e.Actor, e.Action, e.Pipeline, free(e.Reason), details)
	return err == nil, err
}

// sameSubject says whether the details of two entries name one rebuild, pin or
// object; what else they have may change between two calls.
func sameSubject(a, b string) bool {
	type subject struct{ Rebuild, Kind, ID, Source, Key, ETag string }
	var x, y subject
	return cmp.Or(json.Unmarshal([]byte(cmp.Or(a, "{}")), &x), json.Unmarshal([]byte(cmp.Or(b, "{}")), &y)) == nil && x == y
}

// AppendAudit adds an entry. See [watermark.Audit].
func (s audit) AppendAudit(ctx context.Context, e watermark.AuditEntry) error {
	var c checks
	c.ulid("audit id", e.ID)
	c.name("actor", e.Actor)
	c.name("action", e.Action)
	c.text("pipeline", e.Pipeline)
	e.Details = json.RawMessage(c.document("details", e.Details))
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "append audit entry "+e.ID, func(q *query) error {
		_, err := appendAudit(q, e)
		return err
	})
}

// AuditTrail is the newest entries first. See [watermark.Audit].
func (s audit) AuditTrail(ctx context.Context, pipeline string, limit int, before int64) ([]watermark.AuditEntry, error) {
	var c checks
	c.limit(limit)
	if c.err != nil {
		return nil, c.err
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	var out []watermark.AuditEntry
	err := s.c.view(ctx, "read audit trail", func(q *query) error {
		out = nil
		const columns = `SELECT seq, id, at, actor, action, pipeline, reason, CAST(details AS text) AS details FROM deltad_audit`
		var rows []Row
		var err error
		if pipeline == "" {
			rows, err = q.rows(columns+` WHERE seq < $1 ORDER BY seq DESC LIMIT $2`, before, limit)
		} else {
			rows, err = q.rows(columns+` WHERE seq < $1 AND pipeline = $3 ORDER BY seq DESC LIMIT $2`, before, limit, pipeline)
		}
		if err != nil {
			return err
		}
		for _, r := range rows {
			d := decode(r, "deltad_audit", pipeline)
			e := watermark.AuditEntry{
				Seq: d.number("seq", 1), At: d.instant("at"), ID: d.named("id"), Actor: d.text("actor"),
				Action: d.named("action"), Pipeline: d.text("pipeline"), Reason: d.text("reason"), Details: d.object("details"),
			}
			if d.err != nil {
				return d.err
			}
			out = append(out, e)
		}
		return nil
	})
	return out, err
}

// detail is a JSON object of key, value pairs; a zero time is null.
func detail(pairs ...any) json.RawMessage {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		v := pairs[i+1]
		if t, ok := v.(time.Time); ok {
			v = nil
			if !t.IsZero() {
				v = t.UTC().Format(time.RFC3339Nano)
			}
		}
		if t, ok := v.(string); ok {
			v = free(t)
		}
		m[pairs[i].(string)] = v
	}
	text, err := json.Marshal(m)
	if err != nil { // only strings, numbers, booleans and raw objects that were checked come here
		return json.RawMessage("{}")
	}
	return text
}
