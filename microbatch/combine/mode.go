package combine

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// buildMode makes the most frequent value, of equally frequent ones the least
// by tuple order.
func buildMode(p Params, args []column.Type) (Fn, error) {
	f, err := newFrequencies("mode", p, args)
	if err != nil {
		return nil, err
	}
	f.out = args[0]
	f.extract = func(c *frequencyColumn, g uint32, dst *column.Vector) error {
		ids := c.sorted(g)
		best := ids[0]
		for _, id := range ids[1:] {
			if c.times[id] > c.times[best] {
				best = id
			}
		}
		return extractValue(c.member(best), dst)
	}
	return f, nil
}

// buildMedianExact makes the middle of the values by tuple order, exactly: of an
// even number the mean of the two in the middle, rounded once. NaN is the
// greatest number.
func buildMedianExact(p Params, args []column.Type) (Fn, error) {
	if t := args[0]; !t.IsNumeric() && t.Kind != column.Null {
		return nil, fmt.Errorf("%s is not a number", t)
	}
	f, err := newFrequencies("median_exact", p, args)
	if err != nil {
		return nil, err
	}
	f.out = column.Of(column.Float64)
	f.extract = func(c *frequencyColumn, g uint32, dst *column.Vector) error {
		ids := c.sorted(g)
		var total uint64
		for _, id := range ids {
			var carry uint64
			if total, carry = bits.Add64(total, c.times[id], 0); carry != 0 {
				return errors.New("more than 64 bits of values")
			}
		}
		middle := column.New(args[0])
		// The values at these places, from 0; of an odd number twice the same.
		low, high, before := (total-1)/2, total/2, uint64(0)
		for _, id := range ids {
			end := before + c.times[id]
			for _, at := range [2]uint64{low, high} {
				if before <= at && at < end {
					if _, err := tuple.Decode(c.member(id), middle); err != nil {
						return err
					}
				}
			}
			before = end
		}
		dst.AppendFloat(between(middle))
		return nil
	}
	return f, nil
}

// between is the mean of two numbers, rounded once.
func between(v *column.Vector) float64 {
	switch {
	case v.Type.IsFloat():
		return betweenFloats(v.Floats[0], v.Floats[1])
	case v.Type.Kind == column.Decimal:
		den := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Type.Scale)), nil)
		sum := new(big.Int).Add(v.Decimals[0].Big(), v.Decimals[1].Big())
		f, _ := new(big.Rat).SetFrac(sum, den.Lsh(den, 1)).Float64()
		return f
	}
	f, _ := new(big.Rat).SetFrac(new(big.Int).Add(big.NewInt(v.Ints[0]), big.NewInt(v.Ints[1])), big.NewInt(2)).Float64()
	return f
}

func betweenFloats(a, b float64) float64 {
	x, y := new(big.Rat).SetFloat64(a), new(big.Rat).SetFloat64(b)
	switch {
	case a != a || b != b || x == nil && y == nil && a != b:
		return math.Float64frombits(0x7ff8000000000000) // the sign of Inf-Inf is the architecture's
	case x == nil:
		return a
	case y == nil:
		return b
	}
	f, _ := x.Add(x, y).Quo(x, big.NewRat(2, 1)).Float64()
	return f
}
