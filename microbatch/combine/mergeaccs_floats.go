package combine

import (
	"encoding/binary"
	"math/bits"
)

// shortFloat is the accumulator of few doubles, all of them finite, whose sum
// spans two words: ±(hi, lo)·2^(64·word), in units of 2^-1074.
type shortFloat struct {
	n      uint64
	lo, hi uint64
	word   int32
	neg    uint64 // all ones or none
}

// parse reads acc, behind which b goes on. It returns false for any other
// accumulator, and for what is none.
func (s *shortFloat) parse(acc, b []byte) bool {
	n, at := shortCount(acc)
	if n == 0 || at == len(acc) {
		return false
	}
	flags := acc[at]
	*s = shortFloat{n: n}
	if flags == 0 {
		return len(acc) == at+1
	}
	if flags != flagNonzero && flags != flagNonzero|flagNegative {
		return false
	}
	off, size := shortCount(acc[at+1:])
	at += 1 + size
	// A magnitude of one word and what is left of the one before begins at any of
	// its bytes; above word 30 a sum may have more bits than its addends.
	if size == 0 || off >= 8*31 || at == len(acc) || at+17 > len(b) {
		return false
	}
	k := int(acc[at])
	if k == 0 || k > 15 || at+1+k != len(acc) || b[at+1] == 0 || b[at+k] == 0 {
		return false
	}
	s.lo = binary.LittleEndian.Uint64(b[at+1:])
	if k <= 8 {
		s.lo &= ^uint64(0) >> (64 - 8*k)
	} else {
		s.hi = binary.LittleEndian.Uint64(b[at+9:]) & (^uint64(0) >> (128 - 8*k))
	}
	shift := 8 * (off & 7)
	if s.hi>>(64-shift) != 0 {
		return false
	}
	s.hi, s.lo = s.hi<<shift|s.lo>>(64-shift), s.lo<<shift
	s.word, s.neg = int32(off>>3), -uint64(flags&flagNegative)
	return true
}

// addPairAt adds ±(hi, lo)·2^(64·word).
func (s *windows) addPairAt(g uint32, word int32, lo, hi, neg uint64) {
	f := &s.win[g]
	switch at := word - f.off; {
	case f.long != 0:
		addLong(&s.long[f.long-1], int(word), lo, hi, neg)
	case at == 0 || at == 1 && hi>>62 == 0:
		addPair(&f.w, at, lo, hi, neg)
		if !spare(f.w[2]) && !f.moveTo(f.off+1) {
			s.goLong(f)
		}
	default:
		pair := [2]uint64{lo, hi}
		s.addWords(g, int(word), trim(pair[:]), neg != 0)
	}
}

// MergeAccs implements BulkMerger.
func (c *floatColumn) MergeAccs(groups []uint32, a Accs) error {
	c.touch(groups)
	var s shortFloat
	from := uint32(0)
	for i, g := range groups {
		to := a.Ends[i]
		acc, b := a.Bytes[from:to], a.Bytes[from:]
		from = to
		if s.parse(acc, b) {
			if total, carry := bits.Add64(c.n[g], s.n, 0); carry == 0 {
				c.n[g] = total
				c.addPairAt(g, s.word, s.lo, s.hi, s.neg)
				continue
			}
		}
		if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// UnmergeAccs implements BulkInverter. What would leave nothing is Unmerge's,
// which sees whether it does.
func (c *floatColumn) UnmergeAccs(groups []uint32, a Accs) error {
	c.touch(groups)
	var s shortFloat
	from := uint32(0)
	for i, g := range groups {
		to := a.Ends[i]
		acc, b := a.Bytes[from:to], a.Bytes[from:]
		from = to
		if s.parse(acc, b) && s.n < c.n[g] {
			c.n[g] -= s.n
			c.addPairAt(g, s.word, s.lo, s.hi, ^s.neg)
			continue
		}
		if err := c.Unmerge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}
