package combine

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// histogramFn counts the non-null values by bucket and extracts a list of
// structs in ascending order: lower and upper, the bounds as doubles, and count.
// With boundaries b1 < … < bn the buckets are those below b1, from each
// boundary to the next, and from bn up; a boundary belongs to the bucket above
// it. All are listed, the first without lower, the last without upper.
// Otherwise the buckets are log-linear and those without values are left out;
// bounds that are equal are a single value, else the one nearer to zero belongs
// to the bucket. In both, NaN is a bucket of its own with bounds of NaN, listed
// last where there are any.
//
// Its accumulator is that of bucketColumn, a group.
type histogramFn struct {
	bucketFn
	scale      logLinear
	unit       float64
	boundaries []float64 // none: log-linear
}

// mostBoundaries bounds a list that every document repeats.
const mostBoundaries = 1000

func buildHistogram(p Params, args []column.Type) (Fn, error) {
	f := &histogramFn{}
	var err error
	if f.scale, f.unit, err = newLogLinear(p, args[0]); err != nil {
		return nil, err
	}
	f.bucketFn = bucketFn{bucketing: f.scale, base: base{
		id:    typeID("histogram", repr(args[0]), "precision="+strconv.Itoa(int(f.scale.precision))),
		class: Group, args: args,
		out: column.ListOf(column.StructOf(
			column.Field{Name: "lower", Type: column.Of(column.Float64)},
			column.Field{Name: "upper", Type: column.Of(column.Float64)},
			column.Field{Name: "count", Type: column.Of(column.Int64)})),
	}}
	list, ok := p.Options["boundaries"]
	if !ok {
		return f, nil
	}
	if _, both := p.Options["relative_error"]; both {
		return nil, errors.New("options boundaries and relative_error: want one of them")
	}
	if f.boundaries, err = boundariesOf(list); err != nil {
		return nil, fmt.Errorf("option boundaries: %w", err)
	}
	names := make([]string, len(f.boundaries))
	for i, b := range f.boundaries {
		names[i] = strconv.FormatFloat(b, 'g', -1, 64)
	}
	f.id = typeID("histogram", repr(args[0]), "boundaries="+strings.Join(names, ";"))
	f.bucketing = newIntervals(f.boundaries, args[0])
	return f, nil
}

func boundariesOf(v any) ([]float64, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > mostBoundaries {
		return nil, fmt.Errorf("want a list of 1 to %d numbers, got %v", mostBoundaries, v)
	}
	out := make([]float64, len(list))
	for i, v := range list {
		x, err := number(v)
		if err != nil {
			return nil, err
		}
		if math.IsNaN(x) || math.IsInf(x, 0) || i > 0 && x <= out[i-1] {
			return nil, fmt.Errorf("want finite numbers in ascending order, got %v", v)
		}
		if x == 0 {
			x = 0 // not -0
		}
		out[i] = x
	}
	return out, nil
}

// intervals are the buckets between boundaries: a value's is the number of
// boundaries that it reaches, NaN's is one more than there are boundaries.
type intervals struct {
	kind   column.Kind
	floats []float64
	// whole are the least integers, for decimals in units of their scale, that
	// reach each boundary.
	whole []column.Int128
}

// newIntervals takes boundaries as they were written for decimals: 0.1 is a
// tenth.
func newIntervals(boundaries []float64, t column.Type) intervals {
	v := intervals{kind: t.Kind, floats: boundaries}
	for _, b := range boundaries {
		r, ok := new(big.Rat).SetString(strconv.FormatFloat(b, 'g', -1, 64))
		if !ok {
			r = new(big.Rat) // not for finite numbers
		}
		if t.Kind == column.Decimal {
			r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale)), nil)))
		}
		// The ceiling, cut to what 128 bits hold: no value is beyond.
		n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
		n.Div(n, r.Denom())
		x, fits := column.Int128FromBig(n)
		if !fits {
			x = column.Int128{Hi: math.MaxInt64, Lo: math.MaxUint64}
			if n.Sign() < 0 {
				x = column.Int128{Hi: math.MinInt64}
			}
		}
		v.whole = append(v.whole, x)
	}
	return v
}

func (v intervals) of(arg *column.Vector, i int) int32 {
	var x column.Int128
	switch arg.Type.Kind {
	case column.Float32, column.Float64:
		f := arg.Floats[i]
		if f != f {
			return v.nan()
		}
		return reached(v.floats, func(b float64) bool { return f >= b })
	case column.Decimal:
		x = arg.Decimals[i]
	default:
		x = column.Int128From(arg.Ints[i])
	}
	return reached(v.whole, func(b column.Int128) bool { return x.Cmp(b) >= 0 })
}

// reached is how many of the boundaries, which ascend, are reached.
func reached[T any](boundaries []T, reaches func(T) bool) int32 {
	low, high := 0, len(boundaries)
	for low < high {
		if mid := (low + high) / 2; reaches(boundaries[mid]) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return int32(low)
}

func (v intervals) nan() int32 { return int32(len(v.floats)) + 1 }

func (v intervals) valid(bucket int32) bool {
	last := int32(len(v.floats))
	if v.kind == column.Float32 || v.kind == column.Float64 {
		last++
	}
	return bucket >= 0 && bucket <= last && v.kind != column.Null
}

func (f *histogramFn) NewColumn() Column {
	return &histogramColumn{&bucketColumn{fn: &f.bucketFn}, f}
}

// NewMoving implements Mover.
func (f *histogramFn) NewMoving(int64) Column {
	return &histogramColumn{&bucketMoving{fn: &f.bucketFn}, f}
}

type histogramColumn struct {
	buckets
	fn *histogramFn
}

func (c *histogramColumn) Extract(g uint32, dst *column.Vector) error {
	if c.sum(g) == 0 {
		dst.AppendNull()
		return nil
	}
	list := c.ascending(g)
	if c.fn.boundaries == nil {
		c.logLinear(list, dst.Elem)
	} else {
		c.intervals(list, dst.Elem)
	}
	dst.EndList()
	return nil
}

func appendBucket(dst *column.Vector, n uint64) {
	dst.Fields[2].AppendInt(int64(n))
	dst.EndStruct()
}

func (c *histogramColumn) logLinear(list []tally, dst *column.Vector) {
	scale, unit := c.fn.scale, c.fn.unit
	for _, t := range list {
		near := scale.bound(t.bucket(), 0, unit)
		far := near
		if !scale.special(t.bucket()) && !scale.exact(t.bucket()) {
			far = scale.bound(t.bucket(), 1, unit)
		}
		if t.bucket() < 0 {
			near, far = far, near
		}
		dst.Fields[0].AppendFloat(near)
		dst.Fields[1].AppendFloat(far)
		appendBucket(dst, t.n)
	}
}

func (c *histogramColumn) intervals(list []tally, dst *column.Vector) {
	bounds := c.fn.boundaries
	for i := range len(bounds) + 1 {
		if i > 0 {
			dst.Fields[0].AppendFloat(bounds[i-1])
		} else {
			dst.Fields[0].AppendNull()
		}
		if i < len(bounds) {
			dst.Fields[1].AppendFloat(bounds[i])
		} else {
			dst.Fields[1].AppendNull()
		}
		n := uint64(0)
		if len(list) > 0 && list[0].bucket() == int32(i) {
			n, list = list[0].n, list[1:]
		}
		appendBucket(dst, n)
	}
	if len(list) > 0 {
		nan := math.Float64frombits(0x7ff8000000000000)
		dst.Fields[0].AppendFloat(nan)
		dst.Fields[1].AppendFloat(nan)
		appendBucket(dst, list[0].n)
	}
}
