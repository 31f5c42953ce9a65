package layers

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// Rows are what a layer says of keys, each batch in key order. They are used again after the call they are shown in.
type Rows struct {
	Docs *column.Batch
	// Tombstones and Left have the key columns alone.
	Tombstones, Left *column.Batch
}

// Counts are the documents that the pane before had not, or had otherwise, and those of it that are no more, be it for a tombstone.
type Counts struct{ New, Changed, Left int64 }

// Options are what a Differ is made of.
type Options struct {
	// Hasher is the one that made the hashes of the Log before and of the rows that are added.
	Hasher window.Hasher
	// Fields are the columns of documents, those of the key first.
	Fields []column.Field
	// Before is the Log of the pane before, nil for one without rows.
	Before *Log
	// Whole says that a layer may come over this pane: its Log is to be whole.
	Whole bool
	// Emit takes what a layer over the pane before has to say, a block at a time, in key order. It is nil where rows are counted alone, and
	// asks for two whole Logs.
	Emit func(Rows) error
	// Dir and Memory are those of the spool of the new Log.
	Dir    string
	Memory *spool.Budget
}

// Differ writes the Log of a pane while it is folded, counts its documents against those of the pane before, and finds what a layer over that
// has to say, all in one pass over key order. It is for one goroutine.
type Differ struct {
	o      Options
	keys   int // columns
	log    *logWriter
	before *logReader
	counts Counts
	out    Rows
	key    []byte // scratch, as are those below
	stone  []byte
	hashes []window.Hash
}

// NewDiffer returns a Differ that was shown no rows yet. Abort it unless it was finished.
func NewDiffer(o Options) (*Differ, error) {
	var key []column.Field
	for i, f := range o.Fields {
		switch {
		case f.Key && i > len(key):
			return nil, fmt.Errorf("compare rows: key column %s comes after others", f.Name)
		case f.Key:
			key = append(key, f)
		}
	}
	if o.Emit != nil && !(o.Whole && o.Before.Whole()) {
		return nil, errors.New("compare rows: a layer is asked for without the tombstones of two panes")
	}
	d := &Differ{o: o, keys: len(key), out: Rows{Docs: column.NewBatch(o.Fields), Tombstones: column.NewBatch(key), Left: column.NewBatch(key)}}
	var err error
	if d.before, err = o.Before.read(); err != nil {
		return nil, err
	}
	d.log = newLogWriter(o.Dir, o.Memory, o.Whole)
	return d, nil
}

// Abort gives everything back, if the Differ was not finished.
func (d *Differ) Abort() { d.log.spool.Abort() }

// Counts are those of the rows added so far; once it is finished, of the pane.
func (d *Differ) Counts() Counts { return d.counts }

var errOrder = errors.New("compare rows: they are not in key order")

// Add takes the next rows of the pane, in key order. Keys and hashes that they come without are made, and they may come without a batch of
// tombstones.
func (d *Differ) Add(rows window.Documents) error {
	docs, stones := rows.Docs, 0
	hashes := rows.Hashes
	if len(hashes) != docs.Len {
		d.hashes = d.o.Hasher.Append(d.hashes[:0], docs.Columns[d.keys:], docs.Len)
		hashes = d.hashes
	}
	if d.o.Whole && rows.Tombstones != nil {
		stones = rows.Tombstones.Len
	}
	at := 0 // the tombstone at hand
	if at < stones {
		d.stone = tuple.AppendRow(d.stone[:0], rows.Tombstones.Columns, at)
	}
	bury := func() error {
		if err := d.row(row{key: d.stone, dead: true}, rows.Tombstones, at); err != nil {
			return err
		}
		if at++; at < stones {
			d.stone = tuple.AppendRow(d.stone[:0], rows.Tombstones.Columns, at)
		}
		return nil
	}
	for i, hash := range hashes {
		var key []byte
		if len(rows.Keys) == docs.Len {
			key = rows.Keys[i]
		} else {
			d.key = tuple.AppendRow(d.key[:0], docs.Columns[:d.keys], i)
			key = d.key
		}
		for at < stones && bytes.Compare(d.stone, key) < 0 {
			if err := bury(); err != nil {
				return err
			}
		}
		if err := d.row(row{key: key, hash: hash}, docs, i); err != nil {
			return err
		}
	}
	for at < stones {
		if err := bury(); err != nil {
			return err
		}
	}
	return nil
}

// row takes row i of a batch.
func (d *Differ) row(r row, of *column.Batch, i int) error {
	was := d.before
	// Most keys are those of the pane before, and are seen to be in place: it stands behind all that were added.
	known := was.ok && bytes.Equal(was.key(), r.key)
	if !known {
		if !d.log.follows(r.key) {
			return errOrder
		}
		for was.ok && bytes.Compare(was.key(), r.key) < 0 {
			if err := d.left(); err != nil {
				return err
			}
		}
		known = was.ok && bytes.Equal(was.key(), r.key)
	}
	same := known && was.same(r)
	switch doc := known && !was.dead(); {
	case !r.dead && !doc:
		d.counts.New++
	case !r.dead && !same:
		d.counts.Changed++
	case r.dead && doc:
		d.counts.Left++
	}
	if known {
		if err := was.next(); err != nil {
			return err
		}
	}
	if err := d.log.add(r); err != nil || same || d.o.Emit == nil {
		return err
	}
	to := d.out.Docs
	if r.dead {
		to = d.out.Tombstones
	}
	for k, v := range to.Columns {
		if err := v.AppendFrom(of.Columns[k], i); err != nil {
			return err
		}
	}
	to.Len++
	return d.full()
}

// block is how many rows Emit is shown at a time.
const block = 4096

func (d *Differ) full() error {
	if d.out.Docs.Len+d.out.Tombstones.Len+d.out.Left.Len < block {
		return nil
	}
	return d.flush()
}

func (d *Differ) flush() error {
	err := d.o.Emit(d.out)
	for _, b := range []*column.Batch{d.out.Docs, d.out.Tombstones, d.out.Left} {
		b.Reset()
	}
	return err
}

// left says that the row of the pane before is no more.
func (d *Differ) left() error {
	if !d.before.dead() {
		d.counts.Left++
	}
	if d.o.Emit == nil {
		return d.before.next()
	}
	rest := d.before.key()
	var err error
	for _, v := range d.out.Left.Columns {
		if rest, err = tuple.Decode(rest, v); err != nil {
			return fmt.Errorf("compare rows: key that left: %w", err)
		}
	}
	d.out.Left.Len++
	if err := d.before.next(); err != nil {
		return err
	}
	return d.full()
}

// Finish says that all rows were added and returns the Log of the pane.
func (d *Differ) Finish() (*Log, error) {
	for d.before.ok {
		if err := d.left(); err != nil {
			return nil, err
		}
	}
	if d.o.Emit != nil {
		if err := d.flush(); err != nil {
			return nil, err
		}
	}
	return d.log.seal()
}
