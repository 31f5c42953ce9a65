package sqlstore

import (
	"context"
	"time"

	"github.com/deltad/deltad/watermark"
)

type ledger struct{ c *core }

type partitionKey struct {
	source string
	start  int64
}

func checkLedger(c *checks, entries []watermark.LedgerEntry) {
	seen := make(map[partitionKey]bool, len(entries))
	for _, e := range entries {
		k := partitionKey{e.Source, e.Partition.UnixMicro()}
		c.that(!e.Partition.IsZero(), "ledger entry without a partition")
		c.that(!seen[k], "partition %s is entered twice", e.Partition)
		c.instant("partition", e.Partition)
		c.name("ledger state", e.State)
		c.text("source", e.Source)
		c.text("fingerprint", e.Fingerprint)
		c.text("members", e.Members)
		c.that(e.Objects >= 0, "partition %s: %d objects", e.Partition, e.Objects)
		seen[k] = true
	}
}

// upsertLedger enters what a publication at a version of CURRENT says.
//
// Invariant 4: an entry of a newer version stays.
func upsertLedger(q *query, pipeline, runID string, version int64, entries []watermark.LedgerEntry) error {
	rows := make([][]any, len(entries))
	for i, e := range entries {
		run := e.RunID
		if run == "" {
			run = runID
		}
		rows[i] = []any{
			pipeline, e.Source, e.Partition, e.Fingerprint, e.State, run, e.Objects, e.Members, free(e.Note), version, expr("@now"),
		}
	}
	_, err := q.insert(`deltad_ledger (pipeline, source, partition_start, fingerprint, state, run_id, objects, members, note,
		current_version, updated_at)`, `ON CONFLICT (pipeline, source, partition_start) DO UPDATE SET
		fingerprint = excluded.fingerprint, state = excluded.state, run_id = excluded.run_id, objects = excluded.objects,
		members = excluded.members,
		note = excluded.note, current_version = excluded.current_version, updated_at = excluded.updated_at
		WHERE deltad_ledger.current_version <= excluded.current_version`, rows)
	return err
}

func checkLate(c *checks, late []watermark.LateObject) {
	for _, o := range late {
		c.name("late object", o.Key)
		c.text("etag", o.ETag)
		c.text("source", o.Source)
		c.instant("partition", o.Partition)
	}
}

// insertLate enters late objects and counts those nobody had seen.
func insertLate(q *query, pipeline, runID string, late []watermark.LateObject) (int64, error) {
	rows := make([][]any, len(late))
	for i, o := range late {
		rows[i] = []any{pipeline, o.Source, o.Key, o.ETag, o.Partition, runID, expr("@now")}
	}
	return q.insert(`deltad_late_object (pipeline, source, key, etag, partition_start, run_id, found_at)`,
		`ON CONFLICT (pipeline, key, etag) DO NOTHING`, rows)
}

// UpsertLedger enters entries outside a publication. See [watermark.Ledger].
func (s ledger) UpsertLedger(ctx context.Context, l watermark.Lease, entries []watermark.LedgerEntry) error {
	var c checks
	c.lease(l)
	checkLedger(&c, entries)
	if c.err != nil {
		return c.err
	}
	if len(entries) == 0 {
		return nil
	}
	return s.c.update(ctx, "enter ledger of "+l.Pipeline, func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		row, err := ensurePipeline(q, l.Pipeline)
		if err != nil {
			return err
		}
		return upsertLedger(q, l.Pipeline, "", row.CurrentVersion, entries)
	})
}

const ledgerRange = `SELECT source, partition_start, fingerprint, state, run_id, objects, members, note, updated_at
	FROM deltad_ledger WHERE pipeline = $1 AND source = $2 AND partition_start > $3 AND partition_start <= $4
	ORDER BY partition_start LIMIT `

// LedgerRange is a range of partitions. See [watermark.Ledger].
func (s ledger) LedgerRange(ctx context.Context, pipeline, source string, after, through time.Time, limit int) ([]watermark.LedgerEntry, error) {
	var c checks
	c.limit(limit)
	if c.err != nil {
		return nil, c.err
	}
	// Instants that every partition lies between, for a bound that is not given.
	if after.IsZero() {
		after = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	}
	if through.IsZero() {
		through = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	// A limit of 1 is another plan to SQLite, which would make a statement anew
	// whenever the parameter becomes or was 1.
	sql, args := ledgerRange+`$5`, []any{pipeline, source, after, through, limit}
	if limit == 1 {
		sql, args = ledgerRange+`1`, args[:4]
	}
	var out []watermark.LedgerEntry
	err := s.c.view(ctx, "read ledger of "+pipeline, func(q *query) error {
		out = nil
		rows, err := q.rows(sql, args...)
		if err != nil {
			return err
		}
		for _, r := range rows {
			d := decode(r, "deltad_ledger", pipeline)
			e := watermark.LedgerEntry{
				Source: d.text("source"), Partition: d.instant("partition_start"), Fingerprint: d.text("fingerprint"),
				State: d.named("state"), RunID: d.text("run_id"), Objects: int(d.number("objects", 0)),
				Members: d.text("members"), Note: d.text("note"), UpdatedAt: d.instant("updated_at"),
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

// LedgerCounts is the number of partitions by state. See [watermark.Ledger].
func (s ledger) LedgerCounts(ctx context.Context, pipeline string) (map[string]int64, error) {
	var out map[string]int64
	err := s.c.view(ctx, "count ledger of "+pipeline, func(q *query) error {
		out = make(map[string]int64)
		rows, err := q.rows(`SELECT state, count(*) AS n FROM deltad_ledger WHERE pipeline = $1 AND source <> $2 GROUP BY state`, pipeline, watermark.History)
		if err != nil {
			return err
		}
		for _, r := range rows {
			d := decode(r, "deltad_ledger", pipeline)
			out[d.named("state")] = d.number("n", 1)
			if d.err != nil {
				return d.err
			}
		}
		return nil
	})
	return out, err
}

// LateObjects are the newest found first. See [watermark.Ledger].
func (s ledger) LateObjects(ctx context.Context, pipeline string, limit int) ([]watermark.LateObject, error) {
	var c checks
	c.limit(limit)
	if c.err != nil {
		return nil, c.err
	}
	var out []watermark.LateObject
	err := s.c.view(ctx, "read late objects of "+pipeline, func(q *query) error {
		out = nil
		rows, err := q.rows(`SELECT source, key, etag, partition_start, run_id, found_at FROM deltad_late_object
			WHERE pipeline = $1 ORDER BY found_at DESC, key, etag LIMIT $2`, pipeline, limit)
		if err != nil {
			return err
		}
		for _, r := range rows {
			d := decode(r, "deltad_late_object", pipeline)
			o := watermark.LateObject{
				Source: d.text("source"), Key: d.named("key"), ETag: d.text("etag"), Partition: d.nullable("partition_start"),
				RunID: d.text("run_id"), FoundAt: d.instant("found_at"),
			}
			if d.err != nil {
				return d.err
			}
			out = append(out, o)
		}
		return nil
	})
	return out, err
}

// CountLate is how many late objects there are. See [watermark.Ledger].
func (s ledger) CountLate(ctx context.Context, pipeline string) (int64, error) {
	var n int64
	err := s.c.view(ctx, "count late objects of "+pipeline, func(q *query) error {
		r, _, err := q.one(`SELECT count(*) AS n FROM deltad_late_object WHERE pipeline = $1`, pipeline)
		if err != nil {
			return err
		}
		d := decode(r, "deltad_late_object", pipeline)
		n = d.number("n", 0)
		return d.err
	})
	return n, err
}
