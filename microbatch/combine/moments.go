package combine

import (
	"errors"
	"fmt"
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
	crossWords = 2*longWords + 2 // n·Σxy, and Σx·Σy
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
	cross  [2][crossWords]uint64
}

func (f *momentsFn) NewColumn() Column {
	return &momentsColumn{fn: f, sums: make([]windows, len(f.args))}
}

func (f *momentsFn) Validate(acc []byte) error {
	var a momentsAcc
	return f.parse(&a, acc)
}

func (f *momentsFn) parse(a *momentsAcc, acc []byte) error {
	a.n, a.bad, a.sums, a.mag = 0, 0, len(f.args)+1, [maxSums][]uint64{}
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
			a.word[i] = 0
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
	none := func() error { return fmt.Errorf("no %d records have these sums", left) }
	factors := f.factors()
	for i := range a.sums {
		bound := addendBits(factors[0]) + addendBits(factors[1])
		if i < len(f.args) {
			bound = addendBits(f.args[i])
		}
		if len(a.mag[i]) > 0 && (left == 0 || 64*a.word[i]+bitLen(a.mag[i]) > bound+bits.Len64(left)) {
			return none()
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
	if mag, _, neg := a.difference(left); left == 1 && len(mag) > 0 || neg {
		return none()
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

// difference returns n·Σxy − Σx·Σy, trimmed at both ends, with the place of its
// first word; of one argument y is x.
func (a *momentsAcc) difference(n uint64) (mag []uint64, word int, neg bool) {
	p := a.sums - 1
	y := p - 1
	at := a.word[0] + a.word[y]
	if len(a.mag[0]) == 0 || len(a.mag[y]) == 0 || len(a.mag[p]) > 0 && a.word[p] < at {
		at = a.word[p]
	}
	end := max(a.word[p]+len(a.mag[p]), a.word[0]+a.word[y]+len(a.mag[0])+len(a.mag[y])) + 1
	left, right := a.cross[0][:end-at], a.cross[1][:end-at]
	clear(left)
	clear(right)
	mulAt(left, a.word[p]-at, a.mag[p], []uint64{n})
	mulAt(right, a.word[0]+a.word[y]-at, a.mag[0], a.mag[y])
	neg = a.neg[p]
	var c uint64
	if neg != (a.neg[0] != a.neg[y]) {
		for i := range left {
			left[i], c = bits.Add64(left[i], right[i], c)
		}
	} else {
		for i := range left {
			left[i], c = bits.Sub64(left[i], right[i], c)
		}
		if c != 0 {
			neg, c = !neg, 1
			for i := range left {
				left[i], c = bits.Add64(^left[i], 0, c)
			}
		}
	}
	mag = trim(left)
	for len(mag) > 0 && mag[0] == 0 {
		mag, at = mag[1:], at+1
	}
	return mag, at, neg && len(mag) > 0
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
