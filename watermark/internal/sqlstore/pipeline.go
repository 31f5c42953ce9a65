package sqlstore

import (
	"context"
	"fmt"

	"github.com/deltad/deltad/watermark"
)

type pipelines struct{ c *core }

const pipelineColumns = `SELECT name, source, watermark, progress, version, current_version, run_id,
	manifest_key, manifest_sha256, config_hash, paused, pause_reason, paused_by, paused_at, updated_at
	FROM deltad_pipeline`

func decodePipeline(r Row) (watermark.Pipeline, error) {
	d := decode(r, "deltad_pipeline", "")
	var p watermark.Pipeline
	p.Name = d.named("name")
	d.pipeline = p.Name
	p.Source = d.text("source")
	p.Watermark = d.nullable("watermark")
	p.Progress = d.nullable("progress")
	p.Version = d.number("version", 1)
	p.CurrentVersion = d.number("current_version", 0)
	p.RunID = d.text("run_id")
	p.Manifest = watermark.ManifestRef{Key: d.text("manifest_key"), SHA256: d.text("manifest_sha256")}
	p.ConfigHash = d.text("config_hash")
	p.Paused = d.flag("paused")
	p.PauseReason = d.text("pause_reason")
	p.PausedBy = d.text("paused_by")
	p.PausedAt = d.nullable("paused_at")
	p.UpdatedAt = d.instant("updated_at")
	if d.err == nil && p.CurrentVersion == 0 && (!p.Watermark.IsZero() || !p.Progress.IsZero()) {
		d.fail("current_version", "is 0 beside a watermark")
	}
	return p, d.err
}

func readPipeline(q *query, name string, lock bool) (watermark.Pipeline, bool, error) {
	sql := pipelineColumns + ` WHERE name = $1 AND source = ''`
	if lock {
		sql += "@lock"
	}
	r, found, err := q.one(sql, name)
	if err != nil || !found {
		return watermark.Pipeline{}, false, err
	}
	p, err := decodePipeline(r)
	return p, true, err
}

// ensurePipeline locks the row and makes it first if there is none.
func ensurePipeline(q *query, name string) (watermark.Pipeline, error) {
	p, found, err := readPipeline(q, name, true)
	if err != nil || found {
		return p, err
	}
	// Invariant 7: only a row that is absent is made; one that another caller
	// made meanwhile stays as it is.
	if _, err := q.exec(`INSERT INTO deltad_pipeline (name, updated_at) VALUES ($1, @now)
		ON CONFLICT (name, source) DO NOTHING`, name); err != nil {
		return watermark.Pipeline{}, err
	}
	p, found, err = readPipeline(q, name, true)
	if err == nil && !found {
		err = fmt.Errorf("pipeline row %s vanished", name)
	}
	return p, err
}

// EnsurePipeline returns the row, made if absent. See [watermark.Pipelines].
func (s pipelines) EnsurePipeline(ctx context.Context, name string) (watermark.Pipeline, error) {
	var c checks
	c.name("pipeline", name)
	if c.err != nil {
		return watermark.Pipeline{}, c.err
	}
	var p watermark.Pipeline
	err := s.c.update(ctx, "ensure pipeline "+name, func(q *query) (err error) {
		p, err = ensurePipeline(q, name)
		return err
	})
	return p, err
}

// Pipeline returns the row. See [watermark.Pipelines].
func (s pipelines) Pipeline(ctx context.Context, name string) (watermark.Pipeline, error) {
	var p watermark.Pipeline
	err := s.c.view(ctx, "read pipeline "+name, func(q *query) error {
		var found bool
		var err error
		p, found, err = readPipeline(q, name, false)
		if err == nil && !found {
			err = watermark.ErrNotFound
		}
		return err
	})
	return p, err
}

