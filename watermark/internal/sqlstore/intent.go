package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deltad/deltad/watermark"
)

type intents struct{ c *core }

const intentColumns = `SELECT id, pipeline, kind, target, pane_key, pane_sha256, bar, pause, digest, actor, reason, accept_data_loss,
	CAST(details AS text) AS details, state, note, created_at, finished_at FROM deltad_intent`

func decodeIntent(r Row) (watermark.Intent, error) {
	d := decode(r, "deltad_intent", "")
	var in watermark.Intent
	in.Pipeline = d.named("pipeline")
	d.pipeline = in.Pipeline
	in.ID = d.named("id")
	in.Kind = oneOf(d, "kind", watermark.IntentReset, watermark.IntentRollback)
	in.Target = d.nullable("target")
	in.Pane = watermark.ManifestRef{Key: d.text("pane_key"), SHA256: d.text("pane_sha256")}
	in.Bar = d.text("bar")
	in.Pause = d.flag("pause")
	in.Digest = d.text("digest")
	in.Actor = d.text("actor")
	in.Reason = d.text("reason")
	in.AcceptDataLoss = d.flag("accept_data_loss")
	in.Details = d.object("details")
	in.State = oneOf(d, "state", watermark.IntentPending, watermark.IntentApplied, watermark.IntentFailed)
	in.Note = d.text("note")
	in.CreatedAt = d.instant("created_at")
	in.FinishedAt = d.nullable("finished_at")
	return in, d.err
}

func readIntent(q *query, id string, lock bool) (watermark.Intent, bool, error) {
	sql := intentColumns + ` WHERE id = $1`
	if lock {
		sql += "@lock"
	}
	r, found, err := q.one(sql, id)
	if err != nil || !found {
		return watermark.Intent{}, false, err
	}
	in, err := decodeIntent(r)
	return in, true, err
}

// checkIntent checks a new intent and returns its details.
func checkIntent(in watermark.Intent) (string, error) {
	var c checks
	c.ulid("intent id", in.ID)
	c.name("pipeline", in.Pipeline)
	c.name("actor", in.Actor)
	c.name("reason", in.Reason)
	c.text("digest", in.Digest)
	c.instant("target", in.Target)
	switch in.Kind {
	case watermark.IntentReset:
		c.that(in.Pane == watermark.ManifestRef{} && in.Bar == "" && !in.Pause, "reset %s has a pane, a bar or a pause", in.ID)
	case watermark.IntentRollback:
		c.name("pane", in.Pane.Key)
		c.name("pane hash", in.Pane.SHA256)
		c.that(in.Bar != "" || in.Pause, "rollback %s stores nothing that keeps it from being undone: neither bar nor pause", in.ID)
		if in.Bar != "" {
			c.ulid("barred generation", in.Bar)
		}
	default:
		c.that(false, "intent kind %q is neither reset nor rollback", in.Kind)
	}
	details := c.document("details", in.Details)
	return details, c.err
}

// sameIntent says whether a recorded intent and a given one are one.
func sameIntent(old, in watermark.Intent) bool {
	return old.Pipeline == in.Pipeline && old.Kind == in.Kind && old.Target.Equal(in.Target) && old.Digest == in.Digest &&
		old.Pane == in.Pane && old.Bar == in.Bar && old.Pause == in.Pause
}

// CreateIntent records a reset or a rollback. See [watermark.Intents].
func (s intents) CreateIntent(ctx context.Context, in watermark.Intent, expectedVersion int64) (watermark.Intent, error) {
	if in.Kind == "" {
		in.Kind = watermark.IntentReset
	}
	details, err := checkIntent(in)
	if err != nil {
		return watermark.Intent{}, err
	}
	var out watermark.Intent
	err = s.c.update(ctx, "create "+string(in.Kind)+" intent "+in.ID, func(q *query) error {
		// Locked before looking for the id: the row is what two callers meet at.
		p, found, err := readPipeline(q, in.Pipeline, true)
		if err != nil {
			return err
		}
		old, again, err := readIntent(q, in.ID, false)
		switch {
		case err != nil:
			return err
		case again && sameIntent(old, in):
			out = old
			return nil
		case again:
			return fmt.Errorf("%w: intent id is that of another %s", watermark.ErrConflict, old.Kind)
		case !found:
			return fmt.Errorf("pipeline %s: %w", in.Pipeline, watermark.ErrNotFound)
		case !p.Paused && in.Kind == watermark.IntentReset:
			return watermark.ErrNotPaused
		case p.Version != expectedVersion:
			return fmt.Errorf("%w: it is %d, the plan was made at %d", watermark.ErrStaleVersion, p.Version, expectedVersion)
		}
		waiting, err := pendingIntents(q, in.Pipeline)
		if err != nil {
			return err
		}
		if len(waiting) > 0 {
			return fmt.Errorf("%w: intent %s is still pending", watermark.ErrConflict, waiting[0].ID)
		}
		if err := insertIntent(q, in, p, details); err != nil {
			return err
		}
		out, _, err = readIntent(q, in.ID, false)
		return err
	})
	return out, err
}

