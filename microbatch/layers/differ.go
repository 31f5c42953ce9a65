package layers

import (
	"bytes"
	"errors"

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
	before *rows
	out    *writer
	key    []byte // scratch, as are those below
	stone  []byte
	hashes []window.Hash
}

// NewDiffer returns a Differ that was shown no rows yet. Abort it unless it was finished.
func NewDiffer(o Options) (*Differ, error) {
	out, err := newWriter(o)
	if err != nil {
		return nil, err
	}
	d := &Differ{o: o, keys: len(out.rows.Left.Columns), out: out}
	if d.before, err = o.Before.read(); err != nil {
		return nil, err
	}
	d.log = newLogWriter(o.Dir, o.Memory, o.Whole)
	return d, nil
}

// Abort gives everything back, if the Differ was not finished.
func (d *Differ) Abort() { d.log.spool.Abort() }

// Counts are those of the rows added so far; once it is finished, of the pane.
func (d *Differ) Counts() Counts { return d.out.counts }

var (
	errOrder      = errors.New("compare rows: they are not in key order")
	errTombstones = errors.New("compare rows: a layer is asked for without the tombstones of two panes")
)

// Add takes the next rows of the pane, in key order. Keys and hashes that they come without are made, and they may come without a batch of
// tombstones.
func (d *Differ) Add(rows window.Documents) error {
	docs, stones := rows.Docs, 0
	d.out.over(docs, rows.Tombstones)
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
		if err := d.row(row{key: d.stone, is: window.TombstoneRow}, at); err != nil {
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
		if err := d.row(row{key: key, is: window.DocumentRow, hash: hash}, i); err != nil {
			return err
		}
	}
	for at < stones {
		if err := bury(); err != nil {
			return err
		}
	}
	return d.out.done()
}

// row takes row i of a batch.
func (d *Differ) row(r row, i int) error {
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
	same, before := known && was.same(r), window.NoRow
	if known {
		before = was.is()
		if err := was.next(); err != nil {
			return err
		}
	}
	if err := d.log.add(r); err != nil || same {
		return err
	}
	return d.out.change(before, r, i)
}

// left says that the row of the pane before is no more.
func (d *Differ) left() error {
	if err := d.out.change(d.before.is(), row{key: d.before.key()}, 0); err != nil {
		return err
	}
	return d.before.next()
}

// Finish says that all rows were added and returns the Log of the pane.
func (d *Differ) Finish() (*Log, error) {
	for d.before.ok {
		if err := d.left(); err != nil {
			return nil, err
		}
	}
	if err := d.out.end(); err != nil {
		return nil, err
	}
	data, err := d.log.seal()
	if err != nil {
		return nil, err
	}
	return over(nil, data, d.o.Whole), nil
}
