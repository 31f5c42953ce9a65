package index_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
)

// text renders a value of a document.
func text(v *column.Vector, i int) string {
	switch {
	case v.Null(i):
		return "null"
	case v.Type.Kind == column.Int64:
		return fmt.Sprint(v.Ints[i])
	case v.Type.Kind == column.Float64:
		return fmt.Sprint(v.Floats[i])
	case v.Type.Kind == column.Bool:
		return fmt.Sprint(v.Bools[i])
	case v.Type.Kind == column.Timestamp:
		return v.Instant(i).String()
	case v.Type.Kind == column.List:
		var parts []string
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			parts = append(parts, text(v.Elem, int(j)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case v.Type.Kind == column.Struct:
		var parts []string
		for _, f := range v.Fields {
			parts = append(parts, text(f, i))
		}
		return "(" + strings.Join(parts, " ") + ")"
	}
	return v.Strings[i]
}

// TestArgumentsThatAreExpressions: a fn folds what an expression makes of each
// record, of the records that it takes; null is no value.
func TestArgumentsThatAreExpressions(t *testing.T) {
	row := func(n any, s string, flag any) map[string]any {
		return map[string]any{"k": "a", "ts": start, "op": "U", "n": n, "s": s, "flag": flag}
	}
	rows := []map[string]any{row(2, "x", true), row(5, "y", false), row(nil, "xy", true), row(-3, "x", nil)}
	tests := []struct {
		name  string
		field index.FieldSpec
		want  string
	}{
		{"a product", index.FieldSpec{Fn: "sum", Args: []string{"=n * n"}}, "38"},
		{"of the records that where takes", index.FieldSpec{Fn: "sum", Args: []string{"= n * n"}, Where: "n > 0"}, "29"},
		{"a fraction", index.FieldSpec{Fn: "max", Args: []string{"=n / 4"}}, "1.25"},
		{"null where an operand is", index.FieldSpec{Fn: "count", Args: []string{"=n + 1"}}, "3"},
		{"a text", index.FieldSpec{Fn: "set", Args: []string{"=upper(s)"}}, "[X XY Y]"},
		{"a condition", index.FieldSpec{Fn: "all_of", Args: []string{"=n > -5"}}, "true"},
		{"a choice", index.FieldSpec{Fn: "sum", Args: []string{"=int(s == 'x' ? n : 0)"}}, "-1"},
		{"beside a column", index.FieldSpec{Fn: "arg_max", Args: []string{"s", "=-n"}}, "x"},
		{"within a collect", index.FieldSpec{Fn: "collect", Args: []string{"s"}, Fields: []index.FieldSpec{
			{Name: "twice", Fn: "sum", Args: []string{"=2 * n"}}, {Name: "long", Fn: "count", Args: []string{"=n"}, Where: "flag"},
		}}, "[(x -2 1) (xy null 0) (y 10 0)]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.field.Name = "f"
			p := compile(t, index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op == 'D'", Fields: []index.FieldSpec{tt.field}})
			dead := row(100, "dead", true)
			dead["op"] = "D"
			dead["ts"] = start.Add(-1)
			docs, _, err := documents(t, p, types(), append(rows, dead)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(docs.Columns[1], 0); docs.Len != 1 || got != tt.want {
				t.Errorf("%d documents, %s, want %s", docs.Len, got, tt.want)
			}
		})
	}
}

func TestArgumentsThatAreExpressionsAreRefused(t *testing.T) {
	for arg, want := range map[string]string{
		"=":         `index.fields.f.sum: parse expression ""`,
		"=n *":      `index.fields.f.sum: parse expression "n *"`,
		"=now()":    "now is not a function of the record",
		"=upper(s)": "index.fields.f: sum: string is not a number",
	} {
		t.Run(arg, func(t *testing.T) {
			p, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "f", Fn: "sum", Args: []string{arg}}}}, combine.Builtins())
			if err == nil {
				_, kinds := batch(t, p, types())
				_, err = p.Bind(kinds)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	_, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{
		Name: "f", Fn: "collect", Args: []string{"=n"}, Fields: []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}}},
	}}}, combine.Builtins())
	if err == nil || !strings.Contains(err.Error(), "by is a column, not an expression") {
		t.Errorf("an expression in by: %v", err)
	}
}

// TestOptionsAreCheckedBeforeAnyObject: what no column can mend is found when
// the configuration is read.
func TestOptionsAreCheckedBeforeAnyObject(t *testing.T) {
	for name, f := range map[string]index.FieldSpec{
		"quantile without q":  {Fn: "quantile", Args: []string{"n"}},
		"precision":           {Fn: "distinct", Args: []string{"n"}, Params: map[string]any{"precision": 3}},
		"nominal":             {Fn: "theta", Args: []string{"n"}, Params: map[string]any{"nominal": 1000}},
		"n":                   {Fn: "top", Args: []string{"n"}, Params: map[string]any{"n": 5000}},
		"boundaries descend":  {Fn: "histogram", Args: []string{"n"}, Params: map[string]any{"boundaries": []any{3, 1}}},
		"cap within collect":  {Fn: "collect", Args: []string{"s"}, Fields: []index.FieldSpec{{Name: "x", Fn: "set", Args: []string{"n"}, Params: map[string]any{"cap": 0}}}},
		"nulls of arg_max":    {Fn: "arg_max", Args: []string{"s", "n"}, Params: map[string]any{"nulls": "maybe"}},
		"another option's fn": {Fn: "count", Args: []string{"n"}, Params: map[string]any{"q": 0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			f.Name = "f"
			_, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{f}}, combine.Builtins())
			if err == nil || !strings.Contains(err.Error(), "index.fields.f") {
				t.Errorf("got %v", err)
			}
		})
	}
}
