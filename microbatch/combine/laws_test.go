package combine_test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// lawCases is how many cases each fn is run over, unless LAW_CASES says so: the
// full test command runs more than a developer waits for.
func lawCases(t *testing.T) int {
	t.Helper()
	text := os.Getenv("LAW_CASES")
	if text == "" {
		return 250
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 250 {
		t.Fatalf("LAW_CASES=%s: want a number from 250", text)
	}
	return n
}

func build(t testing.TB, name string, p combine.Params, args ...column.Type) combine.Fn {
	t.Helper()
	fn, err := combine.Builtins()[name].New(p, args)
	if err != nil {
		t.Fatal(err)
	}
	return fn
}

func option(name string, value any) combine.Params {
	return combine.Params{Options: map[string]any{name: value}}
}

func scalarTypes() []column.Type {
	var out []column.Type
	for _, k := range []column.Kind{column.Null, column.Bool, column.Int32, column.Int64, column.Float32, column.Float64,
		column.String, column.Bytes, column.Date, column.Time, column.Timestamp} {
		out = append(out, column.Of(k))
	}
	return append(out, column.DecimalOf(38, 0), column.DecimalOf(38, 37), column.DecimalOf(9, 2))
}

func nestedTypes() []column.Type {
	pair := column.StructOf(column.Field{Name: "a", Type: column.Of(column.String)}, column.Field{Name: "b", Type: column.DecimalOf(12, 3)})
	return []column.Type{column.ListOf(column.Of(column.String)), pair, column.ListOf(pair)}
}

// every returns each builtin over every kind of type that its accumulator
// treats by itself: what only stores a value's encoding is run over a few.
func every(t testing.TB) []combine.Fn {
	t.Helper()
	fns := []combine.Fn{combine.Newest(), build(t, "count", combine.Params{})}
	for _, typ := range append(scalarTypes(), nestedTypes()...) {
		fns = append(fns, build(t, "max", combine.Params{}, typ), build(t, "distinct_exact", combine.Params{}, typ))
		if typ.IsNumeric() || typ.Kind == column.Null {
			fns = append(fns, build(t, "sum", combine.Params{}, typ), build(t, "mean", combine.Params{}, typ))
		}
	}
	for _, typ := range append(nestedTypes()[2:], column.Of(column.Null), column.Of(column.Float64), column.Of(column.String), column.DecimalOf(9, 2)) {
		for _, name := range []string{"count", "min", "any", "latest", "earliest", "set"} {
			fns = append(fns, build(t, name, combine.Params{}, typ))
		}
		fns = append(fns,
			build(t, "latest", option("nulls", "keep"), typ),
			build(t, "earliest", option("nulls", "keep"), typ),
			build(t, "set", option("cap", 3), typ))
	}
	for _, typ := range []column.Type{column.Of(column.Bool), column.Of(column.Null)} {
		fns = append(fns, build(t, "all_of", combine.Params{}, typ), build(t, "any_of", combine.Params{}, typ))
	}
	fns = slices.Concat(fns, momentFns(t), lists(t), collects(t))
	str, dbl := column.Of(column.String), column.Of(column.Float64)
	latest, sum := build(t, "latest", combine.Params{}, str), build(t, "sum", combine.Params{}, dbl)
	tags := build(t, "set", option("cap", 2), str)
	inner := build(t, "collect", combine.Params{By: "size", Fields: []combine.Sub{{Name: "n", Fn: build(t, "count", combine.Params{})}, {Name: "s", Fn: tags}}}, column.Of(column.Int64), str)
	fns = append(fns, sketches(t)...)
	return append(fns,
		build(t, "collect", combine.Params{By: "ad", Fields: []combine.Sub{{Name: "status", Fn: latest}, {Name: "tags", Fn: tags}}}, str, str, str),
		build(t, "collect", combine.Params{By: "ad", Fields: []combine.Sub{{Name: "bid", Fn: sum}, {Name: "status", Fn: latest}}}, column.Of(column.Int64), dbl, str),
		build(t, "collect", combine.Params{By: "ad", Fields: []combine.Sub{{Name: "sizes", Fn: inner}}}, column.Of(column.Date), column.Of(column.Int64), str))
}

func TestEveryBuiltinKeepsTheLaws(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	cases := lawCases(t)
	for _, fn := range every(t) {
		seen[fn.TypeID()] = true
		t.Run(fn.TypeID(), func(t *testing.T) {
			t.Parallel()
			if err := combinetest.Check(fn, cases, 1); err != nil {
				t.Error(err)
			}
		})
	}
	for name := range combine.Builtins() {
		covered := false
		for id := range seen {
			covered = covered || len(id) > len(name) && id[:len(name)+1] == name+"("
		}
		if !covered {
			t.Errorf("no case covers %s", name)
		}
	}
}
