package microbatch

import (
	"context"
	"errors"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// rowLog is what this process knows of the rows of panes. One log of each pane
// serves both what the next is counted against (new, changed, left) and the
// layer that the next may be. It lives so:
//
//  1. A run begins: liveRows gives the log of the live pane or, where another
//     process or a reset or rollback made it live, reads one back, for counts.
//  2. The fold of the run's pane is compared with it and written to another
//     log, as layering decided. When the pane's files end, that log is pending.
//  3. When the pane is live, the pending log takes the place of the one before.
//     A run that does not come so far leaves it to the next, which drops it.
//  4. Where there is doubt of what is kept, all is forgotten.
type rowLog struct {
	hasher  window.Hasher
	ref     sink.Ref    // the pane of log
	log     *layers.Log // nil if it knows none
	pending *layers.Log // that of the pane being written
}

// drop lets the pending log go.
func (l *rowLog) drop() {
	l.pending.Close()
	l.pending = nil
}

// replace makes the pending log that of the live pane.
func (l *rowLog) replace(ref sink.Ref) {
	l.keep(ref, l.pending)
	l.pending = nil
}

func (l *rowLog) keep(ref sink.Ref, log *layers.Log) {
	l.log.Close()
	l.ref, l.log = ref, log
}

// forget lets all go: rows of the live pane are read back to be counted, and
// the next one is a snapshot.
func (l *rowLog) forget() {
	l.keep(sink.Ref{}, nil)
	l.drop()
}

// errTooLarge says that the live pane is too large to be read back for counts.
var errTooLarge = errors.New("the live pane is too large to be read back after a restart")

// maxReadBack is the most bytes of a live pane that are read back.
const maxReadBack = 64 << 20

// liveRows returns the log of the live pane's rows, nil where there is none;
// after a restart it is read back from it, if it is not large.
func (p *Pipeline) liveRows(ctx context.Context) (*layers.Log, error) {
	p.rows.drop() // of a run that failed
	if p.seen.live == nil {
		return nil, nil
	}
	if p.rows.log != nil && p.rows.ref == p.seen.ref {
		return p.rows.log, nil
	}
	size := int64(0)
	for _, f := range p.seen.live.Files {
		size += f.Bytes
	}
	if size > maxReadBack {
		return nil, errTooLarge
	}
	fields, err := parquet.Fields(p.seen.live.Schema)
	if err != nil {
		return nil, err
	}
	d, err := layers.NewDiffer(layers.Options{Hasher: p.rows.hasher, Fields: fields, Dir: p.set.TempDir, Memory: p.set.Memory})
	if err != nil {
		return nil, err
	}
	defer d.Abort() // unless it was finished
	if err := p.set.Documents(ctx, *p.seen.live, func(b *column.Batch) error { return d.Add(window.Documents{Docs: b}) }); err != nil {
		return nil, err
	}
	log, err := d.Finish()
	if err != nil {
		return nil, err
	}
	p.rows.keep(p.seen.ref, log)
	return log, nil
}
