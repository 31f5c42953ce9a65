package combine

import (
	"encoding/binary"
	"math/bits"

	"github.com/deltad/deltad/microbatch/tuple"
)

// BulkMerger is implemented by columns that merge many accumulators faster than
// one by one. What a kernel does not recognize as an accumulator of the usual
// kind, of few addends or a time that is known, it leaves to Merge, so that
// Merge alone says what is an accumulator and what is an error.
type BulkMerger interface {
	// MergeAccs is what the function MergeAccs does.
	MergeAccs(groups []uint32, a Accs) error
}

// BulkInverter is BulkMerger for Unmerge.
type BulkInverter interface {
	// UnmergeAccs is what the function UnmergeAccs does.
	UnmergeAccs(groups []uint32, a Accs) error
}

// BulkRetractor is BulkMerger for Retract.
type BulkRetractor interface {
	// RetractAccs is what the function RetractAccs does.
	RetractAccs(groups []uint32, a Accs, left []uint32) ([]uint32, error)
}

// MergeAccs merges the accumulator of each row i into groups[i], all of them
// different, as Merge does one by one. An error is a RowError; the rows before
// it are merged.
func MergeAccs(c Column, groups []uint32, a Accs) error {
	if b, ok := c.(BulkMerger); ok {
		return b.MergeAccs(groups, a)
	}
	return each(groups, a, c.Merge)
}

// UnmergeAccs is MergeAccs of what was merged before, taken out again.
func UnmergeAccs(c Inverter, groups []uint32, a Accs) error {
	if b, ok := c.(BulkInverter); ok {
		return b.UnmergeAccs(groups, a)
	}
	return each(groups, a, c.Unmerge)
}

// each does it with each group and its accumulator, but for identities.
func each(groups []uint32, a Accs, do func(g uint32, acc []byte) error) error {
	for i, g := range groups {
		if acc := a.At(i); len(acc) > 0 {
			if err := do(g, acc); err != nil {
				return &RowError{i, err}
			}
		}
	}
	return nil
}

// RetractAccs retracts the accumulator of each row i from groups[i], all of them
// different, as Retract does one by one, and appends to left the groups of
// which it returns false. An error is a RowError; the rows before it are done.
func RetractAccs(c Retractor, groups []uint32, a Accs, left []uint32) ([]uint32, error) {
	if b, ok := c.(BulkRetractor); ok {
		return b.RetractAccs(groups, a, left)
	}
	err := each(groups, a, func(g uint32, acc []byte) (err error) {
		left, err = retract(c, g, acc, left)
		return err
	})
	return left, err
}

// retract is Retract that appends the group to left where it returns false.
func retract(c Retractor, g uint32, acc []byte, left []uint32) ([]uint32, error) {
	ok, err := c.Retract(g, acc)
	if err == nil && !ok {
		left = append(left, g)
	}
	return left, err
}

// shortCount reads a number of one or two bytes from the front of b and returns
// its size, 0 for any other. The number may be 0 in one byte alone.
func shortCount(b []byte) (n uint64, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	if len(b) > 1 && b[1]-1 < 0x7f {
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, 2
	}
	return 0, 0
}

// onlyCount is shortCount of all of b; 0 for what is none, or zero.
func onlyCount(b []byte) uint64 {
	if n, size := shortCount(b); size == len(b) {
		return n
	}
	return 0
}

