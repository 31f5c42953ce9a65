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
	const top, least = int64(math.MaxInt64), int64(math.MinInt64)
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
		{name: "minus", source: "-v", v: top, want: -top},
		{name: "minus the least", source: "-v", v: least, err: "exceeds int64"},
		{name: "minus the least, doubly", source: "-(-v)", v: least, err: "exceeds int64"},
		{name: "minus null", source: "-v"},
		{name: "minus a double", source: "-f", f: 1.5, want: -1.5},
		{name: "minus a literal", source: "-7", want: int64(-7)},
		{name: "minus what is known late", source: "int(reduce([v], -#acc, v))", v: least, err: "exceeds int64"},
		{name: "abs", source: "abs(v)", v: -top, want: top},
		{name: "abs of the least", source: "abs(v)", v: least, err: "abs(-9223372036854775808) exceeds int64"},
		{name: "abs of null", source: "abs(v)"},
		{name: "abs of a double", source: "abs(f)", f: -1.5, want: 1.5},
		{name: "total", source: "int(sum([v, 1]))", v: top - 1, want: top},
		{name: "total of nothing", source: "sum([v][1:])", v: top, want: int64(0)},
		{name: "total out of range", source: "int(sum([v, 1]))", v: top, err: "exceeds int64"},
		{name: "total of columns", source: "sum([v, v])", v: int64(-3), want: int64(-6)},
		{name: "total of columns out of range", source: "sum([v, v])", v: least, err: "exceeds int64"},
		{name: "total of three", source: "int(sum([v, -1, 1]))", v: least, err: "exceeds int64"},
		{name: "total of a part", source: "sum(map([1, 2], # * v))", v: int64(5), want: int64(15)},
		{name: "total of a part out of range", source: "sum([1, 2], v)", v: top, err: "exceeds int64"},
		{name: "total of a filtered part", source: "sum(filter([1, 2, 3], # > 1), # * v)", v: int64(2), want: int64(10)},
		{name: "total with null", source: "int(sum([v, 1]))"},
		{name: "total of doubles", source: "sum([f, 1.5])", f: 1.0, want: 2.5},
		{name: "total of a constant range", source: "sum(1..3, # * 4611686018427387904)", err: "exceeds int64"},
		{name: "reduced", source: "int(reduce([v, 1], # + #acc))", v: top - 1, want: top},
		{name: "reduced out of range", source: "int(reduce([v, 1], # + #acc))", v: top, err: "exceeds int64"},
		{name: "reduced by products", source: "int(reduce([v, 2], #acc * #))", v: top, err: "exceeds int64"},
		{name: "reduced by differences", source: "int(reduce([v, 1], #acc - #))", v: least, err: "exceeds int64"},
		{name: "reduced doubles", source: "float(reduce([f, 2.0], #acc * #))", f: 1.5, want: 3.0},
		{name: "reduced texts", source: `string(reduce([t, "b"], #acc + #))`, t: "a", want: "ab"},
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
