package index_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// TestWhatCannotBeLiftedNamesSettingAndRow: an error of a record says which one
// it is, within its object, and which setting it failed in.
func TestWhatCannotBeLiftedNamesSettingAndRow(t *testing.T) {
	const wrong = `evaluate expression "date(s) > ts": invalid date x (1:1)`
	count := index.FieldSpec{Name: "n", Fn: "count", Args: []string{"*"}}
	filtered := count
	filtered.Where = "date(s) > ts"
	for _, c := range []struct {
		name, want string
		spec       index.Spec
	}{
		{"where", "row 9: index.where: " + wrong, index.Spec{Where: "date(s) > ts", Fields: []index.FieldSpec{count}}},
		{"delete_when", "row 9: index.delete_when: " + wrong, index.Spec{DeleteWhen: "date(s) > ts", Fields: []index.FieldSpec{count}}},
		{"a field's where", "row 9: index.fields.n.where: " + wrong, index.Spec{Fields: []index.FieldSpec{filtered}}},
		{"an argument", "row 9: index.fields.f.max: " + wrong, index.Spec{Fields: []index.FieldSpec{count, {Name: "f", Fn: "max", Args: []string{"=date(s) > ts"}}}}},
		{"a sub-field's where", "row 9: index.fields.c.fields.n.where: " + wrong, index.Spec{Fields: []index.FieldSpec{{Name: "c", Fn: "collect", Args: []string{"s"}, Fields: []index.FieldSpec{filtered}}}}},
		{"a collect's delete_when", "row 9: index.fields.c.delete_when: " + wrong, index.Spec{Fields: []index.FieldSpec{{Name: "c", Fn: "collect", Args: []string{"s"}, DeleteWhen: "date(s) > ts", Fields: []index.FieldSpec{count}}}}},
		{"a sub-field's argument", "row 9: index.fields.c.fields.f.any: " + wrong, index.Spec{Fields: []index.FieldSpec{{Name: "c", Fn: "collect", Args: []string{"s"}, Fields: []index.FieldSpec{{Name: "f", Fn: "any", Args: []string{"=date(s) > ts"}}}}}}},
		{"a combine fn", "row 9: index.fields.f: x is no picky value", index.Spec{Fields: []index.FieldSpec{count, {Name: "f", Fn: "picky", Args: []string{"s"}}}}},
		{"a combine fn behind a filter", "row 9: index.fields.f: x is no picky value", index.Spec{Fields: []index.FieldSpec{count, {Name: "f", Fn: "picky", Args: []string{"s"}, Where: "len(s) > 0"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fns := combine.Builtins()
			fns["picky"] = combine.Builder{Name: "picky", MinArgs: 1, MaxArgs: 1, Build: func(_ combine.Params, args []column.Type) (combine.Fn, error) {
				fn, err := fns["count"].New(combine.Params{}, args)
				return pickyFn{fn}, err
			}}
			c.spec.Key = []string{"k"}
			p, err := index.Compile(c.spec, fns)
			if err != nil {
				t.Fatal(err)
			}
			row := func(s string) map[string]any {
				return map[string]any{"k": "a", "ts": start, "n": 1, "s": s}
			}
			b, kinds := batch(t, p, types(), row("2026-11-30"), row("2026-12-01"), row("x"), row("2026-12-01"), row("x"))
			bound, err := p.Bind(kinds)
			if err != nil {
				t.Fatal(err)
			}
			l, err := bound.NewLifter(table.New(bound.Shape()), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = l.Add(b, 6); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// pickyFn counts the values and refuses x, as a fn of a user's own may.
type pickyFn struct{ combine.Fn }

func (f pickyFn) NewColumn() combine.Column { return pickyColumn{f.Fn.NewColumn()} }

type pickyColumn struct{ combine.Column }

func (c pickyColumn) Add(in *combine.Input) error {
	for _, i := range in.Rows {
		if in.Args[0].Strings[i] == "x" {
			return errors.New("x is no picky value")
		}
	}
	return c.Column.Add(in)
}

// TestErrorsShowTheBeginningOfWhatIsLong: a key or a value may have megabytes.
func TestErrorsShowTheBeginningOfWhatIsLong(t *testing.T) {
	long := strings.Repeat("k", 1<<20)
	for name, s := range map[string]index.Spec{
		"of a document": {Fields: []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "f", Expr: "int(k)"}}},
		"of a record":   {Fields: []index.FieldSpec{{Name: "f", Fn: "max", Args: []string{"=int(k)"}}}},
		"of a time":     {Fields: []index.FieldSpec{{Name: "f", Fn: "max", Args: []string{"ts"}}}},
	} {
		s.Key = []string{"k"}
		_, _, err := documents(t, compile(t, s), types(), map[string]any{"k": long, "ts": start.Add(1)})
		if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "kkk") || !strings.Contains(err.Error(), " bytes)") {
			t.Errorf("%s: %.2000v", name, err)
		}
	}
}
