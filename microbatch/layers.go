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

// rowLog is what this process knows of the rows of the live pane.
type rowLog struct {
	hasher layers.Hasher
	ref    sink.Ref
	log    *layers.Log // nil if it knows none
	// pending is that of the pane being written.
	pending *layers.Log
}

// replace makes the pending log that of the live pane.
func (l *rowLog) replace(ref sink.Ref) {
	l.log.Close()
	l.ref, l.log, l.pending = ref, l.pending, nil
}

// forget lets all go: the next pane is a snapshot.
func (l *rowLog) forget() {
	l.log.Close()
	l.pending.Close()
	l.log, l.pending = nil, nil
}

// layering is how the pane in hand is written.
type layering struct {
	layers.Decision
	differ *layers.Differ // nil where nothing asks for the rows' digests
}

// layering decides how the pane of m is written: as a snapshot or as a layer
// over the live one.
func (p *Pipeline) layering(bound *index.Bound, m *sink.Manifest, emit func(layers.Rows) error) (layering, error) {
	p.rows.pending.Close() // of a run that failed
	p.rows.pending = nil
	var before *layers.Log
	if p.rows.ref == p.seen.ref && !p.set.NoCache {
		before = p.rows.log
	}
	l := layering{Decision: layers.Decide(p.seen.live, *m, before != nil, p.set.Layers)}
	p.set.Log.Debug("pane planned", zap.String("pipeline", p.set.Name), zap.String("run", m.RunID), zap.Int("layer", l.Layer), zap.String("why", l.Why))
	if l.Layer == 0 {
		before = nil
	}
	if before == nil && (p.set.NoCache || !layers.Keeps(p.seen.live, p.set.Layers)) {
		return l, nil
	}
	var err error
	l.differ, err = layers.NewDiffer(layers.Options{
		Hasher: p.rows.hasher, Fields: bound.Schema(), Before: before, Emit: emit, Dir: p.set.TempDir, Memory: p.set.Memory,
	})
	return l, err
}

// paneWriter writes what a window is folded to: the documents and tombstones
// of a whole pane, or a layer over the live one.
type paneWriter struct {
	layering

	docs, tombstones, left *parquet.Writer
}

// paneWriter starts the files that m then lists. What is not layered is whole,
// and nobody will ask for its rows.
func (p *Pipeline) paneWriter(ctx context.Context, bound *index.Bound, m *sink.Manifest, put datafile.Put, layered bool) (*paneWriter, error) {
	w := &paneWriter{}
	var err error
	var frames *parquet.Frames // what is written to compare is made from nothing
	if layered {
		frames = p.frames
		frames.Turn()
		w.layering, err = p.layering(bound, m, func(rows layers.Rows) error { return w.layer(ctx, rows) })
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
		if err := w.differ.Add(out.Docs, out.Tombstones); err != nil {
			return err
		}
	}
	if w.Layer > 0 {
		return nil // what differs is written by layer
	}
	return w.put(ctx, out.Docs, out.Tombstones)
}

func (w *paneWriter) layer(ctx context.Context, rows layers.Rows) error {
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
	}
	for _, f := range []*parquet.Writer{w.docs, w.tombstones, w.left} {
		if _, err := f.Close(ctx); err != nil {
			return err
		}
	}
	if w.Layer > 0 {
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
