package microbatch

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
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
	whole bool         // its log is to be whole: a layer may come over it
	since *window.Mark // by which the window may tell what has become of the live pane's rows
	over  *layers.Log  // what a log of that goes over; nil where no log is needed
}

// layering decides for the pane of m, after the live one. A log that was read
// back serves counts alone. A run without caches writes what one would that
// knows nothing, and nothing comes after it.
func (p *Pipeline) layering(m *sink.Manifest) *layering {
	known := knownRows{}
	if p.seen.live != nil && !p.set.NoCache {
		known = p.rows.of(p.seen.ref)
	}
	l := &layering{
		Decision: layers.Decide(p.seen.live, *m, known.log.Whole(), p.set.Layers),
		whole:    !p.set.NoCache && layers.Keeps(p.seen.live, p.set.Layers),
	}
	switch {
	case l.Layer > 0:
		// A log of layers over a log: the next snapshot makes one of them all.
		l.since, l.over = known.mark, known.log
	case !l.whole && liveBytes(p.seen.live) <= maxReadBack/2:
		// Without a log. If its rows are to be compared after all, they are read back.
		l.since = known.mark
	}
	p.set.Log.Debug("pane planned", zap.String("pipeline", p.set.Name), zap.String("run", m.RunID), zap.Int("layer", l.Layer), zap.String("why", l.Why))
	return l
}

// paneWriter writes what a window is folded to: the documents and tombstones
// of a whole pane, or a layer over the live one. Rows are compared with those
// of the live pane unless the window tells what has become of them.
type paneWriter struct {
	l      *layering // nil for a pane whose rows nobody will ask for
	o      layers.Options
	before func() (*layers.Log, error) // what rows are compared with
	differ *layers.Differ              // nil where none were
	patch  *layers.Patch               // nil where nothing was told

	docs, tombstones, left *parquet.Writer
}

// paneWriter starts the files that m then lists. l is nil for a pane that is
// written to be compared: it is whole and made from nothing.
func (p *Pipeline) paneWriter(ctx context.Context, bound *index.Bound, m *sink.Manifest, put datafile.Put, l *layering) (*paneWriter, error) {
	w := &paneWriter{l: l}
	var frames *parquet.Frames
	if l != nil {
		frames = p.frames
		frames.Turn()
		w.o = layers.Options{Hasher: p.rows.hasher, Fields: bound.Schema(), Whole: l.whole, Dir: p.set.TempDir, Memory: p.set.Memory}
		w.before = func() (*layers.Log, error) { return p.before(ctx, m) }
		if l.Layer > 0 {
			w.o.Emit = func(rows layers.Rows) error { return w.differs(ctx, rows) }
		}
	}
	key := parquet.KeyFields(bound.Schema())
	var err error
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

// before is what the rows of the pane of m are compared with, nil for nothing.
func (p *Pipeline) before(ctx context.Context, m *sink.Manifest) (*layers.Log, error) {
	log, err := p.liveLog(ctx)
	switch {
	case err == nil:
		return log, nil
	case blame.Outage(err) || ctx.Err() != nil:
		return nil, fmt.Errorf("read the live pane's documents: %w", err)
	}
	// They serve the counts alone: a damaged pane must not keep the next from replacing it.
	m.Checks = append(m.Checks, sink.CheckResult{Name: layers.Uncompared, Detail: "new, changed and left count against nothing: " + err.Error()})
	return nil, nil
}

func (w *paneWriter) layered() bool { return w.l != nil && w.l.Layer > 0 }

// receiver takes what the window emits: all rows of a whole pane, and of a layer
// what has changed, if the window can tell.
func (w *paneWriter) receiver(ctx context.Context) window.Receiver {
	to := window.Receiver{Rows: func(out window.Documents) error { return w.write(ctx, out) }, Changes: w.changed, Alone: w.layered()}
	if w.l != nil {
		to.Since = w.l.since
	}
	return to
}

// write takes the next rows of the pane.
func (w *paneWriter) write(ctx context.Context, out window.Documents) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.l != nil && w.patch == nil {
		if err := w.compare(); err != nil {
			return err
		}
		if err := w.differ.Add(out); err != nil {
			return err
		}
	}
	if w.layered() {
		return nil // what differs is written by differs
	}
	return w.put(ctx, out.Docs, out.Tombstones)
}

// compare begins to compare rows.
func (w *paneWriter) compare() (err error) {
	if w.differ != nil {
		return nil
	}
	o := w.o
	if o.Before, err = w.before(); err != nil {
		return err
	}
	w.differ, err = layers.NewDiffer(o)
	return err
}

// changed takes what has become of rows of the live pane.
func (w *paneWriter) changed(c window.Changes) (err error) {
	if w.patch == nil {
		o := w.o
		o.Before = w.l.over
		if w.patch, err = layers.NewPatch(o); err != nil {
			return err
		}
	}
	return w.patch.Add(c)
}

func (w *paneWriter) differs(ctx context.Context, rows layers.Rows) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
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

// rows says that all rows came, and returns the log of the pane, nil for none,
// and how its documents count against those of the live pane.
func (w *paneWriter) rows() (*layers.Log, layers.Counts, error) {
	if w.patch != nil {
		log, err := w.patch.Finish()
		return log, w.patch.Counts(), err
	}
	if err := w.compare(); err != nil { // there may have been none
		return nil, layers.Counts{}, err
	}
	log, err := w.differ.Finish()
	return log, w.differ.Counts(), err
}

// endPane ends the files: m then lists all that the pane is made of.
func (p *Pipeline) endPane(ctx context.Context, w *paneWriter, mark *window.Mark, m *sink.Manifest) error {
	if w.l != nil {
		log, c, err := w.rows()
		if err != nil {
			return err
		}
		p.rows.pending = knownRows{log: log, mark: mark}
		m.Counts.New, m.Counts.Changed, m.Counts.Left = c.New, c.Changed, c.Left
	}
	for _, f := range []*parquet.Writer{w.docs, w.tombstones, w.left} {
		if _, err := f.Close(ctx); err != nil {
			return err
		}
	}
	if !w.layered() {
		return nil
	}
	var err error
	*m, err = m.Over(*p.seen.live)
	return err
}

// abort lets go of what was not ended.
func (w *paneWriter) abort() {
	if w.differ != nil {
		w.differ.Abort()
	}
	if w.patch != nil {
		w.patch.Abort()
	}
	for _, f := range []*parquet.Writer{w.docs, w.tombstones, w.left} {
		if f != nil {
			f.Abort()
		}
	}
}
