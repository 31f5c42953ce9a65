package index_test

import (
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
)

// TestExpressionOverAColumnThatWasNeverSeen: an expression that runs over a
// column with values runs over one without, and its value has the type that
// the rest leaves it to be.
func TestExpressionOverAColumnThatWasNeverSeen(t *testing.T) {
	for _, c := range []struct {
		expr string
		want column.Kind
		ok   bool
	}{
		{"title", column.Null, true},
		{"n > 2 ? title : nil", column.Null, true},
		{"n > 2 ? n : title", column.Int64, true},
		{"n > 2 ? upper(title) : nil", column.String, true},
		{"title == 'a' ? 1 : 2", column.Int64, true},
		{"n > 2 ? n : 'x'", column.Null, false}, // open whatever is seen
	} {
		t.Run(c.expr, func(t *testing.T) {
			p, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{
				{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "title", Fn: "latest", Args: []string{"title"}}, {Name: "x", Expr: c.expr},
			}}, combine.Builtins())
			if !c.ok {
				if err == nil { // whatever is seen, so before anything is
					t.Error("it compiles")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := p.Bind([]column.Type{column.Of(column.String), {}})
			if err != nil {
				t.Fatal(err)
			}
			if b.Schema()[3].Type.Kind != c.want {
				t.Errorf("it is a %s, want a %s", b.Schema()[3].Type, c.want)
			}
		})
	}
}
