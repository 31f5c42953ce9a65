// Package table holds keyed columnar accumulators and their resting form, the
// key-sorted run.
//
// A Table gathers records by key. A run is what it writes: immutable, sorted by
// key, with a block index. Runs are read by cursors, in that order, and merged
// as streams (Merge, MergeRuns).
//
// Invariants:
//
//  1. A run's rows are a function of the multiset of records: any order, any
//     split over tables, any spill and any tree of merges give the same bytes.
//  2. Keys ascend strictly by bytes.Compare. An accumulator that is the
//     identity is absent, and so is a row of nothing else.
//  3. A reader believes nothing: lengths are checked against the file and
//     MaxBlock before memory is taken, blocks against their digest, keys, prefixes,
//     lengths and where a block ends against the canonical form. The rows that a
//     reader returns without error are rows as a writer takes them, in the blocks
//     that it makes of them. One thing is left to Run.Verify, as only packing them
//     again tells: which fn stands beside which. It changes no row.
//  4. Merging takes a block per run, whatever the number of keys, and allocates
//     nothing per key.
//
// Bounded memory: when Bytes exceeds the budget the caller writes a run, calls
// Reset and goes on; at the end it merges the runs. By invariant 1 nobody can
// tell.
//
// Digests (XXH64) find accidents: a flipped bit, a torn or a foreign file, before
// anything of a block is used. They do not stop who makes two blocks of one
// digest on purpose; whoever has reason to fear that hashes the whole run.
//
// Nothing here does I/O of its own: runs are written to an io.Writer and read
// from an io.ReaderAt.
package table

import (
	"fmt"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/tuple/intern"
)

// Shape is what the rows of a table or run consist of: the key columns, and a
// fn for each accumulator.
type Shape struct {
	Keys []column.Field
	Fns  []combine.Fn
}

// Same says whether runs of the two shapes are of one kind.
func (s Shape) Same(other Shape) bool {
	return slices.EqualFunc(s.Keys, other.Keys, func(a, b column.Field) bool { return a.Name == b.Name && keyRepr(a.Type) == keyRepr(b.Type) }) &&
		slices.EqualFunc(s.Fns, other.Fns, func(a, b combine.Fn) bool { return a.TypeID() == b.TypeID() })
}

// Table holds accumulators by key. It is not safe for concurrent use.
type Table struct {
	shape   Shape
	keys    *intern.Set
	index   index // nil where keys alone find the groups
	columns []combine.Column
	scratch []byte
	order   []uint32 // see sorted
	sorter  intern.Sorter
	desk    desk
}

// New returns an empty table.
func New(shape Shape) *Table {
	t := &Table{shape: shape}
	t.forget()
	for _, f := range shape.Fns {
		t.columns = append(t.columns, f.NewColumn())
	}
	return t
}

// forget makes the keys anew.
func (t *Table) forget() {
	t.keys, t.index = intern.New(), nil
	if len(t.shape.Keys) == 1 {
		t.index = newIndex(t.shape.Keys[0].Type)
	}
}

// Groups looks up the key of each record in rows, makes groups for new ones,
// and stores the group at the record's number in out, which has a place for
// every record. A null key column is an error: such records are bad rows, to be
// kept out by the caller.
func (t *Table) Groups(keys []*column.Vector, rows []int32, out []uint32) error {
	if len(keys) != len(t.shape.Keys) || len(keys) == 0 {
		return fmt.Errorf("%d key columns given, the table has %d", len(keys), len(t.shape.Keys))
	}
	for j, k := range keys {
		if !k.Type.SameRepr(t.shape.Keys[j].Type) {
			return fmt.Errorf("key column %s is %s, not %s", t.shape.Keys[j].Name, k.Type, t.shape.Keys[j].Type)
		}
	}
	for j, k := range keys {
		if k.Type.Kind != column.Null && k.Valid == nil {
			continue
		}
		for _, i := range rows {
			if k.Null(int(i)) {
				return fmt.Errorf("key column %s is null in record %d", t.shape.Keys[j].Name, i)
			}
		}
	}
	if t.index != nil {
		t.index.groups(t.keys, keys[0], rows, out)
	} else {
		for _, i := range rows {
			t.scratch = tuple.AppendRow(t.scratch[:0], keys, int(i))
			out[i], _ = t.keys.ID(t.scratch)
		}
	}
	t.grow()
	return nil
}

// Group returns the group of one encoded key and makes it if it is new.
func (t *Table) Group(key []byte) uint32 {
	t.index = nil // it would not know the key
	g, added := t.keys.ID(key)
	if added {
		t.grow()
	}
	return g
}

func (t *Table) grow() {
	for _, c := range t.columns {
		c.Grow(t.keys.Len())
	}
}

// Columns returns the accumulators, in the order of Shape.Fns. The caller adds
// to them with the groups of Groups.
func (t *Table) Columns() []combine.Column { return t.columns }

// Len is the number of groups.
func (t *Table) Len() int { return t.keys.Len() }

// Key returns the encoded key of a group, valid until Reset.
func (t *Table) Key(g uint32) []byte { return t.keys.Bytes(g) }

// Bytes is the memory held, for budgets. Writing a run takes another 36 bytes
// for each group, and the rows of a block.
func (t *Table) Bytes() int64 {
	n := t.keys.Size() + int64(cap(t.scratch)+4*cap(t.order)) + t.sorter.Bytes() + t.desk.bytes()
	if t.index != nil {
		n += t.index.bytes()
	}
	for _, c := range t.columns {
		n += c.Bytes()
	}
	return n
}

// Reset forgets every group and lets go of the memory, so that Bytes starts
// anew. The columns are replaced: ask Columns for them again.
func (t *Table) Reset() {
	t.forget()
	t.order, t.sorter, t.desk = nil, intern.Sorter{}, desk{}
	for i, f := range t.shape.Fns {
		t.columns[i] = f.NewColumn()
	}
}

// Clear forgets every group and keeps the memory, for a table of about the same
// size.
func (t *Table) Clear() {
	t.keys.Reset()
	switch {
	case t.index != nil:
		t.index.clear()
	case len(t.shape.Keys) == 1:
		t.index = newIndex(t.shape.Keys[0].Type)
	}
	for _, c := range t.columns {
		c.Reset()
	}
}

// Sorted returns the groups in the order of their keys.
func (t *Table) Sorted() []uint32 { return slices.Clone(t.sorted()) }

// sorted is Sorted, valid until the next call.
func (t *Table) sorted() []uint32 {
	t.order = slices.Grow(t.order[:0], t.Len())
	for g := range uint32(t.Len()) {
		t.order = append(t.order, g)
	}
	t.sorter.Sort(t.keys, t.order)
	return t.order
}
