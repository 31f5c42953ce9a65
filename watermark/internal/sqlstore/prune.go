package sqlstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/deltad/deltad/watermark"
)

type prunes struct{ c *core }

// Prune bounds a pipeline's tables. See [watermark.Prunes].
func (s prunes) Prune(ctx context.Context, l watermark.Lease, k watermark.Keep, limit int) (watermark.Pruned, error) {
	var c checks
	c.lease(l)
	c.limit(limit)
	c.that(k.Ended >= 0, "age %s is negative", k.Ended)
	c.that(k.Decided == 0 || k.Decided >= watermark.AuditKept, "what was decided is kept for %s, want %s at least", k.Decided, watermark.AuditKept)
	if c.err != nil {
		return watermark.Pruned{}, c.err
	}
	// Chosen once: run again after a lost answer it is the same rows that go,
	// and as many are reported.
	p := pruning{pipeline: l.Pipeline, limit: limit, cuts: map[string]cut{}}
	err := s.c.update(ctx, "prune "+l.Pipeline, func(q *query) error {
		row, err := fence(q, l)
		if err != nil {
			return err
		}
		if p.now.IsZero() {
			p.now = row.now
		}
		p.q, p.err = q, nil
		if k.Ended > 0 {
			p.ended(p.now.Add(-k.Ended))
			p.partitions(earlier(k.Partitions, p.now.Add(-k.Ended)))
		}
		if k.Decided > 0 {
			p.decided(p.now.Add(-k.Decided))
		}
		return p.err
	})
	if err != nil {
		return watermark.Pruned{}, err
	}
	return p.out, nil
}

// earlier is the earlier of two instants; zero if a is zero.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// pruning deletes until something fails.
type pruning struct {
	q        *query
	pipeline string
	limit    int
	now      time.Time
	cuts     map[string]cut
	out      watermark.Pruned
	err      error
}

// cut is the last row of a table that goes; none is that all do which are old
// enough.
type cut struct{ last []any }

// delete deletes the limit oldest rows of a table of which a condition holds.
// order is the columns that the rows are in order of, the last of which tell
// them apart; in the condition $1 is the pipeline and $2 the instant.
func (p *pruning) delete(n *int64, table string, order []string, where string, before time.Time) {
	if p.err != nil {
		return
	}
	columns := strings.Join(order, ", ")
	last, chosen := p.cuts[table]
	if !chosen {
		r, found, err := p.q.one(`SELECT `+columns+` FROM `+table+` WHERE `+where+` ORDER BY `+columns+` LIMIT 1 OFFSET $3`,
			p.pipeline, before, p.limit-1)
		if err != nil {
			p.err = err
			return
		}
		if found {
			last.last = r.values
		}
		p.cuts[table] = last
	}
	args := []any{p.pipeline, before}
	if len(last.last) > 0 {
		var marks []string
		for _, v := range last.last {
			args = append(args, v)
			marks = append(marks, "$"+strconv.Itoa(len(args)))
		}
		where += ` AND (` + columns + `) <= (` + strings.Join(marks, ", ") + `)`
	}
	var deleted int64
	deleted, p.err = p.q.exec(`DELETE FROM `+table+` WHERE `+where, args...)
	*n = max(*n, deleted)
}

func (p *pruning) ended(before time.Time) {
	// The latest published run is what a new leader and a walk from CURRENT
	// stand on, however old it is.
	p.delete(&p.out.Runs, "deltad_run", []string{"finished_at", "id"}, `pipeline = $1 AND status <> 'planned' AND finished_at < $2
		AND id NOT IN (SELECT id FROM (SELECT id FROM deltad_run WHERE pipeline = $1 AND status = 'published' AND current_version > 0
		ORDER BY current_version DESC LIMIT 1) latest)`, before)
	p.delete(&p.out.Requests, "deltad_request", []string{"finished_at", "seq"},
		"pipeline = $1 AND state IN ('done', 'failed') AND finished_at < $2", before)
	p.delete(&p.out.Rebuilds, "deltad_rebuild", []string{"finished_at", "id"}, `pipeline = $1
		AND state IN ('promoted', 'failed', 'cancelled', 'superseded', 'skipped') AND finished_at < $2
		AND id NOT IN (SELECT id FROM (SELECT id FROM deltad_rebuild WHERE pipeline = $1 AND state = 'promoted'
		ORDER BY id DESC LIMIT `+strconv.Itoa(watermark.PromotedKept)+`) latest)
		AND id NOT IN (SELECT id FROM deltad_pin WHERE pipeline = $1 AND kind = 'base')
		AND id NOT IN (SELECT generation FROM deltad_bar WHERE pipeline = $1)
		AND (due IS NULL OR due < (SELECT max(due) FROM deltad_rebuild WHERE pipeline = $1))`, before)
}

// partitions forgets what is about partitions up to an instant. The ledger
// loses its oldest lines first, so that what is left of it has no hole.
func (p *pruning) partitions(through time.Time) {
	if through.IsZero() {
		return
	}
	p.delete(&p.out.Ledger, "deltad_ledger", []string{"partition_start", "source"}, "pipeline = $1 AND partition_start <= $2", through)
	p.delete(&p.out.Late, "deltad_late_object", []string{"found_at", "key", "etag"},
		"pipeline = $1 AND found_at < $2 AND (partition_start IS NULL OR partition_start <= $2)", through)
	p.delete(&p.out.Objects, "deltad_object_failure", []string{"last_at", "source", "key", "etag"},
		"pipeline = $1 AND last_at < $2 AND (skipped_at IS NULL OR skipped_at < $2)", through)
}

// decided forgets what people decided. Entries about no pipeline go with those
// of any.
func (p *pruning) decided(before time.Time) {
	p.delete(&p.out.Intents, "deltad_intent", []string{"finished_at", "id"},
		"pipeline = $1 AND state IN ('applied', 'failed') AND finished_at < $2", before)
	p.delete(&p.out.Audit, "deltad_audit", []string{"seq"}, "pipeline IN ($1, '') AND at < $2", before)
}
