package combine_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

func momentFns(t testing.TB) []combine.Fn {
	t.Helper()
	f64, i64, dec := column.Of(column.Float64), column.Of(column.Int64), column.DecimalOf(38, 3)
	population := option("population", true)
	fns := []combine.Fn{
		build(t, "covariance", combine.Params{}, f64, f64), build(t, "covariance", population, i64, i64),
		build(t, "covariance", combine.Params{}, dec, dec), build(t, "covariance", population, f64, dec),
		build(t, "covariance", combine.Params{}, i64, f64), build(t, "covariance", population, column.Of(column.Null), f64),
	}
	for _, typ := range []column.Type{f64, column.Of(column.Float32), i64, dec, column.DecimalOf(9, 2), column.Of(column.Null)} {
		fns = append(fns, build(t, "variance", combine.Params{}, typ), build(t, "stddev", population, typ))
	}
	return fns
}

// rational is row i as an exact number; ok is false where it is not finite.
func rational(v *column.Vector, i int) (r *big.Rat, ok bool) {
	switch {
	case v.Type.IsFloat():
		r = new(big.Rat).SetFloat64(v.Floats[i])
		return r, r != nil
	case v.Type.Kind == column.Decimal:
		den := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Type.Scale)), nil)
		return new(big.Rat).SetFrac(v.Decimals[i].Big(), den), true
	}
	return new(big.Rat).SetInt64(v.Ints[i]), true
}

// covarianceOf is the mean of the products of the deviations, by definition
// and in rationals; null where there are too few rows, NaN where one is not
// finite.
func covarianceOf(x, y *column.Vector, population bool) (cov *big.Rat, null, nan bool) {
	var xs, ys []*big.Rat
	for i := range x.Len() {
		if x.Null(i) || y.Null(i) {
			continue
		}
		a, ok := rational(x, i)
		b, too := rational(y, i)
		nan = nan || !ok || !too
		xs, ys = append(xs, a), append(ys, b)
	}
	n := int64(len(xs))
	if n == 0 || n == 1 && !population {
		return nil, true, false
	}
	if nan {
		return nil, false, true
	}
	mean := func(of []*big.Rat) *big.Rat {
		m := new(big.Rat)
		for _, r := range of {
			m.Add(m, r)
		}
		return m.Quo(m, big.NewRat(n, 1))
	}
	mx, my, sum := mean(xs), mean(ys), new(big.Rat)
	for i := range xs {
		sum.Add(sum, new(big.Rat).Mul(new(big.Rat).Sub(xs[i], mx), new(big.Rat).Sub(ys[i], my)))
	}
	if !population {
		n--
	}
	return sum.Quo(sum, big.NewRat(n, 1)), false, false
}

// isRoot says whether d is the double nearest to the root of r, ties to even:
// r lies between the squares of the two midpoints beside d.
func isRoot(d float64, r *big.Rat) bool {
	exact := func(x float64) *big.Float { return new(big.Float).SetPrec(3000).SetFloat64(x) }
	half := func(a, b float64) *big.Rat {
		var m *big.Float
		if math.IsInf(b, 1) { // one above the largest double counts as 2^1024
			m = new(big.Float).SetPrec(3000).SetMantExp(big.NewFloat(1), 1024)
		} else {
			m = exact(b)
		}
		m.Add(m, exact(a)).Quo(m, exact(2))
		sq, _ := m.Mul(m, m).Rat(nil)
		if sq == nil {
			return new(big.Rat)
		}
		return sq
	}
	if r.Sign() == 0 {
		return d == 0
	}
	even := math.Float64bits(d)&1 == 0
	low, high := new(big.Rat), half(d, math.Nextafter(d, math.Inf(1)))
	if d > 0 {
		low = half(math.Nextafter(d, 0), d)
	}
	above, below := r.Cmp(low), r.Cmp(high)
	return (d == 0 || above > 0 || even && above == 0) && (below < 0 || even && below == 0)
}

