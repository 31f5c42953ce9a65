package combine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

func options(pairs ...any) combine.Params {
	p := combine.Params{Options: map[string]any{}}
	for i := 0; i < len(pairs); i += 2 {
		p.Options[pairs[i].(string)] = pairs[i+1]
	}
	return p
}

// sketches returns every sketch over types that it hashes or counts in ways of
// their own, with parameters small enough for the few records of the battery to
// reach all forms.
func sketches(t testing.TB) []combine.Fn {
	t.Helper()
	whole := column.Of(column.Int64)
	fns := []combine.Fn{
		build(t, "distinct", combine.Params{}, whole),
		build(t, "distinct", options("precision", 5, "output", "sketch"), whole),
		build(t, "theta", combine.Params{}, whole),
		build(t, "theta", options("nominal", 32, "output", "sketch"), whole),
		build(t, "bloom", options("expected", 20), whole),
		build(t, "bitmap", combine.Params{}, whole),
		build(t, "bitmap", options("bits", 32), whole),
		build(t, "bitmap", combine.Params{}, column.Of(column.Null)),
	}
	for _, typ := range []column.Type{column.Of(column.Null), whole, column.Of(column.Float64), column.Of(column.String), column.DecimalOf(9, 2), nestedTypes()[2]} {
		fns = append(fns,
			build(t, "distinct", options("precision", 4), typ),
			build(t, "theta", options("nominal", 16), typ),
			build(t, "bloom", options("expected", 1, "fpp", 0.5), typ))
	}
	for _, typ := range []column.Type{column.Of(column.Null), column.Of(column.Int32), column.Of(column.Float64), column.DecimalOf(9, 2), column.DecimalOf(38, 37)} {
		fns = append(fns,
			build(t, "median", combine.Params{}, typ),
			build(t, "quantile", options("q", 0.5), typ),
			build(t, "quantile", options("q", []any{0, 0.25, 1}, "relative_error", 0.2), typ),
			build(t, "histogram", options("relative_error", 0.1), typ),
			build(t, "histogram", options("boundaries", []any{-1, 0, 0.1, int64(300)}), typ))
	}
	return fns
}

// lifted is a column of one group that holds the values.
func lifted(t testing.TB, fn combine.Fn, args ...*column.Vector) combine.Column {
	t.Helper()
	col := fn.NewColumn()
	col.Grow(1)
	n := args[0].Len()
	if err := col.Add(&combine.Input{Groups: make([]uint32, n), Rows: all(n), Args: args}); err != nil {
		t.Fatal(err)
	}
	return col
}

