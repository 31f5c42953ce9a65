package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
)

// int192 is a signed integer in two's complement, least significant word
// first. It holds any sum of 2^64 decimals.
type int192 [3]uint64

func (x *int192) add(y int192) {
	var c uint64
	x[0], c = bits.Add64(x[0], y[0], 0)
	x[1], c = bits.Add64(x[1], y[1], c)
	x[2], _ = bits.Add64(x[2], y[2], c)
}

func (x int192) negated() int192 {
	var b uint64
	x[0], b = bits.Sub64(0, x[0], 0)
	x[1], b = bits.Sub64(0, x[1], b)
	x[2], _ = bits.Sub64(0, x[2], b)
	return x
}

func (x int192) negative() bool { return x[2]>>63 == 1 }

// abs returns the magnitude, as unsigned words, and the sign.
func (x int192) abs() (int192, bool) {
	if x.negative() {
		return x.negated(), true
	}
	return x, false
}

const (
	signZero     = 0
	signPositive = 1
	signNegative = 2
)

// append writes a sign byte and the minimal big-endian magnitude.
func (x int192) append(dst []byte) []byte {
	mag, neg := x.abs()
	n := (bitLen(trim(mag[:])) + 7) / 8
	switch {
	case n == 0:
		return append(dst, signZero)
	case neg:
		dst = append(dst, signNegative)
	default:
		dst = append(dst, signPositive)
	}
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(mag[i/8]>>(8*(i%8))))
	}
	return dst
}

// parseInt192 reads what append wrote, which must be all of b.
func parseInt192(b []byte) (x int192, err error) {
	if len(b) == 0 || b[0] > signNegative {
		return x, errors.New("sum has no sign")
	}
	sign, mag := b[0], b[1:]
	switch {
	case (sign == signZero) != (len(mag) == 0), len(mag) > 0 && mag[0] == 0:
		return x, errors.New("sum is not of minimal length")
	case len(mag) > 24 || len(mag) == 24 && mag[0]>>7 == 1:
		return x, errors.New("sum exceeds 192 bits")
	}
	for i, c := range mag {
		j := len(mag) - 1 - i
		x[j/8] |= uint64(c) << (8 * (j % 8))
	}
	if sign == signNegative {
		x = x.negated()
	}
	return x, nil
}

// wideSum is the exact sum of integers, or of decimals at one scale, and the
// number of addends. The number makes it a group: what is left when all has
// been taken out is absent, while addends that cancel leave a zero. Its
// accumulator is the number as a uvarint, then the sum as int192.append
// writes it.
type wideSum struct{ sumFn }

func (f *wideSum) NewColumn() Column { return &wideColumn{fn: f} }

func (f *wideSum) Validate(acc []byte) error {
	_, _, err := f.parse(acc)
	return err
}

