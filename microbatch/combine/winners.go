package combine

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Head is the front of a rank as numbers: the event time and whether the record
// is a delete. Where two heads differ they are in the order of the ranks.
type Head struct {
	at  int64
	sub uint32 // 0: not known
	row uint32 // of a leader: the number of the record, plus one, or 0
}

// HeadAt is the head of a record with an event time; nanos is 0..999,999,999.
func HeadAt(seconds int64, nanos int32, deleted bool) Head {
	h := Head{at: seconds, sub: 3 + 2*uint32(nanos)}
	if deleted {
		h.sub++
	}
	return h
}

// NullHead is the head of a record without an event time, which sorts first.
func NullHead(deleted bool) Head {
	if deleted {
		return Head{at: math.MinInt64, sub: 2}
	}
	return Head{at: math.MinInt64, sub: 1}
}

// Headed is an Order whose ranks are those that AppendRank writes and that has
// their heads at hand: most records lose by them alone, and their ranks are
// never made.
type Headed interface {
	Order
	// Heads has the head of every record, by its number.
	Heads() []Head
}

// Ranker is an Order that writes a rank to where it is to stay.
type Ranker interface {
	Order
	// AppendRank appends Rank(i) to dst. Between from and to out has the tuple
	// encoding of arg's value of the record, which is a part of the rank; the two
	// are equal where that is not known.
	AppendRank(dst []byte, i int, arg *column.Vector) (out []byte, from, to int)
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

// loses says that ranks with the head are less than rank, as far as heads tell.
func (h Head) loses(rank []byte) bool {
	have := shortHead(rank)
	return have.sub != 0 && (h.at < have.at || h.at == have.at && h.sub < have.sub)
}

// winners is the column of a fn that keeps the newest or the oldest record. Of
// the records of a batch it encodes for each group only the one that wins.
type winners struct {
	choice
	newest  bool
	heads   []leader
	dirty   []uint32 // groups that a record of this batch won
	winning bool     // most of the accumulators that were merged last have won
	rows    []int32  // scratch: the records that are offered
	scratch []byte
	other   []byte
	times   *column.Vector // scratch
}

// leader is the head of what a group keeps, and while a batch is added the
// record of it that won. It is in one of three states:
//
//   - nobody: the group keeps nothing, as after Grow and Clear;
//   - zero: the group keeps what was merged or offered without its head, if
//     anything, and meet is the first to look what that is. It stays so where
//     the rank has no head;
//   - known: the head of what the group keeps, whose sub is not 0.
type leader struct{ Head }

// nobody is the leader of a group that keeps nothing. It loses to every head,
// whichever wins.
func nobody() leader { return leader{Head{at: math.MinInt64}} }

// touchAhead is how many groups are touched before they are merged into.
const touchAhead = 256

func (c *winners) Grow(n int) {
	c.registers.Grow(n)
	from := len(c.heads)
	c.heads = grow(c.heads, n)
	for i := from; i < len(c.heads); i++ {
		c.heads[i] = nobody()
	}
}

func (c *winners) Reset() { c.registers.Reset(); c.heads = c.heads[:0] }
func (c *winners) Bytes() int64 {
	return c.registers.Bytes() + int64(16*cap(c.heads)+4*cap(c.dirty)+4*cap(c.rows)+cap(c.scratch)+cap(c.other))
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
	rows := in.Rows
	switch {
	case nulls:
	case arg.Type.Kind == column.Null:
		return
	case arg.Valid != nil:
		c.rows = slices.DeleteFunc(append(c.rows[:0], rows...), func(i int32) bool { return !arg.Valid[i] })
		rows = c.rows
	}
	c.compare(in, arg, rows, headed.Heads())
	c.keep(in, arg)
}

// compare finds the records that win and the groups that are theirs. Who wins
// cannot be foretold, so that is not a branch; heads that are equal are rare, or
// cost what it costs to tell their records apart.
func (c *winners) compare(in *Input, arg *column.Vector, rows []int32, heads []Head) {
	c.dirty = slices.Grow(c.dirty[:0], len(rows))[:len(rows)]
	lead, dirty, groups, n := c.heads, c.dirty, in.Groups, 0
	older := uint64(0)
	if !c.newest {
		older = 1
	}
	for _, i := range rows {
		g, h := groups[i], heads[i]
		have := &lead[g]
		// Whether have is less than h, as numbers of two words without signs. One
		// that is not known loses: nobody, and a zero one until it is met.
		_, less := bits.Sub64(uint64(have.sub), uint64(h.sub), 0)
		_, less = bits.Sub64(uint64(have.at)^1<<63, uint64(h.at)^1<<63, less)
		wins := (less ^ older) | (uint64(have.sub)-1)>>63
		if have.at == h.at && have.sub == h.sub || have.at|int64(have.sub) == 0 {
			wins = 0
			if c.meet(in, arg, i, g, h) {
				wins = 1
			}
		}
		dirty[n] = g
		n += int(wins & ((uint64(have.row) - 1) >> 63))
		mask := -wins
		have.at ^= (have.at ^ h.at) & int64(mask)
		have.sub ^= (have.sub ^ h.sub) & uint32(mask)
		have.row ^= (have.row ^ uint32(i+1)) & uint32(mask)
	}
	c.dirty = dirty[:n]
}

// meet says whether record i wins a group whose leader is known and equal to its
// own head, or zero: then it makes it known, if it can.
func (c *winners) meet(in *Input, arg *column.Vector, i int32, g uint32, h Head) bool {
	have := &c.heads[g]
	if have.sub == 0 {
		kept := c.get(g)
		if kept == nil {
			return true
		}
		if c.times == nil {
			c.times = column.New(column.Of(column.Timestamp))
		}
		rank, _, _ := splitRank(kept)
		switch have.Head = headOf(rank, c.times); {
		case have.sub == 0 || have.Head == h:
		case c.newest:
			return h.at > have.at || h.at == have.at && h.sub > have.sub
		default:
			return h.at < have.at || h.at == have.at && h.sub < have.sub
		}
	}
	// The ranks decide, then the values.
	c.scratch = appendWinner(c.scratch[:0], in.Order, arg, int(i))
	other := c.get(g)
	if have.row > 0 {
		c.other = appendWinner(c.other[:0], in.Order, arg, int(have.row)-1)
		other = c.other
	}
	return !bytes.Equal(c.scratch, other) && c.before(c.scratch, other)
}

// keep encodes the records that won into the arena of the groups.
func (c *winners) keep(in *Input, arg *column.Vector) {
	var touched uint32
	for _, g := range c.dirty { // so that they are waited for together
		touched ^= c.at[g].cap
	}
	used(uint64(touched))
	if room := 256 * len(c.dirty); cap(c.arena)-len(c.arena) < room {
		c.arena = append(make([]byte, 0, 2*cap(c.arena)+room), c.arena...)
	}
	ranker, ok := in.Order.(Ranker)
	guess := 1
	for _, g := range c.dirty {
		have := &c.heads[g]
		from, i := len(c.arena), int(have.row)-1
		if ok {
			c.arena, guess = appendRanker(c.arena, guess, ranker, arg, i)
		} else {
			c.arena = appendWinner(c.arena, in.Order, arg, i)
		}
		c.moved(g, from)
		have.row = 0
	}
	c.tidy()
}

// appendRanker is appendWinner without a copy of the rank, or an encoding of what
// the rank has already. guess is the length of the number before the rank, one
// or two bytes; the next one is likely to have what it returns.
func appendRanker(dst []byte, guess int, order Ranker, arg *column.Vector, i int) ([]byte, int) {
	at := len(dst)
	dst, from, to := order.AppendRank(append(dst, 0, 0)[:at+guess], i, arg)
	n := len(dst) - at - guess
	size := 1
	if n>>7 > 0 {
		size = 2
	}
	if n>>14 > 0 {
		return tuple.Append(appendRanked(dst[:at], bytes.Clone(dst[at+guess:])), arg, i), guess
	}
	if size != guess {
		dst = append(dst, 0)
		copy(dst[at+size:], dst[at+guess:])
		dst = dst[:at+size+n]
		from, to = from+size-guess, to+size-guess
	}
	binary.PutUvarint(dst[at:], uint64(n))
	if from < to {
		return append(dst, dst[from:to]...), size
	}
	return tuple.Append(dst, arg, i), size
}

// appendWinner appends the accumulator of one record.
func appendWinner(dst []byte, order Order, arg *column.Vector, i int) []byte {
	return tuple.Append(appendRanked(dst, order.Rank(i)), arg, i)
}

func (c *winners) Merge(g uint32, acc []byte) error {
	c.heads[g] = leader{}
	return c.choice.Merge(g, acc)
}