// momentColumn draws adversarial columns: everything there is, or values that
// nearly cancel, or the least there are.
func momentColumn(rng *rand.Rand, typ column.Type, n, shape int) *column.Vector {
	v := column.New(typ)
	for range n {
		switch {
		case shape == 0 || !typ.IsFloat():
			combinetest.AppendValue(rng, v)
		case shape == 1:
			v.AppendFloat(1e9 + float64(rng.IntN(3)-1))
		case shape == 2:
			v.AppendFloat(float64(rng.IntN(5)) * math.SmallestNonzeroFloat64)
		case shape == 3:
			v.AppendFloat(math.Ldexp(rng.NormFloat64(), rng.IntN(2000)-1000))
		case shape == 4:
			v.AppendFloat(math.Float64frombits(0x7fefffffffffffff - uint64(rng.IntN(4))))
		default:
			v.AppendFloat(rng.NormFloat64())
		}
	}
	return v
}

// TestMomentsAreRoundedOnceFromTheExactValue compares with the definition,
// computed in rationals.
func TestMomentsAreRoundedOnceFromTheExactValue(t *testing.T) {
	types := []column.Type{column.Of(column.Float64), column.Of(column.Int64), column.DecimalOf(38, 3)}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		population := rapid.Bool().Draw(rt, "population")
		n, shape := rapid.IntRange(0, 12).Draw(rt, "n"), rapid.IntRange(0, 5).Draw(rt, "shape")
		p := option("population", population)
		x := momentColumn(rng, types[rng.IntN(len(types))], n, shape)
		y := momentColumn(rng, types[rng.IntN(len(types))], n, shape)
		check := func(name string, a, b *column.Vector, args ...*column.Vector) {
			var typs []column.Type
			for _, arg := range args {
				typs = append(typs, arg.Type)
			}
			got := extract(t, build(t, name, p, typs...), args...)
			want, null, nan := covarianceOf(a, b, population)
			switch {
			case null || nan:
				if got.Null(0) != null || !null && !math.IsNaN(got.Floats[0]) {
					rt.Fatalf("%s of %v %v: %v, want null %v or NaN", name, a, b, got, null)
				}
			case name == "stddev":
				if !isRoot(got.Floats[0], want) {
					rt.Fatalf("stddev of %v is %v, not the nearest to the root of %s", a, got.Floats[0], want)
				}
			default:
				if f, _ := want.Float64(); got.Floats[0] != f {
					rt.Fatalf("%s of %v %v is %v, want %v", name, a, b, got.Floats[0], f)
				}
			}
		}
		check("variance", x, x, x)
		check("stddev", x, x, x)
		check("covariance", x, y, x, y)
	})
}

func TestMomentEdges(t *testing.T) {
	inf, nan, most, least := math.Inf(1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64
	tests := []struct {
		name       string
		in         []float64
		population bool
		variance   string
		stddev     string
	}{
		{"nothing", nil, false, "null", "null"},
		{"one of a sample", []float64{3}, false, "null", "null"},
		{"one of a population", []float64{3}, true, "0", "0"},
		{"two", []float64{1, 3}, false, "2", "1.4142135623730951"},
		{"equal", []float64{0.1, 0.1, 0.1}, false, "0", "0"},
		{"all digits cancel", []float64{1e9 - 1, 1e9, 1e9 + 1}, false, "1", "1"},
		{"far from zero", []float64{1e15, 1e15 + 2}, true, "1", "1"},
		{"overflows though the deviation does not", []float64{most, -most}, true, "+Inf", fmt.Sprint(most)},
		{"largest, equal", []float64{most, most}, true, "0", "0"},
		{"below every double", []float64{0, 2 * least}, true, "0", fmt.Sprint(least)},
		{"subnormal", []float64{0, math.Ldexp(1, -530)}, true, fmt.Sprint(math.Ldexp(1, -1062)), fmt.Sprint(math.Ldexp(1, -531))},
		{"NaN", []float64{1, nan, 2}, false, "NaN", "NaN"},
		{"an infinity", []float64{1, inf, 2}, false, "NaN", "NaN"},
		{"one, not finite", []float64{inf}, false, "null", "null"},
		{"negative zero", []float64{math.Copysign(0, -1), 0}, false, "0", "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := option("population", tt.population)
			for name, want := range map[string]string{"variance": tt.variance, "stddev": tt.stddev} {
				if got := render(extract(t, build(t, name, p, column.Of(column.Float64)), floats(tt.in...)), 0); got != want {
					t.Errorf("%s %s, want %s", name, got, want)
				}
			}
		})
	}
}