// insertIntent writes an intent and all that goes with it: what must be stored
// before CURRENT moves is stored with the decision or not at all.
func insertIntent(q *query, in watermark.Intent, p watermark.Pipeline, details string) error {
	if _, err := q.exec(`INSERT INTO deltad_intent (id, pipeline, kind, target, pane_key, pane_sha256, bar, pause,
		digest, actor, reason, accept_data_loss, details, state, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'pending', @now)`,
		in.ID, in.Pipeline, string(in.Kind), in.Target, in.Pane.Key, in.Pane.SHA256, in.Bar, in.Pause,
		in.Digest, in.Actor, in.Reason, in.AcceptDataLoss, details); err != nil {
		return err
	}
	if _, err := q.exec(`UPDATE deltad_pipeline SET version = version + 1, updated_at = @now
		WHERE name = $1 AND source = ''`, in.Pipeline); err != nil {
		return err
	}
	if in.Pause {
		if _, err := q.exec(`UPDATE deltad_pipeline SET paused = $2, pause_reason = $3, paused_by = $4, paused_at = @now
			WHERE name = $1 AND source = ''`, in.Pipeline, true, in.Reason, in.Actor); err != nil {
			return err
		}
	}
	if in.Bar != "" {
		// One that an earlier rollback raised stays that rollback's.
		if _, err := q.exec(`INSERT INTO deltad_bar (pipeline, generation, intent, actor, reason, at)
			VALUES ($1, $2, $3, $4, $5, @now) ON CONFLICT (pipeline, generation) DO NOTHING`,
			in.Pipeline, in.Bar, in.ID, in.Actor, in.Reason); err != nil {
			return err
		}
	}
	said := detail("intent", in.ID, "from", p.Progress, "to", in.Target, "digest", in.Digest,
		"accept_data_loss", in.AcceptDataLoss, "version", p.Version, "plan", json.RawMessage(details))
	if in.Kind == watermark.IntentRollback {
		said = detail("intent", in.ID, "from", p.Progress, "to", in.Target, "from_manifest", p.Manifest.Key,
			"to_manifest", in.Pane.Key, "bar", in.Bar, "pause", in.Pause, "digest", in.Digest, "version", p.Version,
			"plan", json.RawMessage(details))
	}
	_, err := appendAudit(q, watermark.AuditEntry{
		ID: in.ID, Actor: in.Actor, Action: string(in.Kind), Pipeline: in.Pipeline, Reason: in.Reason, Details: said,
	})
	return err
}

func pendingIntents(q *query, pipeline string) ([]watermark.Intent, error) {
	rows, err := q.rows(intentColumns+` WHERE pipeline = $1 AND state = 'pending' ORDER BY id`, pipeline)
	if err != nil {
		return nil, err
	}
	var out []watermark.Intent
	for _, r := range rows {
		in, err := decodeIntent(r)
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

// PendingIntents are those to carry out. See [watermark.Intents].
func (s intents) PendingIntents(ctx context.Context, pipeline string) ([]watermark.Intent, error) {
	var out []watermark.Intent
	err := s.c.view(ctx, "read pending intents of "+pipeline, func(q *query) (err error) {
		out, err = pendingIntents(q, pipeline)
		return err
	})
	return out, err
}

// FinishIntent ends an intent. See [watermark.Intents].
func (s intents) FinishIntent(ctx context.Context, l watermark.Lease, id string, state watermark.IntentState, note string) error {
	var c checks
	c.lease(l)
	c.ulid("intent id", id)
	c.that(state == watermark.IntentApplied || state == watermark.IntentFailed, "intent state %q does not end it", state)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "finish intent "+id, func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		return finishIntent(q, l, id, state, note)
	})
}

// finishIntent ends an intent under a fence that already holds.
func finishIntent(q *query, l watermark.Lease, id string, state watermark.IntentState, note string) error {
	in, found, err := readIntent(q, id, true)
	switch {
	case err != nil:
		return err
	case !found || in.Pipeline != l.Pipeline:
		return fmt.Errorf("intent %s of %s: %w", id, l.Pipeline, watermark.ErrNotFound)
	case in.State == state:
		return nil
	case in.State != watermark.IntentPending:
		return fmt.Errorf("%w: intent %s is %s already", watermark.ErrConflict, id, in.State)
	}
	if _, err := q.exec(`UPDATE deltad_intent SET state = $2, note = $3, finished_at = @now WHERE id = $1`,
		id, string(state), free(note)); err != nil {
		return err
	}
	if state == watermark.IntentFailed && in.Bar != "" {
		if _, err := q.exec(`DELETE FROM deltad_bar WHERE pipeline = $1 AND generation = $2 AND intent = $3`,
			in.Pipeline, in.Bar, id); err != nil {
			return err
		}
	}
	// The end has no id of its own; the intent's with a suffix is as unique,
	// since an intent ends once.
	_, err = appendAudit(q, watermark.AuditEntry{
		ID: id + "/" + string(state), Actor: system, Action: string(in.Kind) + "-" + string(state), Pipeline: l.Pipeline, Reason: note,
		Details: detail("intent", id, "holder", l.Holder, "epoch", l.Epoch),
	})
	return err
}

// IntentByID finds an intent. See [watermark.Intents].
func (s intents) IntentByID(ctx context.Context, id string) (watermark.Intent, error) {
	var in watermark.Intent
	if err := known(id); err != nil {
		return in, err
	}
	err := s.c.view(ctx, "read intent "+id, func(q *query) error {
		var found bool
		var err error
		in, found, err = readIntent(q, id, false)
		if err == nil && !found {
			err = watermark.ErrNotFound
		}
		return err
	})
	return in, err
}
