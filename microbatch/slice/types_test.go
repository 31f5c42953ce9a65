package slice

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// shape is how a file has a column: its node, with so many leaves beneath.
type shape struct {
	node   parquet.Node
	leaves int
}

func flat(t parquet.Node) shape { return shape{parquet.Optional(t), 1} }

// shapes are the types that columns may have in a file; the first is the one that
// values are of.
var shapes = map[string][]shape{
	"k": {flat(parquet.String()), flat(parquet.Leaf(parquet.Int32Type)), flat(parquet.Leaf(parquet.NullType)),
		{parquet.Optional(parquet.List(parquet.Optional(parquet.String()))), 1}},
	"n": {flat(parquet.Leaf(parquet.Int64Type)), flat(parquet.Leaf(parquet.Int32Type)), flat(parquet.Leaf(parquet.DoubleType)), flat(parquet.String()),
		flat(parquet.Leaf(parquet.ByteArrayType)), flat(parquet.Leaf(parquet.BooleanType)), flat(parquet.Leaf(parquet.NullType)), flat(parquet.Date()),
		{parquet.Optional(parquet.List(parquet.Optional(parquet.Leaf(parquet.Int64Type)))), 1},
		{parquet.Optional(parquet.Group{"x": parquet.Optional(parquet.String()), "y": parquet.Leaf(parquet.Int32Type)}), 2}},
	"o": {{parquet.Optional(parquet.Group{"a": parquet.Optional(parquet.Leaf(parquet.Int64Type)), "b": parquet.Optional(parquet.String())}), 2},
		flat(parquet.String()), flat(parquet.Leaf(parquet.NullType)), {parquet.Optional(parquet.Group{"a": parquet.Optional(parquet.String())}), 1}},
	"s": {flat(parquet.String()), flat(parquet.Leaf(parquet.ByteArrayType)), flat(parquet.Leaf(parquet.Int64Type)), flat(parquet.Leaf(parquet.NullType)),
		flat(parquet.Leaf(parquet.DoubleType))},
	"t": {flat(parquet.Timestamp(parquet.Microsecond)), flat(parquet.Leaf(parquet.DoubleType)), flat(parquet.Leaf(parquet.Int32Type)), flat(parquet.Leaf(parquet.NullType))},
}

// fieldShapes are those of field b of the column o, where that is a struct.
var fieldShapes = []shape{flat(parquet.String()), flat(parquet.Leaf(parquet.ByteArrayType)), flat(parquet.Leaf(parquet.Int32Type)), flat(parquet.Leaf(parquet.NullType)),
	{parquet.Optional(parquet.List(parquet.Optional(parquet.String()))), 1}}

// nullable is a record: of each column its value, or nothing. That of o is the
// values of its fields.
type nullable map[string]any

