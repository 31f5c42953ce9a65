package slice

import (
	"sync"

	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/table"
)

// Reuse keeps what builders work with for the next slice: new memory costs more
// than much of what is done in it. The collector takes what nobody has asked
// for. The zero Reuse is ready; it is safe for concurrent use and must not be
// copied.
type Reuse struct{ idle sync.Pool }

// tools are what one slice is built with.
type tools struct {
	scratch scan.Scratch
	typeID  string // of the table
	table   *table.Table
}

// take returns tools; a nil Reuse has only new ones.
func (r *Reuse) take() *tools {
	if r != nil {
		if t, ok := r.idle.Get().(*tools); ok {
			return t
		}
	}
	return &tools{}
}

// give takes them back.
func (r *Reuse) give(t *tools) {
	if r != nil {
		r.idle.Put(t)
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
