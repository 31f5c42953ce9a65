package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
)

// floatSum is the exact sum of doubles and their number, rounded once in
// Extract. NaN and infinities are counted apart, so that they too can be taken
// out again; NaN, or both infinities, make the result NaN. −0 is 0.
//
// Its accumulator is the number of addends as a uvarint, a byte of flags (1
// negative, 2 not zero, 4 NaN, 8 +Inf, 16 −Inf), then if not zero the value
// (−1)^s · M · 2^(8·off − 1074) as off uvarint, length uvarint, M
// little-endian with first and last byte not zero; then the flagged counters
// as uvarints.
type floatSum struct{ sumFn }

const (
	flagNegative = 1 << iota
	flagNonzero
	flagNaN
	flagPosInf
	flagNegInf
	flagsEnd
)

// specials are the counts of NaN, +Inf and −Inf.
type specials [3]uint64

// floatAcc is a parsed accumulator.
type floatAcc struct {
	n    uint64
	neg  bool
	word int
	mag  []uint64 // a part of buf
	spec specials
	buf  [longWords]uint64
}

func (f *floatSum) NewColumn() Column { return &floatColumn{fn: f} }

func (f *floatSum) Validate(acc []byte) error {
	var a floatAcc
	return f.parse(&a, acc)
}

func (f *floatSum) parse(a *floatAcc, acc []byte) error {
	if len(acc) == 0 {
		*a = floatAcc{}
		return nil
	}
	if err := a.parse(acc); err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

func (a *floatAcc) parse(acc []byte) error {
	*a = floatAcc{}
	var err error
	if a.n, acc, err = uvarint(acc); err != nil {
		return err
	}
	if a.n == 0 || len(acc) == 0 {
		return errors.New("count is zero or all there is")
	}
	flags := acc[0]
	acc = acc[1:]
	if flags >= flagsEnd || flags&(flagNegative|flagNonzero) == flagNegative {
		return fmt.Errorf("flags 0x%02x mean nothing", flags)
	}
	a.neg = flags&flagNegative != 0
	if flags&flagNonzero != 0 {
		if a.mag, a.word, acc, err = parseMagnitude(acc, a.buf[:]); err != nil {
			return err
		}
	}
	left := a.n
	for i := range a.spec {
		if flags&(flagNaN<<i) == 0 {
			continue
		}
		if a.spec[i], acc, err = uvarint(acc); err != nil {
			return err
		}
		if a.spec[i] == 0 || a.spec[i] > left {
			return errors.New("counters do not add up")
		}
		left -= a.spec[i]
	}
	if len(acc) > 0 {
		return errLeft
	}
	if len(a.mag) > 0 && 64*a.word+bitLen(a.mag) > 2098+bits.Len64(left) || left == 0 && len(a.mag) > 0 {
		return fmt.Errorf("no %d addends have this sum", left)
	}
	return nil
}

type floatColumn struct {
	windows
	fn    *floatSum
	n     []uint64
	spec  []specials // empty until a special is seen
	parts floatAcc   // scratch
}

func (c *floatColumn) Len() int { return len(c.n) }

func (c *floatColumn) Grow(n int) {
	c.n = grow(c.n, n)
	c.windows.grow(n)
	if len(c.spec) > 0 {
		c.spec = grow(c.spec, n)
	}
}

func (c *floatColumn) Reset() {
	c.n, c.win, c.long, c.spec = c.n[:0], c.win[:0], c.long[:0], c.spec[:0]
}

func (c *floatColumn) Bytes() int64 {
	return int64(8*cap(c.n) + 32*cap(c.win) + 8*longWords*cap(c.long) + 24*cap(c.spec))
}

func (c *floatColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	switch {
	case arg.Type.Kind == column.Null:
		return nil
	case arg.Valid == nil && in.whole():
		c.addAll(in.Groups, arg.Floats)
		return nil
	}
	for _, i := range in.Rows {
		if arg.Valid == nil || arg.Valid[i] {
			c.add(in.Groups[i], arg.Floats[i])
		}
	}
	return nil
}

// addAll is add for a double of each group. A normal number that falls into the
// window of its group is added in place.
func (c *floatColumn) addAll(groups []uint32, xs []float64) {
	n, win, xs := c.n, c.win, xs[:len(groups)]
	for i, g := range groups {
		b := math.Float64bits(xs[i])
		pos := b>>52&0x7ff - 1
		f := &win[g]
		at := pos>>6 - uint64(f.off)
		if at > 1 || pos >= 0x7fe {
			c.add(g, xs[i])
			if f.long == 0 {
				c.near = f.off
			}
			continue
		}
		n[g]++
		m, bit := b&(1<<52-1)|1<<52, pos&63
		addPair(&f.w, int32(at), m<<bit, m>>1>>(^pos&63), uint64(int64(b)>>63))
		if !spare(f.w[2]) && !f.moveTo(f.off+1) {
			c.goLong(f)
		}
	}
}

func (c *floatColumn) add(g uint32, x float64) {
	c.n[g]++
	b := math.Float64bits(x)
	m, pos := b&(1<<52-1), int(b>>52&0x7ff)
	switch {
	case pos == 0x7ff:
		c.addSpecial(g, x)
		return
	case pos > 0:
		m, pos = m|1<<52, pos-1
	case m == 0:
		return
	}
	c.addBits(g, m, pos, uint64(int64(b)>>63))
}

func (c *floatColumn) addSpecial(g uint32, x float64) {
	c.spec = grow(c.spec, len(c.n))
	switch {
	case x != x:
		c.spec[g][0]++
	case x > 0:
		c.spec[g][1]++
	default:
		c.spec[g][2]++
	}
}

func (c *floatColumn) special(g uint32) specials {
	if len(c.spec) == 0 {
		return specials{}
	}
	return c.spec[g]
}

func (c *floatColumn) Merge(g uint32, acc []byte) error {
	a := &c.parts
	if err := c.fn.parse(a, acc); err != nil {
		return err
	}
	total, carry := bits.Add64(c.n[g], a.n, 0)
	if carry != 0 {
		return fmt.Errorf("%s accumulator: more than 64 bits of addends", c.fn.id)
	}
	c.n[g] = total
	if a.spec != (specials{}) {
		c.spec = grow(c.spec, len(c.n))
		for i, k := range a.spec {
			c.spec[g][i] += k
		}
	}
	c.addWords(g, a.word, trim(a.mag), a.neg)
	return nil
}

func (c *floatColumn) Unmerge(g uint32, acc []byte) error {
	a := &c.parts
	if err := c.fn.parse(a, acc); err != nil {
		return err
	}
	have := c.special(g)
	fits := a.n <= c.n[g]
	for i, k := range a.spec {
		fits = fits && k <= have[i]
	}
	if !fits {
		return fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
	}
	before := c.n[g]
	c.addWords(g, a.word, trim(a.mag), !a.neg)
	if a.n == before {
		var buf fixedPoint
		if mag, _, _ := c.magnitude(g, buf[:]); len(mag) > 0 || a.spec != have {
			c.addWords(g, a.word, trim(a.mag), a.neg)
			return fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
		}
	}
	c.n[g] -= a.n
	if a.spec != (specials{}) {
		for i, k := range a.spec {
			c.spec[g][i] -= k
		}
	}
	return nil
}

func (c *floatColumn) AppendAcc(dst []byte, g uint32) []byte {
	if c.n[g] == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, c.n[g])
	flagAt := len(dst)
	dst = append(dst, 0)
	flags := byte(0)
	if f := &c.win[g]; f.long == 0 {
		dst, flags = f.append(dst)
	} else {
		var buf fixedPoint
		if mag, word, neg := c.magnitude(g, buf[:]); len(mag) > 0 {
			flags = flagNonzero
			if neg {
				flags |= flagNegative
			}
			dst = appendMagnitude(dst, mag, word)
		}
	}
	if len(c.spec) == 0 {
		dst[flagAt] = flags
		return dst
	}
	for i, k := range c.special(g) {
		if k > 0 {
			flags |= flagNaN << i
			dst = binary.AppendUvarint(dst, k)
		}
	}
	dst[flagAt] = flags
	return dst
}

func (c *floatColumn) Extract(g uint32, dst *column.Vector) error {
	if c.n[g] == 0 {
		dst.AppendNull()
		return nil
	}
	spec := c.special(g)
	switch {
	case spec[0] > 0 || spec[1] > 0 && spec[2] > 0:
		dst.AppendFloat(math.Float64frombits(0x7ff8000000000000))
		return nil
	case spec[1] > 0:
		dst.AppendFloat(math.Inf(1))
		return nil
	case spec[2] > 0:
		dst.AppendFloat(math.Inf(-1))
		return nil
	}
	var buf fixedPoint
	mag, word, neg := c.magnitude(g, buf[:])
	if c.fn.mean {
		dst.AppendFloat(divideFloat(mag, 64*word-1074, c.n[g], neg))
	} else {
		dst.AppendFloat(roundFloat(mag, 64*word-1074, false, neg))
	}
	return nil
}
