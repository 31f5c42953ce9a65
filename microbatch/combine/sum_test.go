package combine_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// extract adds the rows of the columns as one group and extracts its value.
func extract(t testing.TB, fn combine.Fn, args ...*column.Vector) *column.Vector {
	t.Helper()
	n := 0
	if len(args) > 0 {
		n = args[0].Len()
	}
	col, dst := fn.NewColumn(), column.New(fn.Output())
	col.Grow(1)
	if err := col.Add(&combine.Input{Groups: make([]uint32, n), Rows: all(n), Args: args, Order: ranks(n)}); err != nil {
		t.Fatal(err)
	}
	if err := col.Extract(0, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// all returns the numbers of n records.
func all(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// ranks orders records by their number.
type ranks int

func (ranks) Rank(i int) []byte { return []byte{byte(i)} }

// exactSum is the sum in rationals, rounded once, and the mean likewise; ok is
// false where a value is not finite.
func exactSum(xs []float64) (sum, mean float64, ok bool) {
	total := new(big.Rat)
	for _, x := range xs {
		r := new(big.Rat).SetFloat64(x)
		if r == nil {
			return 0, 0, false
		}
		total.Add(total, r)
	}
	sum, _ = total.Float64()
	mean, _ = total.Quo(total, new(big.Rat).SetInt64(int64(len(xs)))).Float64()
	return sum, mean, true
}

func sameFloat(a, b float64) bool { return a == b || a != a && b != b }

func TestFloatSumAndMeanAreRoundedOnceFromTheExactValue(t *testing.T) {
	typ := column.Of(column.Float64)
	sum, mean := build(t, "sum", combine.Params{}, typ), build(t, "mean", combine.Params{}, typ)
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		narrow := rapid.Bool().Draw(rt, "narrow")
		v := column.New(typ)
		for range rapid.IntRange(1, 40).Draw(rt, "n") {
			x := combinetest.Float(rng)
			if narrow {
				x = rng.NormFloat64() * math.Ldexp(1, rng.IntN(60)-1060)
			}
			if !math.IsNaN(x) && !math.IsInf(x, 0) {
				v.AppendFloat(x)
			}
		}
		if v.Len() == 0 {
			return
		}
		wantSum, wantMean, _ := exactSum(v.Floats)
		if got := extract(t, sum, v).Floats[0]; got != wantSum {
			rt.Fatalf("sum of %v = %v, want %v", v.Floats, got, wantSum)
		}
		if got := extract(t, mean, v).Floats[0]; got != wantMean {
			rt.Fatalf("mean of %v = %v, want %v", v.Floats, got, wantMean)
		}
	})
}

func TestFloatSumEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	tests := []struct {
		name      string
		in        []float64
		sum, mean float64
	}{
		{"cancels", []float64{1, 1e300, -1e300}, 1, 1.0 / 3},
		{"overflow that comes back", []float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64}, math.MaxFloat64, math.MaxFloat64 / 3},
		{"overflow", []float64{math.MaxFloat64, math.MaxFloat64}, inf, math.MaxFloat64},
		{"negative overflow", []float64{-math.MaxFloat64, -math.MaxFloat64}, -inf, -math.MaxFloat64},
		{"least", []float64{math.SmallestNonzeroFloat64}, math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64},
		{"half of the least rounds to even", []float64{math.SmallestNonzeroFloat64, 0}, math.SmallestNonzeroFloat64, 0},
		{"negative zero", []float64{math.Copysign(0, -1)}, 0, 0},
		{"nan", []float64{1, nan}, nan, nan},
		{"both infinities", []float64{inf, -inf}, nan, nan},
		{"infinity", []float64{inf, 1, inf}, inf, inf},
		{"negative infinity", []float64{-inf, math.MaxFloat64}, -inf, -inf},
		{"tie to even", []float64{1 << 53, 1}, 1 << 53, (1 << 52) + 0.5},
		{"tie broken by a far bit", []float64{1 << 53, 1, 0x1p-1000}, 1<<53 + 2, 3002399751580331},
	}
	typ := column.Of(column.Float64)
	sum, mean := build(t, "sum", combine.Params{}, typ), build(t, "mean", combine.Params{}, typ)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := column.New(typ)
			for _, x := range tt.in {
				v.AppendFloat(x)
			}
			got := extract(t, sum, v).Floats[0]
			if !sameFloat(got, tt.sum) || math.Signbit(got) != math.Signbit(tt.sum) {
				t.Errorf("sum %v, want %v", got, tt.sum)
			}
			if got := extract(t, mean, v).Floats[0]; !sameFloat(got, tt.mean) {
				t.Errorf("mean %v, want %v", got, tt.mean)
			}
		})
	}
}

