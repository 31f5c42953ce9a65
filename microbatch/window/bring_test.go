package window_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/window"
)

// some is an index of a field of each way to leave.
func some(t testing.TB) *index.Bound {
	t.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{
		{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "all", Fn: "sum", Args: []string{"v"}},
		{Name: "spent", Fn: "sum", Args: []string{"f"}, Over: 5 * time.Minute}, {Name: "least", Fn: "min", Args: []string{"f"}},
		{Name: "most", Fn: "max", Args: []string{"s"}, Over: 4 * time.Minute}, {Name: "last", Fn: "latest", Args: []string{"s"}},
		{Name: "words", Fn: "set", Args: []string{"s"}, Over: 6 * time.Minute},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]column.Kind{"k": column.String, "v": column.Int64, "f": column.Float64, "s": column.String}
	var kinds []column.Type
	for _, c := range program.Columns() {
		kinds = append(kinds, column.Of(types[c.Path]))
	}
	bound, err := program.Bind(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// TestTwinsOverManyBlocks: slices of many blocks that are replaced by others,
// most of whose keys are as they were, by several at once, or by none.
func TestTwinsOverManyBlocks(t *testing.T) {
	bound := some(t)
	blocks, rolled := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SampledFrom([]int{50, 50, 50, 50, 50, 50, 50, 5000}).Draw(rt, "keys")
		made := int64(0)
		run := func(at, n int) *table.Run {
			made++
			return random(t, bound, minute(at), made+rapid.Int64Range(0, 1<<20).Draw(rt, "seed"), n, keys)
		}
		source := func(at int, run *table.Run) window.Source {
			made++
			return window.Source{ID: fmt.Sprint(at, "/", made), Start: minute(at), Run: run, All: true, Windowed: true}
		}
		var sources []window.Source
		for at := 1; at <= 8; at++ {
			sources = append(sources, source(at, run(at, keys)))
		}
		blocks = max(blocks, len(sources[0].Run.Starts()))
		r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
		for step := range 4 {
			for range rapid.IntRange(0, 2).Draw(rt, "events") {
				i := rapid.IntRange(0, len(sources)-1).Draw(rt, "source")
				s := sources[i]
				at := int(s.Start.Sub(minute(0)) / time.Minute)
				switch rapid.SampledFrom([]string{"late", "late", "split", "replace", "vanish", "flags"}).Draw(rt, "event") {
				case "late":
					sources[i] = source(at, merged(t, bound, s.Run, run(at, rapid.IntRange(1, 20).Draw(rt, "records"))))
				case "split": // two where one was
					sources[i] = source(at, run(at, keys/2))
					sources = append(sources, source(at, merged(t, bound, s.Run, run(at, 3))))
				case "replace":
					sources[i] = source(at, run(at, keys))
				case "vanish":
					sources = slices.Delete(sources, i, i+1)
				case "flags":
					sources[i] = source(at, merged(t, bound, s.Run, run(at, 2)))
					sources[i].All, sources[i].Windowed = rapid.Bool().Draw(rt, "all"), rapid.Bool().Draw(rt, "windowed")
				}
				if len(sources) == 0 {
					sources = append(sources, source(8, run(8, keys)))
				}
			}
			want, err := pane(func(emit func(window.Documents) error) error {
				return window.Fold(bound, sources, nil, minute(8), emit)
			})
			if err != nil {
				rt.Fatal(err)
			}
			got, err := pane(func(emit func(window.Documents) error) error {
				did, err := r.Fold(nil, bound, sources, nil, minute(8), nil, emit)
				if !did.Complete {
					rolled++
				}
				return err
			})
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("step %d: documents differ", step)
			}
			anew := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
			if _, err := anew.Fold(nil, bound, sources, nil, minute(8), nil, func(window.Documents) error { return nil }); err != nil {
				rt.Fatal(err)
			}
			if !maps.EqualFunc(r.Accumulators(), anew.Accumulators(), func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }) {
				rt.Fatalf("step %d: accumulators differ", step)
			}
		}
	})
	if blocks < 2 || rolled == 0 {
		t.Errorf("%d blocks, %d folds rolled: the test is too tame", blocks, rolled)
	}
}
