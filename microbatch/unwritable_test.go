package microbatch_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/sink/parquet"
)

// TestWhatCannotBeWrittenIsRefusedWhenRead: an object with a value that no document
// can have is named with the field, and the others are published without it; else
// the pane could not be written as long as the object is in the window.
func TestWhatCannotBeWrittenIsRefusedWhenRead(t *testing.T) {
	deep := func(n int, left, right string) string {
		return strings.Repeat(left, n) + "1" + strings.Repeat(right, n)
	}
	for _, c := range []struct{ name, value, want string }{
		{"a field without a name", `{"":1}`, `index.fields.latest: a struct with a field named "" cannot be written`},
		{"a field that no type's name can tell", `[{"a":{"b:c":1}}]`, `index.fields.latest: a struct with a field named "b:c" cannot be written`},
		{"33 levels", deep(33, "[", "]"), "index.fields.latest: values nested more than 32 levels deep cannot be written"},
		{"63 levels", deep(63, `{"a":`, "}"), "index.fields.latest: values nested more than 32 levels deep cannot be written"},
		{"64 levels", deep(64, `{"a":`, "}"), "line 1: column v: nested more than 63 levels deep"},
		{"200 levels", deep(200, "[", "]"), "line 1: column v: nested more than 63 levels deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, policy := range []string{microbatch.ObjectFail, microbatch.ObjectSkip} {
				b := newBench(t, benchOptions{spec: sums("latest"), change: func(s *microbatch.Settings) { s.ObjectErrors = policy }})
				b.put("03:00", "a.ndjson", `{"k":"x","v":`+c.value+`}`)
				b.put("03:00", "b.ndjson", `{"k":"y","v":{"a":1}}`)
				b.put("03:01", "a.ndjson", `{"k":"z","v":{"a":2}}`)
				if policy == microbatch.ObjectSkip {
					b.step("03:01", microbatch.Advanced)
					if got := b.live().Skipped; len(got) != 1 || !strings.Contains(got[0].Reason, c.want) || len(b.docs()) != 2 {
						t.Errorf("skipped %+v, documents %v", got, b.docs())
					}
					continue
				}
				r := b.step("03:01", microbatch.Failed)
				if !strings.Contains(r.Err.Error(), "object "+minuteKey("03:00", "a.ndjson")+": ") || !strings.Contains(r.Err.Error(), c.want) {
					t.Errorf("error %v, want the object and %s", r.Err, c.want)
				}
			}
		})
	}
}

// TestWhatIsBoundCanBeWritten: the index refuses just those types that a pane does,
// but for structs without fields, which those of other objects have.
func TestWhatIsBoundCanBeWritten(t *testing.T) {
	program, err := index.Compile(sums("latest"), combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	names := rapid.SampledFrom([]string{"a", "b", "A b", "ü", "", "c:d", ",", "<", ">", "x>y", "."})
	refused := 0
	rapid.Check(t, func(rt *rapid.T) {
		typ := column.Of(column.Int64)
		for range rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(30, 35)).Draw(rt, "levels") {
			if rapid.Bool().Draw(rt, "list") {
				typ = column.ListOf(typ)
				continue
			}
			name := "f"
			if rapid.IntRange(0, 20).Draw(rt, "odd") == 0 {
				name = names.Draw(rt, "name")
			}
			typ = column.StructOf(column.Field{Name: name, Type: typ}, column.Field{Name: "g", Type: column.DecimalOf(9, 2)})
		}
		bound, err := program.Bind([]column.Type{column.Of(column.String), typ})
		wrong := parquet.CheckFields([]column.Field{{Name: "k", Type: column.Of(column.String), Key: true}, {Name: "latest", Type: typ}})
		if (err == nil) != (wrong == nil) {
			rt.Fatalf("%s: bound: %v, written: %v", typ, err, wrong)
		}
		if err != nil {
			refused++
		} else if got := bound.Schema()[1].Type; !got.Equal(typ) {
			rt.Fatalf("a field of %s is %s", typ, got)
		}
	})
	if refused == 0 {
		t.Error("no type was refused")
	}
}
