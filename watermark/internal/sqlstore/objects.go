package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/deltad/deltad/watermark"
)

type objects struct{ c *core }

const objectColumns = `SELECT source, key, etag, failures, last_run_id, last_error, first_at, last_at, skipped_at,
	skipped_by, skip_reason FROM deltad_object_failure WHERE pipeline = $1`

func decodeObject(r Row, pipeline string) (watermark.ObjectState, error) {
	d := decode(r, "deltad_object_failure", pipeline)
	o := watermark.ObjectState{
		Source: d.text("source"), Key: d.named("key"), ETag: d.text("etag"), Failures: int(d.number("failures", 0)),
		LastRunID: d.text("last_run_id"), LastError: d.text("last_error"), FirstAt: d.instant("first_at"),
		LastAt: d.instant("last_at"), SkippedAt: d.nullable("skipped_at"), SkippedBy: d.text("skipped_by"),
		SkipReason: d.text("skip_reason"),
	}
	return o, d.err
}

func readObject(q *query, pipeline string, o watermark.ObjectRef) (watermark.ObjectState, bool, error) {
	r, found, err := q.one(objectColumns+` AND source = $2 AND key = $3 AND etag = $4@lock`, pipeline, o.Source, o.Key, o.ETag)
	if err != nil || !found {
		return watermark.ObjectState{}, false, err
	}
	st, err := decodeObject(r, pipeline)
	return st, true, err
}

func checkRef(c *checks, o watermark.ObjectRef) {
	c.name("object key", o.Key)
	c.text("etag", o.ETag)
	c.text("source", o.Source)
}

// RecordFailures counts a run's failures. See [watermark.Objects].
func (s objects) RecordFailures(ctx context.Context, l watermark.Lease, runID string, failed []watermark.ObjectFailure,
	skipAfter int,
) ([]watermark.ObjectState, error) {
	var c checks
	c.lease(l)
	c.ulid("run id", runID)
	c.that(skipAfter >= 0, "skip after %d failures", skipAfter)
	for _, f := range failed {
		checkRef(&c, watermark.ObjectRef{Source: f.Source, Key: f.Key, ETag: f.ETag})
	}
	if c.err != nil || len(failed) == 0 {
		return nil, c.err
	}
	var out []watermark.ObjectState
	err := s.c.update(ctx, "record failures of run "+runID, func(q *query) error {
		out = nil
		if _, err := fence(q, l); err != nil {
			return err
		}
		for _, f := range failed {
			o, err := recordFailure(q, l.Pipeline, runID, f, skipAfter)
			if err != nil {
				return err
			}
			out = append(out, o)
		}
		return nil
	})
	return out, err
}

func recordFailure(q *query, pipeline, runID string, f watermark.ObjectFailure, skipAfter int) (watermark.ObjectState, error) {
	ref := watermark.ObjectRef{Source: f.Source, Key: f.Key, ETag: f.ETag}
	// The WHERE makes the same run count once, also when it is told again.
	if _, err := q.exec(`INSERT INTO deltad_object_failure
		(pipeline, source, key, etag, failures, last_run_id, last_error, first_at, last_at)
		VALUES ($1, $2, $3, $4, 1, $5, $6, @now, @now)
		ON CONFLICT (pipeline, source, key, etag) DO UPDATE SET failures = deltad_object_failure.failures + 1,
		last_run_id = excluded.last_run_id, last_error = excluded.last_error, last_at = excluded.last_at
		WHERE deltad_object_failure.last_run_id <> excluded.last_run_id`,
		pipeline, f.Source, f.Key, f.ETag, runID, free(f.Error)); err != nil {
		return watermark.ObjectState{}, err
	}
	o, found, err := readObject(q, pipeline, ref)
	if err == nil && !found {
		err = fmt.Errorf("failure row of object %s vanished", f.Key)
	}
	if err != nil || skipAfter == 0 || o.Failures < skipAfter || !o.SkippedAt.IsZero() {
		return o, err
	}
	reason := fmt.Sprintf("failed in %d runs in a row: %s", o.Failures, free(f.Error))
	if err := skip(q, pipeline, ref, system, reason); err != nil {
		return o, err
	}
	// Skips of several objects by one run need ids of their own; a run skips
	// an object once.
	if _, err := appendAudit(q, watermark.AuditEntry{
		ID: runID + "/skip/" + f.Source + "/" + f.Key + "/" + f.ETag, Actor: system, Action: "object-skip",
		Pipeline: pipeline, Reason: reason, Details: detail("source", f.Source, "key", f.Key, "etag", f.ETag, "run", runID),
	}); err != nil {
		return o, err
	}
	o, _, err = readObject(q, pipeline, ref)
	return o, err
}

