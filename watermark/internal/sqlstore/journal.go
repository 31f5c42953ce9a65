package sqlstore

import (
	"context"
	"fmt"

	"github.com/deltad/deltad/watermark"
	"github.com/oklog/ulid/v2"
)

type journal struct{ c *core }

const runColumns = `SELECT id, pipeline, kind, status, change_id, reason, parent_key, parent_sha256, epoch, instance,
	previous_watermark, watermark, coverage_from, config_hash, planned_at, finished_at, error,
	manifest_key, manifest_sha256, current_version, documents, late, CAST(counts AS text) AS counts FROM deltad_run`

func decodeRun(r Row) (watermark.Run, error) {
	d := decode(r, "deltad_run", "")
	var run watermark.Run
	run.Pipeline = d.named("pipeline")
	d.pipeline = run.Pipeline
	run.ID = d.named("id")
	if _, err := ulid.ParseStrict(run.ID); err != nil {
		d.fail("id", "%q is not a ULID", run.ID)
	}
	run.Kind = oneOf(d, "kind", watermark.RunDelta, watermark.RunFull)
	run.Status = oneOf(d, "status", watermark.RunPlanned, watermark.RunPublished, watermark.RunAbandoned,
		watermark.RunFailed, watermark.RunUnknown)
	run.ChangeID = d.text("change_id")
	run.Reason = d.text("reason")
	run.Parent = watermark.ManifestRef{Key: d.text("parent_key"), SHA256: d.text("parent_sha256")}
	run.Epoch = d.number("epoch", 0)
	run.Instance = d.text("instance")
	run.PreviousWatermark = d.nullable("previous_watermark")
	run.Watermark = d.nullable("watermark")
	run.CoverageFrom = d.nullable("coverage_from")
	run.ConfigHash = d.text("config_hash")
	run.PlannedAt = d.instant("planned_at")
	run.FinishedAt = d.nullable("finished_at")
	run.Error = d.text("error")
	run.Manifest = watermark.ManifestRef{Key: d.text("manifest_key"), SHA256: d.text("manifest_sha256")}
	run.CurrentVersion = d.number("current_version", 0)
	run.Documents = d.number("documents", 0)
	run.Late = d.number("late", 0)
	run.Counts = d.object("counts")
	return run, d.err
}

func readRun(q *query, id string, lock bool) (watermark.Run, bool, error) {
	sql := runColumns + ` WHERE id = $1`
	if lock {
		sql += "@lock"
	}
	r, found, err := q.one(sql, id)
	if err != nil || !found {
		return watermark.Run{}, false, err
	}
	run, err := decodeRun(r)
	return run, true, err
}

func readRuns(q *query, where string, args ...any) ([]watermark.Run, error) {
	rows, err := q.rows(runColumns+where, args...)
	if err != nil {
		return nil, err
	}
	var out []watermark.Run
	for _, r := range rows {
		run, err := decodeRun(r)
		if err != nil {
			return nil, err
		}
		out = append(out, run)
	}
	return out, nil
}

func checkRun(c *checks, l watermark.Lease, r watermark.Run) {
	c.lease(l)
	c.ulid("run id", r.ID)
	c.that(r.Pipeline == l.Pipeline, "run %s is of pipeline %q, the lease of %q", r.ID, r.Pipeline, l.Pipeline)
	c.that(r.Kind == watermark.RunDelta || r.Kind == watermark.RunFull, "run kind %q is neither delta nor full", r.Kind)
	c.that((r.Kind == watermark.RunFull) == (l.Role == watermark.RoleFull), "a %s run under a %s lease", r.Kind, l.Role)
	c.that(r.Epoch >= 0, "epoch %d is negative", r.Epoch)
	for what, s := range map[string]string{
		"change id": r.ChangeID, "reason": r.Reason, "parent": r.Parent.Key, "parent hash": r.Parent.SHA256,
		"instance": r.Instance, "config hash": r.ConfigHash,
	} {
		c.text(what, s)
	}
	c.instant("previous watermark", r.PreviousWatermark)
	c.instant("watermark", r.Watermark)
	c.instant("coverage", r.CoverageFrom)
}

// insertRun enters a run as planned.
func insertRun(q *query, r watermark.Run) error {
	planned := any(expr("@now"))
	if !r.PlannedAt.IsZero() {
		planned = r.PlannedAt
	}
	_, err := q.insert(`deltad_run (id, pipeline, kind, status, change_id, reason, parent_key, parent_sha256, epoch,
		instance, previous_watermark, watermark, coverage_from, config_hash, planned_at)`, "", [][]any{{
		r.ID, r.Pipeline, string(r.Kind), string(watermark.RunPlanned), r.ChangeID, r.Reason, r.Parent.Key,
		r.Parent.SHA256, r.Epoch, r.Instance, r.PreviousWatermark, r.Watermark, r.CoverageFrom, r.ConfigHash, planned,
	}})
	return err
}

