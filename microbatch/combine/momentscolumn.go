package combine

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
)

// momentsColumn holds the sums of each argument and of the products for many
// groups.
type momentsColumn struct {
	fn       *momentsFn
	n        []uint64
	bad      []uint64  // records that are not finite; empty until one is seen
	sums     []windows // of each argument
	products products
	acc      momentsAcc // scratch
}

func (c *momentsColumn) Len() int { return len(c.n) }

func (c *momentsColumn) Grow(n int) {
	c.n = grow(c.n, n)
	if len(c.bad) > 0 {
		c.bad = grow(c.bad, n)
	}
	for i := range c.sums {
		c.sums[i].win = grow(c.sums[i].win, n)
	}
	c.products.Grow(n)
}

func (c *momentsColumn) Reset() {
	c.n, c.bad = c.n[:0], c.bad[:0]
	for i := range c.sums {
		c.sums[i].win, c.sums[i].long = c.sums[i].win[:0], c.sums[i].long[:0]
	}
	c.products.Reset()
}

func (c *momentsColumn) Bytes() int64 {
	n := int64(8*(cap(c.n)+cap(c.bad))) + c.products.Bytes()
	for _, s := range c.sums {
		n += int64(32*cap(s.win) + 8*longWords*cap(s.long))
	}
	return n
}

func (c *momentsColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	x, y := in.Args[0], in.Args[len(in.Args)-1]
	if x.Type.Kind == column.Null || y.Type.Kind == column.Null {
		return nil
	}
	for _, i := range in.Rows {
		if x.Null(int(i)) || y.Null(int(i)) {
			continue
		}
		g := in.Groups[i]
		c.n[g]++
		a, finite := factorOf(x, int(i))
		b := a
		if len(in.Args) == 2 {
			var too bool
			b, too = factorOf(y, int(i))
			finite = finite && too
		}
		if !finite {
			c.bad = grow(c.bad, len(c.n))
			c.bad[g]++
			continue
		}
		a.addTo(&c.sums[0], g)
		if len(in.Args) == 2 {
			b.addTo(&c.sums[1], g)
		}
		var t [4]uint64
		word := a.times(&b, &t)
		if t[3] == 0 {
			c.products.addTriple(g, word, &t, a.neg^b.neg)
		} else {
			c.products.add(g, word, t[:], a.neg != b.neg)
		}
	}
	return nil
}

// factor is a number ±(hi, lo)·2^pos in its type's units. A double has no hi,
// and less than 54 bits; other numbers have no pos.
type factor struct {
	lo, hi uint64
	pos    int
	neg    uint64 // all ones or none
}

// factorOf reads row i; what is not finite is none.
func factorOf(v *column.Vector, i int) (f factor, finite bool) {
	switch {
	case v.Type.IsFloat():
		b := math.Float64bits(v.Floats[i])
		f.lo, f.pos, f.neg = b&(1<<52-1), int(b>>52&0x7ff), uint64(int64(b)>>63)
		if f.pos == 0x7ff {
			return f, false
		}
		if f.pos > 0 {
			f.lo, f.pos = f.lo|1<<52, f.pos-1
		}
	case v.Type.Kind == column.Decimal:
		d := v.Decimals[i]
		f.neg = uint64(d.Hi >> 63)
		var c uint64
		f.lo, c = bits.Add64(d.Lo^f.neg, 0, f.neg&1)
		f.hi = uint64(d.Hi) ^ f.neg + c
	default:
		x := v.Ints[i]
		f.neg = uint64(x >> 63)
		f.lo = uint64(x) ^ f.neg - f.neg
	}
	return f, true
}

func (f *factor) addTo(s *windows, g uint32) {
	if f.hi == 0 {
		s.addBits(g, f.lo, f.pos, f.neg)
		return
	}
	s.addWords(g, 0, []uint64{f.lo, f.hi}, f.neg != 0)
}

// times computes the product of magnitudes into t and returns its place.
func (f *factor) times(o *factor, t *[4]uint64) (word int) {
	t[1], t[0] = bits.Mul64(f.lo, o.lo)
	if f.hi|o.hi != 0 {
		mulAt(t[:], 1, []uint64{f.lo}, []uint64{o.hi})
		var u, v [4]uint64
		mulAt(u[:], 1, []uint64{f.hi}, []uint64{o.lo})
		mulAt(v[:], 2, []uint64{f.hi}, []uint64{o.hi})
		accumulate(t[:], 0, u[:], false)
		accumulate(t[:], 0, v[:], false)
	}
	pos := f.pos + o.pos
	if bit := pos & 63; bit != 0 {
		t[3] = t[3]<<bit | t[2]>>(64-bit)
		t[2] = t[2]<<bit | t[1]>>(64-bit)
		t[1] = t[1]<<bit | t[0]>>(64-bit)
		t[0] <<= bit
	}
	return pos >> 6
}

