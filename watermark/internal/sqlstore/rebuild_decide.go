package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/deltad/deltad/watermark"
)

// CancelRebuild calls a rebuild off. See [watermark.Rebuilds].
func (s rebuilds) CancelRebuild(ctx context.Context, id string, ch watermark.Change) (watermark.Rebuild, error) {
	var c checks
	c.ulid("rebuild id", id)
	c.change(ch)
	if c.err != nil {
		return watermark.Rebuild{}, c.err
	}
	var out watermark.Rebuild
	err := s.c.update(ctx, "cancel rebuild "+id, func(q *query) error {
		b, found, err := firstRebuild(q, ` WHERE id = $1@lock`, id)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("rebuild %s: %w", id, watermark.ErrNotFound)
		}
		out = b.Rebuild
		fresh, err := appendAudit(q, watermark.AuditEntry{
			ID: ch.ID, Actor: ch.Actor, Action: "rebuild-cancel", Pipeline: b.Pipeline, Reason: ch.Reason,
			Details: detail("rebuild", id, "state", string(b.State)),
		})
		if err != nil || !fresh {
			return err
		}
		switch b.State {
		case watermark.RebuildQueued:
			_, err = q.exec(`UPDATE deltad_rebuild SET state = 'cancelled', cancel_requested = $2, finished_at = @now
				WHERE id = $1`, id, true)
		case watermark.RebuildRunning:
			_, err = q.exec(`UPDATE deltad_rebuild SET cancel_requested = $2 WHERE id = $1`, id, true)
		default:
			err = fmt.Errorf("%w: rebuild %s is %s", watermark.ErrConflict, id, b.State)
		}
		if err != nil {
			return err
		}
		b, _, err = firstRebuild(q, ` WHERE id = $1`, id)
		out = b.Rebuild
		return err
	})
	if err != nil {
		return watermark.Rebuild{}, err
	}
	return out, nil
}

// ApproveRebuild lets a rebuild be promoted. See [watermark.Rebuilds].
func (s rebuilds) ApproveRebuild(ctx context.Context, pipeline, id string, overrides []string, ch watermark.Change) (watermark.Rebuild, error) {
	var c checks
	c.name("pipeline", pipeline)
	c.ulid("rebuild id", id)
	c.change(ch)
	for _, name := range overrides {
		c.name("override", name)
	}
	if c.err != nil {
		return watermark.Rebuild{}, c.err
	}
	var out watermark.Rebuild
	err := s.c.update(ctx, "approve rebuild "+id, func(q *query) error {
		// Locked before the bar is read: the row is where a rollback raises it.
		if _, err := ensurePipeline(q, pipeline); err != nil {
			return err
		}
		b, err := lockRebuild(q, pipeline, id)
		if err != nil {
			return err
		}
		out = b.Rebuild
		raised, err := readBars(q, ` WHERE pipeline = $1 AND generation = $2`, pipeline, id)
		if err != nil {
			return err
		}
		fresh, err := appendAudit(q, watermark.AuditEntry{
			ID: ch.ID, Actor: ch.Actor, Action: "promote", Pipeline: pipeline, Reason: ch.Reason,
			Details: detail("rebuild", id, "state", string(b.State), "overrides", append([]string{}, overrides...), "barred", len(raised) > 0),
		})
		if err != nil || !fresh {
			return err
		}
		if err := approvable(q, b, raised, overrides, ch); err != nil {
			return err
		}
		overridden := b.Overrides
		if len(overrides) > 0 {
			overridden = overrides
		}
		if _, err := q.exec(`UPDATE deltad_rebuild SET state = 'candidate', approved = $2, overrides = $3 WHERE id = $1`,
			id, true, overridesText(overridden)); err != nil {
			return err
		}
		if _, err := q.exec(`DELETE FROM deltad_bar WHERE pipeline = $1 AND generation = $2`, pipeline, id); err != nil {
			return err
		}
		b, _, err = firstRebuild(q, ` WHERE id = $1`, id)
		out = b.Rebuild
		return err
	})
	if err != nil {
		return watermark.Rebuild{}, err
	}
	return out, nil
}

