package index

import (
	"errors"
	"fmt"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Extractor turns folded accumulators into documents. It serves one goroutine.
type Extractor struct {
	// Absent says of a group that it has no record at all: its key is a
	// tombstone. Nil is for none.
	Absent func(group uint32) bool

	bound   *Bound
	derived []*compiled // per field of the program; nil where it is folded
	at      [][]int     // per derived field, the schema columns of its operands
	pending []bool      // per fn of Shape; nil for none
	key     *column.Batch
	alive   []uint32 // reused: the groups that are documents
	timed   []int    // columns of the schema whose values are times
}

// NewExtractor returns an extractor. The values of fns that are pending (by
// Shape; nil for none) are null.
func (b *Bound) NewExtractor(pending []bool) (*Extractor, error) {
	x := &Extractor{bound: b, pending: pending, key: column.NewBatch(b.keys)}
	for i := range b.program.fields {
		f := &b.program.fields[i]
		if f.derived == nil {
			x.derived, x.at = append(x.derived, nil), append(x.at, nil)
			continue
		}
		c, err := b.bindDerived(f)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		at := make([]int, len(c.slots))
		for i, s := range c.slots {
			at[i] = b.schemaIndex(s.path)
		}
		x.derived, x.at = append(x.derived, c), append(x.at, at)
	}
	for i, f := range b.schema {
		if hasTimes(f.Type) {
			x.timed = append(x.timed, i)
		}
	}
	return x, nil
}

func (b *Bound) schemaIndex(name string) int {
	for i, f := range b.schema {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// Extract appends, for each key in order, its document to docs or, where its
// newest record deletes it or it is Absent, its key to tombstones. Group i of every column
// belongs to keys[i]; columns are those of Shape. It goes field by field, each
// over all documents. Errors name key and field; docs and tombstones must then
// be discarded.
func (x *Extractor) Extract(keys [][]byte, columns []combine.Column, docs, tombstones *column.Batch) error {
	register, ok := columns[0].(combine.Presence)
	if !ok {
		return fmt.Errorf("extract documents: column 0 is a %T, not the record register", columns[0])
	}
	x.alive = x.alive[:0]
	for i, key := range keys {
		into := docs
		if register.Deleted(uint32(i)) || x.Absent != nil && x.Absent(uint32(i)) {
			into = tombstones
		} else {
			x.alive = append(x.alive, uint32(i))
		}
		if err := x.appendKey(key, into); err != nil {
			return err
		}
		into.Len++
	}
	folded, first := 0, docs.Len-len(x.alive)
	dead := tombstones.Len - (len(keys) - len(x.alive))
	for i := range x.bound.program.fields {
		f, dst := &x.bound.program.fields[i], docs.Columns[len(x.bound.keys)+i]
		var at int
		var err error
		if f.derived == nil {
			folded++
			at, err = x.appendFolded(folded, columns[folded], dst)
		} else {
			at, err = x.appendDerived(i, first, docs, dst)
		}
		if err != nil {
			return fmt.Errorf("key %s: field %s: %w", x.keyText(keys[x.alive[at]]), f.Name, err)
		}
	}
	if err := x.held(docs, first); err != nil {
		return err
	}
	return x.held(tombstones, dead)
}

// held is an error that names key and column where a document or a tombstone from
// the first on has a value that no file can hold.
func (x *Extractor) held(b *column.Batch, first int) error {
	for _, c := range x.timed {
		if c >= len(b.Columns) { // tombstones have keys
			continue
		}
		row, why := firstUnheld(b.Columns[c], first)
		if why == "" {
			continue
		}
		return fmt.Errorf("key %s: field %s: %s", x.keyIn(b, row), x.bound.schema[c].Name, why)
	}
	return nil
}

// Alive are the places, among the keys of the last Extract, of those that are
// documents. They hold until the next one.
func (x *Extractor) Alive() []uint32 { return x.alive }

func (x *Extractor) appendKey(key []byte, into *column.Batch) error {
	rest, err := key, error(nil)
	for k := range x.bound.keys {
		if rest, err = tuple.Decode(rest, into.Columns[k]); err != nil {
			return fmt.Errorf("decode key %x: %w", key, err)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("decode key %x: %d bytes too many", key, len(rest))
	}
	return nil
}

// appendFolded appends what a fn makes of the groups that are alive. With an
// error it returns where among them.
func (x *Extractor) appendFolded(fn int, from combine.Column, dst *column.Vector) (int, error) {
	if x.pending != nil && x.pending[fn] {
		for range x.alive {
			dst.AppendNull()
		}
		return 0, nil
	}
	err := combine.ExtractAll(from, x.alive, dst)
	if row := (*combine.RowError)(nil); errors.As(err, &row) {
		return row.Row, row.Err
	}
	return 0, err
}

// appendDerived appends the value of an expression over the fields before it,
// for the documents from the first on. With an error it returns which of them.
func (x *Extractor) appendDerived(field, first int, docs *column.Batch, dst *column.Vector) (int, error) {
	c := x.derived[field]
	for at := range x.alive {
		for s, col := range x.at[field] {
			c.set(s, docs.Columns[col], first+at)
		}
		v, err := c.eval()
		if err == nil {
			err = unbox(v, dst)
		}
		if err != nil {
			return at, err
		}
	}
	return 0, nil
}

// keyText is a key for messages.
func (x *Extractor) keyText(key []byte) string {
	x.key.Reset()
	if err := x.appendKey(key, x.key); err != nil {
		return fmt.Sprintf("%x", key)
	}
	return x.keyIn(x.key, 0)
}

// keyIn is the key of a row of documents or tombstones, for messages.
func (x *Extractor) keyIn(b *column.Batch, row int) string {
	parts := make([]string, len(x.bound.keys))
	for i, k := range x.bound.keys {
		parts[i] = k.Name + "=" + shown(b.Columns[i], row)
	}
	return strings.Join(parts, ",")
}

// mostShown is how many bytes of a value messages show.
const mostShown = 256

// shown is a value for messages.
func shown(v *column.Vector, i int) string { return cut(fmt.Sprint(box(v, i))) }

// cut is the beginning of what is long.
func cut(s string) string {
	if len(s) <= mostShown {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:mostShown], ""), len(s))
}

// Overs are the window lengths of the accumulators of a row, in the order of
// Shape: the register's and that of an unwindowed field are 0.
func (b *Bound) Overs() []int64 {
	overs := make([]int64, len(b.fns))
	for n, i := range b.folded {
		overs[n+1] = int64(b.program.fields[i].Over)
	}
	return overs
}