// same says whether a journalled run and a given one are one run.
func same(old, r watermark.Run) error {
	if old.Pipeline != r.Pipeline || old.Kind != r.Kind || old.ChangeID != r.ChangeID {
		return fmt.Errorf("%w: run id %s is that of a %s run of %s with change id %q",
			watermark.ErrConflict, r.ID, old.Kind, old.Pipeline, old.ChangeID)
	}
	return nil
}

// PlanRun enters a run before its first byte. See [watermark.Journal].
func (s journal) PlanRun(ctx context.Context, l watermark.Lease, r watermark.Run) error {
	var c checks
	checkRun(&c, l, r)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "plan run "+r.ID, func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		old, found, err := readRun(q, r.ID, true)
		if err != nil {
			return err
		}
		if found {
			if err := same(old, r); err != nil || old.Status == watermark.RunPlanned || old.Status == watermark.RunPublished {
				return err
			}
			_, err := q.exec(`UPDATE deltad_run SET status = 'planned', error = '', finished_at = NULL WHERE id = $1`, r.ID)
			return err
		}
		return insertRun(q, r)
	})
}

// PublishRun is step 9. See [watermark.Journal].
func (s journal) PublishRun(ctx context.Context, l watermark.Lease, p watermark.Publication) (watermark.Published, error) {
	var c checks
	checkRun(&c, l, p.Run)
	if p.Follows != "" {
		c.ulid("id of the run before", p.Follows)
	}
	c.that(p.CurrentVersion >= 0, "version %d is negative", p.CurrentVersion)
	c.that((l.Role == watermark.RoleDelta) == (p.CurrentVersion > 0),
		"run %s: version %d of CURRENT under a %s lease", p.Run.ID, p.CurrentVersion, l.Role)
	c.that(l.Role == watermark.RoleDelta || len(p.Ledger)+len(p.Late) == 0 && p.Intent == "" && p.Promoted == "",
		"run %s: a full run has no ledger entries, late objects, intent or promotion", p.Run.ID)
	if p.Promoted != "" {
		c.ulid("promoted generation", p.Promoted)
	}
	c.instant("watermark", p.Watermark)
	c.instant("progress", p.Progress)
	c.name("manifest", p.Manifest.Key)
	c.text("manifest hash", p.Manifest.SHA256)
	c.that(p.Documents >= 0, "documents %d is negative", p.Documents)
	counts := c.document("counts", p.Counts)
	checkLedger(&c, p.Ledger)
	checkLate(&c, p.Late)
	if c.err != nil {
		return watermark.Published{}, c.err
	}
	var out watermark.Published
	mine := false // an earlier run of this call got as far as COMMIT
	err := s.c.update(ctx, "publish run "+p.Run.ID, func(q *query) (err error) {
		if out, err = publish(q, l, p, counts); err != nil {
			return err
		}
		out.Already = out.Already && !mine
		mine = !out.Already
		return nil
	})
	if err != nil {
		return watermark.Published{}, err
	}
	return out, nil
}

func publish(q *query, l watermark.Lease, p watermark.Publication, counts string) (watermark.Published, error) {
	if _, err := fence(q, l); err != nil {
		return watermark.Published{}, err
	}
	old, found, err := readRun(q, p.Run.ID, true)
	if err != nil {
		return watermark.Published{}, err
	}
	switch {
	case !found:
		if err := insertRun(q, p.Run); err != nil {
			return watermark.Published{}, err
		}
	case same(old, p.Run) != nil:
		return watermark.Published{}, same(old, p.Run)
	case old.Status == watermark.RunPublished:
		// Invariant 5: this is also how a COMMIT without an answer is
		// recognised as done.
		if old.Manifest != p.Manifest {
			return watermark.Published{}, fmt.Errorf("%w: run %s was published with manifest %s, not %s",
				watermark.ErrConflict, p.Run.ID, old.Manifest.Key, p.Manifest.Key)
		}
		return watermark.Published{Run: old, Already: true}, nil
	}
	if err := remembers(q, p); err != nil {
		return watermark.Published{}, err
	}
	late := int64(0)
	if l.Role == watermark.RoleDelta {
		row, err := ensurePipeline(q, l.Pipeline)
		if err != nil {
			return watermark.Published{}, err
		}
		// Invariant 4: CURRENT's version is the only order there is; the
		// watermark itself may go back (reset, rollback) at a higher version.
		if p.CurrentVersion > row.CurrentVersion {
			if err := copyCurrent(q, l.Pipeline, watermark.CurrentCopy{
				Version: p.CurrentVersion, RunID: p.Run.ID, Watermark: p.Watermark, Progress: p.Progress,
				Manifest: p.Manifest, ConfigHash: p.Run.ConfigHash,
			}); err != nil {
				return watermark.Published{}, err
			}
		}
		if err := upsertLedger(q, l.Pipeline, p.Run.ID, p.CurrentVersion, p.Ledger); err != nil {
			return watermark.Published{}, err
		}
		if late, err = insertLate(q, l.Pipeline, p.Run.ID, p.Late); err != nil {
			return watermark.Published{}, err
		}
	}
	if p.Intent != "" {
		if err := finishIntent(q, l, p.Intent, watermark.IntentApplied, "published by run "+p.Run.ID); err != nil {
			return watermark.Published{}, err
		}
	}
	if p.Promoted != "" {
		if err := promoteRebuild(q, l.Pipeline, p.Promoted, p.Run.ID); err != nil {
			return watermark.Published{}, err
		}
	}
	if _, err := q.exec(`UPDATE deltad_run SET status = 'published', finished_at = @now, error = '', watermark = $2,
		manifest_key = $3, manifest_sha256 = $4, current_version = $5, documents = $6, late = $7, counts = $8 WHERE id = $1`,
		p.Run.ID, p.Watermark, p.Manifest.Key, p.Manifest.SHA256, p.CurrentVersion, p.Documents, late, counts); err != nil {
		return watermark.Published{}, err
	}
	run, _, err := readRun(q, p.Run.ID, false)
	return watermark.Published{Run: run}, err
}

