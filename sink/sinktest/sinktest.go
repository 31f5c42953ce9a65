// Package sinktest helps to test what stands on an output: it makes small panes, watches every change of an output and says which
// invariant of package sink it broke, and checks an output as a whole.
package sinktest

import (
	"context"
	"fmt"
	"io"
	"sort"
	"sync/atomic"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

// Pipeline is the name of the pipeline of all panes made here.
const Pipeline = "ads"

// IDs returns a source of ascending ULIDs; sources with different marks never return the same one. It is safe for concurrent use.
func IDs(mark byte) func() string {
	var n atomic.Uint64
	return func() string { return ID(mark, n.Add(1)) }
}

// ID is the nth ULID of a source.
func ID(mark byte, n uint64) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	b := []byte("01JDXK00000000000000000000")
	b[8] = digits[mark%32]
	for i := 25; n > 0; i-- {
		b[i] = digits[n%32]
		n /= 32
	}
	return string(b)
}

// Hour is the nth partition of an hourly layout.
func Hour(n int) time.Time {
	return time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Hour)
}

// Fields is the schema of the panes made here: a string key and a number.
func Fields() []column.Field {
	return []column.Field{
		{Name: "item", Type: column.Of(column.String), Key: true},
		{Name: "n", Type: column.Of(column.Int64)},
	}
}

// New returns a sink for tests: no waiting, ids of its own.
func New(st store.Store, mark byte) *sink.Sink {
	return sink.New(sink.Settings{Store: st, Pipeline: Pipeline, NewID: IDs(mark), Backoff: time.Nanosecond})
}

// Pane is what a run publishes.
type Pane struct {
	RunID      string
	Reason     sink.Reason // default promote over another base than the head's, refine at the head's watermark, else publish
	Watermark  time.Time
	From       time.Time // start of the coverage; default 5 hours before Watermark
	Documents  map[string]int64
	Tombstones []string
	Base       *sink.Manifest // over this base, whose hash is BaseSHA256
	BaseSHA256 string
	Inputs     []sink.Input
	Unread     []sink.StateFile // slices of unread objects
	// Parent is the manifest that head names, of which supports and history are inherited, and Base where none is given. Write reads it
	// where there are bases.
	Parent *sink.Manifest
	// SupportUntil is until when a promotion supports the base it leaves.
	SupportUntil time.Time
	// Below, which the pane that head names is read from, makes this one a layer more over it, where that can take one.
	Below store.Store
}

// Manifest is the pane's manifest without its files.
func (p Pane) Manifest(me sink.Owner, head sink.Head) sink.Manifest {
	if p.From.IsZero() {
		p.From = p.Watermark.Add(-5 * time.Hour)
	}
	m := sink.Manifest{
		Pipeline: Pipeline, Kind: sink.Delta, Version: head.Version + 1, RunID: p.RunID, Reason: p.Reason, Timing: "on_time",
		Writer:    sink.Writer{Epoch: me.Epoch, Nonce: me.Nonce, Build: "deltad test"},
		Watermark: sink.AtPtr(p.Watermark), PreviousWatermark: head.Watermark,
		Coverage: &sink.Range{From: sink.At(p.From), To: sink.At(p.Watermark)},
		Schema:   parquet.SchemaFields(Fields()), Inputs: p.Inputs, CreatedAt: sink.At(p.Watermark.Add(time.Minute)),
		UnreadSlices: p.Unread,
		Counts:       sink.Counts{Documents: int64(len(p.Documents)), Tombstones: int64(len(p.Tombstones))},
	}
	if head.Delta != nil {
		ref := head.Delta.Ref()
		m.Parent = &ref
	}
	switch b := p.Base; {
	case b != nil:
		m.Base = &sink.ManifestBase{Generation: b.RunID, Cut: *b.Cut, Manifest: b.Key(), SHA256: p.BaseSHA256}
	case p.Parent != nil:
		m.Base = p.Parent.Base
	}
	same := head.Watermark != nil && head.Watermark.Equal(p.Watermark)
	if same {
		m.Timing = "late"
	}
	switch {
	case m.Reason != "":
	case m.Base != nil && (head.Base == nil || head.Base.Generation != m.Base.Generation):
		m.Reason = sink.Promote
	case same:
		m.Reason = sink.Refine
	default:
		m.Reason = sink.Publish
	}
	if m.Reason == sink.Refine && head.Progress != nil && !head.Progress.Equal(p.Watermark) {
		m.Progress = head.Progress
	}
	switch {
	case p.Parent == nil:
	case m.Reason == sink.Promote:
		m = sink.Leave(m, *p.Parent, *m.Parent, m.CreatedAt.Time, p.SupportUntil)
	default:
		m = sink.Inherit(m, *p.Parent, m.CreatedAt.Time)
	}
	return m
}

