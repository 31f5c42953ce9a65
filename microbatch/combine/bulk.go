package combine

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Bulk is implemented by columns that write many accumulators faster than one
// by one: the groups come in the order of their keys, which is no order in
// memory. A loop over one column that first only reads something of each waits
// for many of them at a time, and then finds them near.
type Bulk interface {
	// AppendAccs is AppendAcc for each of the groups in turn; it appends to ends
	// the length of dst after each.
	AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int)
}

// AppendAccs appends the accumulators of the groups to dst, and to ends the
// length of dst after each.
func AppendAccs(c Column, dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	if b, ok := c.(Bulk); ok {
		return b.AppendAccs(dst, ends, groups)
	}
	return appendEach(c, dst, ends, groups)
}

// appendEach is AppendAccs, one by one.
func appendEach(c Column, dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// roomFor makes room for so many bytes behind dst, which it returns as long as it
// may become, and for n ends.
func roomFor(dst []byte, size int, ends []int, n int) ([]byte, []int) {
	dst = slices.Grow(dst, size)
	return dst[:cap(dst)], slices.Grow(ends, n)
}

// AppendAccs implements Bulk.
func (c *countColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	return appendCounts(dst, ends, c.n, groups)
}

// appendCounts appends the counts of groups as uvarints, of 0 nothing.
func appendCounts(dst []byte, ends []int, counts []uint64, groups []uint32) ([]byte, []int) {
	touchWords(counts, groups)
	at := len(dst)
	dst, ends = roomFor(dst, binary.MaxVarintLen64*len(groups), ends, len(groups))
	for _, g := range groups {
		if n := counts[g]; n > 0 {
			at += putCount(dst[at:], n)
		}
		ends = append(ends, at)
	}
	return dst[:at], ends
}

// putCount writes a uvarint to the front of b. Most are of one byte.
func putCount(b []byte, n uint64) int {
	if n < 0x80 {
		b[0] = byte(n)
		return 1
	}
	return binary.PutUvarint(b, n)
}

// AppendAccs implements Bulk.
func (c *wideColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	c.touch(groups)
	if len(c.high) > 0 {
		return appendEach(c, dst, ends, groups)
	}
	const room = binary.MaxVarintLen64 + 9
	at := len(dst)
	dst, ends = roomFor(dst, room*len(groups), ends, len(groups))
	for _, g := range groups {
		if s := c.at[g]; s.n > 0 {
			at += putCount(dst[at:], s.n)
			at += putSum(dst[at:], s.lo)
		}
		ends = append(ends, at)
	}
	return dst[:at], ends
}

// putSum writes to the front of b, which has room for nine bytes, what
// int192.append writes of one word.
func putSum(b []byte, x int64) int {
	neg := uint64(x >> 63)
	mag := (uint64(x) ^ neg) - neg
	n := (bits.Len64(mag) + 7) / 8
	_ = b[8]
	b[0] = signPositive + byte(neg&(signNegative-signPositive))
	if n == 0 {
		b[0] = signZero
	}
	binary.BigEndian.PutUint64(b[1:], mag<<(64-8*n))
	return 1 + n
}

// AppendAccs implements Bulk.
func (c *floatColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	c.touch(groups)
	if len(c.spec) > 0 || len(c.long) > 0 {
		return appendEach(c, dst, ends, groups)
	}
	const room = binary.MaxVarintLen64 + 1 + roomOfWindow
	at := len(dst)
	dst, ends = roomFor(dst, room*len(groups), ends, len(groups))
	for _, g := range groups {
		if n := c.n[g]; n > 0 {
			at += putCount(dst[at:], n)
			size, flags := c.win[g].put(dst[at+1:])
			dst[at] = flags
			at += 1 + size
		}
		ends = append(ends, at)
	}
	return dst[:at], ends
}

// AppendAccs implements Bulk.
func (c *wordColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	touchWords(c.at, groups)
	if !c.fn.out.IsFloat() {
		return appendEach(c, dst, ends, groups)
	}
	const size = 9
	at := len(dst)
	dst, ends = roomFor(dst, size*len(groups), ends, len(groups))
	for _, g := range groups {
		if x := c.at[g]; x != c.none || c.isLast(g) {
			dst[at] = tagFloat
			binary.BigEndian.PutUint64(dst[at+1:], uint64(x)^1<<63)
			at += size
		}
		ends = append(ends, at)
	}
	return dst[:at], ends
}

// AppendAccs implements Bulk.
func (c *pairColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	c.touch(groups)
	return appendEach(c, dst, ends, groups)
}

// AppendAccs implements Bulk.
func (c *rankedColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	c.touch(groups)
	for _, g := range groups {
		dst = append(dst, c.get(g)...)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *newestColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	if c.winners.Len() == 0 {
		return appendCounts(dst, ends, c.n, groups)
	}
	c.touch(groups)
	return appendEach(c, dst, ends, groups)
}

// used is called with what is read only so that it is near: what nobody uses
// would not be read.
//
//go:noinline
func used(uint64) {}

// touchRows is how many groups are touched at once, at most: as many as a block of
// a run has. More would drive the first ones out again.
const touchRows = 2048

// touchWords reads the word of each of the groups, so that a loop that comes to
// them one by one does not wait for each.
func touchWords[T int64 | uint64](words []T, groups []uint32) {
	var touched T
	for _, g := range groups[:min(len(groups), touchRows)] {
		touched ^= words[g]
	}
	used(uint64(touched))
}

// touch is touchWords of what the column has of the groups.
func (c *wideColumn) touch(groups []uint32) {
	var touched uint64
	for _, g := range groups[:min(len(groups), touchRows)] {
		touched ^= c.at[g].n
	}
	used(touched)
}

// touch is touchWords of what the column has of the groups.
func (c *floatColumn) touch(groups []uint32) {
	var touched uint64
	for _, g := range groups[:min(len(groups), touchRows)] {
		touched ^= c.n[g] ^ uint64(c.win[g].long)
	}
	used(touched)
}

// touch is touchWords of what the column has of the groups.
func (c *pairColumn) touch(groups []uint32) {
	var touched uint64
	for _, g := range groups[:min(len(groups), touchRows)] {
		touched ^= c.at[g].lo
	}
	used(touched)
}

// touchLength is how much is read of what a group keeps, at most: further bytes are
// foreseen once these are copied.
const touchLength = 512

// touch reads every line of what the groups keep, all places first: so it is
// waited for together.
func (r *registers) touch(groups []uint32) {
	const line = 64
	var touched uint64
	for _, g := range groups {
		touched ^= uint64(r.at[g].size)
	}
	for _, g := range groups {
		s := r.at[g]
		b := r.arena[s.off : s.off+min(int(s.size), touchLength)]
		for ; len(b) > line; b = b[line:] {
			touched ^= uint64(b[0])
		}
		if len(b) > 0 {
			touched ^= uint64(b[0]) ^ uint64(b[len(b)-1])
		}
	}
	used(touched)
}
