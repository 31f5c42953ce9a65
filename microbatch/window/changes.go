package window

import (
	"bytes"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// Mark names the rows that a Rolling emitted in one Fold. It is equal to itself
// alone.
type Mark struct{ _ byte }

// Row is what a pane has of a key.
type Row uint8

// The rows that there are.
const (
	NoRow Row = iota
	DocumentRow
	TombstoneRow
)

// Changes are keys of which a pane has another row than an earlier one had, in
// key order, and what both have. They are reused between calls.
type Changes struct {
	Keys    [][]byte // encoded
	Was, Is []Row
	// Hashes are those of documents that are.
	Hashes []Hash
	// At is where a document is in Docs and a tombstone in Tombstones. These may
	// have rows that did not change.
	At               []int32
	Docs, Tombstones *column.Batch
}

// Receiver takes what a Fold emits.
type Receiver struct {
	// Rows takes every row of the pane, a block at a time, in key order.
	Rows func(Documents) error
	// Since is the emission whose rows the receiver has, nil for none. Where it is
	// the last one of the Rolling, Changes is called with what has become of its
	// rows since: first with nothing, before anything else, and then a block at a
	// time, in key order. Else it is not called.
	Since   *Mark
	Changes func(Changes) error
	// Alone says that Rows is not to be called where Changes is.
	Alone bool
}

// noting is f, and notes whether an error was its own.
func noting[T any](f func(T) error, theirs *bool) func(T) error {
	return func(x T) error {
		err := f(x)
		*theirs = err != nil
		return err
	}
}

// teller finds what has become of rows since the emission before.
type teller struct {
	changes Changes
	gone    []uint32 // groups that were rows and are not in the window, by key
	tell    func(Changes) error
}

// newTeller returns a teller, and tells that it will.
func (r *Rolling) newTeller(tell func(Changes) error, docs, tombstones *column.Batch) (*teller, error) {
	d := &r.documents
	gone := slices.DeleteFunc(slices.Clone(d.gone), func(g uint32) bool { return r.holders[g] > 0 || d.rows[g] == NoRow })
	r.keys.Sort(gone)
	t := &teller{gone: slices.Compact(gone), tell: tell}
	t.changes.Docs, t.changes.Tombstones = docs, tombstones
	return t, tell(t.changes)
}

// look sees what groups, which are in key order, are in rows that were extracted
// of them: alive says which are documents, as an extractor does.
func (t *teller) look(r *Rolling, groups, alive []uint32, rows *Documents) {
	d, c := &r.documents, &t.changes
	c.Docs, c.Tombstones = rows.Docs, rows.Tombstones
	docs, stones := 0, 0
	for i, g := range groups {
		was := d.rows[g]
		if docs < len(alive) && alive[docs] == uint32(i) {
			if was != DocumentRow || d.hashes[g] != rows.Hashes[docs] {
				t.add(r, g, DocumentRow, rows.Hashes[docs], docs)
			}
			docs++
			continue
		}
		if was != TombstoneRow {
			t.add(r, g, TombstoneRow, Hash{}, stones)
		}
		stones++
	}
}

// add notes a change, behind those of keys before it that are gone.
func (t *teller) add(r *Rolling, g uint32, is Row, hash Hash, at int) {
	key := r.keys.Bytes(g)
	for len(t.gone) > 0 && bytes.Compare(r.keys.Bytes(t.gone[0]), key) < 0 {
		t.left(r)
	}
	t.append(key, r.documents.rows[g], is, hash, at)
}

// left notes that the first of the keys that are gone has left.
func (t *teller) left(r *Rolling) {
	g := t.gone[0]
	t.gone = t.gone[1:]
	t.append(r.keys.Bytes(g), r.documents.rows[g], NoRow, Hash{}, -1)
}

func (t *teller) append(key []byte, was, is Row, hash Hash, at int) {
	c := &t.changes
	c.Keys, c.Was, c.Is = append(c.Keys, key), append(c.Was, was), append(c.Is, is)
	c.Hashes, c.At = append(c.Hashes, hash), append(c.At, int32(at))
}

// flush tells what was noted.
func (t *teller) flush() error {
	c := &t.changes
	if len(c.Keys) == 0 {
		return nil
	}
	err := t.tell(*c)
	c.Keys, c.Was, c.Is, c.Hashes, c.At = c.Keys[:0], c.Was[:0], c.Is[:0], c.Hashes[:0], c.At[:0]
	return err
}

// end tells of the keys that are still to be told of, a block at a time.
func (t *teller) end(r *Rolling) error {
	for len(t.gone) > 0 {
		if len(t.changes.Keys) >= foldBlock {
			if err := t.flush(); err != nil {
				return err
			}
		}
		t.left(r)
	}
	return t.flush()
}
