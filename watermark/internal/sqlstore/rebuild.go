package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deltad/deltad/watermark"
	"github.com/oklog/ulid/v2"
)

// rebuilds is the life of a rebuild. Calls that change more than the one row,
// or ask whether there is one, lock the pipeline row first: it is what two
// callers meet at. The rest lock the rebuild alone.
type rebuilds struct{ c *core }

const rebuildColumns = `SELECT id, pipeline, cause, due, cut, actor, reason, state, instance, epoch,
	phase, done, total, rows_read, cancel_requested, ended_as, manifest_key, manifest_sha256, actual_cut, documents,
	CAST(checks AS text) AS checks, approved, CAST(overrides AS text) AS overrides, promoted_by, error,
	created_at, started_at, finished_at FROM deltad_rebuild`

// rebuildRow is a rebuild, and how FinishRebuild ended it.
type rebuildRow struct {
	watermark.Rebuild
	endedAs watermark.RebuildState
}

func decodeRebuild(r Row) (rebuildRow, error) {
	d := decode(r, "deltad_rebuild", "")
	var b rebuildRow
	b.Pipeline = d.named("pipeline")
	d.pipeline = b.Pipeline
	b.ID = d.named("id")
	if _, err := ulid.ParseStrict(b.ID); err != nil {
		d.fail("id", "%q is not a ULID", b.ID)
	}
	b.Cause = oneOf(d, "cause", watermark.RebuildSchedule, watermark.RebuildManual, watermark.RebuildGap,
		watermark.RebuildStale, watermark.RebuildTypes)
	b.Due = d.nullable("due")
	b.Cut = d.nullable("cut")
	b.Actor = d.text("actor")
	b.Reason = d.text("reason")
	b.State = oneOf(d, "state", watermark.RebuildQueued, watermark.RebuildRunning, watermark.RebuildCandidate,
		watermark.RebuildHeld, watermark.RebuildPromoted, watermark.RebuildFailed, watermark.RebuildCancelled,
		watermark.RebuildSuperseded, watermark.RebuildSkipped)
	b.Instance = d.text("instance")
	b.Epoch = d.number("epoch", 0)
	b.Phase = d.text("phase")
	b.Done = d.number("done", 0)
	b.Total = d.number("total", 0)
	b.Rows = d.number("rows_read", 0)
	b.CancelRequested = d.flag("cancel_requested")
	b.endedAs = watermark.RebuildState(d.text("ended_as"))
	b.Manifest = watermark.ManifestRef{Key: d.text("manifest_key"), SHA256: d.text("manifest_sha256")}
	b.ActualCut = d.nullable("actual_cut")
	b.Documents = d.number("documents", 0)
	b.Checks = d.array("checks")
	b.Approved = d.flag("approved")
	b.Overrides = d.texts("overrides")
	b.PromotedBy = d.text("promoted_by")
	b.Error = d.text("error")
	b.CreatedAt = d.instant("created_at")
	b.StartedAt = d.nullable("started_at")
	b.FinishedAt = d.nullable("finished_at")
	return b, d.err
}

