package slice

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/partition"
)

// anyInputs are inputs in the order of their partitions, of which several may be
// of one.
func anyInputs(t *rapid.T, label string) []Input {
	var out []Input
	minute := 0
	for range rapid.IntRange(0, 6).Draw(t, label) {
		minute += rapid.IntRange(0, 2).Draw(t, "later")
		in := Input{Start: time.Date(2026, 11, 30, 3, minute, 0, 0, time.UTC)}
		for range rapid.IntRange(1, 3).Draw(t, "objects") {
			in.Objects = append(in.Objects, partition.Object{
				Key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), ETag: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "etag"),
				Size: int64(rapid.IntRange(0, 1).Draw(t, "size")), Partition: in.Start,
			})
		}
		out = append(out, in)
	}
	return out
}

// TestNamesAreThoseOfTheirInputs holds remembered names to ones made anew, over
// windows that are others and over one whose memory the caller uses again.
func TestNamesAreThoseOfTheirInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made := 0
		n := NewNames(func(in Input) ID {
			made++
			return IDOf(in)
		})
		inputs := anyInputs(t, "inputs")
		for round := range rapid.IntRange(1, 6).Draw(t, "rounds") {
			switch i := rapid.IntRange(0, max(0, len(inputs)-1)).Draw(t, "which"); {
			case len(inputs) == 0 || rapid.Bool().Draw(t, "others"):
				inputs = anyInputs(t, "other inputs")
			case rapid.Bool().Draw(t, "in place"):
				inputs[i].Objects[0].ETag += "x"
			case rapid.Bool().Draw(t, "the first goes"):
				inputs = inputs[1:]
			default:
				inputs = slices.Clone(inputs)
				inputs[i].Objects = append([]partition.Object{{Key: "0", Partition: inputs[i].Start}}, inputs[i].Objects...)
			}
			for i, id := range n.Of(inputs) {
				if id != IDOf(inputs[i]) {
					t.Fatalf("round %d: %v has another's name", round, inputs[i])
				}
			}
		}
		made = 0
		if n.Of(inputs); made > 0 {
			t.Fatalf("%d of %d names were made again", made, len(inputs))
		}
	})
}

// TestCacheIsWhatWasPutAndKept holds a cache with room for everything to a map.
func TestCacheIsWhatWasPutAndKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, model := NewCache(math.MaxInt64), map[ID]*Slice{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			inputs := anyInputs(t, "inputs")
			var missing []int
			for i, in := range inputs {
				if model[IDOf(in)] == nil {
					missing = append(missing, i)
				}
			}
			if got := c.Lacks(inputs); !slices.Equal(got, missing) {
				t.Fatalf("it lacks %v, want %v", got, missing)
			}
			found := make([]*Slice, len(inputs))
			c.get(c.IDs(inputs), found)
			for i, in := range inputs {
				if found[i] != model[IDOf(in)] {
					t.Fatalf("input %d is another slice", i)
				}
			}
			for i, in := range inputs {
				if found[i] == nil && rapid.Bool().Draw(t, "put") {
					s := &Slice{Start: in.Start, Run: &spool.Data{}}
					c.Put(IDOf(in), s)
					model[IDOf(in)] = s
				}
			}
			if rapid.Bool().Draw(t, "keep") {
				c.Keep(inputs)
				kept := map[ID]*Slice{}
				for _, in := range inputs {
					if s := model[IDOf(in)]; s != nil {
						kept[IDOf(in)] = s
					}
				}
				model = kept
			}
			var used int64
			for id, s := range model {
				if used += weight(s); c.Get(id) != s {
					t.Fatal("a slice was dropped")
				}
			}
			if c.mu.used != used || c.mu.order.Len() != len(model) || len(c.mu.byID) != len(model) {
				t.Fatalf("%d slices of %d bytes, want %d of %d", c.mu.order.Len(), c.mu.used, len(model), used)
			}
		}
	})
}

// TestSlicesShareTypes: what is equal is shared, and nothing else is changed.
func TestSlicesShareTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCache(math.MaxInt64)
		for n := range rapid.IntRange(2, 3*manyTypes).Draw(t, "slices") {
			list := func(label string) []column.Type {
				kinds := rapid.SliceOfN(rapid.SampledFrom([]column.Type{
					{}, column.Of(column.Int64), column.DecimalOf(9, 2), column.ListOf(column.Of(column.String)), column.ListOf(column.Type{}),
					column.StructOf(column.Field{Name: "x"}), column.StructOf(column.Field{Name: "x", Key: true}),
				}), 0, 2).Draw(t, label)
				return slices.Clone(kinds)
			}
			s := &Slice{Run: &spool.Data{}, Built: list("built"), Observed: list("observed"), Objects: []ReadObject{{Observed: list("object")}}}
			want := [][]column.Type{slices.Clone(s.Built), slices.Clone(s.Observed), slices.Clone(s.Objects[0].Observed)}
			c.Put(IDOf(Input{Start: time.Unix(int64(n), 0)}), s)
			for i, got := range [][]column.Type{s.Built, s.Observed, s.Objects[0].Observed} {
				if len(got)+len(want[i]) > 0 && !reflect.DeepEqual(got, want[i]) {
					t.Fatalf("list %d is %v, was %v", i, got, want[i])
				}
			}
			if reflect.DeepEqual(s.Built, s.Observed) && len(s.Built) > 0 && !sameList(s.Built, s.Observed) {
				t.Fatal("equal lists are two")
			}
			if len(c.mu.types) > manyTypes {
				t.Fatalf("%d lists are kept", len(c.mu.types))
			}
		}
	})
}
