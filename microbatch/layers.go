package microbatch

import (
	"context"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/datafile"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// layering is how the pane in hand is written, decided once, before its fold:
// as a layer of what differs from the live pane, or as a snapshot.
type layering struct {
	layers.Decision
	before *layers.Log // what its rows are compared with, nil for nothing
	whole  bool        // its log is to be whole: a layer may come over it
}

// layering decides for the pane of m, after the live one, whose log is before.
// A log that was read back serves counts alone. A run without caches writes
// what one would that knows nothing, and nothing comes after it.
func (p *Pipeline) layering(m *sink.Manifest, before *layers.Log) *layering {
	l := &layering{
		Decision: layers.Decide(p.seen.live, *m, before.Whole() && !p.set.NoCache, p.set.Layers),
		before:   before,
		whole:    !p.set.NoCache && layers.Keeps(p.seen.live, p.set.Layers),
	}
	p.set.Log.Debug("pane planned", zap.String("pipeline", p.set.Name), zap.String("run", m.RunID), zap.Int("layer", l.Layer), zap.String("why", l.Why))
	return l
}

// paneWriter writes what a window is folded to: the documents and tombstones
// of a whole pane, or a layer over the live one.
type paneWriter struct {
	layer  int            // 0 for a whole pane
	differ *layers.Differ // nil where nobody will ask for the rows

	docs, tombstones, left *parquet.Writer
}

// paneWriter starts the files that m then lists. l is nil for a pane that is
// written to be compared: it is whole and made from nothing.
func (p *Pipeline) paneWriter(ctx context.Context, bound *index.Bound, m *sink.Manifest, put datafile.Put, l *layering) (*paneWriter, error) {
	w := &paneWriter{}
	var err error
	var frames *parquet.Frames
	if l != nil {
		frames = p.frames
		frames.Turn()
		o := layers.Options{
			Hasher: p.rows.hasher, Fields: bound.Schema(), Before: l.before, Whole: l.whole, Dir: p.set.TempDir, Memory: p.set.Memory,
		}
		if w.layer = l.Layer; w.layer > 0 {
			o.Emit = func(rows layers.Rows) error { return w.differs(ctx, rows) }
		}
		w.differ, err = layers.NewDiffer(o)
	}
	key := parquet.KeyFields(bound.Schema())
	for _, f := range []struct {
		to     **parquet.Writer
		name   string
		fields []column.Field
		files  *[]sink.File
	}{{&w.docs, "part", bound.Schema(), &m.Files}, {&w.tombstones, "tombstones", key, &m.Tombstones}, {&w.left, "left", key, &m.Left}} {
		if err == nil {
			*f.to, err = p.writer(f.name, f.fields, put, f.files, frames)
		}
	}
	if err != nil {
		w.abort()
		return nil, err
	}
	return w, nil
}

// write takes the next rows of the pane.
func (w *paneWriter) write(ctx context.Context, out window.Documents) error {
	if w.differ != nil {
		if err := w.differ.Add(out); err != nil {
			return err
		}
	}
	if w.layer > 0 {
		return nil // what differs is written by differs
	}
	return w.put(ctx, out.Docs, out.Tombstones)
}

func (w *paneWriter) differs(ctx context.Context, rows layers.Rows) error {
	if err := w.put(ctx, rows.Docs, rows.Tombstones); err != nil {
		return err
	}
	return w.left.Write(ctx, rows.Left)
}

func (w *paneWriter) put(ctx context.Context, docs, tombstones *column.Batch) error {
	if err := w.docs.Write(ctx, docs); err != nil {
		return err
	}
	return w.tombstones.Write(ctx, tombstones)
}

// endPane ends the files: m then lists all that the pane is made of.
func (p *Pipeline) endPane(ctx context.Context, w *paneWriter, m *sink.Manifest) error {
	var err error
	if w.differ != nil {
		if p.rows.pending, err = w.differ.Finish(); err != nil {
			return err
		}
		c := w.differ.Counts()
		m.Counts.New, m.Counts.Changed, m.Counts.Left = c.New, c.Changed, c.Left
	}
	for _, f := range []*parquet.Writer{w.docs, w.tombstones, w.left} {
		if _, err := f.Close(ctx); err != nil {
			return err
		}
	}
	if w.layer > 0 {
		*m, err = m.Over(*p.seen.live)
	}
	return err
}

// abort lets go of what was not ended.
func (w *paneWriter) abort() {
	if w.differ != nil {
		w.differ.Abort()
	}
	for _, f := range []*parquet.Writer{w.docs, w.tombstones, w.left} {
		if f != nil {
			f.Abort()
		}
	}
}
