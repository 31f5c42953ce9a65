package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
)

// maxValue is how much of a value a finding shows, in bytes of JSON.
const maxValue = 200

// computing hands over documents and keys of tombstones as they are computed,
// each in key order.
type computing func(emit func(docs, tombstones *column.Batch) error) error

// rows names what a manifest that does not come out again has in place of what
// is computed: key by key and column by column, with both values and the file.
// It has it computed a second time, since nothing of the first is kept.
func (v *verifier) rows(ctx context.Context, f *finder, m sink.Manifest, again computing) error {
	fields, err := parquet.Fields(m.Schema)
	if err != nil {
		return err
	}
	docs := v.published(ctx, m, func(docs, _ *column.Batch) *column.Batch { return docs })
	defer docs.stop()
	tombstones := v.published(ctx, m, func(_, tombstones *column.Batch) *column.Batch { return tombstones })
	defer tombstones.stop()
	d := differ{f: f, where: func(key []string) string { return v.where(ctx, m, key) }}
	both := func(made, dead *column.Batch) error {
		if err := d.compare(docs, made, fields, "document"); err != nil {
			return err
		}
		return d.compare(tombstones, dead, parquet.KeyFields(fields), "tombstone")
	}
	if err := again(both); err != nil {
		return fmt.Errorf("look for the rows that differ: %w", err)
	}
	return both(nil, nil)
}

// stream is what a manifest says, row by row.
type stream struct {
	next  func() (*column.Batch, error, bool)
	stop  func()
	batch *column.Batch
	row   int
}

// errStopped ends a reading of which enough was seen.
var errStopped = errors.New("stopped")

// published is the stream of what pick takes of the rows of a manifest. The
// caller stops it.
func (v *verifier) published(ctx context.Context, m sink.Manifest, pick func(docs, tombstones *column.Batch) *column.Batch) *stream {
	next, stop := iter.Pull2(func(yield func(*column.Batch, error) bool) {
		err := reader.Rows(ctx, v.Out, m, func(docs, tombstones *column.Batch) error {
			if !yield(pick(docs, tombstones), nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	})
	return &stream{next: next, stop: stop}
}

// at makes the row at hand available; ok is false at the end.
func (s *stream) at() (ok bool, err error) {
	for s.batch == nil || s.row == s.batch.Len {
		b, err, ok := s.next()
		if err != nil || !ok {
			return false, err
		}
		s.batch, s.row = b, 0
	}
	return true, nil
}

// where is the file that says something of a key.
func (v *verifier) where(ctx context.Context, m sink.Manifest, key []string) string {
	open := func() (*reader.Snapshot, error) {
		return reader.OpenRun(ctx, v.Out, m.RunID, reader.Options{Lazy: true})
	}
	if m.Kind == sink.Full {
		open = func() (*reader.Snapshot, error) {
			return reader.OpenBase(ctx, v.Out, m.RunID, reader.Options{Lazy: true})
		}
	}
	s, err := open()
	if err == nil {
		var found reader.Found
		if found, err = s.Find(ctx, key...); err == nil {
			return found.File
		}
	}
	return fmt.Sprintf("a file that cannot be named (%v)", err)
}

// differ compares rows of two origins.
type differ struct {
	f     *finder
	where func(key []string) string
}

// compare goes on to the end of a batch of rows that come out; nil is their end.
func (d *differ) compare(was *stream, made *column.Batch, fields []column.Field, what string) error {
	for row := 0; ; {
		there, err := was.at()
		if err != nil {
			return err
		}
		more := made != nil && row < made.Len
		if !more && (made != nil || !there) {
			return nil
		}
		order := 1
		if more {
			if order = -1; there {
				order = parquet.CompareKeys(fields, made, row, was.batch, was.row)
			}
		}
		switch {
		case order < 0:
			key := reader.Document{Fields: fields, Batch: made, Row: row}.Key()
			d.add("key %q: a %s comes out, and none was published", key, what)
			row++
		case order > 0:
			key := reader.Document{Fields: fields, Batch: was.batch, Row: was.row}.Key()
			d.addIn(key, "key %q: a %s was published, and does not come out", key, what)
			was.row++
		default:
			if err := d.columns(reader.Document{Fields: fields, Batch: made, Row: row}, reader.Document{Fields: fields, Batch: was.batch, Row: was.row}); err != nil {
				return err
			}
			row++
			was.row++
		}
	}
}

// columns names the columns in which two documents of one key differ.
func (d *differ) columns(made, was reader.Document) error {
	for diff, err := range reader.Differences(made, was) {
		if err != nil {
			return err
		}
		key := made.Key()
		d.addIn(key, "key %q, column %s: %s comes out, %s was published", key, diff.Column, short(diff.A), short(diff.B))
	}
	return nil
}

func (d *differ) add(format string, args ...any) { d.f.add(format, args...) }

// addIn adds a finding with the file of its key, which is looked for only where
// the finding is shown.
func (d *differ) addIn(key []string, format string, args ...any) {
	if len(d.f.found) < MaxFindings {
		format, args = format+" in %s", append(args, d.where(key))
	}
	d.f.add(format, args...)
}

func short(value []byte) string {
	if len(value) > maxValue {
		return fmt.Sprintf("%s… (%d bytes)", value[:maxValue], len(value))
	}
	return string(value)
}
