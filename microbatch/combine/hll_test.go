package combine_test

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

func TestDistinctKeepsItsErrorOverDistributions(t *testing.T) {
	for _, precision := range []int{4, 8, 10, 12} {
		fn := build(t, "distinct", options("precision", precision), column.Of(column.Int64))
		bound := 1.04 / math.Sqrt(math.Ldexp(1, precision))
		if precision < 7 {
			bound *= 1.25 // the constant grows as registers get few
		}
		rms, worst := errorsOf(t, fn, []int{100, 1000, 5000, 20_000}, 5)
		t.Logf("precision %d: rms %.4f, worst %.4f, standard error %.4f", precision, rms, worst, bound)
		if rms > 1.15*bound || worst > 5*bound {
			t.Errorf("precision %d: rms %.4f, worst %.4f against a standard error of %.4f", precision, rms, worst, bound)
		}
	}
}

func TestDistinctCountsFewValuesExactly(t *testing.T) {
	fn := build(t, "distinct", combine.Params{}, column.Of(column.Int64))
	for seed := range uint64(20) {
		for name, values := range integerSets(380, rand.New(rand.NewPCG(seed, 0))) {
			if countDistinct(values) > 384 {
				continue
			}
			if got, want := extracted(t, fn, lifted(t, fn, ints(values...))).Ints[0], countDistinct(values); got != int64(want) {
				t.Errorf("%s: %d of %d values", name, got, want)
			}
		}
	}
}

func TestDistinctImagesKeepTheirBytes(t *testing.T) {
	var fns []combine.Fn
	for _, precision := range []int{7, 12} {
		fns = append(fns, build(t, "distinct", options("precision", precision, "output", "sketch"), column.Of(column.Int64)))
	}
	checkImages(t, "testdata/distinct.golden", fns, 1, 7, 8, 10, 100, 384, 385, 1000, 100_000)
}

// TestDistinctImagesFollowThePublishedFormat reads images by the layout that
// DataSketches publishes for its HLL sketch.
func TestDistinctImagesFollowThePublishedFormat(t *testing.T) {
	const precision = 10
	fn := build(t, "distinct", options("precision", precision, "output", "sketch"), column.Of(column.Int64))
	for _, n := range []int{1, 7, 8, 96, 97, 5000} {
		b := []byte(extracted(t, fn, lifted(t, fn, first(n))).Strings[0])
		if b[1] != 1 || b[2] != 7 || b[3] != precision || b[7]>>2 != 2 {
			t.Fatalf("%d values: head %x", n, b[:8])
		}
		switch mode := b[7] & 3; mode {
		case 0, 1:
			start, count := 8, int(b[6])
			if mode == 1 {
				start, count = 12, int(binary.LittleEndian.Uint32(b[8:]))
			}
			if int(b[0]) != start/4 || count != n || len(b) != start+4*n || (mode == 0) != (n < 8) || n > 96 {
				t.Errorf("%d values: mode %d with %d coupons in %d bytes, head %x", n, mode, count, len(b), b[:start])
			}
		default:
			var low, high float64
			zeros := 0
			for _, r := range b[40:] {
				if p := math.Ldexp(1, -int(r)); r < 32 {
					low += p
				} else {
					high += p
				}
				if r == 0 {
					zeros++
				}
			}
			at := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[i:])) }
			if b[0] != 10 || b[5] != 16 || len(b) != 40+1<<precision || at(8) != 0 || at(16) != low || at(24) != high ||
				int(binary.LittleEndian.Uint32(b[32:])) != zeros || bits.Len32(binary.LittleEndian.Uint32(b[36:])) != 0 {
				t.Errorf("%d values: head %x", n, b[:40])
			}
		}
	}
}

