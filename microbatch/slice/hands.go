package slice

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// Workers go to partitions first. Those that are left help with the objects of
// the partitions being read: each decodes an object of its own, and what they
// decode goes into the one table a batch at a time, one after the other. That the batches
// come in any order is what accumulators are made for (see invariant 1); which
// objects were read when an error ended it shows nowhere, as the first object in
// order that has one is the one that is told.

// hands are the workers of a step. A nil hands is one that is taken.
type hands struct {
	free *semaphore.Weighted
	src  *part // that is read ahead for them; nil: none
}

func newHands(workers int) *hands {
	return &hands{free: semaphore.NewWeighted(int64(max(1, workers)))}
}

// on are the same hands on a part of what is read.
func (h *hands) on(src *part) *hands { return &hands{free: h.free, src: src} }

// wait waits for a free one, and has it before any spare.
func (h *hands) wait() { _ = h.free.Acquire(context.Background(), 1) }

// spare takes one that is free and that nobody waits for.
func (h *hands) spare() bool { return h != nil && h.free.TryAcquire(1) }

// release ends what wait or spare began.
func (h *hands) release() { h.free.Release(1) }

// walk goes over the objects of a partition by several hands.
type walk struct {
	s     *Builder
	hands *hands
	src   *part
	all   sync.WaitGroup
	mu    struct {
		sync.Mutex
		next int
		err  error
	}
	failed atomic.Int64 // the first object with an error, or their number
}

// errPast ends what is done for an object after one that failed.
var errPast = errors.New("an object before has failed")

// each has do called for every object, in order as they begin, and returns the
// error of the first that has one; what comes after that is of no use. The
// scratch is do's until it returns, and so is what was read of the object.
func (s *Builder) each(h *hands, src *part, scratch *scan.Scratch, do func(w *walk, i int, f *fetched, scratch *scan.Scratch) error) error {
	w := &walk{s: s, hands: h, src: src}
	w.failed.Store(int64(src.len()))
	w.work(scratch, do)
	w.all.Wait()
	return w.mu.err
}

func (w *walk) work(scratch *scan.Scratch, do func(*walk, int, *fetched, *scan.Scratch) error) {
	for {
		i, more := w.take()
		if i < 0 {
			return
		}
		if more && w.hands.spare() {
			w.all.Go(func() {
				defer w.hands.release()
				t := w.s.Reuse.take()
				defer w.s.Reuse.give(t)
				w.work(&t.scratch, do)
			})
		}
		if err := w.one(i, scratch, do); err != nil {
			w.fail(i, err)
		}
	}
}

// take returns the next object, or less than none, and whether there are more.
func (w *walk) take() (i int, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i = w.mu.next
	if i >= int(w.failed.Load()) {
		return -1, false
	}
	w.mu.next++
	return i, w.mu.next < w.src.len()
}

func (w *walk) one(i int, scratch *scan.Scratch, do func(*walk, int, *fetched, *scan.Scratch) error) (err error) {
	defer rescue.Into(&err, "read object "+w.src.object(i).Key)
	return do(w, i, w.src.open(i), scratch)
}

func (w *walk) fail(i int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int64(i) < w.failed.Load() {
		w.failed.Store(int64(i))
		w.mu.err = err
	}
}

// past says, as an error, that an object before i has failed.
func (w *walk) past(i int) error {
	if int64(i) > w.failed.Load() {
		return errPast
	}
	return nil
}

// gathering is a slice while objects are read into it by several hands.
type gathering struct {
	s     *Builder
	slice *Slice
	mu    struct {
		sync.Mutex // of the gatherer, too
		gatherer   *gatherer
	}
	rejects struct {
		sync.Mutex
		of   [][]Reject // by object, as many as may be kept
		full int        // objects from this one on have no room left
	}
}

func (s *Builder) gathering(slice *Slice, b *gatherer, objects []partition.Object) *gathering {
	g := &gathering{s: s, slice: slice}
	g.mu.gatherer, b.lead = b, slice.lead // all that its head says is known when the run is written
	g.rejects.of = make([][]Reject, len(objects))
	g.rejects.full = len(objects)
	slice.Objects = make([]ReadObject, len(objects))
	for i, o := range objects {
		slice.Objects[i].Object = o
	}
	return g
}

// reject keeps a row of object i that is left out, if it is among the first.
func (g *gathering) reject(i int, r Reject) {
	g.rejects.Lock()
	defer g.rejects.Unlock()
	g.slice.Rejected++
	if i >= g.rejects.full {
		return
	}
	n := 0
	for _, of := range g.rejects.of[:i+1] {
		n += len(of)
	}
	if n >= maxRejects {
		g.rejects.full = i
		return
	}
	g.rejects.of[i] = append(g.rejects.of[i], r)
}

// lift reads object i into the table and returns what was found. With want,
// batches of other types are errMisfit.
func (g *gathering) lift(ctx context.Context, w *walk, i int, f *fetched, req scan.Request, scratch *scan.Scratch, want []column.Type) (scan.Result, error) {
	req.Scratch = scratch
	var rowReject func(index.BadRow)
	if g.s.Row == scan.Reject {
		req.Reject = func(r scan.RejectedRow) {
			g.reject(i, Reject{Key: f.Key(), Row: r.Line, Reason: r.Reason, Text: string(r.Text)})
		}
		rowReject = func(r index.BadRow) { g.reject(i, Reject{Key: f.Key(), Row: r.Row + 1, Reason: r.Reason}) }
	}
	var rows int64
	return scan.Scan(ctx, f, req, func(batch *column.Batch) error {
		if err := w.past(i); err != nil {
			return err
		}
		if want != nil {
			fitted, ok := fit(batch, want)
			if !ok {
				return errMisfit
			}
			batch = fitted
		}
		err := g.add(batch, rows, rowReject)
		rows += int64(batch.Len)
		return err
	})
}

// found is what a scan of the object has told.
func (o *ReadObject) found(r scan.Result) {
	o.Rows, o.Observed, o.Seen = r.Rows+r.Rejected, r.Observed, r.Seen
}

// add lifts a batch, whose hand waits for its turn.
func (g *gathering) add(batch *column.Batch, first int64, reject func(index.BadRow)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.mu.gatherer
	b.lifter.Reject = reject
	stats, err := b.add(batch, first)
	g.slice.NullEventTimes += stats.NullEventTime
	return err
}

// finish makes the slice's run.
func (g *gathering) finish() error {
	for _, of := range g.rejects.of {
		g.slice.Rejects = append(g.slice.Rejects, of[:min(len(of), maxRejects-len(g.slice.Rejects))]...)
	}
	return g.slice.finish(g.mu.gatherer)
}
