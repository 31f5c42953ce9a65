package slice

import (
	"runtime"
	"slices"
	"sync"

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
		cycle   int // of the collector, while there are idle ones
		watched bool
	}
}

// keptCycles is how often the collector runs before idle tools are let go.
const keptCycles = 3

// tools are what one slice is built with.
type tools struct {
	scratch scan.Scratch
	typeID  string // of the table
	table   *table.Table
	since   int // the cycle in which they were given back
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

// watch has collected called when the collector next runs; the caller holds mu.
func (r *Reuse) watch() {
	r.mu.watched = true
	runtime.AddCleanup(&struct{ unreachable *int }{}, (*Reuse).collected, r)
}

// collected lets go of what was idle for long.
func (r *Reuse) collected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.cycle++
	r.mu.idle = slices.DeleteFunc(r.mu.idle, func(t *tools) bool { return r.mu.cycle-t.since > keptCycles })
	r.mu.watched = false
	if len(r.mu.idle) > 0 {
		r.watch()
	}
}

// tableFor returns an empty table. One that was used holds to begin with no
// more than a quarter of what a table may, or it would spill early.
func (t *tools) tableFor(b *index.Bound, most int64) *table.Table {
	if id := b.TypeID(); t.table == nil || t.typeID != id || most > 0 && t.table.Bytes() > most/4 {
		t.typeID, t.table = id, table.New(b.Shape())
	} else {
		t.table.Clear()
	}
	return t.table
}
