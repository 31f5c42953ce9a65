package window_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/window"
)

// TestAWiderColumnThatOnlyFiltersRead: the canonical bytes of a record have
// every column that the index reads, and accumulators keep them. A column that
// no field has as its argument changes them all the same when it gets wider, in
// slices of the same names.
func TestAWiderColumnThatOnlyFiltersRead(t *testing.T) {
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Where: "w != 3", DeleteWhen: "op", Fields: []index.FieldSpec{
		{Name: "n", Fn: "count", Args: []string{"*"}},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	bind := func(w column.Kind) *index.Bound {
		var types []column.Type
		for _, c := range program.Columns() {
			types = append(types, column.Of(map[string]column.Kind{"k": column.String, "op": column.Bool, "w": w}[c.Path]))
		}
		bound, err := program.Bind(types)
		if err != nil {
			t.Fatal(err)
		}
		return bound
	}
	// A delete of key a, and in every partition after it an update that says
	// nothing of deletes.
	source := func(bound *index.Bound, at int) window.Source {
		batch := &column.Batch{Len: 2}
		for i, c := range program.Columns() {
			v := column.New(bound.Signature().Types[i])
			for row := range 2 {
				switch {
				case c.Path == "k":
					v.AppendString([]string{"a", fmt.Sprint("b", at)}[row])
				case c.Path == "op" && at == 1 && row == 0:
					v.AppendBool(true)
				case c.Path == "op":
					v.AppendNull()
				case v.Type.Kind == column.Int64:
					v.AppendInt(int64(at))
				default:
					v.AppendFloat(float64(at))
				}
			}
			batch.Columns = append(batch.Columns, v)
		}
		s := leaf(t, bound, minute(at), batch)
		s.ID = fmt.Sprint(at)
		return s
	}
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	for step, s := range []struct {
		w           column.Kind
		first, last int
	}{{column.Int64, 1, 12}, {column.Float64, 1, 13}, {column.Float64, 2, 14}} {
		bound := bind(s.w)
		var sources []window.Source
		for at := s.first; at <= s.last; at++ {
			sources = append(sources, source(bound, at))
		}
		want, err := pane(func(emit func(window.Documents) error) error {
			return window.Fold(bound, sources, nil, minute(s.last), emit)
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pane(func(emit func(window.Documents) error) error {
			_, err := r.Fold(nil, bound, sources, nil, minute(s.last), nil, emit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d:\n%s\nwant\n%s", step, got, want)
		}
	}
}
