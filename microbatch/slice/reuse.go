package slice

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/table"
)

// Reuse keeps what builders work with for the next slice: new memory costs more
// than much of what is done in it. What nobody has asked for since the collector
// ran a few times is let go. The zero Reuse is ready; it is safe for concurrent
// use and must not be copied.
type Reuse struct {
	mu struct {
		sync.Mutex
		idle    []*tools
		files   []file
		bytes   int64 // of files
		cycle   int   // of the collector, while there is something idle
		watched bool
	}
}

// file is idle memory that objects were read into.
type file struct {
	bytes []byte
	since int // the cycle in which it was given back
}

// keptFiles is how much is kept to read objects into, where the limits say
// nothing: as much as is in use at a time, about.
const keptFiles = 16 << 20

// keptCycles is how often the collector runs before idle tools are let go.
const keptCycles = 3

// tools are what one slice is built with.
type tools struct {
	scratch scan.Scratch
	typeID  string // of the table
	table   *table.Table
	lifter  *index.Lifter // the last, of which the next inherits
	since   int           // the cycle in which they were given back
}

// take returns tools, those given back last; a nil Reuse has only new ones.
func (r *Reuse) take() *tools {
	if r == nil {
		return &tools{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.mu.idle)
	if n == 0 {
		return &tools{}
	}
	t := r.mu.idle[n-1]
	r.mu.idle[n-1] = nil
	r.mu.idle = r.mu.idle[:n-1]
	return t
}

// give takes them back.
func (r *Reuse) give(t *tools) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.since = r.mu.cycle
	r.mu.idle = append(r.mu.idle, t)
	if !r.mu.watched {
		r.watch()
	}
}

// roomOf is how much memory an object of n bytes is read into.
func roomOf(n int64) int64 {
	step := int64(64 << 10) // objects of a kind differ by less
	if n <= step {
		step = 4 << 10 // there may be very many
	}
	for step*16 < n {
		step *= 2
	}
	return (n + step - 1) / step * step
}

// takeFile returns memory of at least n bytes, and not much more, to read an
// object into; its length is 0.
func (r *Reuse) takeFile(n int64) []byte {
	n = roomOf(n)
	if r == nil {
		return make([]byte, 0, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.mu.files) - 1; i >= 0; i-- { // the last may still be in the processor's cache
		if b := r.mu.files[i].bytes; int64(cap(b)) >= n && int64(cap(b)) <= 2*n {
			r.mu.files = slices.Delete(r.mu.files, i, i+1)
			r.mu.bytes -= int64(cap(b))
			return b[:0]
		}
	}
	return make([]byte, 0, n)
}

// giveFile takes memory back that nobody reads any more, as long as it is no more
// than most in all.
func (r *Reuse) giveFile(b []byte, most int64) {
	if r == nil || cap(b) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.bytes+int64(cap(b)) > most {
		return
	}
	r.mu.bytes += int64(cap(b))
	r.mu.files = append(r.mu.files, file{bytes: b, since: r.mu.cycle})
	if !r.mu.watched {
		r.watch()
	}
}

// watch has collected called when the collector next runs; the caller holds mu.
// A Reuse that nobody has any more goes at once, with what it keeps: were it held
// until it is empty, a process that makes many would hold ever more.
func (r *Reuse) watch() {
	r.mu.watched = true
	runtime.AddCleanup(&struct{ unreachable *int }{}, func(w weak.Pointer[Reuse]) {
		if r := w.Value(); r != nil {
			r.collected()
		}
	}, weak.Make(r))
}

// collected lets go of what was idle for long.
func (r *Reuse) collected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.cycle++
	r.mu.idle = slices.DeleteFunc(r.mu.idle, func(t *tools) bool { return r.mu.cycle-t.since > keptCycles })
	r.mu.files = slices.DeleteFunc(r.mu.files, func(f file) bool { return r.mu.cycle-f.since > keptCycles })
	r.mu.bytes = 0
	for _, f := range r.mu.files {
		r.mu.bytes += int64(cap(f.bytes))
	}
	r.mu.watched = false
	if len(r.mu.idle)+len(r.mu.files) > 0 {
		r.watch()
	}
}

// tableFor returns an empty table. One that was used holds to begin with no
// more than half of what a table may, or it would spill early.
func (t *tools) tableFor(b *index.Bound, most int64) *table.Table {
	if id := b.TypeID(); t.table == nil || t.typeID != id || most > 0 && t.table.Bytes() > most/2 {
		t.typeID, t.table = id, table.New(b.Shape())
	} else {
		t.table.Clear()
	}
	return t.table
}
