package index

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// evaluate evaluates source over the int64 column v, the double f and the
// string t; nil is null.
func evaluate(t *testing.T, source string, v, f, text any) (any, error) {
	t.Helper()
	e, err := parseExpression(source)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]column.Type{"v": column.Of(column.Int64), "f": column.Of(column.Float64), "t": column.Of(column.String)}
	c, err := e.bind(func(path string) column.Type { return types[path] }, false)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"v": v, "f": f, "t": text}
	for _, s := range c.slots {
		s.at[s.key] = values[s.path]
	}
	out, err := c.eval()
	if i, ok := out.(int); ok {
		out = int64(i)
	}
	return out, err
}

// TestExpressionsDoNotWrap: an integer that int64 cannot hold is an error, as
// it is in a sum, and never another number.
func TestExpressionsDoNotWrap(t *testing.T) {
	const top = int64(math.MaxInt64)
	for _, tc := range []struct {
		name, source string
		v, f, t      any
		want         any
		err          string
	}{
		{name: "sum", source: "v + 1", v: top - 1, want: top},
		{name: "sum out of range", source: "v + 1", v: top, err: "exceeds int64"},
		{name: "sum of two columns", source: "v + v", v: top, err: "exceeds int64"},
		{name: "difference out of range", source: "v - 2", v: -top, err: "exceeds int64"},
		{name: "product", source: "v * 2", v: int64(21), want: int64(42)},
		{name: "product out of range", source: "v * v", v: int64(1 << 32), err: "exceeds int64"},
		{name: "inside another", source: "(v + 1) / 2", v: top, err: "exceeds int64"},
		{name: "int of a double", source: "int(f)", f: -1.9, want: int64(-1)},
		{name: "int of a large double", source: "int(f)", f: 1e300, err: "exceeds int64"},
		{name: "int of NaN", source: "int(f)", f: math.NaN(), err: "exceeds int64"},
		{name: "int of a text", source: "int(t)", t: "12", want: int64(12)},
		{name: "doubles are doubles", source: "v + f", v: top, f: 1.0, want: float64(top) + 1},
		{name: "texts are joined", source: "t + t", t: "a", want: "aa"},
		{name: "null is null", source: "v + 1"},
		{name: "string of null", source: "string(v)"},
		{name: "string of a number", source: "string(v)", v: int64(5), want: "5"},
		{name: "null beside null", source: "v == nil ? 0 : v + 1", want: int64(0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := evaluate(t, tc.source, tc.v, tc.f, tc.t)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %v (%T), %v, want %v", got, got, err, tc.want)
			}
		})
	}
}

// TestCheckedArithmeticIsArithmetic where it fits, and only there.
func TestCheckedArithmeticIsArithmetic(t *testing.T) {
	edge := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, 2, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 32, -(1 << 31)}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := edge.Draw(t, "a"), edge.Draw(t, "b")
		for op, exact := range map[string]func(x, y *big.Int) *big.Int{"+": new(big.Int).Add, "-": new(big.Int).Sub, "*": new(big.Int).Mul} {
			want := exact(big.NewInt(a), big.NewInt(b))
			got, fits := arithmetic(op, a, b)
			if fits != want.IsInt64() || fits && got != want.Int64() {
				t.Fatalf("%d %s %d = %d, %t", a, op, b, got, fits)
			}
		}
	})
}
