package combine_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// floatSets are multisets of doubles.
func floatSets(n int, rng *rand.Rand) map[string][]float64 {
	out := map[string][]float64{}
	zipf := rand.NewZipf(rng, 1.3, 1, 1<<40)
	for i := range n {
		out["sorted"] = append(out["sorted"], float64(i))
		out["constant"] = append(out["constant"], -0.1)
		out["uniform"] = append(out["uniform"], rng.Float64()*1e6)
		out["normal"] = append(out["normal"], rng.NormFloat64())
		out["lognormal"] = append(out["lognormal"], math.Exp(rng.NormFloat64()*3))
		out["zipf"] = append(out["zipf"], float64(zipf.Uint64()))
		out["powers of two"] = append(out["powers of two"], math.Ldexp(1, rng.IntN(200)-100))
		out["just below powers of two"] = append(out["just below powers of two"], math.Nextafter(math.Ldexp(1, rng.IntN(200)-100), 0))
		out["all bits"] = append(out["all bits"], math.Float64frombits(rng.Uint64()))
		out["duplicates and outliers"] = append(out["duplicates and outliers"], []float64{1, 1, 1, 1e300, -1e-300, 5e-324}[rng.IntN(6)])
	}
	return out
}

// byOrder compares doubles with NaN greatest.
func byOrder(a, b float64) int {
	switch {
	case a < b || a == a && b != b:
		return -1
	case a > b || a != a && b == b:
		return 1
	}
	return 0
}

// discrete is the exact quantile of sorted values: the least that the share
// num/den does not exceed.
func discrete(sorted []float64, num, den int) float64 {
	return sorted[max(0, (num*len(sorted)+den-1)/den-1)]
}

func within(got, want, relative float64) bool {
	if got == want || got != got && want != want {
		return true
	}
	return math.Abs(got-want) <= relative*math.Abs(want)*(1+1e-12)
}

func TestQuantilesKeepTheirErrorOverDistributions(t *testing.T) {
	shares := []any{0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1}
	thousandths := []int{0, 1, 100, 250, 500, 900, 990, 999, 1000}
	for _, limit := range []float64{0.2, 0.05, 0.01, 0.001, 0.0001} {
		fn := build(t, "quantile", options("q", shares, "relative_error", limit), column.Of(column.Float64))
		for _, n := range []int{1, 2, 10, 1000, 10_000} {
			for name, values := range floatSets(n, rand.New(rand.NewPCG(uint64(n), 1))) {
				got := extracted(t, fn, lifted(t, fn, floats(values...))).Elem.Floats
				slices.SortFunc(values, byOrder)
				for i, th := range thousandths {
					if want := discrete(values, th, 1000); !within(got[i], want, limit) {
						t.Errorf("%s, %d values, error %v: quantile %v is %v, want %v", name, n, limit, shares[i], got[i], want)
					}
				}
			}
		}
	}
}

func TestQuantilesOfIntegersAndDecimals(t *testing.T) {
	half := options("q", 0.5)
	whole := build(t, "quantile", half, column.Of(column.Int64))
	money := build(t, "quantile", half, column.DecimalOf(38, 2))
	for _, want := range []int64{0, 1, -1, 64, 65, 127, -127, 1000, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
		got := extracted(t, whole, lifted(t, whole, ints(want))).Floats[0]
		exact := want > -128 && want < 128
		if !within(got, float64(want), 0.00776) || exact && got != float64(want) {
			t.Errorf("%d became %v", want, got)
		}
		v := column.New(money.Args()[0])
		v.AppendDecimal(column.Int128From(want))
		cents := extracted(t, money, lifted(t, money, v)).Floats[0]
		if !within(cents, float64(want)/100, 0.00776) || exact && cents != float64(want)/100 {
			t.Errorf("%d cents became %v", want, cents)
		}
	}
}

