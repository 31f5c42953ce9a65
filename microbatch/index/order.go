package index

import (
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

// recordOrder ranks the records of a batch; see invariant 1. It makes what it
// is asked for, and that once.
type recordOrder struct {
	lifter *Lifter
	batch  *column.Batch
	heads  []combine.Head
	ranks  []place // size 0: not made
	buf    []byte  // the ranks
	arg    *column.Vector
	argAt  int // which column of the batch arg is, or -1
}

// place is where in buf a rank stands.
type place struct{ off, size int }

func (o *recordOrder) reset(l *Lifter, batch *column.Batch) {
	o.lifter, o.batch = l, batch
	o.heads, o.ranks, o.buf = o.heads[:0], o.ranks[:0], o.buf[:0]
	o.arg = nil
}

// Rank implements combine.Order.
func (o *recordOrder) Rank(i int) []byte {
	if len(o.ranks) == 0 {
		o.ranks = append(o.ranks, make([]place, o.batch.Len)...)
	}
	p := &o.ranks[i]
	if p.size == 0 {
		p.off = len(o.buf)
		o.buf = combine.AppendRank(o.buf, o.lifter.times, i, o.lifter.dead[i] == removes, nil)
		o.buf = tuple.AppendRow(o.buf, o.batch.Columns, i)
		p.size = len(o.buf) - p.off
	}
	return o.buf[p.off : p.off+p.size]
}

// AppendRank implements combine.Ranker. A rank that several fields may ask for is
// made once.
func (o *recordOrder) AppendRank(dst []byte, i int, arg *column.Vector) (out []byte, from, to int) {
	if o.lifter.ranked > 1 {
		return append(dst, o.Rank(i)...), 0, 0
	}
	columns := o.batch.Columns
	if o.arg != arg {
		o.arg, o.argAt = arg, slices.Index(columns, arg)
	}
	dst = combine.AppendRank(dst, o.lifter.times, i, o.lifter.dead[i] == removes, nil)
	if o.argAt < 0 {
		return tuple.AppendRow(dst, columns, i), 0, 0
	}
	dst = tuple.AppendRow(dst, columns[:o.argAt], i)
	from = len(dst)
	dst = tuple.AppendRow(dst, columns[o.argAt:o.argAt+1], i)
	to = len(dst)
	return tuple.AppendRow(dst, columns[o.argAt+1:], i), from, to
}

// Heads implements combine.Headed.
func (o *recordOrder) Heads() []combine.Head {
	if len(o.heads) > 0 {
		return o.heads
	}
	times, dead := o.lifter.times, o.lifter.dead
	if times.Valid == nil && times.Type.Kind != column.Null && o.lifter.deletes == nil {
		o.heads = slices.Grow(o.heads, o.batch.Len)[:o.batch.Len]
		seconds, nanos := times.Ints[:o.batch.Len], times.Nanos[:o.batch.Len]
		for i := range o.heads {
			o.heads[i] = combine.HeadAt(seconds[i], nanos[i], false)
		}
		return o.heads
	}
	for i := range o.batch.Len {
		if times.Null(i) {
			o.heads = append(o.heads, combine.NullHead(dead[i] == removes))
		} else {
			o.heads = append(o.heads, combine.HeadAt(times.Ints[i], times.Nanos[i], dead[i] == removes))
		}
	}
	return o.heads
}
