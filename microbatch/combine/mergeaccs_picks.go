package combine

import (
	"encoding/binary"
	"math"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// The tags of package tuple that kernels know, and what they know of them: an
// integer of n bytes is tagInt±n and its magnitude, complemented if negative.
const (
	tagFloat     = 0x10
	tagInt       = 0x30
	tagString    = 0x50
	textEnd      = "\x00\x01"
	tagDate      = 0x60
	tagTime      = 0x61
	tagTimestamp = 0x62
	nanosEnd     = 1_000_000_000
)

// shortInt reads an integer of up to seven bytes from the front of b, which has
// nine or more. It returns its size with the tag, 0 for any other.
func shortInt(b []byte) (x int64, size int) {
	n, flip := int(b[0])-tagInt, uint64(0)
	if n < 0 {
		n, flip = -n, ^uint64(0)
	}
	if n > 7 {
		return 0, 0
	}
	mag := (binary.BigEndian.Uint64(b[1:]) ^ flip) >> (64 - 8*n)
	if n > 0 && mag>>(8*(n-1)) == 0 {
		return 0, 0
	}
	return (int64(mag) ^ int64(flip)) - int64(flip), 1 + n
}

// shortTimestamp reads a timestamp whose seconds are short from the front of b,
// which has 14 bytes or more. Its size is 0 for any other.
func shortTimestamp(b []byte) (p pair, size int) {
	if b[0] != tagTimestamp {
		return p, 0
	}
	seconds, n := shortInt(b[1:])
	if n == 0 {
		return p, 0
	}
	nanos := binary.BigEndian.Uint32(b[1+n:])
	if nanos >= nanosEnd {
		return p, 0
	}
	return pair{seconds, uint64(nanos)}, 5 + n
}

// The words of the least and the greatest double that are numbers or infinite,
// and the one that −0 would have.
const (
	wordLeast    = math.MinInt64 | 0x000f_ffff_ffff_ffff
	wordGreatest = 0x7ff0_0000_0000_0000
	wordMinus0   = -1
)

// shortWord reads the word of an accumulator of the kind, behind which b goes
// on. It returns false for one that is not of the usual kind, and for what is
// none.
func shortWord(kind column.Kind, acc, b []byte) (x int64, ok bool) {
	switch kind {
	case column.Float64:
		if len(acc) != 9 || acc[0] != tagFloat {
			return 0, false
		}
		x = int64(binary.BigEndian.Uint64(acc[1:]) ^ 1<<63)
		return x, x >= wordLeast && x <= wordGreatest && x != wordMinus0
	case column.Bool:
		if len(acc) != 1 || !tuple.IsBool(acc) {
			return 0, false
		}
		if tuple.IsTrue(acc) {
			x = 1
		}
		return x, true
	case column.Date, column.Time:
		tag := byte(tagDate)
		if kind == column.Time {
			tag = tagTime
		}
		if len(acc) == 0 || acc[0] != tag {
			return 0, false
		}
		acc, b = acc[1:], b[1:]
	case column.Int32, column.Int64:
	default:
		return 0, false
	}
	if len(acc) == 0 || len(b) < 9 {
		return 0, false
	}
	x, size := shortInt(b)
	return x, size == len(acc) && (kind != column.Int32 || x == int64(int32(x)))
}

// MergeAccs implements BulkMerger.
func (c *wordColumn) MergeAccs(groups []uint32, a Accs) error {
	touchWords(c.at, groups)
	from := uint32(0)
	kind, greatest := c.fn.out.Kind, c.fn.greatest
	for i, g := range groups {
		to := a.Ends[i]
		acc, b := a.Bytes[from:to], a.Bytes[from:]
		from = to
		if x, ok := shortWord(kind, acc, b); ok && x != c.none {
			if have := &c.at[g]; x != *have && (x > *have) == greatest {
				*have = x
			}
			continue
		}
		if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// RetractAccs implements BulkRetractor.
func (c *wordColumn) RetractAccs(groups []uint32, a Accs, left []uint32) ([]uint32, error) {
	touchWords(c.at, groups)
	from := uint32(0)
	kind := c.fn.out.Kind
	for i, g := range groups {
		to := a.Ends[i]
		acc, b := a.Bytes[from:to], a.Bytes[from:]
		from = to
		if x, ok := shortWord(kind, acc, b); ok && x != c.none {
			if x == c.at[g] {
				left = append(left, g)
			}
			continue
		}
		var err error
		if left, err = retract(c, g, acc, left); err != nil {
			return left, &RowError{i, err}
		}
	}
	return left, nil
}

// MergeAccs implements BulkMerger.
func (c *pairColumn) MergeAccs(groups []uint32, a Accs) error {
	c.touch(groups)
	if c.fn.out.Kind == column.Decimal {
		return c.mergeDecimals(groups, a)
	}
	from := uint32(0)
	for i, g := range groups {
		to := a.Ends[i]
		acc, b := a.Bytes[from:to], a.Bytes[from:]
		from = to
		if len(b) >= 14 {
			if x, size := shortTimestamp(b); size > 0 && size == len(acc) {
				c.offer(g, x)
				continue
			}
		}
		if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// mergeDecimals reads each accumulator once, where Merge reads it to see
// whether it is one.
func (c *pairColumn) mergeDecimals(groups []uint32, a Accs) error {
	if c.scratch == nil {
		c.scratch = column.New(c.fn.out)
	}
	for i, g := range groups {
		acc := a.At(i)
		if len(acc) == 0 {
			continue
		}
		c.scratch.Reset()
		if rest, err := tuple.Decode(acc, c.scratch); err == nil && len(rest) == 0 && !tuple.IsNull(acc) {
			c.offer(g, c.pair())
		} else if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// MergeAccs implements BulkMerger: most records lose by the time alone, or, of the
// newest partition, most win.
func (c *rankedColumn) MergeAccs(groups []uint32, a Accs) error {
	for rows := 0; rows < len(groups); {
		some := groups[rows:min(len(groups), rows+touchAhead)]
		var touched uint32
		for _, g := range some {
			touched ^= c.heads[g].sub
		}
		used(uint64(touched))
		if c.winning {
			c.registers.touch(some)
		}
		won := 0
		for i, g := range some {
			acc := a.At(rows + i)
			if len(acc) == 0 {
				continue
			}
			if rank, value, ok := shortRank(acc); ok && c.isValue(value) {
				if merged, wins := c.mergeHeaded(g, rank, acc); merged {
					if wins {
						won++
					}
					continue
				}
			}
			if err := c.Merge(g, acc); err != nil {
				return &RowError{rows + i, err}
			}
		}
		c.winning = 2*won > len(some)
		rows += len(some)
	}
	return nil
}

// isValue says whether b is a value of the fn's type.
func (c *rankedColumn) isValue(b []byte) bool {
	return c.fn.out.Kind == column.String && isASCII(b) || checkValue(b, &c.fn.out, c.fn.keepNulls) == nil
}

// isASCII says whether b is a string of ASCII without zeros.
func isASCII(b []byte) bool {
	n := len(b) - len(textEnd)
	if n < 1 || b[0] != tagString || string(b[n:]) != textEnd {
		return false
	}
	b = b[1:n]
	const ones, highs = 0x0101_0101_0101_0101, 0x8080_8080_8080_8080
	for ; len(b) >= 8; b = b[8:] {
		// A zero borrows from its high bit, and so may what comes after a zero.
		if x := binary.LittleEndian.Uint64(b); (x|(x-ones))&highs != 0 {
			return false
		}
	}
	for _, c := range b {
		if c-1 >= 0x7f {
			return false
		}
	}
	return true
}

// shortRank parts an accumulator that begins with a rank of up to 2^14 bytes.
// ok is false for any other, and for what is none.
func shortRank(acc []byte) (rank, value []byte, ok bool) {
	n, size := shortCount(acc)
	if size == 0 || n > uint64(len(acc)-size) {
		return nil, nil, false
	}
	return acc[size : size+int(n)], acc[size+int(n):], true
}

// mergeHeaded merges the accumulator acc of a rank that begins with a time. Where
// it does not know enough it has not merged it, and has done nothing.
func (c *winners) mergeHeaded(g uint32, rank, acc []byte) (merged, wins bool) {
	h := shortHead(rank)
	if h.sub == 0 {
		return false, false
	}
	have := &c.heads[g]
	if have.sub == 0 {
		kept := c.get(g)
		if kept == nil {
			c.set(g, acc)
			*have = leader{Head: h}
			return true, true
		}
		// What a head was not kept of, or not made.
		rank, _, ok := shortRank(kept)
		if !ok {
			return false, false
		}
		if have.Head = shortHead(rank); have.sub == 0 {
			return false, false
		}
	}
	wins = h.at > have.at || h.at == have.at && h.sub > have.sub
	switch {
	case have.Head == h:
		wins = c.before(acc, c.get(g))
	case !c.newest:
		wins = !wins
	}
	if wins {
		c.set(g, acc)
		*have = leader{Head: h}
	}
	return true, wins
}

// shortHead is headOf for a rank that begins with a timestamp; not known for
// any other.
func shortHead(rank []byte) Head {
	if len(rank) < 7 { // a timestamp of no second has six bytes
		return Head{}
	}
	b := rank
	if len(b) < 14 {
		var room [14]byte
		copy(room[:], rank)
		b = room[:]
	}
	at, size := shortTimestamp(b)
	if size == 0 || size >= len(rank) || !tuple.IsBool(rank[size:]) {
		return Head{}
	}
	return HeadAt(at.hi, int32(at.lo), tuple.IsTrue(rank[size:]))
}

// RetractAccs implements BulkRetractor.
func (c *rankedColumn) RetractAccs(groups []uint32, a Accs, left []uint32) ([]uint32, error) {
	for i, g := range groups {
		acc := a.At(i)
		if len(acc) == 0 {
			continue
		}
		if have := c.heads[g].Head; have.sub != 0 {
			if rank, _, ok := shortRank(acc); ok {
				if h := shortHead(rank); h.sub != 0 && h != have {
					continue
				}
			}
		}
		var err error
		if left, err = retract(c, g, acc, left); err != nil {
			return left, &RowError{i, err}
		}
	}
	return left, nil
}