func TestIntegerSumAndMeanAreExact(t *testing.T) {
	typ := column.Of(column.Int64)
	sum, mean := build(t, "sum", combine.Params{}, typ), build(t, "mean", combine.Params{}, typ)
	rapid.Check(t, func(rt *rapid.T) {
		xs := rapid.SliceOfN(rapid.Int64(), 1, 30).Draw(rt, "xs")
		v, want := column.New(typ), new(big.Int)
		for _, x := range xs {
			v.AppendInt(x)
			want.Add(want, big.NewInt(x))
		}
		col, dst := sum.NewColumn(), column.New(sum.Output())
		col.Grow(1)
		if err := col.Add(&combine.Input{Groups: make([]uint32, len(xs)), Rows: all(len(xs)), Args: []*column.Vector{v}}); err != nil {
			rt.Fatal(err)
		}
		if err := col.Extract(0, dst); (err == nil) != want.IsInt64() || err == nil && dst.Ints[0] != want.Int64() {
			rt.Fatalf("sum %v, err %v, want %s", dst.Ints, err, want)
		}
		wantMean, _ := new(big.Rat).SetFrac(want, big.NewInt(int64(len(xs)))).Float64()
		if got := extract(t, mean, v).Floats[0]; got != wantMean {
			rt.Fatalf("mean %v, want %v", got, wantMean)
		}
	})
}

func bigDecimal(t testing.TB, s string) column.Int128 {
	t.Helper()
	b, ok := new(big.Int).SetString(s, 10)
	if !ok {
		t.Fatalf("%s is not a number", s)
	}
	d, ok := column.Int128FromBig(b)
	if !ok {
		t.Fatalf("%s does not fit", s)
	}
	return d
}

func TestDecimalSum(t *testing.T) {
	const most = "99999999999999999999999999999999999999"
	tests := []struct {
		name string
		in   []string
		want string
		err  string
	}{
		{"plain", []string{"1050", "-50"}, "1000", ""},
		{"largest", []string{most}, most, ""},
		{"back from beyond", []string{most, most, "-" + most}, most, ""},
		{"too large", []string{most, "1"}, "", "sum 100000000000000000000000000000000000000 at scale 2 exceeds decimal(38,2)"},
		{"too small", []string{"-" + most, "-1"}, "", "sum -100000000000000000000000000000000000000 at scale 2 exceeds decimal(38,2)"},
	}
	fn := build(t, "sum", combine.Params{}, column.DecimalOf(38, 2))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := column.New(column.DecimalOf(38, 2))
			for _, s := range tt.in {
				v.AppendDecimal(bigDecimal(t, s))
			}
			col, dst := fn.NewColumn(), column.New(fn.Output())
			col.Grow(1)
			if err := col.Add(&combine.Input{Groups: make([]uint32, v.Len()), Rows: all(v.Len()), Args: []*column.Vector{v}}); err != nil {
				t.Fatal(err)
			}
			err := col.Extract(0, dst)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("err %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || dst.Decimals[0] != bigDecimal(t, tt.want) {
				t.Errorf("got %v, err %v, want %s", dst.Decimals, err, tt.want)
			}
		})
	}
}

func TestDecimalMean(t *testing.T) {
	v := column.New(column.DecimalOf(5, 2))
	for _, s := range []string{"100", "250"} {
		v.AppendDecimal(bigDecimal(t, s))
	}
	if got := extract(t, build(t, "mean", combine.Params{}, v.Type), v).Floats[0]; got != 1.75 {
		t.Errorf("mean of 1.00 and 2.50 is %v", got)
	}
}
