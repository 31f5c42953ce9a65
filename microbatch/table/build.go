package table

import (
	"encoding/binary"
	"io"

	"github.com/deltad/deltad/microbatch/combine"
)

const (
	// rowsAtOnce is how many rows' accumulators are written column by column.
	rowsAtOnce = 256
	// maxBody bounds the accumulators of a row that is encoded before it is
	// sorted, maxBodies all of them.
	maxBody   = 64 << 10
	maxBodies = 1 << 30
)

// encoder writes the accumulators of many groups, column by column.
type encoder struct {
	t    *Table
	bufs [][]byte
	ends [][]int
}

// encode makes those of the groups.
func (e *encoder) encode(groups []uint32) {
	if e.bufs == nil {
		e.bufs, e.ends = make([][]byte, len(e.t.columns)), make([][]int, len(e.t.columns))
	}
	for f, c := range e.t.columns {
		e.bufs[f], e.ends[f] = combine.AppendAccs(c, e.bufs[f][:0], e.ends[f][:0], groups)
	}
}

// row sets accs to those of the i-th group and returns their size.
func (e *encoder) row(i int) (size int) {
	for f := range e.t.accs {
		from := 0
		if i > 0 {
			from = e.ends[f][i-1]
		}
		e.t.accs[f] = e.bufs[f][from:e.ends[f][i]]
		size += len(e.t.accs[f])
	}
	return size
}

// WriteRun writes the table as a run. The table stays as it is.
func (t *Table) WriteRun(w io.Writer, o Options) (Summary, error) {
	rw, err := NewWriter(w, t.shape, o)
	if err != nil {
		return Summary{}, err
	}
	order := t.sorted()
	if bodies, ends := t.bodies(min(o.Room, maxBodies)); ends != nil {
		for _, k := range order {
			from := uint32(0)
			if k.group > 0 {
				from = ends[k.group-1]
			}
			if err := rw.appendEncoded(t.Key(k.group), bodies[from:ends[k.group]]); err != nil {
				return Summary{}, err
			}
		}
		return rw.Close()
	}
	e := encoder{t: t}
	var groups [rowsAtOnce]uint32
	for len(order) > 0 {
		n := min(len(order), rowsAtOnce)
		for i, k := range order[:n] {
			groups[i] = k.group
		}
		order = order[n:]
		e.encode(groups[:n])
		for i, g := range groups[:n] {
			e.row(i)
			if err := rw.Append(t.Key(g), t.accs); err != nil {
				return Summary{}, err
			}
		}
	}
	return rw.Close()
}

// bodies encodes all rows in the order of the groups, which is that of memory,
// and returns where each ends; a row of identities has no bytes. It returns
// nothing where they take more than most.
func (t *Table) bodies(most int64) (rows []byte, ends []uint32) {
	if most < t.Bytes()/4 {
		return nil, nil // it is not to be expected
	}
	e := encoder{t: t}
	rows, ends = t.rows[:0], t.ends[:0]
	var groups [rowsAtOnce]uint32
	for from := 0; from < t.Len(); from += rowsAtOnce {
		n := min(t.Len()-from, rowsAtOnce)
		for i := range n {
			groups[i] = uint32(from + i)
		}
		e.encode(groups[:n])
		for i := range n {
			size := e.row(i)
			room := len(rows) + size + 2*len(t.accs)*binary.MaxVarintLen64
			if size > maxBody || int64(room) > most {
				return nil, nil
			}
			if size > 0 {
				if room > cap(rows) {
					rows = append(make([]byte, 0, max(room, int(min(2*int64(cap(rows)), most)), 4096)), rows...)
				}
				rows = appendBody(rows, t.accs)
			}
			ends = append(ends, uint32(len(rows)))
		}
	}
	t.rows, t.ends = rows, ends
	return rows, ends
}
