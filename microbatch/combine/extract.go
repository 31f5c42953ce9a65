package combine

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// BulkExtractor is implemented by columns that extract many values faster than
// one by one.
type BulkExtractor interface {
	// ExtractAll is Extract for each of the groups in turn. Where that is an
	// error it is a RowError, whose row is the place among the groups, and dst
	// must be discarded.
	ExtractAll(groups []uint32, dst *column.Vector) error
}

// ExtractAll appends the values of the groups to dst, as Extract does one by
// one. An error is a RowError; dst must then be discarded.
func ExtractAll(c Column, groups []uint32, dst *column.Vector) error {
	if b, ok := c.(BulkExtractor); ok {
		return b.ExtractAll(groups, dst)
	}
	return extractEach(c, groups, dst)
}

func extractEach(c Column, groups []uint32, dst *column.Vector) error {
	for i, g := range groups {
		if err := c.Extract(g, dst); err != nil {
			return &RowError{i, err}
		}
	}
	return nil
}

// endRows ends rows whose storage was appended to dst, one for each group: so
// many of them are null, those that has denies.
func endRows(dst *column.Vector, groups []uint32, nulls int, has func(uint32) bool) {
	n := dst.Len()
	if nulls > 0 && dst.Valid == nil {
		dst.Valid = slices.Repeat([]bool{true}, n)
	}
	if dst.Valid != nil {
		dst.Valid = slices.Grow(dst.Valid, len(groups))
		for _, g := range groups {
			dst.Valid = append(dst.Valid, nulls == 0 || has(g))
		}
	}
	dst.SetLen(n + len(groups))
}

// ExtractAll implements BulkExtractor.
func (c *countColumn) ExtractAll(groups []uint32, dst *column.Vector) error {
	dst.Ints = slices.Grow(dst.Ints, len(groups))
	for i, g := range groups {
		n := c.n[g]
		if n > math.MaxInt64 {
			return &RowError{i, fmt.Errorf("count %d exceeds int64", n)}
		}
		dst.Ints = append(dst.Ints, int64(n))
	}
	endRows(dst, groups, 0, nil)
	return nil
}

// ExtractAll implements BulkExtractor. Sums of one word have nothing to check:
// they are in the range of every type they are extracted as.
func (c *wideColumn) ExtractAll(groups []uint32, dst *column.Vector) error {
	if c.fn.mean || len(c.high) > 0 {
		return extractEach(c, groups, dst)
	}
	nulls := 0
	if c.fn.out.Kind == column.Decimal {
		dst.Decimals = slices.Grow(dst.Decimals, len(groups))
		for _, g := range groups {
			s := c.at[g]
			if s.n == 0 {
				nulls++
			}
			dst.Decimals = append(dst.Decimals, column.Int128From(s.lo))
		}
	} else {
		dst.Ints = slices.Grow(dst.Ints, len(groups))
		for _, g := range groups {
			s := c.at[g]
			if s.n == 0 {
				nulls++
			}
			dst.Ints = append(dst.Ints, s.lo)
		}
	}
	endRows(dst, groups, nulls, func(g uint32) bool { return c.at[g].n > 0 })
	return nil
}

// ExtractAll implements BulkExtractor.
func (c *floatColumn) ExtractAll(groups []uint32, dst *column.Vector) error {
	if c.fn.mean || len(c.spec) > 0 {
		return extractEach(c, groups, dst)
	}
	nulls := 0
	dst.Floats = slices.Grow(dst.Floats, len(groups))
	for _, g := range groups {
		f := &c.win[g]
		if c.n[g] == 0 {
			nulls++
			dst.Floats = append(dst.Floats, 0)
			continue
		}
		x, ok := f.round()
		if !ok {
			var buf fixedPoint
			mag, word, neg := c.magnitude(g, buf[:])
			x = roundFloat(mag, 64*word-1074, false, neg)
		}
		dst.Floats = append(dst.Floats, x)
	}
	endRows(dst, groups, nulls, func(g uint32) bool { return c.n[g] > 0 })
	return nil
}

// round is roundFloat of the window; ok is false where the sum is long or below
// the normal doubles.
func (f *window) round() (x float64, ok bool) {
	w, s := f.w, f.sign()
	// The absolute value: the complement, plus one, where it is negative.
	var c uint64
	w[0], c = bits.Add64(w[0]^s, s&1, 0)
	w[1], c = bits.Add64(w[1]^s, 0, c)
	w[2], _ = bits.Add64(w[2]^s, 0, c)
	hi, lo, rest, word := w[2], w[1], w[0], int(f.off)+2
	switch {
	case f.long != 0:
		return 0, false
	case hi != 0:
	case lo != 0:
		hi, lo, rest, word = lo, rest, 0, word-1
	default:
		hi, lo, rest, word = rest, 0, 0, word-2
	}
	if hi == 0 {
		return 0, true
	}
	// The 64 bits from the highest one on, the exponent of the least of which
	// is that of the double less eleven.
	zeros := bits.LeadingZeros64(hi)
	m := hi<<zeros | lo>>(64-zeros)
	exponent := 64*word - zeros + 11 // from the least of all doubles
	if exponent < 0 || exponent > 971+1074 {
		return 0, false
	}
	const tail = 1<<11 - 1
	low := m & tail
	m >>= 11
	if low > 1<<10 || low == 1<<10 && (lo<<zeros|rest != 0 || m&1 == 1) {
		m++
	}
	// The implicit bit, and a carry out of rounding, land in the exponent.
	return math.Float64frombits(uint64(exponent)<<52 + m | s<<63), true
}

