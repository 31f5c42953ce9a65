package layers

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Rows are what a layer says of keys, each batch in key order. They are used again after the call they are shown in.
type Rows struct {
	Docs *column.Batch
	// Tombstones and Left have the key columns alone.
	Tombstones, Left *column.Batch
}

// Options are what a Differ is made of.
type Options struct {
	// Hasher is the one that the Log of the pane before was made with.
	Hasher Hasher
	// Fields are the columns of documents, those of the key first.
	Fields []column.Field
	// Before is the Log of the pane before, nil for a snapshot.
	Before *Log
	// Emit takes what the layer over that pane has to say, a block at a time, in key order.
	Emit func(Rows) error
	// Dir and Memory are those of the spool of the new Log.
	Dir    string
	Memory *spool.Budget
}

// Differ writes the Log of a pane while it is folded, and finds what the layer over the pane before has to say. It is for one goroutine.
type Differ struct {
	o       Options
	keys    int
	log     *logWriter
	before  *logReader // nil for a snapshot
	out     Rows
	at      [2]row // the documents' and the tombstones' row at hand
	last    []byte
	any     bool // last is a key
	scratch []byte
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
	d := &Differ{o: o, keys: len(key), out: Rows{Docs: column.NewBatch(o.Fields), Tombstones: column.NewBatch(key), Left: column.NewBatch(key)}}
	if o.Before != nil {
		var err error
		if d.before, err = o.Before.read(); err != nil {
			return nil, err
		}
	}
	d.log = newLogWriter(o.Dir, o.Memory)
	return d, nil
}

// Abort gives everything back, if the Differ was not finished.
func (d *Differ) Abort() { d.log.spool.Abort() }

var errOrder = errors.New("compare rows: they are not in key order")

// Add takes the next rows of the pane, in key order.
func (d *Differ) Add(docs, tombstones *column.Batch) error {
	for i, j := 0, 0; i < docs.Len || j < tombstones.Len; {
		doc, dead := &d.at[0], &d.at[1]
		if i < docs.Len {
			doc.key = tuple.AppendRow(doc.key[:0], docs.Columns[:d.keys], i)
		}
		if j < tombstones.Len {
			dead.key = tuple.AppendRow(dead.key[:0], tombstones.Columns, j)
		}
		var err error
		if j == tombstones.Len || i < docs.Len && bytes.Compare(doc.key, dead.key) < 0 {
			doc.digest, d.scratch = d.o.Hasher.row(docs.Columns[d.keys:], i, d.scratch)
			err = d.row(*doc, docs, i)
			i++
		} else {
			dead.dead = true
			err = d.row(*dead, tombstones, j)
			j++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// row takes row i of a batch.
func (d *Differ) row(r row, of *column.Batch, i int) error {
	if d.any && bytes.Compare(d.last, r.key) >= 0 {
		return errOrder
	}
	d.last, d.any = append(d.last[:0], r.key...), true
	if err := d.log.add(r); err != nil {
		return err
	}
	if d.before == nil {
		return nil
	}
	for !d.before.done && bytes.Compare(d.before.key, r.key) < 0 {
		if err := d.left(); err != nil {
			return err
		}
	}
	if !d.before.done && bytes.Equal(d.before.key, r.key) {
		same := d.before.dead == r.dead && d.before.digest == r.digest
		if err := d.before.next(); err != nil || same {
			return err
		}
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
	rest := d.before.key
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
	if d.before != nil {
		for !d.before.done {
			if err := d.left(); err != nil {
				return nil, err
			}
		}
		if err := d.flush(); err != nil {
			return nil, err
		}
	}
	return d.log.seal()
}