// remembers says, as an error, whether the run that a publication follows is
// not journalled as published.
func remembers(q *query, p watermark.Publication) error {
	if p.Follows == "" {
		return nil
	}
	before, found, err := readRun(q, p.Follows, false)
	if err == nil && (!found || before.Pipeline != p.Run.Pipeline || before.Status != watermark.RunPublished) {
		err = fmt.Errorf("%w: run %s", watermark.ErrForgotten, p.Follows)
	}
	return err
}

// AbandonRun ends a run that nobody can reach. See [watermark.Journal].
func (s journal) AbandonRun(ctx context.Context, l watermark.Lease, id, why string) error {
	return s.end(ctx, l, id, watermark.RunAbandoned, why)
}

// FailRun ends a run with its error. See [watermark.Journal].
func (s journal) FailRun(ctx context.Context, l watermark.Lease, id, why string) error {
	return s.end(ctx, l, id, watermark.RunFailed, why)
}

// MarkUnknown ends a run about which nothing is known. See [watermark.Journal].
func (s journal) MarkUnknown(ctx context.Context, l watermark.Lease, id, why string) error {
	return s.end(ctx, l, id, watermark.RunUnknown, why)
}

func (s journal) end(ctx context.Context, l watermark.Lease, id string, status watermark.RunStatus, why string) error {
	var c checks
	c.lease(l)
	c.ulid("run id", id)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "mark run "+id+" "+string(status), func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		run, found, err := readRun(q, id, true)
		switch {
		case err != nil:
			return err
		case !found || run.Pipeline != l.Pipeline:
			return fmt.Errorf("run %s of %s: %w", id, l.Pipeline, watermark.ErrNotFound)
		case run.Status == status:
			return nil
		case run.Status == watermark.RunPublished:
			return fmt.Errorf("%w: the run is published", watermark.ErrConflict)
		}
		_, err = q.exec(`UPDATE deltad_run SET status = $2, error = $3, finished_at = @now WHERE id = $1`,
			id, string(status), free(why))
		return err
	})
}

// PlannedRuns are the runs still planned. See [watermark.Journal].
func (s journal) PlannedRuns(ctx context.Context, pipeline string) ([]watermark.Run, error) {
	var out []watermark.Run
	err := s.c.view(ctx, "read planned runs of "+pipeline, func(q *query) (err error) {
		out, err = readRuns(q, ` WHERE pipeline = $1 AND status = 'planned' ORDER BY id`, pipeline)
		return err
	})
	return out, err
}

// RunByID finds a run. See [watermark.Journal].
func (s journal) RunByID(ctx context.Context, id string) (watermark.Run, error) {
	var run watermark.Run
	if err := known(id); err != nil {
		return run, err
	}
	err := s.c.view(ctx, "read run "+id, func(q *query) error {
		var found bool
		var err error
		run, found, err = readRun(q, id, false)
		if err == nil && !found {
			err = watermark.ErrNotFound
		}
		return err
	})
	return run, err
}

// Runs are the newest runs first. See [watermark.Journal].
func (s journal) Runs(ctx context.Context, pipeline string, limit int, before string) ([]watermark.Run, error) {
	var c checks
	c.limit(limit)
	c.text("run id", before)
	if c.err != nil {
		return nil, c.err
	}
	if before == "" {
		before = "~" // above every ULID
	}
	var out []watermark.Run
	err := s.c.view(ctx, "read runs of "+pipeline, func(q *query) (err error) {
		out, err = readRuns(q, ` WHERE pipeline = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, pipeline, before, limit)
		return err
	})
	return out, err
}

const latestPublished = ` WHERE pipeline = $1 AND status = 'published' AND current_version > 0
	ORDER BY current_version DESC LIMIT 1`

// LatestPublished is the newest run in CURRENT's order. See [watermark.Journal].
func (s journal) LatestPublished(ctx context.Context, pipeline string) (watermark.Run, error) {
	var run watermark.Run
	err := s.c.view(ctx, "read latest published run of "+pipeline, func(q *query) error {
		runs, err := readRuns(q, latestPublished, pipeline)
		if err == nil && len(runs) == 0 {
			err = watermark.ErrNotFound
		}
		if err == nil {
			run = runs[0]
		}
		return err
	})
	return run, err
}