func TestEqualValuesOfOneReprHashAlike(t *testing.T) {
	same := func(a, b *column.Vector) {
		t.Helper()
		x := lifted(t, build(t, "distinct", combine.Params{}, a.Type), a).AppendAcc(nil, 0)
		y := lifted(t, build(t, "distinct", combine.Params{}, b.Type), b).AppendAcc(nil, 0)
		if string(x) != string(y) {
			t.Errorf("%s and %s: %x and %x", a.Type, b.Type, x, y)
		}
	}
	narrow, wide := column.New(column.Of(column.Int32)), ints(7, -7)
	narrow.AppendInt(7)
	narrow.AppendInt(-7)
	same(narrow, wide)
	single := column.New(column.Of(column.Float32))
	single.AppendFloat(0.5)
	single.AppendFloat(math.NaN())
	single.AppendFloat(0)
	same(single, floats(0.5, math.Float64frombits(0xfff8000000000123), math.Copysign(0, -1)))
	a, b := column.New(column.DecimalOf(9, 2)), column.New(column.DecimalOf(20, 2))
	a.AppendDecimal(column.Int128From(150))
	b.AppendDecimal(column.Int128From(150))
	same(a, b)
	raw := column.New(column.Of(column.Bytes))
	raw.AppendString("é")
	same(raw, texts("é"))
}

// TestDistinctAccumulatorsAreSmall holds sizes in every form.
func TestDistinctAccumulatorsAreSmall(t *testing.T) {
	fn := build(t, "distinct", combine.Params{}, column.Of(column.Int64))
	for _, c := range []struct{ n, most int }{{1, 6}, {10, 50}, {384, 1400}, {1000, 1100}, {100_000, 2100}} {
		if got := len(lifted(t, fn, first(c.n)).AppendAcc(nil, 0)); got > c.most {
			t.Errorf("%d values: %d bytes, want at most %d", c.n, got, c.most)
		}
	}
}

func TestDistinctFormsMeet(t *testing.T) {
	formsMeet(t, build(t, "distinct", options("precision", 9), column.Of(column.Int64)), 0, 3, 48, 49, 300, 5000, 200_000)
}

func TestSketchOptions(t *testing.T) {
	for _, c := range []struct {
		fn   string
		p    combine.Params
		want string
	}{
		{"distinct", options("precision", 3), "option precision: want 4 to 18, got 3"},
		{"distinct", options("output", "bytes"), "option output: want estimate or sketch, got bytes"},
		{"theta", options("nominal", 48), "option nominal: want a power of two, got 48"},
		{"theta", options("nominal", 8), "option nominal: want 16 to 1048576, got 8"},
		{"quantile", options(), "option q: want a number from 0 to 1, or a list of them"},
		{"quantile", options("q", 1.5), "option q: want a number from 0 to 1 of at most 9 decimals, got 1.5"},
		{"quantile", options("q", []any{0.5, "x"}), "option q: want a number, got x"},
		{"quantile", options("q", []any{}), "option q: the list is empty"},
		{"quantile", options("q", 0.5, "relative_error", 0.3), "option relative_error: want 0.0001 to 0.2, got 0.3"},
		{"histogram", options("boundaries", 3), "option boundaries: want a list of 1 to 1000 numbers, got 3"},
		{"histogram", options("boundaries", []any{1, 1}), "option boundaries: want finite numbers in ascending order, got 1"},
		{"histogram", options("boundaries", []any{1}, "relative_error", 0.1), "options boundaries and relative_error: want one of them"},
		{"bloom", options("expected", 0), "option expected: want 1 to 10000000, got 0"},
		{"bloom", options("fpp", 1), "option fpp: want 0.000000001 to 0.5, got 1"},
		{"bitmap", options("bits", 48), "option bits: want 32 or 64, got 48"},
		{"distinct", options("k", 3), "unknown option k, it takes output, precision"},
	} {
		_, err := combine.Builtins()[c.fn].New(c.p, []column.Type{column.Of(column.Int64)})
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.fn, err, c.want)
		}
	}
}

func FuzzDistinct(f *testing.F) {
	var fns []combine.Fn
	for _, p := range []combine.Params{options("precision", 4), options("precision", 4, "output", "sketch"), options("precision", 8), {}} {
		fns = append(fns, build(f, "distinct", p, column.Of(column.Int64)))
	}
	fuzzSketches(f, fns, first(0), first(5), first(24), first(50), first(500), first(3000))
}