// extracted is the value of the column's group.
func extracted(t testing.TB, fn combine.Fn, col combine.Column) *column.Vector {
	t.Helper()
	dst := column.New(fn.Output())
	if err := col.Extract(0, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// integerSets are multisets of integers, their distinct number known.
func integerSets(n int, rng *rand.Rand) map[string][]int64 {
	sorted, strided, random, constant, repeated := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, 0, 3*n)
	for i := range n {
		sorted[i] = int64(i)
		strided[i] = int64(i) << 32
		random[i] = int64(rng.Uint64())
		constant[i] = 42
		for range 1 + rng.IntN(4) {
			repeated = append(repeated, int64(i)*1_000_003)
		}
	}
	zipf := rand.NewZipf(rng, 1.2, 1, uint64(10*n))
	skewed := make([]int64, 4*n)
	for i := range skewed {
		skewed[i] = int64(zipf.Uint64())
	}
	rng.Shuffle(len(repeated), func(i, j int) { repeated[i], repeated[j] = repeated[j], repeated[i] })
	return map[string][]int64{"sorted": sorted, "strided": strided, "uniform": random, "constant": constant, "repeated": repeated, "zipf": skewed}
}

func countDistinct(values []int64) int {
	seen := map[int64]bool{}
	for _, v := range values {
		seen[v] = true
	}
	return len(seen)
}

// errorsOf measures relative errors of an estimating fn over distributions and
// sizes: the root of the mean square and the greatest.
func errorsOf(t *testing.T, fn combine.Fn, sizes []int, rounds int) (rms, worst float64) {
	t.Helper()
	sum, n := 0.0, 0
	for _, size := range sizes {
		for seed := range rounds {
			for name, values := range integerSets(size, rand.New(rand.NewPCG(uint64(seed), uint64(size)))) {
				if seed > 0 && (name == "sorted" || name == "strided" || name == "constant") {
					for i := range values {
						values[i] += int64(seed) << 40
					}
				}
				want := float64(countDistinct(values))
				got := float64(extracted(t, fn, lifted(t, fn, ints(values...))).Ints[0])
				e := math.Abs(got-want) / want
				sum, n, worst = sum+e*e, n+1, max(worst, e)
			}
		}
	}
	return math.Sqrt(sum / float64(n)), worst
}

// fuzzSketches feeds foreign bytes to fns: what is accepted must come out as it
// went in, and have a value or an error.
func fuzzSketches(f *testing.F, fns []combine.Fn, seeds ...*column.Vector) {
	f.Helper()
	for i, fn := range fns {
		for _, v := range seeds {
			if v.Type.SameRepr(fn.Args()[0]) {
				f.Add(uint8(i), lifted(f, fn, v).AppendAcc(nil, 0))
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, acc []byte) {
		fn := fns[int(which)%len(fns)]
		col := fn.NewColumn()
		col.Grow(1)
		valid := fn.Validate(acc)
		if err := col.Merge(0, acc); (err == nil) != (valid == nil) {
			t.Fatalf("%s: Validate says %v, Merge %v", fn.TypeID(), valid, err)
		}
		want := string(acc)
		if valid != nil {
			want = ""
		}
		if got := string(col.AppendAcc(nil, 0)); got != want {
			t.Fatalf("%s: %x came out as %x", fn.TypeID(), want, got)
		}
		dst := column.New(fn.Output())
		if err := col.Extract(0, dst); err == nil && dst.Len() != 1 {
			t.Fatalf("%s: %x has %d values", fn.TypeID(), acc, dst.Len())
		}
	})
}

// first returns the integers 0 to n-1: what the test images of DataSketches
// are made of.
func first(n int) *column.Vector {
	v := column.New(column.Of(column.Int64))
	for i := range n {
		v.AppendInt(int64(i))
	}
	return v
}

// checkImages holds images to a golden file of a line each: fn, number of
// values, length, and the bytes, or of long ones their SHA-256. Those of
// distinct and theta were compared with what the Java and C++ libraries of
// DataSketches write for the same values: the numbers in them are the same, in
// order here, and without a HIP estimate.
func checkImages(t *testing.T, path string, fns []combine.Fn, sizes ...int) {
	t.Helper()
	var out strings.Builder
	for _, fn := range fns {
		for _, n := range sizes {
			image := extracted(t, fn, lifted(t, fn, first(n))).Strings[0]
			shown := hex.EncodeToString([]byte(image))
			if len(image) > 128 {
				sum := sha256.Sum256([]byte(image))
				shown = "sha256 " + hex.EncodeToString(sum[:])
			}
			fmt.Fprintf(&out, "%s\t%d\t%d\t%s\n", fn.TypeID(), n, len(image), shown)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("images changed:\n%s\nwant:\n%s", out.String(), want)
	}
}

// formsMeet merges accumulators of every pair of sizes.
func formsMeet(t *testing.T, fn combine.Fn, sizes ...int) {
	t.Helper()
	for _, m := range sizes {
		for _, n := range sizes {
			rng := rand.New(rand.NewPCG(uint64(m), uint64(n)))
			a, b := column.New(column.Of(column.Int64)), column.New(column.Of(column.Int64))
			for range m {
				a.AppendInt(rng.Int64N(300_000))
			}
			for range n {
				b.AppendInt(rng.Int64N(300_000))
			}
			whole := lifted(t, fn, a)
			if err := whole.Add(&combine.Input{Groups: make([]uint32, n), Rows: all(n), Args: []*column.Vector{b}}); err != nil {
				t.Fatal(err)
			}
			merged := lifted(t, fn, a)
			if err := merged.Merge(0, lifted(t, fn, b).AppendAcc(nil, 0)); err != nil {
				t.Fatal(err)
			}
			if got, want := merged.AppendAcc(nil, 0), whole.AppendAcc(nil, 0); string(got) != string(want) {
				t.Errorf("%d and %d values: %d bytes merged, %d at once", m, n, len(got), len(want))
			}
		}
	}
}

// TestSketchAccumulatorsKeepTheirBytes holds the formats: a change here needs a
// new Version.
func TestSketchAccumulatorsKeepTheirBytes(t *testing.T) {
	small := floats(-1.5, 0, 0, 1, 2, 1000, math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64)
	wide := ints(3, 4, 5, 1<<40, -1)
	var out strings.Builder
	for _, c := range []struct {
		fn  combine.Fn
		arg *column.Vector
	}{
		{build(t, "distinct", combine.Params{}, wide.Type), wide},
		{build(t, "distinct", options("precision", 4), wide.Type), first(9)},
		{build(t, "distinct", options("precision", 4), wide.Type), first(1000)},
		{build(t, "distinct", combine.Params{}, small.Type), small},
		{build(t, "distinct", combine.Params{}, column.Of(column.String)), texts("", "a", "a longer text than thirty-two bytes")},
		{build(t, "theta", options("nominal", 16), wide.Type), wide},
		{build(t, "theta", options("nominal", 16), wide.Type), first(100)},
		{build(t, "quantile", options("q", 0.5), small.Type), small},
		{build(t, "quantile", options("q", 0.5), wide.Type), wide},
		{build(t, "median", options("relative_error", 0.0001), small.Type), small},
		{build(t, "histogram", combine.Params{}, small.Type), small},
		{build(t, "histogram", options("boundaries", []any{0, 1.5}), small.Type), small},
		{build(t, "bloom", options("expected", 20), wide.Type), wide},
		{build(t, "bloom", options("expected", 1, "fpp", 0.5), wide.Type), first(60)},
		{build(t, "bloom", options("expected", 20), column.Of(column.String)), texts("", "a longer text than thirty-two bytes")},
		{build(t, "bitmap", combine.Params{}, wide.Type), wide},
		{build(t, "bitmap", combine.Params{}, wide.Type), first(100)},
	} {
		fmt.Fprintf(&out, "%s\t%d\t%x\n", c.fn.TypeID(), c.arg.Len(), lifted(t, c.fn, c.arg).AppendAcc(nil, 0))
	}
	const path = "testdata/sketches.golden"
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("accumulators changed:\n%s\nwant:\n%s", out.String(), want)
	}
}