func TestQuantileRanks(t *testing.T) {
	for _, c := range []struct {
		name   string
		q      any
		values []float64
		want   float64
	}{
		{"a tenth of ten", 0.1, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 1},
		{"more than a tenth of ten", 0.100000001, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2},
		{"nothing of it", 0, []float64{3, 1, 2}, 1},
		{"all of it", int64(1), []float64{3, 1, 2}, 3},
		{"half of two", 0.5, []float64{1, 2}, 1},
		{"negatives", 0.5, []float64{-3, -1, -2}, -2},
		{"negative zero", 0.5, []float64{math.Copysign(0, -1)}, 0},
		{"infinities", 0.5, []float64{math.Inf(-1), math.Inf(1), 5}, 5},
		{"negative infinity", 0, []float64{math.Inf(-1), 5}, math.Inf(-1)},
		{"infinity", 1, []float64{math.Inf(1), 5}, math.Inf(1)},
		{"NaN is the greatest", 1, []float64{math.Float64frombits(0xfff8000000000001), math.Inf(1)}, math.NaN()},
		{"NaN is not the rest", 0.5, []float64{math.NaN(), math.Inf(1)}, math.Inf(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			fn := build(t, "quantile", options("q", c.q), column.Of(column.Float64))
			got := extracted(t, fn, lifted(t, fn, floats(c.values...))).Floats[0]
			if !within(got, c.want, 0.01) || got == 0 && math.Signbit(got) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestQuantileBucketsFollowTheOrder compares single values: a greater one never
// has a lesser quantile, and each is within the error, for all bit patterns.
func TestQuantileBucketsFollowTheOrder(t *testing.T) {
	fn := build(t, "quantile", options("q", 0.5), column.Of(column.Float64))
	of := func(f float64) float64 { return extracted(t, fn, lifted(t, fn, floats(f))).Floats[0] }
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		for range 50 {
			a, b := combinetest.Float(rng), combinetest.Float(rng)
			if rng.IntN(2) == 0 {
				b = math.Nextafter(a, math.Inf(1))
			}
			if c := byOrder(a, b); c != 0 && byOrder(of(a), of(b)) == -c {
				rt.Fatalf("%v and %v became %v and %v", a, b, of(a), of(b))
			}
			if !within(of(a), a, 1.0/129) && math.Abs(a) > 128*5e-324 {
				rt.Fatalf("%v became %v", a, of(a))
			}
		}
	})
}

// TestQuantileTakesOutOfAWindow slides over values, subtracting what leaves.
func TestQuantileTakesOutOfAWindow(t *testing.T) {
	fn := build(t, "quantile", options("q", 0.9), column.Of(column.Float64))
	values := floatSets(400, rand.New(rand.NewPCG(3, 4)))["lognormal"]
	const width = 100
	col := lifted(t, fn, floats(values[:width]...))
	for i := width; i < len(values); i++ {
		if err := col.Merge(0, lifted(t, fn, floats(values[i])).AppendAcc(nil, 0)); err != nil {
			t.Fatal(err)
		}
		if err := col.(combine.Inverter).Unmerge(0, lifted(t, fn, floats(values[i-width])).AppendAcc(nil, 0)); err != nil {
			t.Fatal(err)
		}
		want := lifted(t, fn, floats(values[i-width+1:i+1]...)).AppendAcc(nil, 0)
		if got := col.AppendAcc(nil, 0); string(got) != string(want) {
			t.Fatalf("after %d steps %x, want %x", i-width, got, want)
		}
	}
	before := col.AppendAcc(nil, 0)
	if err := col.(combine.Inverter).Unmerge(0, lifted(t, fn, floats(values[len(values)-1], -77)).AppendAcc(nil, 0)); err == nil {
		t.Error("took out what was never there")
	}
	if string(col.AppendAcc(nil, 0)) != string(before) {
		t.Error("a refused subtraction changed the group")
	}
}

// TestQuantileAccumulatorsAreSmall: the reference's own log-linear buckets need
// 178, 1,075 and 1,629 bytes of the lognormal values.
func TestQuantileAccumulatorsAreSmall(t *testing.T) {
	fn := build(t, "quantile", options("q", 0.5), column.Of(column.Float64))
	for _, c := range []struct{ n, most int }{{1, 4}, {100, 178}, {10_000, 1000}, {100_000, 1500}} {
		rng := rand.New(rand.NewPCG(1, 1))
		v := column.New(column.Of(column.Float64))
		for range c.n {
			v.AppendFloat(math.Exp(rng.NormFloat64()))
		}
		got := len(lifted(t, fn, v).AppendAcc(nil, 0))
		t.Logf("%d values: %d bytes", c.n, got)
		if got > c.most {
			t.Errorf("%d values: %d bytes, want at most %d", c.n, got, c.most)
		}
	}
}

func FuzzQuantile(f *testing.F) {
	var fns []combine.Fn
	for _, typ := range []column.Type{column.Of(column.Float64), column.Of(column.Int64), column.DecimalOf(38, 4)} {
		fns = append(fns, build(f, "quantile", options("q", []any{0.1, 0.5}), typ))
	}
	fuzzSketches(f, fns, first(0), first(3), first(300), ints(math.MinInt64, math.MaxInt64),
		floats(0, -1, 1e300, 5e-324, math.Inf(1), math.Inf(-1), math.NaN(), 1, 1, 2))
}
