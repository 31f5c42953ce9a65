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

// rowLog is what this process knows of the rows of panes: a mark, by which the
// window tells what has become of them, and a log, which rows are compared with
// where it does not. They serve both what the next pane is counted against
// (new, changed, left) and the layer that it may be. They live so:
//
//  1. A run begins, and what an earlier one left pending is dropped.
//  2. If the window has the mark, the run's pane is counted by what changed.
//     Where layers may come over the pane, or it is too large to be read back,
//     that goes into a log over the log before.
//  3. If not, every row of the pane is compared with the log and written to
//     another. If there is none, the live pane is read back for it: another
//     process or a reset or rollback made it live, or it was counted by what
//     changed alone.
//  4. When the pane's files end, its log and mark are pending; when it is live
//     they take the place of those before. A run that does not come so far
//     leaves them to the next.
//  5. Where there is doubt of what is kept, all is forgotten.
type rowLog struct {
	hasher  window.Hasher
	ref     sink.Ref // the pane that known is of
	known   knownRows
	pending knownRows // of the pane being written
}

type knownRows struct {
	log  *layers.Log  // nil for none
	mark *window.Mark // nil for none
}

// of is what is known of the rows of a pane.
func (l *rowLog) of(ref sink.Ref) knownRows {
	if l.ref != ref {
		return knownRows{}
	}
	return l.known
}

// drop lets go of what is pending.
func (l *rowLog) drop() {
	l.pending.log.Close()
	l.pending = knownRows{}
}

// replace makes what is pending that of the live pane.
func (l *rowLog) replace(ref sink.Ref) {
	l.keep(ref, l.pending)
	l.pending = knownRows{}
}

func (l *rowLog) keep(ref sink.Ref, known knownRows) {
	l.known.log.Close()
	l.ref, l.known = ref, known
}

// forget lets all go: rows of the live pane are read back to be counted, and
// the next one is a snapshot.
func (l *rowLog) forget() {
	l.keep(sink.Ref{}, knownRows{})
	l.drop()
}

// errTooLarge says that the live pane is too large to be read back for counts.
var errTooLarge = errors.New("the live pane is too large to be read back after a restart")

// maxReadBack is the most bytes of a live pane that are read back.
const maxReadBack = 64 << 20

// liveLog returns the log of the live pane's rows, nil where there is none; if
// this process has none it is read back, if the pane is not large.
func (p *Pipeline) liveLog(ctx context.Context) (*layers.Log, error) {
	if p.seen.live == nil {
		return nil, nil
	}
	if log := p.rows.of(p.seen.ref).log; log != nil {
		return log, nil
	}
	if liveBytes(p.seen.live) > maxReadBack {
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
	p.rows.keep(p.seen.ref, knownRows{log: log})
	return log, nil
}

// liveBytes are the bytes of a pane's documents, nil for none.
func liveBytes(live *sink.Manifest) (n int64) {
	if live == nil {
		return 0
	}
	for _, f := range live.Files {
		n += f.Bytes
	}
	return n
}