func skip(q *query, pipeline string, o watermark.ObjectRef, actor, reason string) error {
	_, err := q.exec(`INSERT INTO deltad_object_failure
		(pipeline, source, key, etag, first_at, last_at, skipped_at, skipped_by, skip_reason)
		VALUES ($1, $2, $3, $4, @now, @now, @now, $5, $6)
		ON CONFLICT (pipeline, source, key, etag) DO UPDATE SET skipped_at = excluded.skipped_at,
		skipped_by = excluded.skipped_by, skip_reason = excluded.skip_reason`,
		pipeline, o.Source, o.Key, o.ETag, actor, free(reason))
	return err
}

// ClearFailures forgets failures of objects that were read. See
// [watermark.Objects].
func (s objects) ClearFailures(ctx context.Context, l watermark.Lease, read []watermark.ObjectRef) error {
	var c checks
	c.lease(l)
	for _, o := range read {
		checkRef(&c, o)
	}
	if c.err != nil || len(read) == 0 {
		return c.err
	}
	// Almost always there is nothing to forget: that is found without a write
	// transaction, whatever the number of objects read.
	states, err := s.ObjectStates(ctx, l.Pipeline)
	if err != nil {
		return err
	}
	failing := make(map[watermark.ObjectRef]bool, len(states))
	for _, o := range states {
		failing[watermark.ObjectRef{Source: o.Source, Key: o.Key, ETag: o.ETag}] = o.SkippedAt.IsZero()
	}
	read = slices.DeleteFunc(slices.Clone(read), func(o watermark.ObjectRef) bool { return !failing[o] })
	if len(read) == 0 {
		return nil
	}
	return s.c.update(ctx, "clear object failures of "+l.Pipeline, func(q *query) error {
		if _, err := fence(q, l); err != nil {
			return err
		}
		for _, o := range read {
			if _, err := q.exec(`DELETE FROM deltad_object_failure WHERE pipeline = $1 AND source = $2 AND key = $3
				AND etag = $4 AND skipped_at IS NULL`, l.Pipeline, o.Source, o.Key, o.ETag); err != nil {
				return err
			}
		}
		return nil
	})
}

// SkipObject skips an object by hand. See [watermark.Objects].
func (s objects) SkipObject(ctx context.Context, pipeline string, o watermark.ObjectRef, ch watermark.Change) error {
	return s.byHand(ctx, "object-skip", pipeline, o, ch, func(q *query) error {
		return skip(q, pipeline, o, ch.Actor, ch.Reason)
	})
}

// UnskipObject undoes a skip. See [watermark.Objects].
func (s objects) UnskipObject(ctx context.Context, pipeline string, o watermark.ObjectRef, ch watermark.Change) error {
	return s.byHand(ctx, "object-unskip", pipeline, o, ch, func(q *query) error {
		n, err := q.exec(`DELETE FROM deltad_object_failure WHERE pipeline = $1 AND source = $2 AND key = $3
			AND etag = $4 AND skipped_at IS NOT NULL`, pipeline, o.Source, o.Key, o.ETag)
		if err == nil && n == 0 {
			err = fmt.Errorf("skip of object %s: %w", o.Key, watermark.ErrNotFound)
		}
		return err
	})
}

func (s objects) byHand(ctx context.Context, action, pipeline string, o watermark.ObjectRef, ch watermark.Change,
	do func(*query) error,
) error {
	var c checks
	c.name("pipeline", pipeline)
	checkRef(&c, o)
	c.change(ch)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, action+" "+o.Key, func(q *query) error {
		fresh, err := appendAudit(q, watermark.AuditEntry{
			ID: ch.ID, Actor: ch.Actor, Action: action, Pipeline: pipeline, Reason: ch.Reason,
			Details: detail("source", o.Source, "key", o.Key, "etag", o.ETag),
		})
		if err != nil || !fresh {
			return err
		}
		return do(q)
	})
}

// ObjectStates are all objects with failures or a skip. See
// [watermark.Objects].
func (s objects) ObjectStates(ctx context.Context, pipeline string) ([]watermark.ObjectState, error) {
	var out []watermark.ObjectState
	err := s.c.view(ctx, "read object states of "+pipeline, func(q *query) error {
		out = nil
		rows, err := q.rows(objectColumns+` ORDER BY key, etag, source`, pipeline)
		if err != nil {
			return err
		}
		for _, r := range rows {
			o, err := decodeObject(r, pipeline)
			if err != nil {
				return err
			}
			out = append(out, o)
		}
		return nil
	})
	return out, err
}