func readRebuilds(q *query, where string, args ...any) ([]rebuildRow, error) {
	rows, err := q.rows(rebuildColumns+where, args...)
	if err != nil {
		return nil, err
	}
	var out []rebuildRow
	for _, r := range rows {
		b, err := decodeRebuild(r)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// firstRebuild is the first of those, or found=false.
func firstRebuild(q *query, where string, args ...any) (b rebuildRow, found bool, err error) {
	all, err := readRebuilds(q, where, args...)
	if err != nil || len(all) == 0 {
		return rebuildRow{}, false, err
	}
	return all[0], true, nil
}

// lockRebuild locks one of a pipeline; ErrNotFound.
func lockRebuild(q *query, pipeline, id string) (rebuildRow, error) {
	b, found, err := firstRebuild(q, ` WHERE id = $1@lock`, id)
	if err == nil && (!found || b.Pipeline != pipeline) {
		err = fmt.Errorf("rebuild %s of %s: %w", id, pipeline, watermark.ErrNotFound)
	}
	return b, err
}

const openRebuild = ` WHERE pipeline = $1 AND state IN ('queued', 'running')`

// CreateRebuild queues a rebuild. See [watermark.Rebuilds].
func (s rebuilds) CreateRebuild(ctx context.Context, r watermark.Rebuild) (watermark.Rebuild, error) {
	if r.Actor == "" && r.Cause != watermark.RebuildManual {
		r.Actor = system
	}
	var c checks
	c.ulid("rebuild id", r.ID)
	c.name("pipeline", r.Pipeline)
	switch r.Cause {
	case watermark.RebuildSchedule, watermark.RebuildManual, watermark.RebuildGap, watermark.RebuildStale, watermark.RebuildTypes:
	default:
		c.that(false, "rebuild cause %q is none of schedule, manual, gap, stale, types", r.Cause)
	}
	c.that((r.Cause == watermark.RebuildSchedule) != r.Due.IsZero(), "rebuild %s: cause %s with scheduled time %s", r.ID, r.Cause, r.Due)
	c.name("actor", r.Actor)
	c.instant("scheduled time", r.Due)
	c.instant("cut", r.Cut)
	if c.err != nil {
		return watermark.Rebuild{}, c.err
	}
	what := "create rebuild " + r.ID
	var out watermark.Rebuild
	var open *watermark.RebuildOpenError
	err := s.c.update(ctx, what, func(q *query) error {
		before := open
		open = nil
		if _, err := ensurePipeline(q, r.Pipeline); err != nil {
			return err
		}
		old, known, err := knownRebuild(q, r)
		if err != nil {
			return err
		}
		if known {
			if old.ID == r.ID && old.State == watermark.RebuildSkipped {
				open = before // an earlier run of this call skipped it
			}
			out = old.Rebuild
			return nil
		}
		current, found, err := firstRebuild(q, openRebuild, r.Pipeline)
		if err != nil {
			return err
		}
		if found {
			open = &watermark.RebuildOpenError{Pipeline: r.Pipeline, ID: current.ID}
			if r.Due.IsZero() {
				return nil
			}
		}
		out, err = insertRebuild(q, r, open)
		return err
	})
	switch {
	case err != nil:
		return watermark.Rebuild{}, err
	case open != nil:
		return watermark.Rebuild{}, fmt.Errorf("%s: %w", what, open)
	}
	return out, nil
}

// knownRebuild is what the store has under the same id or for the same
// scheduled time.
func knownRebuild(q *query, r watermark.Rebuild) (rebuildRow, bool, error) {
	old, found, err := firstRebuild(q, ` WHERE id = $1`, r.ID)
	if err != nil {
		return rebuildRow{}, false, err
	}
	if found {
		if old.Pipeline != r.Pipeline || old.Cause != r.Cause || !old.Due.Equal(r.Due) || !old.Cut.Equal(r.Cut) {
			return rebuildRow{}, false, fmt.Errorf("%w: rebuild id %s is that of another rebuild (%s of %s)",
				watermark.ErrConflict, r.ID, old.Cause, old.Pipeline)
		}
		return old, true, nil
	}
	if r.Due.IsZero() {
		return rebuildRow{}, false, nil
	}
	return firstRebuild(q, ` WHERE pipeline = $1 AND due = $2`, r.Pipeline, r.Due)
}

// insertRebuild enters a rebuild as queued, or as skipped because of another.
func insertRebuild(q *query, r watermark.Rebuild, open *watermark.RebuildOpenError) (watermark.Rebuild, error) {
	state, why, finished := watermark.RebuildQueued, "", any(expr("NULL"))
	if open != nil {
		state, why, finished = watermark.RebuildSkipped, open.Error(), expr("@now")
	}
	if _, err := q.insert(`deltad_rebuild (id, pipeline, cause, due, cut, actor, reason, state, error, created_at, finished_at)`,
		"", [][]any{{
			r.ID, r.Pipeline, r.Cause, r.Due, r.Cut, r.Actor, free(r.Reason), string(state), why, expr("@now"), finished,
		}}); err != nil {
		return watermark.Rebuild{}, err
	}
	if r.Cause == watermark.RebuildManual {
		if _, err := appendAudit(q, watermark.AuditEntry{
			ID: r.ID, Actor: r.Actor, Action: "rebuild", Pipeline: r.Pipeline, Reason: r.Reason,
			Details: detail("rebuild", r.ID, "cut", r.Cut),
		}); err != nil {
			return watermark.Rebuild{}, err
		}
	}
	b, _, err := firstRebuild(q, ` WHERE id = $1`, r.ID)
	return b.Rebuild, err
}

// StartRebuild makes a rebuild running. See [watermark.Rebuilds].
func (s rebuilds) StartRebuild(ctx context.Context, l watermark.Lease, id string) (watermark.Rebuild, error) {
	if err := checkFull(l, id).err; err != nil {
		return watermark.Rebuild{}, err
	}
	var out watermark.Rebuild
	err := s.c.update(ctx, "start rebuild "+id, func(q *query) error {
		b, err := fencedRebuild(q, l, id)
		switch {
		case err != nil:
			return err
		case b.State == watermark.RebuildRunning && b.Epoch == l.Epoch:
			out = b.Rebuild
			return nil
		case b.State != watermark.RebuildQueued && b.State != watermark.RebuildRunning:
			return fmt.Errorf("%w: rebuild %s is %s", watermark.ErrConflict, id, b.State)
		}
		// The dead holder's progress is not this one's: it begins again.
		if _, err := q.exec(`UPDATE deltad_rebuild SET state = 'running', instance = $2, epoch = $3, phase = '',
			done = 0, total = 0, rows_read = 0, started_at = @now WHERE id = $1`, id, l.Holder, l.Epoch); err != nil {
			return err
		}
		b, _, err = firstRebuild(q, ` WHERE id = $1`, id)
		out = b.Rebuild
		return err
	})
	return out, err
}

// checkFull checks the arguments of a write under the full lease.
func checkFull(l watermark.Lease, id string) *checks {
	c := &checks{}
	c.lease(l)
	c.that(l.Role == watermark.RoleFull, "rebuild %s under a %s lease", id, l.Role)
	c.ulid("rebuild id", id)
	return c
}

// fencedRebuild is the locked rebuild of a holder.
func fencedRebuild(q *query, l watermark.Lease, id string) (rebuildRow, error) {
	if _, err := fence(q, l); err != nil {
		return rebuildRow{}, err
	}
	return lockRebuild(q, l.Pipeline, id)
}

// runs is nil if the lease is the one that a rebuild runs under.
func (b rebuildRow) runs(l watermark.Lease) error {
	switch {
	case b.State != watermark.RebuildRunning:
		return fmt.Errorf("%w: rebuild %s is %s", watermark.ErrConflict, b.ID, b.State)
	case b.Epoch != l.Epoch:
		return fmt.Errorf("%w: rebuild %s was started at epoch %d, not at %d", watermark.ErrConflict, b.ID, b.Epoch, l.Epoch)
	}
	return nil
}

// ProgressRebuild notes progress. See [watermark.Rebuilds].
func (s rebuilds) ProgressRebuild(ctx context.Context, l watermark.Lease, id string, p watermark.RebuildProgress) (bool, error) {
	c := checkFull(l, id)
	c.text("phase", p.Phase)
	c.that(p.Done >= 0 && p.Total >= 0 && p.Rows >= 0, "progress %+v is negative", p)
	if c.err != nil {
		return false, c.err
	}
	cancel := false
	err := s.c.update(ctx, "note progress of rebuild "+id, func(q *query) error {
		b, err := fencedRebuild(q, l, id)
		if err != nil {
			return err
		}
		if err := b.runs(l); err != nil {
			return err
		}
		cancel = b.CancelRequested
		_, err = q.exec(`UPDATE deltad_rebuild SET phase = $2, done = $3, total = $4, rows_read = $5 WHERE id = $1`,
			id, p.Phase, p.Done, p.Total, p.Rows)
		return err
	})
	return cancel && err == nil, err
}

// FinishRebuild ends a running rebuild. See [watermark.Rebuilds].
func (s rebuilds) FinishRebuild(ctx context.Context, l watermark.Lease, id string, r watermark.RebuildResult) error {
	c := checkFull(l, id)
	switch r.State {
	case watermark.RebuildCandidate, watermark.RebuildHeld:
		c.name("manifest", r.Manifest.Key)
		c.name("manifest hash", r.Manifest.SHA256)
		c.that(!r.ActualCut.IsZero(), "rebuild %s has no cut", id)
	case watermark.RebuildFailed, watermark.RebuildCancelled:
		c.that(r.Manifest == watermark.ManifestRef{}, "a %s rebuild has no manifest", r.State)
	default:
		c.that(false, "rebuild state %q does not end it", r.State)
	}
	c.that(!r.Approved || r.State == watermark.RebuildCandidate, "a %s rebuild cannot be approved by its end", r.State)
	c.instant("cut", r.ActualCut)
	c.that(r.Documents >= 0, "documents %d is negative", r.Documents)
	c.that(r.Rows >= 0, "rows %d is negative", r.Rows)
	found := c.array("checks", r.Checks)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "finish rebuild "+id, func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		if _, err := ensurePipeline(q, l.Pipeline); err != nil {
			return err
		}
		b, err := lockRebuild(q, l.Pipeline, id)
		if err != nil {
			return err
		}
		if b.endedAs == r.State && b.Manifest == r.Manifest {
			return nil // whatever was decided about it since
		}
		if err := b.runs(l); err != nil {
			return err
		}
		if r.State == watermark.RebuildCandidate {
			if err := supersede(q, l.Pipeline, id); err != nil {
				return err
			}
		}
		if _, err := q.exec(`UPDATE deltad_rebuild SET state = $2, ended_as = $2, manifest_key = $3, manifest_sha256 = $4,
			actual_cut = $5, documents = $6, checks = $7, approved = $8, error = $9, finished_at = @now WHERE id = $1`,
			id, string(r.State), r.Manifest.Key, r.Manifest.SHA256, r.ActualCut, r.Documents, found, r.Approved,
			free(r.Error)); err != nil {
			return err
		}
		if r.Manifest.Key != "" {
			if _, err := q.exec(`UPDATE deltad_rebuild SET phase = $2, done = 0, total = 0, rows_read = $3 WHERE id = $1`, id, watermark.PhaseDone, r.Rows); err != nil {
				return err
			}
		}
		return releasePins(q, l.Pipeline, id)
	})
}