// Write writes the pane's data files and manifest, as a run does before its commit.
func Write(ctx context.Context, s *sink.Sink, me sink.Owner, head sink.Head, p Pane) (sink.Ref, sink.Manifest, error) {
	if p.Parent == nil && head.Delta != nil && (head.Base != nil || p.Base != nil) {
		parent, err := s.ReadManifest(ctx, head.Delta.Ref())
		if err != nil {
			return sink.Ref{}, sink.Manifest{}, err
		}
		p.Parent = &parent
	}
	m := p.Manifest(me, head)
	rows, below := Rows{p.Documents, p.Tombstones, nil}, sink.Manifest{}
	if p.Below != nil && head.Delta != nil {
		var err error
		if below, err = s.ReadManifest(ctx, head.Delta.Ref()); err != nil {
			return sink.Ref{}, sink.Manifest{}, err
		}
	}
	layered := below.Kind == sink.Delta && below.Top() < sink.MaxLayer
	if layered {
		was, err := RowsOf(ctx, p.Below, below)
		if err != nil {
			return sink.Ref{}, sink.Manifest{}, err
		}
		rows = Diff(was, rows)
	}
	put := func(ctx context.Context, part parquet.Part, body io.ReadSeeker) (string, error) {
		return s.PutData(ctx, p.RunID, part.Name, body, part.SHA256)
	}
	var err error
	if m.Files, err = Files(ctx, Fields(), "part", Batch(rows.Documents), put); err != nil {
		return sink.Ref{}, m, err
	}
	if m.Tombstones, err = Files(ctx, parquet.KeyFields(Fields()), "tombstones", KeyBatch(rows.Tombstones), put); err != nil {
		return sink.Ref{}, m, err
	}
	if m.Left, err = Files(ctx, parquet.KeyFields(Fields()), "left", KeyBatch(rows.Left), put); err != nil {
		return sink.Ref{}, m, err
	}
	if layered {
		if m, err = m.Over(below); err != nil {
			return sink.Ref{}, m, err
		}
	}
	ref, err := s.WriteManifest(ctx, m)
	return ref, m, err
}

// Batch is documents as a batch of Fields, sorted by key.
func Batch(documents map[string]int64) *column.Batch {
	keys := make([]string, 0, len(documents))
	for k := range documents {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	b := column.NewBatch(Fields())
	for _, k := range keys {
		b.Columns[0].AppendString(k)
		b.Columns[1].AppendInt(documents[k])
		b.Len++
	}
	return b
}

// KeyBatch is keys as a batch of the key column, sorted.
func KeyBatch(keys []string) *column.Batch {
	b := column.NewBatch(parquet.KeyFields(Fields()))
	sort.Strings(keys)
	for _, k := range keys {
		b.Columns[0].AppendString(k)
		b.Len++
	}
	return b
}

// Files writes one batch through put, which returns the key it stored a part under.
func Files(ctx context.Context, fields []column.Field, name string, b *column.Batch,
	put func(context.Context, parquet.Part, io.ReadSeeker) (string, error)) ([]sink.File, error) {
	var files []sink.File
	w, err := parquet.NewWriter(parquet.Options{Fields: fields, Name: name, Put: func(ctx context.Context, p parquet.Part, body io.ReadSeeker) error {
		key, err := put(ctx, p, body)
		files = append(files, p.File(key))
		return err
	}})
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	if err := w.Write(ctx, b); err != nil {
		return nil, err
	}
	_, err = w.Close(ctx)
	return files, err
}

// Publish writes the pane and commits it.
func Publish(ctx context.Context, s *sink.Sink, me sink.Owner, head sink.Head, p Pane) (sink.Head, error) {
	ref, m, err := Write(ctx, s, me, head, p)
	if err != nil {
		return sink.Head{}, err
	}
	return s.Commit(ctx, me, head, ref, m, sink.CommitOptions{Now: p.Watermark.Add(time.Minute)})
}

// Documents reads an output as the reference reader does: every document by its item, verified down the chain. Before the first pane it
// is reader.ErrNoIndex.
func Documents(ctx context.Context, st store.Store) (map[string]int64, error) {
	r := reader.Open(st, reader.Options{})
	if _, err := r.Poll(ctx); err != nil {
		return nil, err
	}
	return DocumentsOf(ctx, r.Snapshot())
}

// DocumentsOf are the documents of a snapshot of panes made here.
func DocumentsOf(ctx context.Context, s *reader.Snapshot) (map[string]int64, error) {
	out := map[string]int64{}
	last := ""
	for d, err := range s.All(ctx) {
		if err != nil {
			return nil, err
		}
		item, n := d.Batch.Columns[0].Strings[d.Row], d.Batch.Columns[1].Ints[d.Row]
		if _, twice := out[item]; twice || item < last {
			return nil, fmt.Errorf("document %q is not in order after %q", item, last)
		}
		out[item], last = n, item
	}
	return out, nil
}
