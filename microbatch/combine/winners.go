package combine

import (
	"bytes"
	"math"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Head is the front of a rank as numbers: the event time and whether the record
// is a delete. Where two heads differ they are in the order of the ranks.
type Head struct {
	at  int64
	sub uint32 // 0: not known
}

// HeadAt is the head of a record with an event time; nanos is 0..999,999,999.
func HeadAt(seconds int64, nanos int32, deleted bool) Head {
	h := Head{seconds, 3 + 2*uint32(nanos)}
	if deleted {
		h.sub++
	}
	return h
}

// NullHead is the head of a record without an event time, which sorts first.
func NullHead(deleted bool) Head {
	if deleted {
		return Head{math.MinInt64, 2}
	}
	return Head{math.MinInt64, 1}
}

// Headed is an Order whose ranks are those that AppendRank writes and that has
// their heads at hand: most records lose by them alone, and their ranks are
// never made.
type Headed interface {
	Order
	// Heads has the head of every record, by its number.
	Heads() []Head
}

// headOf reads the head of a rank that AppendRank wrote; one that is not known
// for other bytes.
func headOf(rank []byte, scratch *column.Vector) Head {
	scratch.Reset()
	rest, err := tuple.Decode(rank, scratch)
	if err != nil || len(rest) == 0 || !tuple.IsBool(rest) {
		return Head{}
	}
	if scratch.Null(0) {
		return NullHead(tuple.IsTrue(rest))
	}
	return HeadAt(scratch.Ints[0], scratch.Nanos[0], tuple.IsTrue(rest))
}

// winners is the column of a fn that keeps the newest or the oldest record. Of
// the records of a batch it encodes for each group only the one that wins.
type winners struct {
	choice
	newest  bool
	heads   []leader
	dirty   []uint32 // groups that a record of this batch won
	scratch []byte
	other   []byte
	times   *column.Vector // scratch
	touched uint32         // of no meaning: what is read must be used
}

// leader is the head of what a group keeps, and while a batch is added the
// record of it that won, plus one.
type leader struct {
	Head
	row uint32
}

func (c *winners) Grow(n int) { c.registers.Grow(n); c.heads = grow(c.heads, n) }
func (c *winners) Reset()     { c.registers.Reset(); c.heads = c.heads[:0] }
func (c *winners) Bytes() int64 {
	return c.registers.Bytes() + int64(16*cap(c.heads)+4*cap(c.dirty)+cap(c.scratch)+cap(c.other))
}

// add offers the records of which arg is not null, or all.
func (c *winners) add(in *Input, arg *column.Vector, nulls bool) {
	headed, ok := in.Order.(Headed)
	if !ok {
		for _, i := range in.Rows {
			if nulls || !arg.Null(int(i)) {
				c.scratch = appendWinner(c.scratch[:0], in.Order, arg, int(i))
				c.offer(in.Groups[i], c.scratch)
				c.heads[in.Groups[i]] = leader{}
			}
		}
		return
	}
	heads := headed.Heads()
	skip := arg.Valid
	if nulls {
		skip = nil
	} else if arg.Type.Kind == column.Null {
		return
	}
	c.dirty = c.dirty[:0]
	for rows := in.Rows; len(rows) > 0; {
		some := rows[:min(len(rows), touchAhead)]
		rows = rows[len(some):]
		// Touched first, many at a time, the groups are at hand when the outcome of
		// one comparison after another is waited for.
		touched := c.touched
		for _, i := range some {
			touched ^= c.heads[in.Groups[i]].sub
		}
		c.touched = touched
		c.compare(in, arg, some, heads, skip)
	}
	for _, g := range c.dirty {
		c.scratch = appendWinner(c.scratch[:0], in.Order, arg, int(c.heads[g].row)-1)
		c.set(g, c.scratch)
		c.heads[g].row = 0
	}
}

// touchAhead is how many records' groups are touched before they are compared.
const touchAhead = 256

// compare finds those of the records that win.
func (c *winners) compare(in *Input, arg *column.Vector, rows []int32, heads []Head, skip []bool) {
	for _, i := range rows {
		if skip != nil && !skip[i] {
			continue
		}
		g, h := in.Groups[i], heads[i]
		have := &c.heads[g]
		switch {
		case have.sub == 0:
			c.first(in, arg, int(i), g)
		case h.at != have.at:
			if (h.at > have.at) == c.newest {
				c.lead(g, have, h, i)
			}
		case h.sub != have.sub:
			if (h.sub > have.sub) == c.newest {
				c.lead(g, have, h, i)
			}
		default:
			c.tie(in, arg, int(i), g)
		}
	}
}

// appendWinner appends the accumulator of one record.
func appendWinner(dst []byte, order Order, arg *column.Vector, i int) []byte {
	return tuple.Append(appendRanked(dst, order.Rank(i)), arg, i)
}

func (c *winners) lead(g uint32, have *leader, h Head, i int32) {
	if have.row == 0 {
		c.dirty = append(c.dirty, g)
	}
	have.Head, have.row = h, uint32(i)+1
}

// first offers record i to a group whose head is not known: an empty one, or
// one that was merged into.
func (c *winners) first(in *Input, arg *column.Vector, i int, g uint32) {
	h := in.Order.(Headed).Heads()[i]
	have := c.get(g)
	if have == nil {
		c.lead(g, &c.heads[g], h, int32(i))
		return
	}
	if c.times == nil {
		c.times = column.New(column.Of(column.Timestamp))
	}
	rank, _, _ := splitRank(have)
	known := headOf(rank, c.times)
	c.heads[g].Head = known
	switch {
	case known.sub == 0 || known == h:
		c.tie(in, arg, i, g)
	case (h.at > known.at || h.at == known.at && h.sub > known.sub) == c.newest:
		c.lead(g, &c.heads[g], h, int32(i))
	}
}

// tie offers record i to a group that keeps one with the same head: the ranks
// decide, then the values.
func (c *winners) tie(in *Input, arg *column.Vector, i int, g uint32) {
	c.scratch = appendWinner(c.scratch[:0], in.Order, arg, i)
	row := c.heads[g].row
	if row == 0 {
		c.offer(g, c.scratch)
		return
	}
	c.other = appendWinner(c.other[:0], in.Order, arg, int(row)-1)
	if !bytes.Equal(c.scratch, c.other) && c.before(c.scratch, c.other) {
		c.heads[g].row = uint32(i) + 1
	}
}

func (c *winners) Merge(g uint32, acc []byte) error {
	c.heads[g] = leader{}
	return c.choice.Merge(g, acc)
}
