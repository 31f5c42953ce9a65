package squeeze

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	// tableBits makes a table that stays near the processor.
	tableBits = 13
	// minMatch is the shortest match that is looked for.
	minMatch = 6
	// behind is how many bytes at the end are not looked at: a look takes two words.
	behind = 16
	// weary is after how many bytes without a match steps get longer, as a power of two.
	weary = 6
)

// finder finds matches in a content, block by block, and counts the codes of what it finds.
type finder struct {
	table    [1 << tableBits]uint32 // where a hash was seen last
	distance uint32                 // of the last match; 0 before the first

	literals []byte
	found    []sequence

	lengths, matches, offsets states
}

// sequence is so many literals, and behind them so many bytes from so far back, as the format names them: codes, and the bits they leave open.
type sequence struct {
	open  uint64
	codes uint32 // of literals, match and distance, and how many bits are open: a byte each
}

func (f *finder) reset() {
	clear(f.table[:])
	f.distance = 0
}

func hash(v uint64) uint64 { return v << (64 - 8*minMatch) * 0x9E3779B185EBCA87 >> (64 - tableBits) }

func load(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// find turns all of b behind from into sequences and literals. Matches may begin before from. What costs is where the processor guesses
// wrong, which it does of the place and of the length of most matches: so what can be had without a branch is.
func (f *finder) find(b []byte, from int) {
	f.lengths.forget()
	f.matches.forget()
	f.offsets.forget()
	f.found = slices.Grow(f.found[:0], blockSize/minMatch+1)
	f.literals = slices.Grow(f.literals[:0], blockSize+behind)
	lits := f.literals[:cap(f.literals)]
	n := 0       // of lits
	done := from // what is before is in sequences
	at, end := from, len(b)-behind
	for at < end {
		v := load(b, at)
		slot := &f.table[hash(v)]
		old := int(*slot)
		*slot = uint32(at)
		x := load(b, old) ^ v
		if old >= at || x<<(64-8*minMatch) != 0 {
			at += 1 + (at-done)>>weary
			continue
		}
		start := at
		m := bits.TrailingZeros64(x) >> 3
		y := bits.TrailingZeros64(load(b, old+8)^load(b, at+8)) >> 3
		if m == 8 {
			m += y
		}
		if m == 16 {
			m += same(b[old+16:], b[at+16:])
		}
		at += m
		for start > done && old > 0 && b[start-1] == b[old-1] {
			start, old = start-1, old-1
		}
		if start-done <= 16 {
			*(*[16]byte)(lits[n:]) = *(*[16]byte)(b[done:])
		} else {
			copy(lits[n:], b[done:start])
		}
		n += start - done
		f.add(uint32(start-done), uint32(at-start), uint32(start-old))
		done = at
	}
	n += copy(lits[n:], b[done:])
	f.literals = lits[:n]
}

// same is how many bytes two texts begin with that are the same; b is the shorter.
func same(a, b []byte) int {
	n := 0
	for ; n+8 <= len(b); n += 8 {
		if d := load(a, n) ^ load(b, n); d != 0 {
			return n + bits.TrailingZeros64(d)>>3
		}
	}
	for n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// add names a sequence and counts the names.
func (f *finder) add(literals, match, distance uint32) {
	// A distance is three more than itself; 1 is the one before, unless there are no literals.
	offset := distance + 3
	if distance == f.distance && literals > 0 {
		offset = 1
	}
	f.distance = distance
	match -= shortest
	l, m, o := lengthCode(literals), matchCode(match), uint32(bits.Len32(offset)-1)
	f.lengths.count[l&63]++
	f.matches.count[m&63]++
	f.offsets.count[o&63]++
	lw, mw := uint32(lengthOpen[l&63]), uint32(matchOpen[m&63])
	open := uint64(offset)&(1<<(o&31)-1)<<(mw&31) | uint64(match)&(1<<(mw&31)-1)
	f.found = append(f.found, sequence{
		open:  open<<(lw&31) | uint64(literals)&(1<<(lw&31)-1),
		codes: l | m<<8 | o<<16 | (lw+mw+o)<<24,
	})
}

// shortest is the shortest match of the format.
const shortest = 3

// Codes of numbers below these are in tables, beyond they are by the highest bit.
const (
	lengthTable, lengthBeyond = 64, 19
	matchTable, matchBeyond   = 128, 36
)

// lengthCode is the code of a number of literals.
func lengthCode(n uint32) uint32 {
	if n < lengthTable {
		return uint32(lengthCodes[n])
	}
	return uint32(bits.Len32(n)) - 1 + lengthBeyond
}

// matchCode is that of a match, by how much it is longer than the shortest.
func matchCode(n uint32) uint32 {
	if n < matchTable {
		return uint32(matchCodes[n])
	}
	return uint32(bits.Len32(n)) - 1 + matchBeyond
}

var (
	// How many bits codes of literals and of matches leave open: RFC 8878, 3.1.1.3.2.1.1.
	lengthOpen = [codes]uint8{
		16: 1, 17: 1, 18: 1, 19: 1, 20: 2, 21: 2, 22: 3, 23: 3, 24: 4,
		25: 6, 26: 7, 27: 8, 28: 9, 29: 10, 30: 11, 31: 12, 32: 13, 33: 14, 34: 15, 35: 16,
	}
	matchOpen = [codes]uint8{
		32: 1, 33: 1, 34: 1, 35: 1, 36: 2, 37: 2, 38: 3, 39: 3, 40: 4, 41: 4, 42: 5,
		43: 7, 44: 8, 45: 9, 46: 10, 47: 11, 48: 12, 49: 13, 50: 14, 51: 15, 52: 16,
	}
	lengthCodes = codesOf(lengthTable, lengthOpen)
	matchCodes  = codesOf(matchTable, matchOpen)
)

// codesOf are the codes of the numbers below n: each code has as many as the bits that it leaves open tell apart.
func codesOf(n int, open [codes]uint8) (out [matchTable]uint8) {
	code, left := uint8(0), 1
	for i := range n {
		out[i] = code
		if left--; left == 0 {
			code++
			left = 1 << open[code]
		}
	}
	return out
}