// ExtractAll implements BulkExtractor.
func (c *wordColumn) ExtractAll(groups []uint32, dst *column.Vector) error {
	nulls := 0
	switch k := c.fn.out.Kind; k {
	case column.Bool:
		return extractEach(c, groups, dst)
	case column.Float32, column.Float64:
		dst.Floats = slices.Grow(dst.Floats, len(groups))
		for _, g := range groups {
			x := c.at[g]
			if x == c.none && !c.isLast(g) {
				nulls, x = nulls+1, 0
			}
			dst.Floats = append(dst.Floats, wordFloat(x))
		}
	default:
		dst.Ints = slices.Grow(dst.Ints, len(groups))
		for _, g := range groups {
			x := c.at[g]
			if x == c.none && !c.isLast(g) {
				nulls, x = nulls+1, 0
			}
			dst.Ints = append(dst.Ints, x)
		}
	}
	endRows(dst, groups, nulls, c.has)
	return nil
}

// ExtractAll implements BulkExtractor.
func (c *pairColumn) ExtractAll(groups []uint32, dst *column.Vector) error {
	nulls := 0
	if c.fn.out.Kind == column.Timestamp {
		dst.Ints, dst.Nanos = slices.Grow(dst.Ints, len(groups)), slices.Grow(dst.Nanos, len(groups))
	} else {
		dst.Decimals = slices.Grow(dst.Decimals, len(groups))
	}
	for _, g := range groups {
		x := c.at[g]
		if x == c.none && !c.isLast(g) {
			nulls, x = nulls+1, pair{}
		}
		if c.fn.out.Kind == column.Timestamp {
			dst.Ints, dst.Nanos = append(dst.Ints, x.hi), append(dst.Nanos, int32(x.lo))
		} else {
			dst.Decimals = append(dst.Decimals, column.Int128{Hi: x.hi, Lo: x.lo})
		}
	}
	endRows(dst, groups, nulls, c.has)
	return nil
}

// ExtractAll implements BulkExtractor.
func (c *rankedColumn) ExtractAll(groups []uint32, dst *column.Vector) error {
	if k := c.fn.out.Kind; k != column.String && k != column.Bytes {
		return extractEach(c, groups, dst)
	}
	c.scratch = extractTexts(groups, dst, c.scratch[:0], func(g uint32) []byte {
		have := c.get(g)
		if have == nil {
			return nil
		}
		_, value, err := splitRank(have)
		if err != nil {
			return nil // as no accumulator is that was made or merged
		}
		return value
	})
	return nil
}

// ExtractAll implements BulkExtractor.
func (c *extremeColumn) ExtractAll(groups []uint32, dst *column.Vector) error {
	if k := c.fn.out.Kind; k != column.String && k != column.Bytes {
		return extractEach(c, groups, dst)
	}
	c.scratch = extractTexts(groups, dst, c.scratch[:0], c.get)
	return nil
}

// extractTexts appends the strings or byte strings that are encoded in what of
// returns, which is whole and canonical: null for nothing. The texts share one
// allocation. It returns the scratch room.
func extractTexts(groups []uint32, dst *column.Vector, scratch []byte, of func(uint32) []byte) []byte {
	const tag, terminator = 1, 2 // bytes before and behind a text
	nulls := 0
	dst.Strings = slices.Grow(dst.Strings, len(groups))
	ends := make([]int, 0, len(groups))
	for _, g := range groups {
		value := of(g)
		if len(value) == 0 || tuple.IsNull(value) {
			nulls++
			ends = append(ends, len(scratch))
			continue
		}
		body := value[tag : len(value)-terminator]
		for i := bytes.IndexByte(body, 0); i >= 0; i = bytes.IndexByte(body, 0) {
			scratch = append(scratch, body[:i+1]...)
			body = body[i+2:] // without the escape
		}
		scratch = append(scratch, body...)
		ends = append(ends, len(scratch))
	}
	all, at := string(scratch), 0
	for _, end := range ends {
		dst.Strings = append(dst.Strings, all[at:end])
		at = end
	}
	endRows(dst, groups, nulls, func(g uint32) bool {
		value := of(g)
		return len(value) > 0 && !tuple.IsNull(value)
	})
	return scratch
}