// Pipelines returns all rows. See [watermark.Pipelines].
func (s pipelines) Pipelines(ctx context.Context) ([]watermark.Pipeline, error) {
	var out []watermark.Pipeline
	err := s.c.view(ctx, "read pipelines", func(q *query) error {
		out = nil
		rows, err := q.rows(pipelineColumns + ` ORDER BY name, source`)
		if err != nil {
			return err
		}
		for _, r := range rows {
			p, err := decodePipeline(r)
			if err != nil {
				return err
			}
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

// Pause stops runs. See [watermark.Pipelines].
func (s pipelines) Pause(ctx context.Context, name string, ch watermark.Change) (watermark.Pipeline, error) {
	return s.setPaused(ctx, name, ch, true)
}

// Resume ends a pause. See [watermark.Pipelines].
func (s pipelines) Resume(ctx context.Context, name string, ch watermark.Change) (watermark.Pipeline, error) {
	return s.setPaused(ctx, name, ch, false)
}

func (s pipelines) setPaused(ctx context.Context, name string, ch watermark.Change, paused bool) (watermark.Pipeline, error) {
	action := "resume"
	if paused {
		action = "pause"
	}
	var c checks
	c.name("pipeline", name)
	c.change(ch)
	if c.err != nil {
		return watermark.Pipeline{}, c.err
	}
	var p watermark.Pipeline
	err := s.c.update(ctx, action+" pipeline "+name, func(q *query) error {
		var err error
		if p, err = ensurePipeline(q, name); err != nil {
			return err
		}
		fresh, err := appendAudit(q, watermark.AuditEntry{
			ID: ch.ID, Actor: ch.Actor, Action: action, Pipeline: name, Reason: ch.Reason,
		})
		if err != nil || !fresh {
			return err
		}
		if paused {
			_, err = q.exec(`UPDATE deltad_pipeline SET paused = $2, pause_reason = $3, paused_by = $4,
				paused_at = @now, updated_at = @now, version = version + 1 WHERE name = $1 AND source = ''`,
				name, true, free(ch.Reason), ch.Actor)
		} else {
			_, err = q.exec(`UPDATE deltad_pipeline SET paused = $2, pause_reason = '', paused_by = '',
				paused_at = NULL, updated_at = @now, version = version + 1 WHERE name = $1 AND source = ''`,
				name, false)
		}
		if err != nil {
			return err
		}
		p, _, err = readPipeline(q, name, false)
		return err
	})
	return p, err
}

// AdoptCurrent makes the row copy a CURRENT that it did not follow. See
// [watermark.Pipelines].
func (s pipelines) AdoptCurrent(ctx context.Context, l watermark.Lease, cur watermark.CurrentCopy, ch watermark.Change) (watermark.Pipeline, error) {
	var c checks
	c.lease(l)
	c.that(l.Role == watermark.RoleDelta, "the %s lease of %s does not write CURRENT", l.Role, l.Pipeline)
	c.change(ch)
	c.that(cur.Version >= 0, "version %d is negative", cur.Version)
	c.that(cur.Version > 0 || (cur.Watermark.IsZero() && cur.Progress.IsZero()), "a watermark needs a version of CURRENT")
	c.instant("watermark", cur.Watermark)
	c.instant("progress", cur.Progress)
	if c.err != nil {
		return watermark.Pipeline{}, c.err
	}
	var p watermark.Pipeline
	err := s.c.update(ctx, "adopt CURRENT of "+l.Pipeline, func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		old, err := ensurePipeline(q, l.Pipeline)
		if err != nil {
			return err
		}
		p = old
		fresh, err := appendAudit(q, watermark.AuditEntry{
			ID: ch.ID, Actor: ch.Actor, Action: "adopt", Pipeline: l.Pipeline, Reason: ch.Reason,
			Details: detail("from_version", old.CurrentVersion, "from_run", old.RunID, "from_progress", old.Progress,
				"to_version", cur.Version, "to_run", cur.RunID, "to_progress", cur.Progress),
		})
		if err != nil || !fresh {
			return err
		}
		if err := copyCurrent(q, l.Pipeline, cur); err != nil {
			return err
		}
		// Entries of versions that no longer count must not outrank new ones.
		if _, err := q.exec(`UPDATE deltad_ledger SET current_version = $2 WHERE pipeline = $1 AND current_version > $2`,
			l.Pipeline, cur.Version); err != nil {
			return err
		}
		p, _, err = readPipeline(q, l.Pipeline, false)
		return err
	})
	return p, err
}

// copyCurrent writes what CURRENT says into a locked row.
func copyCurrent(q *query, name string, cur watermark.CurrentCopy) error {
	_, err := q.exec(`UPDATE deltad_pipeline SET watermark = $2, progress = $3, current_version = $4, run_id = $5,
		manifest_key = $6, manifest_sha256 = $7, config_hash = $8, version = version + 1, updated_at = @now
		WHERE name = $1 AND source = ''`,
		name, cur.Watermark, cur.Progress, cur.Version, cur.RunID, cur.Manifest.Key, cur.Manifest.SHA256, cur.ConfigHash)
	return err
}