// fileOf writes the records; as says which of the shapes each column has.
func fileOf(t rapid.TB, records []nullable, as map[string]int, fieldAs int) string {
	t.Helper()
	names := slices.Sorted(maps.Keys(shapes))
	group, of := parquet.Group{}, map[string]shape{}
	for _, name := range names {
		s := shapes[name][as[name]]
		if name == "o" && as[name] == 0 {
			s.node = parquet.Optional(parquet.Group{"a": parquet.Optional(parquet.Leaf(parquet.Int64Type)), "b": fieldShapes[fieldAs].node})
		}
		group[name], of[name] = s.node, s
	}
	var buf bytes.Buffer
	w := parquet.NewWriter(&buf, parquet.NewSchema("row", group))
	for _, r := range records {
		var row parquet.Row
		for _, name := range names {
			v := r[name]
			fields, _ := v.([2]any)
			for leaf := range of[name].leaves {
				at := len(row)
				switch {
				case v == nil:
					row = append(row, parquet.NullValue().Level(0, 0, at))
				case name != "o" || as[name] != 0:
					row = append(row, parquet.ValueOf(v).Level(0, 1, at))
				case fields[leaf] == nil:
					row = append(row, parquet.NullValue().Level(0, 1, at))
				default:
					row = append(row, parquet.ValueOf(fields[leaf]).Level(0, 2, at))
				}
			}
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// drawNullable draws records, in which columns may be null throughout.
func drawNullable(rt *rapid.T, full bool) []nullable {
	there := map[string]bool{}
	for _, name := range append(slices.Sorted(maps.Keys(shapes)), "b") {
		there[name] = full || rapid.IntRange(0, 2).Draw(rt, name) > 0
	}
	out := make([]nullable, rapid.IntRange(1, 6).Draw(rt, "rows"))
	for i := range out {
		first := full && i == 0
		draw := func(name string, values ...any) any {
			if !there[name] || !first && rapid.IntRange(0, 3).Draw(rt, "null") == 0 {
				return nil
			}
			return values[rapid.IntRange(0, len(values)-1).Draw(rt, "value")]
		}
		out[i] = nullable{
			"k": draw("k", "x", "y"), "n": draw("n", int64(1), int64(-7), int64(1)<<40), "s": draw("s", "a", "no", "b"),
			"t": draw("t", sliceStart.UnixMicro(), sliceStart.Add(time.Second).UnixMicro()), "o": draw("o", [2]any{draw("o", int64(1), int64(2)), draw("b", "p", "q")}),
		}
		if first {
			out[i]["o"] = [2]any{int64(3), "r"}
		}
	}
	return out
}

// drawShapes draws of each column without a value any shape, of others the first.
func drawShapes(rt *rapid.T, records []nullable) (as map[string]int, field int) {
	as = map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if !slices.ContainsFunc(records, func(r nullable) bool { return r[name] != nil }) {
			as[name] = rapid.IntRange(0, len(shapes[name])-1).Draw(rt, "shape of "+name)
		}
	}
	if !slices.ContainsFunc(records, func(r nullable) bool { o, _ := r["o"].([2]any); return o[1] != nil }) {
		field = rapid.IntRange(0, len(fieldShapes)-1).Draw(rt, "shape of b")
	}
	return as, field
}

// yielding builds slices of such files.
func yielding(t testing.TB, x *texts) Builder {
	t.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "t"}, Where: "s != 'no'", Fields: []index.FieldSpec{
		{Name: "rows", Fn: "count", Args: []string{"*"}}, {Name: "n", Fn: "sum", Args: []string{"n"}}, {Name: "low", Fn: "min", Args: []string{"n"}},
		{Name: "s", Fn: "latest", Args: []string{"s"}}, {Name: "all", Fn: "set", Args: []string{"s"}}, {Name: "o", Fn: "latest", Args: []string{"o"}},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	return Builder{Program: program, Format: scan.Parquet, Row: scan.Reject, Open: func(o partition.Object) (scan.Blob, map[string]string) {
		return textBlob{x, o.Key}, nil
	}}
}

// inputsOf are the objects of the texts, dealt out to so many partitions.
func (x *texts) inputsOf(parts int) []Input {
	all := x.input().Objects
	var out []Input
	for p := range parts {
		in := Input{Start: sliceStart.Add(time.Duration(p) * time.Minute)}
		for i := p; i < len(all); i += parts {
			o := all[i]
			o.Partition = in.Start
			in.Objects = append(in.Objects, o)
		}
		if len(in.Objects) > 0 {
			out = append(out, in)
		}
	}
	return out
}

// sameWindow fails unless two windows have the same types and runs.
func sameWindow(t rapid.TB, got, want Window) {
	t.Helper()
	if !slices.EqualFunc(got.Types, want.Types, column.Type.Equal) {
		t.Fatalf("types %v, want %v", got.Types, want.Types)
	}
	for i, s := range got.Slices {
		if w := want.Slices[i]; !bytes.Equal(runOf(t, s), runOf(t, w)) || s.Rejected != w.Rejected || s.NullEventTimes != w.NullEventTimes {
			t.Fatalf("slice %d: built at %v, %d rows left out, want %v, %d", i, s.Built, s.Rejected, w.Built, w.Rejected)
		}
	}
}

// TestATypeWithoutValuesYields: files in which a column is null throughout may say
// any type of it. The window is that of files which say the right one, and, where
// no file has a value, one whatever the order, what is kept and what was hoped for.
func TestATypeWithoutValuesYields(t *testing.T) {
	yielded := 0
	rapid.Check(t, func(rt *rapid.T) {
		full := rapid.Bool().Draw(rt, "full")
		right, said := &texts{bodies: map[string]string{}}, &texts{bodies: map[string]string{}}
		for i := range rapid.IntRange(1, 5).Draw(rt, "objects") {
			records := drawNullable(rt, full && i == 0)
			as, field := drawShapes(rt, records)
			key := fmt.Sprint(i)
			right.bodies[key] = fileOf(rt, records, nil, 0)
			said.bodies[key] = fileOf(rt, records, as, field)
		}
		parts := rapid.IntRange(1, 4).Draw(rt, "partitions")
		inputs := said.inputsOf(parts)
		b := yielding(t, said)
		got, err := b.Window(t.Context(), inputs, nil, nil, NewCache(1<<30), 1)
		if err != nil {
			rt.Fatal(err)
		}
		if full {
			want, err := yieldingWindow(t, right, parts)
			if err != nil {
				rt.Fatal(err)
			}
			sameWindow(rt, got, want)
			yielded++
		}
		// The same, with some slices kept from another run, which had other types, in
		// another order and by several workers.
		cache := NewCache(1 << 30)
		var hint []column.Type
		if some := rapid.IntRange(0, len(inputs)-1).Draw(rt, "kept"); some > 0 {
			kept, err := b.Window(t.Context(), inputs[:some], nil, nil, cache, 1)
			if err != nil {
				rt.Fatal(err)
			}
			if rapid.Bool().Draw(rt, "hint") {
				hint = kept.Types
			}
		}
		again := inputs
		if hint == nil && rapid.Bool().Draw(rt, "shuffled") {
			cache = NewCache(1 << 30)
			again = slices.Clone(inputs)
			rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(rt, "seed")))
			for i := range again {
				again[i].Objects = slices.Clone(again[i].Objects)
				rng.Shuffle(len(again[i].Objects), func(j, k int) {
					again[i].Objects[j], again[i].Objects[k] = again[i].Objects[k], again[i].Objects[j]
				})
			}
		}
		other, err := b.Window(t.Context(), again, nil, hint, cache, 3)
		if err != nil {
			rt.Fatal(err)
		}
		sameWindow(rt, other, got)
		types, err := b.Observe(t.Context(), inputs, nil, 2)
		if err != nil || !slices.EqualFunc(types, got.Types, column.Type.Equal) {
			rt.Fatalf("observed %v, %v, want %v", types, err, got.Types)
		}
		for i, s := range got.Slices {
			at := ID{byte(i)}
			whole := atRest(rt, s, at)
			back, err := ReadRest(bytes.NewReader(whole), int64(len(whole)), at, "", nil)
			if err != nil {
				rt.Fatal(err)
			}
			for j, o := range back.Objects {
				if !slices.EqualFunc(o.Seen, s.Objects[j].Seen, column.Type.Equal) {
					rt.Fatalf("at rest %v, want %v", o.Seen, s.Objects[j].Seen)
				}
			}
		}
	})
	if yielded == 0 {
		t.Error("nothing was compared with the right types")
	}
}