func (c *momentsColumn) Merge(g uint32, acc []byte) error {
	a := &c.acc
	if err := c.fn.parse(a, acc); err != nil {
		return err
	}
	total, carry := bits.Add64(c.n[g], a.n, 0)
	if carry != 0 {
		return fmt.Errorf("%s accumulator: more than 64 bits of records", c.fn.id)
	}
	c.n[g] = total
	if a.bad > 0 {
		c.bad = grow(c.bad, len(c.n))
		c.bad[g] += a.bad
	}
	c.shift(g, a, false)
	return nil
}

// shift adds or subtracts the sums of an accumulator.
func (c *momentsColumn) shift(g uint32, a *momentsAcc, subtract bool) {
	for i := range c.sums {
		c.sums[i].addWords(g, a.word[i], a.mag[i], a.neg[i] != subtract)
	}
	p := len(c.sums)
	c.products.add(g, a.word[p], a.mag[p], a.neg[p] != subtract)
}

func (c *momentsColumn) notFinite(g uint32) uint64 {
	if len(c.bad) == 0 {
		return 0
	}
	return c.bad[g]
}

func (c *momentsColumn) Unmerge(g uint32, acc []byte) error {
	a := &c.acc
	if err := c.fn.parse(a, acc); err != nil {
		return err
	}
	never := func() error { return fmt.Errorf("%s: what is taken out was never merged", c.fn.id) }
	bad := c.notFinite(g)
	if a.n > c.n[g] || a.bad > bad || a.n-a.bad > c.n[g]-bad {
		return never()
	}
	c.shift(g, a, true)
	var rest momentsAcc
	c.read(&rest, g)
	rest.n, rest.bad = c.n[g]-a.n, bad-a.bad
	if err := c.fn.consistent(&rest); err != nil {
		c.shift(g, a, false)
		return never()
	}
	c.n[g] -= a.n
	if a.bad > 0 {
		c.bad[g] -= a.bad
	}
	return nil
}

// read fills a with what group g holds.
func (c *momentsColumn) read(a *momentsAcc, g uint32) {
	a.n, a.bad, a.sums = c.n[g], c.notFinite(g), len(c.sums)+1
	for i := range c.sums {
		a.mag[i], a.word[i], a.neg[i] = c.sums[i].magnitude(g, a.buf[i][:])
	}
	p := len(c.sums)
	a.mag[p], a.word[p], a.neg[p] = c.products.magnitude(g, &a.prod)
}

func (c *momentsColumn) AppendAcc(dst []byte, g uint32) []byte {
	if c.n[g] == 0 {
		return dst
	}
	a := &c.acc
	c.read(a, g)
	dst = binary.AppendUvarint(dst, a.n)
	at, flags := len(dst), byte(0)
	dst = append(dst, 0)
	for i := range a.sums {
		if len(a.mag[i]) > 0 {
			flags |= 2 << (2 * i)
			if a.neg[i] {
				flags |= 1 << (2 * i)
			}
			dst = appendMagnitude(dst, a.mag[i], a.word[i])
		}
	}
	if a.bad > 0 {
		flags |= flagNotFinite
		dst = binary.AppendUvarint(dst, a.bad)
	}
	dst[at] = flags
	return dst
}

func (c *momentsColumn) Extract(g uint32, dst *column.Vector) error {
	a := &c.acc
	c.read(a, g)
	switch {
	case a.n == 0, a.n == 1 && !c.fn.population:
		dst.AppendNull()
		return nil
	case a.bad > 0:
		dst.AppendFloat(math.Float64frombits(0x7ff8000000000000))
		return nil
	}
	mag, word, neg := a.difference(a.n)
	if neg && len(c.fn.args) == 1 {
		return fmt.Errorf("sums of no %d values", a.n)
	}
	f := quotient(bigOf(mag, false), c.fn.denominator(a.n), 64*word+c.fn.exponent(), c.fn.root)
	if neg {
		f = -f
	}
	dst.AppendFloat(f)
	return nil
}

// denominator is n² or n·(n−1) in units of the decimals' scales.
func (f *momentsFn) denominator(n uint64) *big.Int {
	d := new(big.Int).SetUint64(n)
	e := new(big.Int).Set(d)
	if !f.population {
		e.SetUint64(n - 1)
	}
	d.Mul(d, e)
	scale := 0
	for _, t := range f.factors() {
		if t.Kind == column.Decimal {
			scale += int(t.Scale)
		}
	}
	return d.Mul(d, e.Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
}

// exponent is the binary unit of a product.
func (f *momentsFn) exponent() int {
	exp := 0
	for _, t := range f.factors() {
		if t.IsFloat() {
			exp -= 1074
		}
	}
	return exp
}

// factors are the types of a product's two factors.
func (f *momentsFn) factors() [2]column.Type { return [2]column.Type{f.args[0], f.args[len(f.args)-1]} }
