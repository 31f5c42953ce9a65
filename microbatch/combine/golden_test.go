package combine_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

type goldenCase struct {
	name string
	fn   combine.Fn
	args []*column.Vector
}

// TestGoldenExactAccumulators: the bytes of stored accumulators never change
// under one type id.
func TestGoldenExactAccumulators(t *testing.T) {
	none, i64, f64, str := combine.Params{}, column.Of(column.Int64), column.Of(column.Float64), column.Of(column.String)
	dec := column.New(column.DecimalOf(38, 2))
	for _, s := range []string{"99999999999999999999999999999999999999", "-1050"} {
		dec.AppendDecimal(bigDecimal(t, s))
	}
	bools := column.New(column.Of(column.Bool))
	bools.AppendBool(true)
	bools.AppendBool(false)
	population := option("population", true)
	cases := []goldenCase{
		{"variance of ints", build(t, "variance", none, i64), []*column.Vector{ints(-3, 5, math.MinInt64)}},
		{"variance of floats", build(t, "variance", population, f64), []*column.Vector{floats(0.1, -1e300, math.SmallestNonzeroFloat64)}},
		{"variance of specials", build(t, "variance", none, f64), []*column.Vector{floats(math.NaN(), math.Inf(1), 1)}},
		{"variance of zeros", build(t, "variance", none, f64), []*column.Vector{floats(0, math.Copysign(0, -1))}},
		{"stddev of decimals", build(t, "stddev", none, dec.Type), []*column.Vector{dec}},
		{"covariance", build(t, "covariance", none, i64, f64), []*column.Vector{ints(1, -2), floats(0.5, 3)}},
		{"all_of", build(t, "all_of", none, bools.Type), []*column.Vector{bools}},
		{"any_of", build(t, "any_of", none, bools.Type), []*column.Vector{bools}},
		{"arg_min", build(t, "arg_min", none, str, i64), []*column.Vector{texts("a", "b"), ints(4, 2)}},
		{"arg_max", build(t, "arg_max", option("nulls", "keep"), str, i64), []*column.Vector{texts("null", "b"), ints(4, 2)}},
		{"newest", build(t, "newest", option("n", 2), str), []*column.Vector{texts("a", "b", "c")}},
		{"top", build(t, "top", option("n", 2), i64), []*column.Vector{ints(1, 3, 2)}},
		{"top with scores", build(t, "top", option("n", 2), str, i64), []*column.Vector{texts("a", "b", "c"), ints(1, 3, 2)}},
		{"counts", build(t, "counts", none, str), []*column.Vector{texts("b", "a", "b")}},
		{"counts over its cap", build(t, "counts", option("cap", 1), str), []*column.Vector{texts("b", "a", "b")}},
		{"mode", build(t, "mode", none, i64), []*column.Vector{ints(2, 2)}},
		{"median_exact", build(t, "median_exact", none, f64), []*column.Vector{floats(2, 0)}},
	}
	for i, fn := range collects(t)[:2] {
		args := []*column.Vector{texts("x", "y", "x"), flags("yes", "null", "no"), texts("a", "b", "c")}
		if i == 1 {
			args = []*column.Vector{args[0], args[1], floats(1, 2, 3), args[2], flags("no", "yes", "yes")}
		}
		cases = append(cases, goldenCase{[]string{"collect with deletes", "collect with filters"}[i], fn, args})
	}
	var out strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&out, "%s\t%s\t%s\n", c.name, c.fn.TypeID(), hex.EncodeToString(accumulate(t, c.fn, c.args...)))
	}
	const path = "testdata/exact.golden"
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