// approvable says why a rebuild may not be promoted, or nil.
func approvable(q *query, b rebuildRow, raised []watermark.Bar, overrides []string, ch watermark.Change) error {
	for _, bar := range raised {
		in, found, err := readIntent(q, bar.Intent, false)
		if err != nil {
			return err
		}
		if found && in.State == watermark.IntentPending {
			return fmt.Errorf("%w: rollback %s, which bars generation %s, is still pending", watermark.ErrConflict, in.ID, b.ID)
		}
	}
	switch {
	case b.State == watermark.RebuildHeld && len(overrides) == 0:
		return invalid("rebuild %s is held: name the checks to override", b.ID)
	case b.State == watermark.RebuildPromoted && len(raised) == 0:
		return fmt.Errorf("%w: rebuild %s was promoted by run %s and is not barred; a rollback returns to a former base",
			watermark.ErrConflict, b.ID, b.PromotedBy)
	case b.State != watermark.RebuildCandidate && b.State != watermark.RebuildHeld && b.State != watermark.RebuildPromoted:
		return fmt.Errorf("%w: rebuild %s is %s", watermark.ErrConflict, b.ID, b.State)
	case ch.Reason == "" && len(overrides)+len(raised) > 0:
		return invalid("rebuild %s: overriding a check or lifting a bar needs a reason", b.ID)
	}
	return nil
}

// RebuildByID finds a rebuild. See [watermark.Rebuilds].
func (s rebuilds) RebuildByID(ctx context.Context, id string) (watermark.Rebuild, error) {
	if err := known(id); err != nil {
		return watermark.Rebuild{}, err
	}
	return s.first(ctx, "read rebuild "+id, ` WHERE id = $1`, id)
}

// OpenRebuild is the queued or running one. See [watermark.Rebuilds].
func (s rebuilds) OpenRebuild(ctx context.Context, pipeline string) (watermark.Rebuild, error) {
	return s.first(ctx, "read open rebuild of "+pipeline, openRebuild, pipeline)
}

// ReadyRebuild is the newest that may be promoted. See [watermark.Rebuilds].
func (s rebuilds) ReadyRebuild(ctx context.Context, pipeline string) (watermark.Rebuild, error) {
	return s.first(ctx, "read ready rebuild of "+pipeline, ` WHERE pipeline = $1 AND state = 'candidate' AND approved = $2
		AND NOT EXISTS (SELECT 1 FROM deltad_bar b WHERE b.pipeline = $1 AND b.generation = deltad_rebuild.id)
		ORDER BY id DESC LIMIT 1`, pipeline, true)
}

func (s rebuilds) first(ctx context.Context, what, where string, args ...any) (watermark.Rebuild, error) {
	var b rebuildRow
	err := s.c.view(ctx, what, func(q *query) error {
		var found bool
		var err error
		b, found, err = firstRebuild(q, where, args...)
		if err == nil && !found {
			err = watermark.ErrNotFound
		}
		return err
	})
	return b.Rebuild, err
}

// Rebuilds are the newest first. See [watermark.Rebuilds].
func (s rebuilds) Rebuilds(ctx context.Context, pipeline string, limit int, before string) ([]watermark.Rebuild, error) {
	var c checks
	c.limit(limit)
	c.text("rebuild id", before)
	if c.err != nil {
		return nil, c.err
	}
	if before == "" {
		before = "~" // above every ULID
	}
	var out []watermark.Rebuild
	err := s.c.view(ctx, "read rebuilds of "+pipeline, func(q *query) error {
		out = nil
		rows, err := readRebuilds(q, ` WHERE pipeline = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, pipeline, before, limit)
		for _, b := range rows {
			out = append(out, b.Rebuild)
		}
		return err
	})
	return out, err
}

// ScheduleState is the baseline of a schedule. See [watermark.Rebuilds].
func (s rebuilds) ScheduleState(ctx context.Context, pipeline, schedule string) (lastDue, since time.Time, err error) {
	var c checks
	c.name("pipeline", pipeline)
	c.name("schedule", schedule)
	if c.err != nil {
		return time.Time{}, time.Time{}, c.err
	}
	what := "read schedule state of " + pipeline
	same := false
	read := func(q *query) error {
		r, found, err := q.one(`SELECT schedule, since, (SELECT max(due) FROM deltad_rebuild WHERE pipeline = $1) AS due
			FROM deltad_schedule WHERE pipeline = $1`, pipeline)
		if err != nil || !found {
			return err
		}
		d := decode(r, "deltad_schedule", pipeline)
		same = d.text("schedule") == schedule
		lastDue, since = d.nullable("due"), d.instant("since")
		return d.err
	}
	// Almost always it is the one that is known: no write transaction then.
	if err := s.c.view(ctx, what, read); err != nil || same {
		return lastDue, since, err
	}
	err = s.c.update(ctx, what, func(q *query) error {
		if _, err := q.exec(`INSERT INTO deltad_schedule (pipeline, schedule, since) VALUES ($1, $2, @now)
			ON CONFLICT (pipeline) DO UPDATE SET schedule = excluded.schedule, since = excluded.since
			WHERE deltad_schedule.schedule <> excluded.schedule`, pipeline, schedule); err != nil {
			return err
		}
		return read(q)
	})
	return lastDue, since, err
}
