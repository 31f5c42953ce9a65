package slice

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/partition"
)

// TestTypesOfAWindowAreThoseOfAllItsObjects: looking at each list of types once
// tells the types that looking at every object does, or the same object at fault.
func TestTypesOfAWindowAreThoseOfAllItsObjects(t *testing.T) {
	joined, failed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		b := yielding(t, &texts{})
		columns := b.Program.Columns()
		types := []column.Type{
			column.Of(column.Int32), column.Of(column.Int64), column.DecimalOf(9, 2), column.DecimalOf(12, 1), column.Of(column.String), {},
			column.StructOf(column.Field{Name: "b", Type: column.Of(column.Int32)}, column.Field{Name: "a", Type: column.Of(column.String)}),
			column.StructOf(column.Field{Name: "c", Type: column.Of(column.Int64)}),
		}
		// Few types of a column, so that most lists widen to one.
		some := make([][]column.Type, len(columns))
		for i := range some {
			some[i] = rapid.SliceOfN(rapid.SampledFrom(types), 1, 3).Draw(rt, "types of "+columns[i].Path)
		}
		kinds := make([]ReadObject, rapid.IntRange(1, mostKinds+2).Draw(rt, "kinds"))
		for k := range kinds {
			for i := range columns {
				t := rapid.SampledFrom(some[i]).Draw(rt, "observed")
				seen := t
				if rapid.IntRange(0, 3).Draw(rt, "null") == 0 {
					seen = column.Type{}
				}
				kinds[k].Observed, kinds[k].Seen = append(kinds[k].Observed, t), append(kinds[k].Seen, seen)
			}
		}
		var of []*Slice
		var all []ReadObject
		for s := range rapid.IntRange(1, 6).Draw(rt, "slices") {
			slice := &Slice{Start: sliceStart}
			for range rapid.IntRange(1, 4).Draw(rt, "objects") {
				o := kinds[rapid.IntRange(0, len(kinds)-1).Draw(rt, "kind")]
				o.Object = partition.Object{Key: fmt.Sprint(s, len(all))}
				slice.Objects, all = append(slice.Objects, o), append(all, o)
			}
			slice.Built = kinds[0].Observed
			of = append(of, slice)
		}
		var floor []column.Type
		if rapid.IntRange(0, 3).Draw(rt, "over a base") == 0 {
			floor = kinds[0].Seen
		}
		want, werr := b.join(rt.Context(), slices.Clone(all), floor, "the window", 1)
		if werr == nil && slices.ContainsFunc(of, func(s *Slice) bool { return !SameTypes(slices.Clone(s.Built), want) }) {
			want, werr = b.bindable(rt.Context(), want, floor, slices.Clone(all), 1)
		}
		got, err := b.common(rt.Context(), of, floor, 1)
		if fmt.Sprint(err) != fmt.Sprint(werr) {
			rt.Fatalf("got %v, want %v", err, werr)
		}
		if err != nil {
			failed++
			return
		}
		joined++
		if !slices.EqualFunc(got, want, column.Type.Equal) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
	if joined == 0 || failed == 0 {
		t.Errorf("%d joined, %d failed: nothing was compared", joined, failed)
	}
}
