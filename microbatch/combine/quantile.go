package combine

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// DefaultRelativeError is that of quantiles and histograms unless they say
// otherwise.
const DefaultRelativeError = 0.01

// quantileFn estimates quantiles of the non-null values from log-linear
// buckets. The quantile q is the least value that at least the share q of the
// values does not exceed (SQL's percentile_disc), known to within the relative
// error: no more than that times the value's magnitude, for every value but NaN
// and the infinities, which are themselves. Integers, and decimals in units of
// their scale, below 2^(precision+1) in magnitude are exact. NaN is the greatest
// value. median is the quantile 0.5.
//
// Its accumulator is that of bucketColumn, a group, and does not depend on q.
type quantileFn struct {
	bucketFn
	scale logLinear
	unit  float64 // 10^scale of decimals, else 1
	q     []uint64
	list  bool
}

// quantileUnits is the 1 that a quantile is a share of.
const quantileUnits = 1_000_000_000

func buildQuantile(p Params, args []column.Type) (Fn, error) {
	q, ok := p.Options["q"]
	if !ok {
		return nil, errors.New("option q: want a number from 0 to 1, or a list of them")
	}
	return newQuantile("quantile", p, args, q)
}

func buildMedian(p Params, args []column.Type) (Fn, error) {
	return newQuantile("median", p, args, 0.5)
}

func newQuantile(name string, p Params, args []column.Type, q any) (Fn, error) {
	scale, unit, err := newLogLinear(p, args[0])
	if err != nil {
		return nil, err
	}
	f := &quantileFn{scale: scale, unit: unit}
	f.bucketFn = bucketFn{bucketing: scale, base: base{
		id:    typeID(name, repr(args[0]), "precision="+strconv.Itoa(int(scale.precision))),
		class: Group, args: args, out: column.Of(column.Float64),
	}}
	each, list := q.([]any)
	if !list {
		each = []any{q}
	} else if len(each) == 0 {
		return nil, errors.New("option q: the list is empty")
	}
	for _, v := range each {
		share, err := shareOf(v)
		if err != nil {
			return nil, fmt.Errorf("option q: %w", err)
		}
		f.q = append(f.q, share)
	}
	if f.list = list; list {
		f.out = column.ListOf(f.out)
	}
	return f, nil
}

// shareOf reads a number from 0 to 1 in units of 10^-9, as it was written: 0.1
// is a tenth, not the double nearest to it.
func shareOf(v any) (uint64, error) {
	x, err := number(v)
	if err != nil {
		return 0, err
	}
	text := strconv.FormatFloat(x, 'f', -1, 64)
	whole, digits, _ := strings.Cut(text, ".")
	if !(x >= 0 && x <= 1) || len(digits) > 9 {
		return 0, fmt.Errorf("want a number from 0 to 1 of at most 9 decimals, got %v", v)
	}
	n, err := strconv.ParseUint(whole+digits+strings.Repeat("0", 9-len(digits)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", text, err)
	}
	return n, nil
}

// number reads an option's value.
func number(v any) (float64, error) {
	switch x := v.(type) {
	case float64:
		return x, nil
	case int:
		return float64(x), nil
	case int64:
		return float64(x), nil
	case uint64:
		return float64(x), nil
	}
	return 0, fmt.Errorf("want a number, got %v", v)
}

// newLogLinear reads the option relative_error and returns the coarsest scale
// that keeps it.
func newLogLinear(p Params, t column.Type) (l logLinear, unit float64, err error) {
	if !t.IsNumeric() && t.Kind != column.Null {
		return l, 0, fmt.Errorf("%s is not a number", t)
	}
	limit := DefaultRelativeError
	if v, ok := p.Options["relative_error"]; ok {
		if limit, err = number(v); err != nil {
			return l, 0, fmt.Errorf("option relative_error: %w", err)
		}
	}
	if !(limit >= 0.0001 && limit <= 0.2) {
		return l, 0, fmt.Errorf("option relative_error: want 0.0001 to 0.2, got %v", limit)
	}
	l = logLinear{precision: 1, kind: t.Kind}
	for float64(limit*float64(int(2)<<l.precision+1)) < 1 {
		l.precision++
	}
	unit = 1
	if t.Kind == column.Decimal {
		if unit, err = strconv.ParseFloat("1e"+strconv.Itoa(int(t.Scale)), 64); err != nil {
			return l, 0, fmt.Errorf("scale %d: %w", t.Scale, err)
		}
	}
	return l, unit, nil
}

// value stands for the values of a bucket: the number itself where there is but
// one, else the harmonic mean of its bounds.
func (l logLinear) value(bucket int32, unit float64) float64 {
	switch {
	case bucket == 0:
		return 0
	case l.special(bucket):
		return l.bound(bucket, 0, 1)
	case l.exact(bucket):
		return l.bound(bucket, 0, unit)
	}
	exp, top := l.parts(bucket)
	// One rounded division of whole numbers that doubles hold.
	mean := math.Ldexp(float64(2*top*(top+1))/float64(2*top+1), exp-int(l.precision)) / unit
	if bucket < 0 {
		return -mean
	}
	return mean
}

// special says whether the bucket is an infinity or NaN.
func (l logLinear) special(bucket int32) bool { return max(bucket, -bucket) >= l.infinity() }

// exact says whether all values of the bucket are one.
func (l logLinear) exact(bucket int32) bool {
	exp, _ := l.parts(bucket)
	least := 0
	if l.kind == column.Float32 || l.kind == column.Float64 {
		least = leastExponent
	}
	return bucket == 0 || exp-least <= int(l.precision)
}

// bound is the bucket's end nearer to zero, or with step 1 the farther one.
func (l logLinear) bound(bucket int32, step uint64, unit float64) float64 {
	inf := l.infinity()
	switch {
	case bucket == 0:
		return 0
	case bucket == inf:
		return math.Inf(1)
	case bucket == -inf:
		return math.Inf(-1)
	case bucket > inf:
		return math.Float64frombits(0x7ff8000000000000)
	}
	exp, top := l.parts(bucket)
	end := math.Ldexp(float64(top+step), exp-int(l.precision)) / unit
	if bucket < 0 {
		return -end
	}
	return end
}

func (f *quantileFn) NewColumn() Column {
	return &quantileColumn{&bucketColumn{fn: &f.bucketFn}, f}
}

// NewMoving implements Mover.
func (f *quantileFn) NewMoving(int64) Column {
	return &quantileColumn{&bucketMoving{fn: &f.bucketFn}, f}
}

type quantileColumn struct {
	buckets
	fn *quantileFn
}

func (c *quantileColumn) Extract(g uint32, dst *column.Vector) error {
	total := c.sum(g)
	if total == 0 {
		dst.AppendNull()
		return nil
	}
	list := c.ascending(g)
	if !c.fn.list {
		dst.AppendFloat(c.quantile(list, total, c.fn.q[0]))
		return nil
	}
	for _, q := range c.fn.q {
		dst.Elem.AppendFloat(c.quantile(list, total, q))
	}
	dst.EndList()
	return nil
}

func (c *quantileColumn) quantile(list []tally, total, q uint64) float64 {
	hi, lo := bits.Mul64(q, total)
	rank, rest := bits.Div64(hi, lo, quantileUnits)
	if rest == 0 && rank > 0 {
		rank--
	}
	// rank values precede the one that is looked for.
	for _, t := range list {
		if rank < t.n {
			return c.fn.scale.value(t.bucket(), c.fn.unit)
		}
		rank -= t.n
	}
	return c.fn.scale.value(list[len(list)-1].bucket(), c.fn.unit)
}