// TestMomentsSurviveDoubling merges an accumulator into itself until its count
// is near 2^64; the population's variance stays what it was.
func TestMomentsSurviveDoubling(t *testing.T) {
	fn := build(t, "variance", option("population", true), column.Of(column.Float64))
	for _, xs := range [][]float64{{1, 3}, {math.MaxFloat64, -math.MaxFloat64, 1}, {math.SmallestNonzeroFloat64, 0}, {1e300, 1e-300}, {1 << 53, -1}} {
		v := floats(xs...)
		want, _, _ := covarianceOf(v, v, true)
		f, _ := want.Float64()
		col := fn.NewColumn()
		col.Grow(1)
		if err := col.Add(&combine.Input{Groups: make([]uint32, len(xs)), Rows: all(len(xs)), Args: []*column.Vector{v}}); err != nil {
			t.Fatal(err)
		}
		for k := range 62 {
			dst := column.New(fn.Output())
			if err := col.Extract(0, dst); err != nil {
				t.Fatal(err)
			}
			if dst.Floats[0] != f {
				t.Fatalf("%v doubled %d times: %v, want %v", xs, k, dst.Floats[0], f)
			}
			acc := col.AppendAcc(nil, 0)
			if err := col.Merge(0, acc); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestMomentsThatNoRecordsHaveAreRefused: sums that break the inequality of
// Cauchy and Schwarz, or are too large for their number.
func TestMomentsThatNoRecordsHaveAreRefused(t *testing.T) {
	fn := build(t, "variance", combine.Params{}, column.Of(column.Int64))
	tests := []struct {
		name string
		acc  []byte
		ok   bool
	}{
		{"1, 3", []byte{2, 10, 0, 1, 4, 0, 1, 10}, true},
		{"twice 2", []byte{2, 10, 0, 1, 4, 0, 1, 8}, true},
		{"sum 4 of two, squares 7", []byte{2, 10, 0, 1, 4, 0, 1, 7}, false},
		{"one value, not its square", []byte{1, 10, 0, 1, 4, 0, 1, 17}, false},
		{"one value and its square", []byte{1, 10, 0, 1, 4, 0, 1, 16}, true},
		{"negative squares", []byte{2, 12, 0, 1, 9}, false},
		{"a sum without squares", []byte{2, 2, 0, 1, 4}, false},
		{"beyond int64", []byte{2, 10, 8, 1, 4, 15, 1, 1}, false},
		{"not finite only", []byte{2, 64, 2}, true},
		{"not finite only, with a sum", []byte{2, 74, 0, 1, 4, 0, 1, 8, 2}, false},
		{"more not finite than records", []byte{2, 64, 3}, false},
		{"a flag of the second argument", []byte{2, 32, 0, 1, 1}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := fn.Validate(tt.acc); (err == nil) != tt.ok {
				t.Errorf("err %v, want ok %v", err, tt.ok)
			}
		})
	}
}

func TestUnmergeOfWhatWasNeverMerged(t *testing.T) {
	fn := build(t, "variance", combine.Params{}, column.Of(column.Float64))
	acc := func(xs ...float64) []byte {
		col := fn.NewColumn()
		col.Grow(1)
		if err := col.Add(&combine.Input{Groups: make([]uint32, len(xs)), Rows: all(len(xs)), Args: []*column.Vector{floats(xs...)}}); err != nil {
			t.Fatal(err)
		}
		return col.AppendAcc(nil, 0)
	}
	for name, xs := range map[string][]float64{"more": {1, 2, 3}, "other": {1, 5}, "part with other squares": {9}, "not finite": {math.NaN()}} {
		t.Run(name, func(t *testing.T) {
			col := fn.NewColumn()
			col.Grow(1)
			if err := col.Merge(0, acc(1, 2)); err != nil {
				t.Fatal(err)
			}
			inv, ok := col.(combine.Inverter)
			if !ok {
				t.Fatal("no inverter")
			}
			if err := inv.Unmerge(0, acc(xs...)); err == nil {
				t.Error("accepted")
			}
			if got := col.AppendAcc(nil, 0); string(got) != string(acc(1, 2)) {
				t.Errorf("the group changed to %x", got)
			}
		})
	}
}
