package combine_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

func TestHistogramsOfBoundaries(t *testing.T) {
	cents := column.New(column.DecimalOf(9, 2))
	for _, x := range []int64{9, 10, 11, -1} {
		cents.AppendDecimal(column.Int128From(x))
	}
	for _, c := range []struct {
		name       string
		boundaries []any
		values     *column.Vector
		want       string
	}{
		{"a boundary belongs to the bucket above", []any{0, 10}, ints(-1, 0, 9, 10, 11), "[{lower:null upper:0 count:1} {lower:0 upper:10 count:2} {lower:10 upper:null count:2}]"},
		{"empty buckets are listed", []any{1, 2, 3}, ints(7), "[{lower:null upper:1 count:0} {lower:1 upper:2 count:0} {lower:2 upper:3 count:0} {lower:3 upper:null count:1}]"},
		{"integers between boundaries", []any{0.5, 1.5}, ints(0, 1, 2), "[{lower:null upper:0.5 count:1} {lower:0.5 upper:1.5 count:1} {lower:1.5 upper:null count:1}]"},
		{"the largest integers", []any{-1e300, 9223372036854775807.0, 1e300}, ints(math.MaxInt64, math.MinInt64), "[{lower:null upper:-1e+300 count:0} {lower:-1e+300 upper:9.223372036854776e+18 count:2} {lower:9.223372036854776e+18 upper:1e+300 count:0} {lower:1e+300 upper:null count:0}]"},
		{"a tenth of a decimal", []any{0.1}, cents, "[{lower:null upper:0.1 count:2} {lower:0.1 upper:null count:2}]"},
		{"NaN and infinities", []any{0}, floats(math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)), "[{lower:null upper:0 count:1} {lower:0 upper:null count:2} {lower:NaN upper:NaN count:1}]"},
		{"only NaN", []any{0}, floats(math.NaN()), "[{lower:null upper:0 count:0} {lower:0 upper:null count:0} {lower:NaN upper:NaN count:1}]"},
		{"nothing", []any{0}, ints(), "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fn := build(t, "histogram", options("boundaries", c.boundaries), c.values.Type)
			if got := render(extracted(t, fn, lifted(t, fn, c.values)), 0); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestLogLinearHistogramsHoldEveryValue: each value is in one bucket by the
// bounds that the list shows, buckets ascend and are narrow, counts add up.
func TestLogLinearHistogramsHoldEveryValue(t *testing.T) {
	const limit = 0.02
	fn := build(t, "histogram", options("relative_error", limit), column.Of(column.Float64))
	for name, values := range floatSets(2000, rand.New(rand.NewPCG(7, 7))) {
		list := extracted(t, fn, lifted(t, fn, floats(values...))).Elem
		lower, upper, count := list.Fields[0].Floats, list.Fields[1].Floats, list.Fields[2].Ints
		want := make([]int64, len(count))
		for _, v := range values {
			for i := range lower {
				same := v == lower[i] && lower[i] == upper[i] || v != v && lower[i] != lower[i]
				if same || v > 0 && v >= lower[i] && v < upper[i] || v < 0 && v > lower[i] && v <= upper[i] {
					want[i]++
				}
			}
		}
		for i := range count {
			if count[i] != want[i] || count[i] == 0 {
				t.Errorf("%s: %d values from %v to %v, want %d", name, count[i], lower[i], upper[i], want[i])
			}
			// Half a bucket is the error around its middle.
			if lower[i] != upper[i] && math.Abs(upper[i]-lower[i]) > 2*limit*math.Max(math.Abs(lower[i]), math.Abs(upper[i])) && math.Abs(lower[i]) > 1e-300 {
				t.Errorf("%s: a bucket from %v to %v", name, lower[i], upper[i])
			}
			if i > 0 && byOrder(upper[i-1], lower[i]) > 0 {
				t.Errorf("%s: %v comes before %v", name, upper[i-1], lower[i])
			}
		}
	}
}

func FuzzHistogram(f *testing.F) {
	var fns []combine.Fn
	for _, typ := range []column.Type{column.Of(column.Float64), column.Of(column.Int64), column.DecimalOf(20, 4)} {
		fns = append(fns, build(f, "histogram", options("boundaries", []any{-1, 0, 2.5}), typ), build(f, "histogram", combine.Params{}, typ))
	}
	fuzzSketches(f, fns, first(0), first(3), first(300), floats(0, -1, 1e300, math.Inf(-1), math.NaN(), 1, 1, 2))
}