func (f *wideSum) parse(acc []byte) (n uint64, x int192, err error) {
	if len(acc) == 0 {
		return 0, x, nil
	}
	n, rest, err := uvarint(acc)
	if err == nil && n == 0 {
		err = errors.New("count is zero")
	}
	if err == nil {
		x, err = parseInt192(rest)
	}
	if mag, _ := x.abs(); err == nil && bitLen(trim(mag[:])) > f.addendBits()+bits.Len64(n) {
		err = fmt.Errorf("no %d addends have this sum", n)
	}
	if err != nil {
		return 0, x, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return n, x, nil
}

// addendBits bounds the length of one addend's magnitude.
func (f *wideSum) addendBits() int {
	if f.args[0].Kind == column.Decimal {
		return 127
	}
	return 63
}

// wideColumn keeps sums in one word while they fit.
type wideColumn struct {
	fn   *wideSum
	at   []wideState
	high []int192 // what has left the one word; empty until something has
}

// wideState is the number of addends and their sum but for what is in high.
type wideState struct {
	n  uint64
	lo int64
}

func (c *wideColumn) Len() int { return len(c.at) }

func (c *wideColumn) Grow(n int) {
	c.at = grow(c.at, n)
	if len(c.high) > 0 {
		c.high = grow(c.high, n)
	}
}

func (c *wideColumn) Reset()       { c.at, c.high = c.at[:0], c.high[:0] }
func (c *wideColumn) Bytes() int64 { return int64(16*cap(c.at) + 24*cap(c.high)) }

func widen(v int64) int192 { return int192{uint64(v), uint64(v >> 63), uint64(v >> 63)} }

// sum is g's.
func (c *wideColumn) sum(g uint32) int192 {
	x := widen(c.at[g].lo)
	if len(c.high) > 0 {
		x.add(c.high[g])
	}
	return x
}

// put makes x the sum of g.
func (c *wideColumn) put(g uint32, x int192) {
	lo := int64(x[0])
	if widen(lo) == x {
		c.at[g].lo = lo
		if len(c.high) > 0 {
			c.high[g] = int192{}
		}
		return
	}
	c.high = grow(c.high, len(c.at))
	c.at[g].lo, c.high[g] = 0, x
}

func (c *wideColumn) addWide(g uint32, y int192) {
	x := c.sum(g)
	x.add(y)
	c.put(g, x)
}

func (c *wideColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	valid, decimal := arg.Valid, arg.Type.Kind == column.Decimal
	switch {
	case arg.Type.Kind == column.Null:
	case valid == nil && in.whole() && decimal:
		c.addDecimals(in.Groups, arg.Decimals)
	case valid == nil && in.whole():
		c.addInts(in.Groups, arg.Ints)
	case decimal:
		for _, i := range in.Rows {
			if valid == nil || valid[i] {
				c.addDecimal(in.Groups[i], arg.Decimals[i])
			}
		}
	default:
		for _, i := range in.Rows {
			if valid == nil || valid[i] {
				c.add(in.Groups[i], arg.Ints[i])
			}
		}
	}
	return nil
}

// addInts is add for an integer of each group.
func (c *wideColumn) addInts(groups []uint32, xs []int64) {
	at, xs := c.at, xs[:len(groups)]
	for i, g := range groups {
		s, v := &at[g], xs[i]
		x := s.lo + v
		if (x^s.lo)&(x^v) < 0 {
			c.add(g, v)
			continue
		}
		s.n++
		s.lo = x
	}
}

// addDecimals is addDecimal for a decimal of each group. Those of one word, of
// which there are hardly others, are added in place.
func (c *wideColumn) addDecimals(groups []uint32, xs []column.Int128) {
	at, xs := c.at, xs[:len(groups)]
	for i, g := range groups {
		s, d := &at[g], &xs[i]
		v := int64(d.Lo)
		x := s.lo + v
		if (x^s.lo)&(x^v) < 0 || d.Hi != v>>63 {
			c.addDecimal(g, *d)
			continue
		}
		s.n++
		s.lo = x
	}
}

func (c *wideColumn) addDecimal(g uint32, d column.Int128) {
	if d.Hi == int64(d.Lo)>>63 {
		c.add(g, int64(d.Lo))
		return
	}
	c.at[g].n++
	c.addWide(g, int192{d.Lo, uint64(d.Hi), uint64(d.Hi >> 63)})
}

func (c *wideColumn) add(g uint32, v int64) {
	s := &c.at[g]
	s.n++
	x := s.lo + v
	if (x^s.lo)&(x^v) < 0 {
		c.addWide(g, widen(v))
		return
	}
	s.lo = x
}

func (c *wideColumn) Merge(g uint32, acc []byte) error {
	n, x, err := c.fn.parse(acc)
	if err != nil {
		return err
	}
	total, carry := bits.Add64(c.at[g].n, n, 0)
	before := c.sum(g)
	sum := before
	sum.add(x)
	if a, b := before.negative(), x.negative(); carry != 0 || a == b && sum.negative() != a {
		return fmt.Errorf("%s accumulator: more than 64 bits of addends", c.fn.id)
	}
	c.at[g].n = total
	c.put(g, sum)
	return nil
}

func (c *wideColumn) Unmerge(g uint32, acc []byte) error {
	n, x, err := c.fn.parse(acc)
	if err != nil {
		return err
	}
	have := c.at[g].n
	rest := c.sum(g)
	rest.add(x.negated())
	if n > have || n == have && rest != (int192{}) {
		return fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
	}
	c.at[g].n = have - n
	c.put(g, rest)
	return nil
}

func (c *wideColumn) AppendAcc(dst []byte, g uint32) []byte {
	s := c.at[g]
	if s.n == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, s.n)
	if len(c.high) > 0 {
		return c.sum(g).append(dst)
	}
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	return dst[:at+putSum(dst[at:], s.lo)]
}

func (c *wideColumn) Extract(g uint32, dst *column.Vector) error {
	if c.at[g].n == 0 {
		dst.AppendNull()
		return nil
	}
	x := c.sum(g)
	abs, neg := x.abs()
	mag := trim(abs[:])
	switch {
	case c.fn.mean && c.fn.args[0].Kind == column.Decimal:
		den := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.fn.args[0].Scale)), nil)
		den.Mul(den, new(big.Int).SetUint64(c.at[g].n))
		f, _ := new(big.Rat).SetFrac(bigOf(mag, neg), den).Float64()
		dst.AppendFloat(f)
	case c.fn.mean:
		dst.AppendFloat(divideFloat(mag, 0, c.at[g].n, neg))
	case c.fn.out.Kind == column.Decimal:
		d := column.Int128{Hi: int64(x[1]), Lo: x[0]}
		if x[2] != uint64(d.Hi>>63) || !within38(d) {
			return fmt.Errorf("sum %s at scale %d exceeds %s", bigOf(mag, neg), c.fn.out.Scale, c.fn.out)
		}
		dst.AppendDecimal(d)
	default:
		if sign := uint64(int64(x[0]) >> 63); x[1] != sign || x[2] != sign {
			return fmt.Errorf("sum %s exceeds int64", bigOf(mag, neg))
		}
		dst.AppendInt(int64(x[0]))
	}
	return nil
}

// within38 says whether d has at most 38 digits.
func within38(d column.Int128) bool {
	const hi, lo = 5421010862427522170, 687399551400673280 // 10^38
	limit := column.Int128{Hi: hi, Lo: lo}
	low := int192{limit.Lo, uint64(limit.Hi), 0}.negated()
	return d.Cmp(limit) < 0 && d.Cmp(column.Int128{Hi: int64(low[1]), Lo: low[0]}) > 0
}
