package combine_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

func texts(values ...string) *column.Vector {
	v := column.New(column.Of(column.String))
	for _, s := range values {
		if s == "null" {
			v.AppendNull()
		} else {
			v.AppendString(s)
		}
	}
	return v
}

func ints(values ...int64) *column.Vector {
	v := column.New(column.Of(column.Int64))
	for _, x := range values {
		v.AppendInt(x)
	}
	return v
}

func floats(values ...float64) *column.Vector {
	v := column.New(column.Of(column.Float64))
	for _, x := range values {
		v.AppendFloat(x)
	}
	return v
}

// render shows row i the way a reader would.
func render(v *column.Vector, i int) string {
	if v.Null(i) {
		return "null"
	}
	switch v.Type.Kind {
	case column.List:
		var parts []string
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			parts = append(parts, render(v.Elem, int(j)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case column.Struct:
		var parts []string
		for j, f := range v.Fields {
			parts = append(parts, v.Type.Fields[j].Name+":"+render(f, i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case column.Float64:
		return fmt.Sprint(v.Floats[i])
	case column.Bool:
		return fmt.Sprint(v.Bools[i])
	case column.String:
		return v.Strings[i]
	}
	return fmt.Sprint(v.Ints[i])
}

func TestExtractedValues(t *testing.T) {
	none, s := combine.Params{}, column.Of(column.String)
	bids := []combine.Sub{
		{Name: "bid", Fn: build(t, "latest", none, column.Of(column.Int64))},
		{Name: "n", Fn: build(t, "count", none)},
	}
	nothing := texts("null", "null")
	tests := []struct {
		name string
		fn   string
		p    combine.Params
		args []*column.Vector
		want string
	}{
		{"count of a column", "count", none, []*column.Vector{texts("a", "null", "b")}, "2"},
		{"count of nothing", "count", none, []*column.Vector{nothing}, "0"},
		{"min", "min", none, []*column.Vector{texts("b", "null", "a")}, "a"},
		{"max", "max", none, []*column.Vector{texts("b", "null", "a")}, "b"},
		{"max of nothing", "max", none, []*column.Vector{nothing}, "null"},
		{"NaN is the greatest", "max", none, []*column.Vector{floats(1, math.NaN(), math.Inf(1))}, "NaN"},
		{"min prefers a number", "min", none, []*column.Vector{floats(math.NaN(), math.Inf(1), 3)}, "3"},
		{"any", "any", none, []*column.Vector{texts("b", "a")}, "a"},
		{"latest skips nulls", "latest", none, []*column.Vector{texts("a", "b", "null")}, "b"},
		{"latest keeps nulls", "latest", option("nulls", "keep"), []*column.Vector{texts("a", "b", "null")}, "null"},
		{"earliest skips nulls", "earliest", none, []*column.Vector{texts("null", "b", "a")}, "b"},
		{"latest of nothing", "latest", none, []*column.Vector{nothing}, "null"},
		{"set", "set", none, []*column.Vector{texts("b", "a", "null", "b")}, "[a b]"},
		{"set at its cap", "set", option("cap", 2), []*column.Vector{texts("b", "a", "b")}, "[a b]"},
		{"set over its cap", "set", option("cap", 1), []*column.Vector{texts("b", "a")}, "null"},
		{"set of nothing", "set", none, []*column.Vector{nothing}, "null"},
		{"distinct", "distinct_exact", none, []*column.Vector{texts("b", "a", "b", "null")}, "2"},
		{"distinct of nothing", "distinct_exact", none, []*column.Vector{nothing}, "null"},
		{"distinct folds zeros and NaN", "distinct_exact", none, []*column.Vector{floats(0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0xfff8000000000001))}, "2"},
		{"mean", "mean", none, []*column.Vector{ints(1, 2)}, "1.5"},
		{"sum of nothing", "sum", none, []*column.Vector{column.New(column.Of(column.Int64))}, "null"},
		{"collect", "collect", combine.Params{By: "ad", Fields: bids}, []*column.Vector{texts("y", "x", "null", "y"), ints(1, 2, 3, 4)},
			"[{ad:x bid:2 n:1} {ad:y bid:4 n:2}]"},
		{"collect of nothing", "collect", combine.Params{By: "ad", Fields: bids}, []*column.Vector{nothing, ints(1, 2)}, "null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var types []column.Type
			for _, a := range tt.args {
				types = append(types, a.Type)
			}
			if got := render(extract(t, build(t, tt.fn, tt.p, types...), tt.args...), 0); got != tt.want {
				t.Errorf("got %s, want %s (of %s)", got, tt.want, s)
			}
		})
	}
}

func TestCollectKeepsSubEntitiesWithoutValues(t *testing.T) {
	sub := []combine.Sub{{Name: "bid", Fn: build(t, "latest", combine.Params{}, column.Of(column.String))}}
	fn := build(t, "collect", combine.Params{By: "ad", Fields: sub}, column.Of(column.String), column.Of(column.String))
	if got := render(extract(t, fn, texts("x"), texts("null")), 0); got != "[{ad:x bid:null}]" {
		t.Error(got)
	}
}

func TestNewestAnswersPresenceAndDeletion(t *testing.T) {
	flags := column.New(column.Of(column.Bool))
	flags.AppendBool(false)
	flags.AppendBool(true)
	flags.AppendNull()
	tests := []struct {
		name    string
		rows    []int32
		records uint64
		deleted bool
	}{
		{"nothing", nil, 0, false},
		{"no flag", []int32{2}, 1, false},
		{"not deleted", []int32{0, 2}, 2, false},
		{"deleted, then a record without flag", all(3), 3, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			col, ok := combine.Newest().NewColumn().(combine.Presence)
			if !ok {
				t.Fatal("the column does not answer")
			}
			col.Grow(1)
			in := &combine.Input{Groups: make([]uint32, 3), Rows: tt.rows, Args: []*column.Vector{flags}, Order: ranks(3)}
			if err := col.Add(in); err != nil {
				t.Fatal(err)
			}
			if col.Records(0) != tt.records || col.Deleted(0) != tt.deleted {
				t.Errorf("%d records, deleted %v", col.Records(0), col.Deleted(0))
			}
		})
	}
}

// TestNullColumnsServeAsAnyType: a file in which a column was never set has a
// Null column for it.
func TestNullColumnsServeAsAnyType(t *testing.T) {
	const n = 3
	for _, fn := range every(t) {
		nulls, typed := make([]*column.Vector, len(fn.Args())), make([]*column.Vector, len(fn.Args()))
		for j, typ := range fn.Args() {
			nulls[j], typed[j] = column.New(column.Of(column.Null)), column.New(typ)
			for range n {
				nulls[j].AppendNull()
				typed[j].AppendNull()
			}
		}
		var accs [2]string
		for k, args := range [][]*column.Vector{nulls, typed} {
			col := fn.NewColumn()
			col.Grow(1)
			if err := col.Add(&combine.Input{Groups: make([]uint32, n), Rows: all(n), Args: args, Order: ranks(n)}); err != nil {
				t.Fatalf("%s: %v", fn.TypeID(), err)
			}
			accs[k] = string(col.AppendAcc(nil, 0))
		}
		if accs[0] != accs[1] {
			t.Errorf("%s: %x of a null column, %x of nulls", fn.TypeID(), accs[0], accs[1])
		}
	}
}

func TestSumOutOfRangeNamesTheSum(t *testing.T) {
	fn := build(t, "sum", combine.Params{}, column.Of(column.Int64))
	col := fn.NewColumn()
	col.Grow(1)
	if err := col.Add(&combine.Input{Groups: make([]uint32, 2), Rows: all(2), Args: []*column.Vector{ints(math.MaxInt64, 1)}}); err != nil {
		t.Fatal(err)
	}
	err := col.Extract(0, column.New(fn.Output()))
	if err == nil || err.Error() != "sum 9223372036854775808 exceeds int64" {
		t.Error(err)
	}
}

func TestOutputTypes(t *testing.T) {
	tests := []struct {
		fn   string
		arg  column.Type
		want string
	}{
		{"count", column.Of(column.String), "int64"},
		{"sum", column.Of(column.Int32), "int64"},
		{"sum", column.DecimalOf(9, 2), "decimal(38,2)"},
		{"sum", column.Of(column.Float32), "double"},
		{"mean", column.DecimalOf(9, 2), "double"},
		{"min", column.Of(column.Date), "date"},
		{"latest", column.Of(column.Int32), "int32"},
		{"set", column.Of(column.String), "list<string>"},
		{"distinct_exact", column.Of(column.String), "int64"},
	}
	for _, tt := range tests {
		t.Run(tt.fn+" of "+tt.arg.String(), func(t *testing.T) {
			if got := build(t, tt.fn, combine.Params{}, tt.arg).Output().String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestBuildErrors(t *testing.T) {
	s := column.Of(column.String)
	sub := combine.Sub{Name: "n", Fn: build(t, "count", combine.Params{})}
	tests := []struct {
		name string
		fn   string
		p    combine.Params
		args []column.Type
		want string
	}{
		{"no column", "sum", combine.Params{}, nil, "sum: 0 arguments given, it takes 1"},
		{"text summed", "sum", combine.Params{}, []column.Type{s}, "sum: string is not a number"},
		{"unknown option", "latest", option("cap", 3), []column.Type{s}, "latest: unknown option cap, it takes nulls"},
		{"bad nulls", "latest", option("nulls", "drop"), []column.Type{s}, "latest: option nulls: want skip or keep, got drop"},
		{"bad cap", "set", option("cap", 0), []column.Type{s}, "set: option cap: want 1 to 1048576, got 0"},
		{"cap is text", "set", option("cap", "x"), []column.Type{s}, "set: option cap: want an integer, got x"},
		{"by elsewhere", "min", combine.Params{By: "a"}, []column.Type{s}, "min: by, fields and deletes belong to collect"},
		{"no by", "collect", combine.Params{}, []column.Type{s}, "collect: by: want the name of the sub-key"},
		{"no fields", "collect", combine.Params{By: "a"}, []column.Type{s}, "collect: fields: want at least one"},
		{"name taken", "collect", combine.Params{By: "n", Fields: []combine.Sub{sub}}, []column.Type{s}, `collect: fields: name "n" is empty or taken`},
		{"spare argument", "collect", combine.Params{By: "a", Fields: []combine.Sub{sub}}, []column.Type{s, s}, "collect: 1 arguments belong to no field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := combine.Builtins()[tt.fn].New(tt.p, tt.args)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestArgumentsOfAnotherTypeAreRefused(t *testing.T) {
	col := build(t, "sum", combine.Params{}, column.Of(column.Int64)).NewColumn()
	col.Grow(1)
	err := col.Add(&combine.Input{Groups: []uint32{0}, Rows: all(1), Args: []*column.Vector{texts("a")}})
	if err == nil || err.Error() != "sum(int)/1: argument 1 is string, not int64" {
		t.Error(err)
	}
}

func TestRefusedNamesSayWhy(t *testing.T) {
	for _, name := range []string{"tdigest", "t-digest", "KLL", "misra_gries", "Space Saving", "top_by_sum", "concat", "string_agg", "first", "float_sum"} {
		if reason, ok := combine.Refused(name); !ok || !strings.Contains(reason, "use ") {
			t.Errorf("%s: %v %q", name, ok, reason)
		}
		if _, ok := combine.Builtins()[name]; ok {
			t.Errorf("%s is offered all the same", name)
		}
	}
	for name := range combine.Builtins() {
		if reason, ok := combine.Refused(name); ok {
			t.Errorf("%s is refused: %s", name, reason)
		}
	}
}

var update = flag.Bool("update", false, "rewrite golden files")

// TestGoldenAccumulators holds the formats: a change here needs a new Version.
func TestGoldenAccumulators(t *testing.T) {
	none := combine.Params{}
	dec := column.New(column.DecimalOf(9, 2))
	dec.AppendDecimal(column.Int128From(1234))
	dec.AppendDecimal(column.Int128From(-2000))
	bools := column.New(column.Of(column.Bool))
	bools.AppendBool(true)
	nested := combine.Params{By: "ad", Fields: []combine.Sub{{Name: "n", Fn: build(t, "count", none)}, {Name: "v", Fn: build(t, "latest", none, column.Of(column.Int64))}}}
	cases := []struct {
		name string
		fn   combine.Fn
		args []*column.Vector
	}{
		{"count", build(t, "count", none, column.Of(column.Int64)), []*column.Vector{ints(make([]int64, 300)...)}},
		{"sum of ints", build(t, "sum", none, column.Of(column.Int64)), []*column.Vector{ints(1000, -1)}},
		{"sum of the least ints", build(t, "sum", none, column.Of(column.Int64)), []*column.Vector{ints(math.MinInt64, math.MinInt64)}},
		{"sum that cancels", build(t, "sum", none, column.Of(column.Int64)), []*column.Vector{ints(5, -5)}},
		{"sum of decimals", build(t, "sum", none, dec.Type), []*column.Vector{dec}},
		{"sum of floats", build(t, "sum", none, column.Of(column.Float64)), []*column.Vector{floats(19.99, 0.01)}},
		{"sum of float specials", build(t, "sum", none, column.Of(column.Float64)), []*column.Vector{floats(-1, math.NaN(), math.Inf(1), math.Inf(-1))}},
		{"sum of float zeros", build(t, "sum", none, column.Of(column.Float64)), []*column.Vector{floats(1e300, -1e300, 0)}},
		{"mean", build(t, "mean", none, column.Of(column.Float64)), []*column.Vector{floats(math.SmallestNonzeroFloat64, math.MaxFloat64)}},
		{"max", build(t, "max", none, column.Of(column.String)), []*column.Vector{texts("a\x00", "b")}},
		{"latest", build(t, "latest", none, column.Of(column.String)), []*column.Vector{texts("a", "b")}},
		{"set", build(t, "set", none, column.Of(column.String)), []*column.Vector{texts("b", "a", "b")}},
		{"set over its cap", build(t, "set", option("cap", 1), column.Of(column.String)), []*column.Vector{texts("b", "a", "b")}},
		{"distinct", build(t, "distinct_exact", none, column.Of(column.Int64)), []*column.Vector{ints(3, 1, 3)}},
		{"collect", build(t, "collect", nested, column.Of(column.String), column.Of(column.Int64)), []*column.Vector{texts("y", "x", "y"), ints(1, 2, 3)}},
		{"newest", combine.Newest(), []*column.Vector{bools}},
	}
	var out strings.Builder
	for _, c := range cases {
		col := c.fn.NewColumn()
		col.Grow(1)
		if err := col.Add(&combine.Input{Groups: make([]uint32, c.args[0].Len()), Rows: all(c.args[0].Len()), Args: c.args, Order: ranks(0)}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\n", c.name, c.fn.TypeID(), hex.EncodeToString(col.AppendAcc(nil, 0)))
	}
	const path = "testdata/accumulators.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
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

// FuzzMerge feeds foreign bytes to every kind of accumulator: what is accepted
// must come out as it went in.
func FuzzMerge(f *testing.F) {
	fns := every(f)
	f.Add(uint16(0), []byte{1})
	f.Add(uint16(60), []byte{3, 6, 0, 0, 1, 1})
	f.Add(uint16(len(fns)-1), tuple.AppendString(nil, "x"))
	f.Fuzz(func(t *testing.T, which uint16, acc []byte) {
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
	})
}
