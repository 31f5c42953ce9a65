package scan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// twoPasses scans as a run does that knows no types: it observes, then asks
// for what it observed.
func twoPasses(blob Blob, req Request) ([]string, Result, error) {
	types, err := Observe(context.Background(), blob, req)
	if err != nil {
		return nil, Result{}, err
	}
	req.Columns = append([]Column(nil), req.Columns...)
	for i := range req.Columns {
		req.Columns[i].As = types[i]
	}
	return rows(blob, req)
}

// TestIntegersAreNeverRounded: in a column that mixes fractions and integers
// an integer is exactly a double, or its row is bad, whichever came first,
// in one pass or two, and when the fractions are in another object.
func TestIntegersAreNeverRounded(t *testing.T) {
	const odd, even = "9007199254740993", "9007199254740994"
	many := strings.Repeat(`{"a":1}`+"\n", 3*batchRows)
	for _, tt := range []struct {
		name, text string
		as         column.Type
		line       int // 0: no row is bad
	}{
		{"fraction first", `{"a":0.5}` + "\n" + `{"a":` + odd + `}`, column.Type{}, 2},
		{"integer first", `{"a":` + odd + `}` + "\n" + `{"a":0.5}`, column.Type{}, 1},
		{"integer in an earlier batch", `{"a":` + odd + `}` + "\n" + many + `{"a":0.5}`, column.Type{}, 1},
		{"fraction in an earlier batch", `{"a":0.5}` + "\n" + many + `{"a":` + odd + `}`, column.Type{}, 2 + 3*batchRows},
		{"fractions elsewhere", `{"a":1}` + "\n" + `{"a":` + odd + `}`, column.Of(column.Float64), 2},
		{"exact", `{"a":0.5}` + "\n" + `{"a":` + even + `}` + "\n" + `{"a":-9223372036854775808}`, column.Type{}, 0},
		{"exact elsewhere", `{"a":` + even + `}`, column.Of(column.Float64), 0},
		{"no fractions", `{"a":` + odd + `}` + "\n" + `{"a":1}`, column.Type{}, 0},
		{"list", `{"a":[` + odd + `]}` + "\n" + `{"a":[0.5]}`, column.Type{}, 1},
		{"list without fractions", `{"a":[` + odd + `]}`, column.Type{}, 0},
		{"struct", `{"a":{"x":[{"y":0.5}]}}` + "\n" + `{"a":{"x":[{"y":1},null,{"y":` + odd + `}]}}`, column.Type{}, 2},
		{"integers beside fractions of another field", `{"a":{"x":0.5,"y":` + odd + `}}`, column.Type{}, 0},
		{"null", `{"a":null}` + "\n" + `{"a":[null,0.5]}`, column.Type{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := Request{Format: NDJSON, Columns: []Column{{Path: "a", As: tt.as}}}
			for how, scan := range map[string]func(Blob, Request) ([]string, Result, error){"one pass": rows, "two passes": twoPasses} {
				if how == "two passes" && tt.as.Kind != column.Null {
					continue
				}
				_, _, err := scan(textBlob("dir/f.json", tt.text), req)
				switch {
				case errors.Is(err, ErrRetype): // to be scanned again, in two passes
				case tt.line == 0 && err != nil:
					t.Errorf("%s: %v", how, err)
				case tt.line > 0:
					wantError(t, err, "dir/f.json", fmt.Sprintf("line %d: column a: ", tt.line), odd+" has no exact double")
				}
			}
		})
	}
}

// TestCSVIntegersAreNeverRounded: there they make a string column, as other
// integers do that would lose digits, in either order; a numeric column has a
// bad row.
func TestCSVIntegersAreNeverRounded(t *testing.T) {
	const odd = "9007199254740993"
	for _, text := range []string{"a\n0.50\n" + odd + "\n", "a\n" + odd + "\n0.50\n"} {
		for how, scan := range map[string]func(Blob, Request) ([]string, Result, error){"one pass": rows, "two passes": twoPasses} {
			out, res, err := scan(textBlob("f.csv", text), Request{Format: CSV, Columns: paths("a")})
			if err != nil || len(out) != 2 || !strings.Contains(strings.Join(out, " "), `"`+odd+`"`) || types(res.Observed) != "string" {
				t.Errorf("%s of %q: %q, %s, %v", how, text, out, types(res.Observed), err)
			}
			_, _, err = scan(textBlob("f.csv", text), Request{Format: CSV, Columns: paths("#a")})
			wantError(t, err, "f.csv", "column a", odd+" has no exact double")
		}
		_, _, err := rows(textBlob("f.csv", text), Request{Format: CSV, Columns: []Column{{Path: "a", As: column.Of(column.Float64)}}})
		wantError(t, err, "f.csv", "column a")
	}
}

func TestIsDouble(t *testing.T) {
	edge := rapid.OneOf(rapid.Int64(), rapid.Int64Range(1<<53-2, 1<<53+9), rapid.SampledFrom([]int64{0, 1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1, 1 << 62}))
	rapid.Check(t, func(t *rapid.T) {
		i := edge.Draw(t, "i")
		f, accuracy := new(big.Float).SetInt64(i).Float64()
		if isDouble(i) != (accuracy == big.Exact) {
			t.Fatalf("%d is held by a double: %t, the nearest is %g", i, isDouble(i), f)
		}
	})
}