// MergeAccs implements BulkMerger.
func (c *countColumn) MergeAccs(groups []uint32, a Accs) error {
	touchWords(c.n, groups)
	for i, g := range groups {
		acc := a.At(i)
		n := onlyCount(acc)
		if sum, carry := bits.Add64(c.n[g], n, 0); n > 0 && carry == 0 {
			c.n[g] = sum
		} else if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// UnmergeAccs implements BulkInverter.
func (c *countColumn) UnmergeAccs(groups []uint32, a Accs) error {
	touchWords(c.n, groups)
	for i, g := range groups {
		acc := a.At(i)
		if n := onlyCount(acc); n > 0 && n <= c.n[g] {
			c.n[g] -= n
		} else if err := c.Unmerge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// MergeAccs implements BulkMerger: records of which no flag is known are only
// counted.
func (c *newestColumn) MergeAccs(groups []uint32, a Accs) error {
	touchWords(c.n, groups)
	for i, g := range groups {
		acc := a.At(i)
		n := onlyCount(acc)
		if sum, carry := bits.Add64(c.n[g], n, 0); n > 0 && carry == 0 {
			c.n[g] = sum
			continue
		}
		if n, size := shortCount(acc); n > 0 && c.mergeMark(g, n, acc[size:]) {
			continue
		}
		if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// mergeMark merges n records, the newest flag of which is mark, if that takes
// but a look at the time.
func (c *newestColumn) mergeMark(g uint32, n uint64, mark []byte) bool {
	rank, flag, ok := shortRank(mark)
	if !ok || len(flag) != 1 || !tuple.IsBool(flag) {
		return false
	}
	c.contest()
	sum, carry := bits.Add64(c.n[g], n, 0)
	if carry != 0 {
		return false
	}
	if merged, _ := c.mergeHeaded(g, rank, mark); !merged {
		return false
	}
	c.n[g] = sum
	return true
}

// RetractAccs implements BulkRetractor.
func (c *newestColumn) RetractAccs(groups []uint32, a Accs, left []uint32) ([]uint32, error) {
	touchWords(c.n, groups)
	for i, g := range groups {
		acc := a.At(i)
		if n := onlyCount(acc); n > 0 && n < c.n[g] {
			c.n[g] -= n
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
func (c *boolColumn) MergeAccs(groups []uint32, a Accs) error {
	for i, g := range groups {
		acc := a.At(i)
		if len(acc) == 1 && tuple.IsBool(acc) {
			c.at[g] = max(c.at[g], c.verdict(tuple.IsTrue(acc)))
		} else if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// MergeAccs implements BulkMerger.
func (c *wideColumn) MergeAccs(groups []uint32, a Accs) error {
	c.touch(groups)
	from := uint32(0)
	for i, g := range groups {
		to := a.Ends[i]
		acc := a.Bytes[from:to]
		n, x := narrow(acc, a.Bytes[from:])
		from = to
		if n > 0 && c.mergeNarrow(g, n, x) {
			continue
		}
		if err := c.Merge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// mergeNarrow is Merge of n addends and their sum, if that is an addition.
func (c *wideColumn) mergeNarrow(g uint32, n uint64, x int64) bool {
	s := &c.at[g]
	sum, total := s.lo+x, s.n+n
	if (sum^s.lo)&(sum^x) < 0 || total < n || len(c.high) > 0 && c.high[g] != (int192{}) {
		return false
	}
	s.n, s.lo = total, sum
	return true
}

// UnmergeAccs implements BulkInverter.
func (c *wideColumn) UnmergeAccs(groups []uint32, a Accs) error {
	c.touch(groups)
	from := uint32(0)
	for i, g := range groups {
		to := a.Ends[i]
		acc := a.Bytes[from:to]
		n, x := narrow(acc, a.Bytes[from:])
		from = to
		s := &c.at[g]
		rest := s.lo - x
		if n > 0 && (n < s.n || n == s.n && rest == 0) && (s.lo^x)&(s.lo^rest) >= 0 && (len(c.high) == 0 || c.high[g] == (int192{})) {
			s.n, s.lo = s.n-n, rest
			continue
		}
		if err := c.Unmerge(g, acc); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// narrow reads an accumulator of few addends and a sum of up to seven bytes. It
// returns no addends for any other, and for what is none. b goes on behind acc.
func narrow(acc, b []byte) (n uint64, x int64) {
	n, at := shortCount(acc)
	k := len(acc) - at - 1 // bytes of the magnitude
	if uint(k) > 7 || at+9 > len(b) {
		return 0, 0
	}
	sign, mag := acc[at], binary.BigEndian.Uint64(b[at+1:])>>(64-8*k)
	switch {
	case sign == signZero && k == 0:
		return n, 0
	case k == 0 || mag>>(8*(k-1)) == 0:
		return 0, 0
	case sign == signPositive:
		return n, int64(mag)
	case sign == signNegative:
		return n, -int64(mag)
	}
	return 0, 0
}

// Bytewise is implemented by Selectors whose order of accumulators is that of
// their bytes.
type Bytewise interface {
	// Bytewise says whether the greatest bytes are preferred, else the least.
	Bytewise() (greatest bool)
}

// Bytewise implements Bytewise.
func (f *extremeFn) Bytewise() bool { return f.greatest }

// Bytewise implements Bytewise.
func (f *boolFn) Bytewise() bool { return f.decides }
