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
	// parts are what a rank is made of, as combine.AppendRank has it: event time,
	// whether the record deletes, the columns of the batch.
	parts   []*column.Vector
	deletes *column.Vector
	arg     *column.Vector
	argAt   int // which of the parts arg is, or -1
}

// place is where in buf a rank stands.
type place struct{ off, size int }

func (o *recordOrder) reset(l *Lifter, batch *column.Batch) {
	o.lifter, o.batch = l, batch
	o.heads, o.ranks, o.buf = o.heads[:0], o.ranks[:0], o.buf[:0]
	o.arg = nil
	if o.deletes == nil {
		o.deletes = column.New(column.Of(column.Bool))
	}
	o.deletes.Bools = zeroed(o.deletes.Bools, batch.Len)
	o.deletes.SetLen(batch.Len)
	if l.deletes != nil {
		for i, d := range l.dead {
			o.deletes.Bools[i] = d == removes
		}
	}
	o.parts = append(append(o.parts[:0], l.times, o.deletes), batch.Columns...)
}

// Rank implements combine.Order.
func (o *recordOrder) Rank(i int) []byte {
	if len(o.ranks) == 0 {
		o.ranks = append(o.ranks, make([]place, o.batch.Len)...)
	}
	p := &o.ranks[i]
	if p.size == 0 {
		p.off = len(o.buf)
		o.buf = tuple.AppendRow(o.buf, o.parts, i)
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
	if o.arg != arg {
		o.arg, o.argAt = arg, slices.Index(o.parts, arg)
	}
	return tuple.AppendMarked(dst, o.parts, i, o.argAt)
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
