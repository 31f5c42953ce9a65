package scan

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A store answers in tens of milliseconds, and decoding a row group takes about
// as many: those to come are asked for while one is decoded. What was asked for
// and is not in use yet stays within a bound in bytes, which all who read ahead
// share. What is read, and which error of several is told, does not depend on
// how far ahead that was.

// Ahead bounds the bytes that are asked of stores before they are needed, over
// all that share it. A nil Ahead has none to give. It is safe for concurrent use.
type Ahead struct {
	left atomic.Int64
	most int64
}

// NewAhead returns a bound of so many bytes.
func NewAhead(bytes int64) *Ahead {
	a := &Ahead{most: bytes}
	a.left.Store(bytes)
	return a
}

// Most is how many bytes there are in all.
func (a *Ahead) Most() int64 {
	if a == nil {
		return 0
	}
	return a.most
}

// Take says whether n bytes were left, and takes them.
func (a *Ahead) Take(n int64) bool {
	if a == nil {
		return false
	}
	if a.left.Add(-n) >= 0 {
		return true
	}
	a.left.Add(n)
	return false
}

// Give gives n bytes back.
func (a *Ahead) Give(n int64) {
	if a != nil {
		a.left.Add(n)
	}
}

// mostAhead is how many row groups of one object wait, small ones.
const mostAhead = 8

// line is the row groups of an object that were found in its footer and are not
// decoded yet, in order.
type line struct {
	r       *groupReader
	ahead   *Ahead
	ctx     context.Context
	cancel  context.CancelFunc
	reads   sync.WaitGroup
	waiting []*waiting
	err     error // of a group: nothing is decoded after it
}

// waiting is a row group whose chunks are on their way.
type waiting struct {
	number int
	group  rowGroup
	spans  []span
	bytes  int64 // of the spans
	held   int64 // of Ahead
}

// line returns an empty one. stop must be called.
func (r *groupReader) line(ahead *Ahead) *line {
	q := &line{r: r, ahead: ahead}
	q.ctx, q.cancel = context.WithCancel(r.ctx)
	return q
}

// add takes the next group up: at once where bytes are left, else once those
// before it have been decoded.
func (q *line) add(number int, g rowGroup) error {
	if g.rows == 0 {
		return nil
	}
	w := &waiting{number: number, group: g}
	var err error
	if w.spans, err = q.r.spans(g); err != nil {
		if err := q.rest(); err != nil { // those before come first
			return err
		}
		return w.failed(q, err)
	}
	for _, s := range w.spans {
		w.bytes += s.to - s.from
	}
	for len(q.waiting) > 0 {
		if len(q.waiting) < mostAhead && q.ask(w) {
			return nil
		}
		first := q.pop()
		asked := q.ask(w) // the first has left it room
		if err := q.decode(first); err != nil || asked {
			return err
		}
	}
	q.start(w) // needed now: that is the room of the group in hand
	return nil
}

// rest decodes what waits.
func (q *line) rest() error {
	for q.err == nil && len(q.waiting) > 0 {
		if err := q.decode(q.pop()); err != nil {
			return err
		}
	}
	return q.err
}

// stop ends and awaits what is being read.
func (q *line) stop() {
	q.cancel()
	q.reads.Wait()
	for len(q.waiting) > 0 {
		q.pop()
	}
}

// pop takes the first group out, which has its own room from then on.
func (q *line) pop() *waiting {
	w := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	q.ahead.Give(w.held)
	w.held = 0
	return w
}

// ask starts to read a group if there is room ahead.
func (q *line) ask(w *waiting) bool {
	if !q.ahead.Take(w.bytes) {
		return false
	}
	w.held = w.bytes
	q.start(w)
	return true
}

// start reads a group's spans, side by side where reading ahead is allowed.
func (q *line) start(w *waiting) {
	q.waiting = append(q.waiting, w)
	if q.ahead == nil {
		return
	}
	for i := range w.spans {
		s := &w.spans[i]
		s.done = make(chan struct{})
		q.reads.Go(func() {
			defer close(s.done)
			defer func() { s.panicked = recover() }() // for who waits
			s.bytes, s.err = readRange(q.ctx, q.r.blob, s.from, s.to-s.from)
		})
	}
}

// decode hands the group's rows out.
func (q *line) decode(w *waiting) error {
	for i := range w.spans {
		s := &w.spans[i]
		if s.done == nil {
			s.bytes, s.err = readRange(q.r.ctx, q.r.blob, s.from, s.to-s.from)
		} else if err := s.wait(q.r.ctx); err != nil {
			return w.failed(q, err)
		}
		if s.err != nil {
			return w.failed(q, s.err)
		}
	}
	if err := q.r.decode(w.group, w.spans); err != nil {
		return w.failed(q, err)
	}
	return nil
}

func (w *waiting) failed(q *line, err error) error {
	q.err = fmt.Errorf("row group %d: %w", w.number, err)
	return q.err
}

// wait waits for the span's bytes.
func (s *span) wait(ctx context.Context) error {
	select {
	case <-s.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.panicked != nil {
		panic(s.panicked) //nolint:forbidigo // it happened, in a goroutine that could not pass it on
	}
	return nil
}