func yieldingWindow(t *testing.T, x *texts, parts int) (Window, error) {
	b := yielding(t, x)
	return b.Window(t.Context(), x.inputsOf(parts), nil, nil, NewCache(1<<30), 1)
}

// TestAValueDoesNotYield: a single value of another type is at fault, wherever it
// is and whatever is kept.
func TestAValueDoesNotYield(t *testing.T) {
	whole := nullable{"k": "x", "n": int64(1), "s": "a", "o": [2]any{int64(1), "b"}}
	x := &texts{bodies: map[string]string{
		"0": fileOf(t, []nullable{whole, whole}, nil, 0),
		"1": fileOf(t, []nullable{whole}, nil, 0),
		"2": fileOf(t, append(slices.Repeat([]nullable{{"k": "x"}}, 3000), nullable{"k": "x", "o": "text"}), map[string]int{"o": 1}, 0),
	}}
	b := yielding(t, x)
	for _, parts := range []int{1, 2, 3} {
		inputs := x.inputsOf(parts)
		cache := NewCache(1 << 30)
		for range 2 { // the second has slices that are kept
			_, err := b.Window(t.Context(), inputs, nil, nil, cache, 1)
			if e := (*ObjectError)(nil); !errors.As(err, &e) || e.Object.Key != "2" || !strings.Contains(err.Error(), "column o: string and struct<a:int64,b:string> have no common type") {
				t.Fatalf("%d partitions: %v", parts, err)
			}
		}
	}
}

// TestWhatIsReadCanRest: types as deep as a scan lets them be are sound.
func TestWhatIsReadCanRest(t *testing.T) {
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "v", Fn: "count", Args: []string{"v"}}}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	for levels, want := range map[int]bool{63: true, 64: false} {
		x := &texts{bodies: map[string]string{"0": `{"k":"x","v":` + strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels) + "}\n"}}
		b := Builder{Program: program, Format: scan.NDJSON, Open: func(o partition.Object) (scan.Blob, map[string]string) { return textBlob{x, o.Key}, nil }}
		s, err := b.Build(t.Context(), x.input(), nil)
		if (err == nil) != want {
			t.Fatalf("%d levels: %v", levels, err)
		}
		if err != nil {
			continue
		}
		at := AddressOf(b.Recipe(), x.input())
		whole := atRest(t, s, at)
		if _, err := ReadRest(bytes.NewReader(whole), int64(len(whole)), at, "", nil); err != nil {
			t.Fatalf("%d levels: %v", levels, err)
		}
	}
}
