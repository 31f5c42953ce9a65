package layers

import (
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// writer counts what has become of rows and, where a layer is asked for, hands it over a block at a time.
type writer struct {
	emit         func(Rows) error // nil where rows are counted alone
	rows         Rows
	docs, stones picked
	counts       Counts
}

// picked are rows of a batch at hand that are not in the block yet: a block is filled by columns.
type picked struct {
	from *column.Batch
	rows []int32
}

func newWriter(o Options) (*writer, error) {
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
		return nil, errTombstones
	}
	return &writer{emit: o.Emit, rows: Rows{Docs: column.NewBatch(o.Fields), Tombstones: column.NewBatch(key), Left: column.NewBatch(key)}}, nil
}

// over says which batches the rows are of that come next, until done.
func (w *writer) over(docs, tombstones *column.Batch) {
	w.docs, w.stones = picked{docs, w.docs.rows[:0]}, picked{tombstones, w.stones.rows[:0]}
}

// settle takes what was picked of the batches at hand.
func (w *writer) settle() error {
	for _, p := range []struct {
		*picked
		to *column.Batch
	}{{&w.docs, w.rows.Docs}, {&w.stones, w.rows.Tombstones}} {
		if len(p.rows) == 0 {
			continue
		}
		for k, v := range p.to.Columns {
			if err := v.AppendRows(p.from.Columns[k], p.rows); err != nil {
				return err
			}
		}
		p.to.Len += len(p.rows)
		p.rows = p.rows[:0]
	}
	return nil
}

// done is settle after the last row of the batches at hand. They are let go: a
// batch may hold far more memory than its rows.
func (w *writer) done() error {
	err := w.settle()
	w.docs.from, w.stones.from = nil, nil
	return err
}

// change takes a row that differs from what the pane before had of its key; it is row i of a batch at hand, unless it is none.
func (w *writer) change(was window.Row, is row, i int) error {
	switch doc := was == window.DocumentRow; {
	case is.is != window.DocumentRow && doc:
		w.counts.Left++
	case is.is == window.DocumentRow && doc:
		w.counts.Changed++
	case is.is == window.DocumentRow:
		w.counts.New++
	}
	if w.emit == nil {
		return nil
	}
	switch is.is {
	case window.NoRow:
		return w.left(is.key)
	case window.DocumentRow:
		w.docs.rows = append(w.docs.rows, int32(i))
	case window.TombstoneRow:
		w.stones.rows = append(w.stones.rows, int32(i))
	}
	return w.full()
}

func (w *writer) left(key []byte) error {
	var err error
	for _, v := range w.rows.Left.Columns {
		if key, err = tuple.Decode(key, v); err != nil {
			return fmt.Errorf("compare rows: key that left: %w", err)
		}
	}
	w.rows.Left.Len++
	return w.full()
}

// block is how many rows Emit is shown at a time.
const block = 4096

func (w *writer) full() error {
	if w.rows.Docs.Len+len(w.docs.rows)+w.rows.Tombstones.Len+len(w.stones.rows)+w.rows.Left.Len < block {
		return nil
	}
	return w.end()
}

// end hands over what there is.
func (w *writer) end() error {
	if w.emit == nil {
		return nil
	}
	err := w.settle()
	if err == nil {
		err = w.emit(w.rows)
	}
	for _, b := range []*column.Batch{w.rows.Docs, w.rows.Tombstones, w.rows.Left} {
		b.Reset()
	}
	return err
}
