package slice

import (
	"context"
	"errors"
	"sync"

	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// Small objects are fetched while those before them are decoded: a store
// answers in tens of milliseconds, a decoder needs about as many for what it
// gets. What is fetched and not decoded stays within a bound in bytes, which all
// builders of a process share; what is asked for while nothing is left is read
// at once, in the room of the object in hand.

const (
	aheadBytes = 16 << 20 // of a step: enough for its workers, and little enough to be near
	aheadCalls = 16       // at a time
)

// ahead opens the objects of a step, in the order of their partitions, and
// fetches those to come. It is safe for concurrent use.
type ahead struct {
	s       *Builder
	objects []partition.Object
	budget  *scan.Ahead
	ctx     context.Context
	cancel  context.CancelFunc
	all     sync.WaitGroup
	// Of every object, by its number among all:
	//
	//   - opened has it from when it is fetched ahead or asked for until close;
	//   - seen says that nobody is to fetch it ahead: it was asked for, or its
	//     part has ended. Only rewind takes that back;
	//   - before next none is left to be fetched ahead: each is seen, is opened, or
	//     is too large or empty. Only more goes forward, as far as there is room,
	//     and only rewind goes back;
	//   - held is the sum of what all fetched hold of the budget, from more, which
	//     takes it, until done or keep, and no more than aheadBytes;
	//   - calls are the fetches that run, each of an object that was opened.
	mu struct {
		sync.Mutex
		opened []*fetched
		seen   []bool
		next   int
		calls  int
		held   int64
	}
}

// part is the objects of one partition; it numbers them from its own first on.
type part struct {
	of       *ahead // whose numbers are of all objects
	from, to int
	own      bool // nobody else reads ahead of it
}

// fetched is a blob that may have been read before it is asked for. But for that
// it serves one goroutine, if its bytes are to be had whole.
type fetched struct {
	scan.Blob
	paths map[string]string
	reuse *Reuse
	held  int64         // of the budget
	kept  bool          // it was read and waits to be opened again
	ready chan struct{} // closed when bytes and err are set; nil: it is not fetched ahead
	bytes []byte
	err   error
	ours  bool // bytes may be used again
}

// ahead returns a reader of the objects. stop must be called.
func (s *Builder) ahead(ctx context.Context, objects []partition.Object) *ahead {
	a := &ahead{s: s, objects: objects, budget: s.Limits.Ahead}
	if a.budget == nil {
		bytes := int64(aheadBytes)
		if s.TableBytes > 0 {
			bytes = min(bytes, s.TableBytes/4)
		}
		a.budget = scan.NewAhead(bytes)
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.mu.opened, a.mu.seen = make([]*fetched, len(objects)), make([]bool, len(objects))
	return a
}

// part returns n of the objects.
func (a *ahead) part(from, n int) *part { return &part{of: a, from: from, to: from + n} }

// reading returns the objects of the input, from the first on: those that the
// hands read ahead for, or its own. stop must be called.
func (s *Builder) reading(ctx context.Context, in Input, h *hands) *part {
	if h != nil && h.src != nil {
		h.src.rewind()
		return h.src
	}
	p := s.ahead(ctx, in.Objects).part(0, len(in.Objects))
	p.own = true
	return p
}

func (p *part) open(i int) *fetched { return p.of.open(p.from + i) }
func (p *part) close(i int)         { p.of.close(p.from + i) }
func (p *part) keep(i int)          { p.of.keep(p.from + i) }
func (p *part) len() int            { return p.to - p.from }

// object is the object of number i.
func (p *part) object(i int) partition.Object { return p.of.objects[p.from+i] }

// rewind begins again with the first object.
func (p *part) rewind() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	clear(p.of.mu.seen[p.from:p.to])
	p.of.mu.next = min(p.of.mu.next, p.from)
}

// stop lets go of the objects: nothing of them is read any more.
func (p *part) stop() {
	if p.own {
		p.of.stop()
		return
	}
	p.of.mu.Lock()
	for i := p.from; i < p.to; i++ {
		p.of.mu.seen[i] = true
	}
	p.of.mu.Unlock()
	for i := range p.len() {
		p.close(i)
	}
}

// stop ends what is being fetched and waits for it. What was read is invalid
// from then on.
func (a *ahead) stop() {
	a.cancel()
	a.all.Wait()
	for i := range a.objects {
		a.close(i)
	}
}

// open returns an object, for one goroutine, until close.
func (a *ahead) open(i int) *fetched {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.at(i)
	a.mu.seen[i] = true
	a.more()
	return f
}

// close lets go of an object that was opened: what was read of it is invalid
// from then on.
func (a *ahead) close(i int) {
	a.mu.Lock()
	f := a.mu.opened[i]
	a.mu.opened[i] = nil
	a.mu.Unlock()
	if f == nil {
		return
	}
	if f.ready != nil {
		<-f.ready
	}
	if f.ours {
		most := int64(keptFiles)
		if g := a.s.Limits.RowGroup; g > 0 {
			most = min(most, g/2)
		}
		a.s.Reuse.giveFile(f.bytes, most)
	}
	f.bytes, f.err, f.ready = nil, errClosed, nil
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done(f)
	a.more()
}

var errClosed = errors.New("the object was closed")

// keep lets go of an object that is to be opened again. What was read of it stays
// where there is room for it in the budget, of which it has its size until it is
// closed; else it is closed and read again.
func (a *ahead) keep(i int) {
	a.mu.Lock()
	f := a.mu.opened[i]
	a.mu.Unlock()
	if f.ready != nil {
		<-f.ready
	}
	a.mu.Lock()
	a.done(f)
	if n := int64(cap(f.bytes)); a.budget.Take(n) {
		f.held, f.kept = n, true
	}
	kept := f.kept
	a.more()
	a.mu.Unlock()
	if !kept {
		a.close(i)
	}
}

// done gives the object's bytes back to the budget; the caller holds mu.
func (a *ahead) done(f *fetched) {
	a.budget.Give(f.held)
	if !f.kept {
		a.mu.held -= f.held
	}
	f.held, f.kept = 0, false
}

// at opens an object; the caller holds mu.
func (a *ahead) at(i int) *fetched {
	if a.mu.opened[i] == nil {
		f := &fetched{reuse: a.s.Reuse}
		f.Blob, f.paths = a.s.Open(a.objects[i])
		a.mu.opened[i] = f
	}
	return a.mu.opened[i]
}

// more fetches what there is room for, in order; the caller holds mu.
func (a *ahead) more() {
	most := a.s.Limits.Whole
	if most <= 0 {
		most = scan.DefaultWhole
	}
	for ; a.mu.next < len(a.objects) && a.mu.calls < aheadCalls && a.ctx.Err() == nil; a.mu.next++ {
		size := a.objects[a.mu.next].Size
		if size == 0 || size > most || a.mu.opened[a.mu.next] != nil || a.mu.seen[a.mu.next] {
			continue
		}
		room := roomOf(size)
		if a.mu.held+room > aheadBytes || !a.budget.Take(room) {
			return
		}
		f := a.at(a.mu.next)
		f.held, f.ready = room, make(chan struct{})
		a.mu.held += room
		a.mu.calls++
		a.all.Go(func() { a.fetch(f) })
	}
}

func (a *ahead) fetch(f *fetched) {
	defer func() {
		close(f.ready)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.mu.calls--
		a.more()
	}()
	defer rescue.Into(&f.err, "read ahead "+f.Key())
	f.bytes, f.err = f.read(a.ctx)
}

// whole is a blob that can be read into memory of the caller's, and keeps
// nothing of it.
type whole interface {
	ReadInto(ctx context.Context, buf []byte) ([]byte, error)
}

func (f *fetched) read(ctx context.Context) ([]byte, error) {
	if b, ok := f.Blob.(whole); ok {
		f.ours = true
		return b.ReadInto(ctx, f.reuse.takeFile(f.Size()))
	}
	return f.Blob.ReadAll(ctx)
}

// ReadAll implements scan.Blob. What it returns is valid until the object is
// closed.
func (f *fetched) ReadAll(ctx context.Context) ([]byte, error) {
	if f.ready != nil {
		return f.bytes, f.wait(ctx)
	}
	if f.bytes == nil && f.err == nil {
		f.bytes, f.err = f.read(ctx)
	}
	return f.bytes, f.err
}

// ReadRange implements scan.Blob.
func (f *fetched) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if f.ready != nil {
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
	return f.Blob.ReadRange(ctx, off, n)
}

func (f *fetched) wait(ctx context.Context) error {
	select {
	case <-f.ready:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
