package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
)

// momentsFn is what variance, stddev and covariance share: the number of
// records, the exact sum of each argument, and the exact sum of their products
// (of one argument, of its squares). Sums and products are integers: a double
// in units of 2^-1074, a decimal in units of its scale. The one rounding is in
// Extract, of (n·Σxy − Σx·Σy) / n² or / n·(n−1). A record with NaN or an
// infinity is only counted, and while there is one the result is NaN.
//
// Its accumulator is the number of records as a uvarint; a byte of flags, two
// for each sum in the order x, y (not of one argument), products, from the
// lowest bit: negative, not zero; 64 for records that are not finite; then the
// magnitudes of the sums that are not zero (see appendMagnitude), then the
// number of records that are not finite as a uvarint.
type momentsFn struct {
	base
	population bool
	root       bool
}

const flagNotFinite = 64

func buildMoments(name string, root bool) func(Params, []column.Type) (Fn, error) {
	return func(p Params, args []column.Type) (Fn, error) {
		population, err := boolOption(p, "population")
		if err != nil {
			return nil, err
		}
		var parts []string
		for _, t := range args {
			if !t.IsNumeric() && t.Kind != column.Null {
				return nil, fmt.Errorf("%s is not a number", t)
			}
			parts = append(parts, repr(t))
		}
		parts = append(parts, map[bool]string{true: "population", false: "sample"}[population])
		b := base{id: typeID(name, parts...), class: Group, args: args, out: column.Of(column.Float64)}
		return &momentsFn{base: b, population: population, root: root}, nil
	}
}

// boolOption reads a boolean option; absent it is false.
func boolOption(p Params, name string) (bool, error) {
	v, ok := p.Options[name]
	if !ok {
		return false, nil
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("option %s: want true or false, got %v", name, v)
	}
	return b, nil
}

const (
	maxSums    = 3               // of each argument, then of the products
	crossWords = 2*longWords + 4 // n·Σxy, and Σx·Σy
)

// momentsAcc is a parsed accumulator.
type momentsAcc struct {
	n, bad uint64
	sums   int
	neg    [maxSums]bool
	word   [maxSums]int
	mag    [maxSums][]uint64 // parts of the buffers
	buf    [maxSums - 1]fixedPoint
	prod   longProduct
}

func (f *momentsFn) NewColumn() Column {
	return &momentsColumn{fn: f, sums: make([]windows, len(f.args))}
}

func (f *momentsFn) Validate(acc []byte) error {
	var a momentsAcc
	return f.parse(&a, acc)
}