// supersede ends the candidates and held ones that finished no later than one,
// or all others if it has not finished.
func supersede(q *query, pipeline, id string) error {
	_, err := q.exec(`UPDATE deltad_rebuild SET state = 'superseded' WHERE pipeline = $1 AND id <> $2
		AND state IN ('candidate', 'held') AND finished_at <= COALESCE(
			(SELECT f.finished_at FROM deltad_rebuild f WHERE f.id = $2), @now)`, pipeline, id)
	return err
}

// promoteRebuild notes under the delta lease, with the pipeline row locked,
// that CURRENT has a generation as its base. CURRENT is the truth: whatever
// the row said, it is promoted now. A row that was lost is nothing.
func promoteRebuild(q *query, pipeline, id, run string) error {
	b, found, err := firstRebuild(q, ` WHERE id = $1@lock`, id)
	if err != nil || !found || b.Pipeline != pipeline {
		return err
	}
	if err := supersede(q, pipeline, id); err != nil {
		return err
	}
	if _, err := q.exec(`UPDATE deltad_rebuild SET state = 'promoted', promoted_by = $2,
		finished_at = COALESCE(finished_at, @now) WHERE id = $1`, id, run); err != nil {
		return err
	}
	return releasePins(q, pipeline, id)
}

func overridesText(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	text, err := json.Marshal(names)
	if err != nil { // strings only
		return "[]"
	}
	return string(text)
}