func (f *momentsFn) parse(a *momentsAcc, acc []byte) error {
	*a = momentsAcc{sums: len(f.args) + 1}
	if len(acc) == 0 {
		return nil
	}
	err := a.parse(acc)
	if err == nil {
		err = f.consistent(a)
	}
	if err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

func (a *momentsAcc) parse(acc []byte) (err error) {
	if a.n, acc, err = uvarint(acc); err != nil {
		return err
	}
	if a.n == 0 || len(acc) == 0 {
		return errors.New("count is zero or all there is")
	}
	flags := acc[0]
	acc = acc[1:]
	if flags&^flagNotFinite >= 1<<(2*a.sums) {
		return fmt.Errorf("flags 0x%02x mean nothing", flags)
	}
	for i := range a.sums {
		a.neg[i] = flags>>(2*i)&1 == 1
		if flags>>(2*i)&2 == 0 {
			if a.neg[i] {
				return fmt.Errorf("flags 0x%02x mean nothing", flags)
			}
			continue
		}
		buf := a.prod[:]
		if i < a.sums-1 {
			buf = a.buf[i][:]
		}
		if a.mag[i], a.word[i], acc, err = parseMagnitude(acc, buf); err != nil {
			return err
		}
	}
	if flags&flagNotFinite != 0 {
		if a.bad, acc, err = uvarint(acc); err != nil {
			return err
		}
		if a.bad == 0 || a.bad > a.n {
			return errors.New("counters do not add up")
		}
	}
	if len(acc) > 0 {
		return errLeft
	}
	return nil
}

// consistent says whether there are finite records with these sums, as far as
// that is cheap to know.
func (f *momentsFn) consistent(a *momentsAcc) error {
	left := a.n - a.bad
	none := fmt.Errorf("no %d records have these sums", left)
	factors := f.factors()
	for i := range a.sums {
		bound := addendBits(factors[0]) + addendBits(factors[1])
		if i < len(f.args) {
			bound = addendBits(f.args[i])
		}
		if len(a.mag[i]) > 0 && (left == 0 || 64*a.word[i]+bitLen(a.mag[i]) > bound+bits.Len64(left)) {
			return none
		}
	}
	if left == 0 {
		return nil
	}
	if len(f.args) == 1 {
		if a.neg[1] {
			return errors.New("sum of squares is negative")
		}
		// Most sums are far from the bound, and their lengths show it.
		square := 2 * (64*a.word[0] + bitLen(a.mag[0]))
		if left > 1 && (len(a.mag[0]) == 0 || square < 64*a.word[1]+bitLen(a.mag[1])+bits.Len64(left)-1) {
			return nil
		}
	} else if left > 1 {
		return nil
	}
	var cross [crossWords]uint64
	if neg := a.cross(&cross, left); left == 1 && len(trim(cross[:])) > 0 || neg {
		return none
	}
	return nil
}

// addendBits bounds the length of an addend's magnitude in its units.
func addendBits(t column.Type) int {
	switch {
	case t.IsFloat():
		return 2098
	case t.Kind == column.Decimal:
		return 127
	}
	return 63
}

// cross computes |n·Σxy − Σx·Σy| into dst and says whether it is negative.
func (a *momentsAcc) cross(dst *[crossWords]uint64, n uint64) (neg bool) {
	var other [crossWords]uint64
	p := a.sums - 1
	mulAt(dst[:], a.word[p], a.mag[p], []uint64{n})
	y := min(1, p-1) // of one argument, x again
	mulAt(other[:], a.word[0]+a.word[y], a.mag[0], a.mag[y])
	same := a.neg[p] == (a.neg[0] != a.neg[y])
	var c uint64
	if !same {
		for i := range dst {
			dst[i], c = bits.Add64(dst[i], other[i], c)
		}
		return a.neg[p]
	}
	for i := range dst {
		dst[i], c = bits.Sub64(dst[i], other[i], c)
	}
	if c == 0 {
		return a.neg[p] && len(trim(dst[:])) > 0
	}
	c = 1
	for i := range dst {
		dst[i], c = bits.Add64(^dst[i], 0, c)
	}
	return !a.neg[p]
}

// mulAt adds a·b·2^(64·at) to dst, which is zero from there on.
func mulAt(dst []uint64, at int, a, b []uint64) {
	for i, x := range a {
		var carry, c uint64
		for j, y := range b {
			hi, lo := bits.Mul64(x, y)
			lo, c = bits.Add64(lo, carry, 0)
			hi += c
			dst[at+i+j], c = bits.Add64(dst[at+i+j], lo, 0)
			carry = hi + c
		}
		if carry != 0 {
			dst[at+i+len(b)] = carry
		}
	}
}

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
	never := fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
	bad := c.notFinite(g)
	if a.n > c.n[g] || a.bad > bad || a.n-a.bad > c.n[g]-bad {
		return never
	}
	c.shift(g, a, true)
	var rest momentsAcc
	c.read(&rest, g)
	rest.n, rest.bad = c.n[g]-a.n, bad-a.bad
	if err := c.fn.consistent(&rest); err != nil {
		c.shift(g, a, false)
		return never
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
		a.mag[i], a.word[i], a.neg[i] = c.sums[i].magnitude(g, &a.buf[i])
	}
	p := len(c.sums)
	a.mag[p], a.word[p], a.neg[p] = c.products.magnitude(g, &a.prod)
}

func (c *momentsColumn) AppendAcc(dst []byte, g uint32) []byte {
	if c.n[g] == 0 {
		return dst
	}
	var a momentsAcc
	c.read(&a, g)
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
	var a momentsAcc
	c.read(&a, g)
	switch {
	case a.n == 0, a.n == 1 && !c.fn.population:
		dst.AppendNull()
		return nil
	case a.bad > 0:
		dst.AppendFloat(math.Float64frombits(0x7ff8000000000000))
		return nil
	}
	var cross [crossWords]uint64
	neg := a.cross(&cross, a.n)
	if neg && len(c.fn.args) == 1 {
		return fmt.Errorf("sums of no %d values", a.n)
	}
	mag, word := trim(cross[:]), 0
	for len(mag) > 0 && mag[0] == 0 {
		mag, word = mag[1:], word+1
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
