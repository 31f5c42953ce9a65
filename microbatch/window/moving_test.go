package window_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/window"
)

// sketched is an index of sketches alone.
func sketched(t testing.TB) *index.Bound {
	t.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{
		{Name: "many", Fn: "distinct", Args: []string{"v"}, Over: 5 * time.Minute}, {Name: "middle", Fn: "median", Args: []string{"v"}},
		{Name: "rough", Fn: "distinct", Args: []string{"v"}, Params: map[string]any{"precision": int64(5)}},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	bound, err := program.Bind([]column.Type{column.Of(column.Int64), column.Of(column.Int64)})
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// TestSketchesOfAnySizeLeaveAWindow: sketches of few and of many values, those
// that slices have as registers too, and where there is no room to take them
// out and they are folded anew.
func TestSketchesOfAnySizeLeaveAWindow(t *testing.T) {
	bound := sketched(t)
	var rolled, refolded, whole int64
	rapid.Check(t, func(rt *rapid.T) {
		r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
		r.Share(rapid.SampledFrom([]int64{1 << 40, 1 << 15, 3}).Draw(rt, "share"))
		r.LookUp(rapid.SampledFrom([]int{0, 1 << 13}).Draw(rt, "lookups"))
		made := 0
		part := func(at int) window.Source {
			n, of := rapid.SampledFrom([]int{1, 30, 300, 1500}).Draw(rt, "records"), rapid.SampledFrom([]uint64{20, 5000, 1 << 40}).Draw(rt, "of")
			x := rapid.Uint64().Draw(rt, "seed")
			batch := &column.Batch{Len: n, Columns: []*column.Vector{column.New(column.Of(column.Int64)), column.New(column.Of(column.Int64))}}
			for range n {
				x = x*6364136223846793005 + 1442695040888963407
				batch.Columns[0].AppendInt(int64(x >> 62 & (x >> 60)))
				batch.Columns[1].AppendInt(int64(x >> 8 % of))
			}
			s := leaf(t, bound, minute(at), batch)
			made++
			s.ID = fmt.Sprint(made)
			return s
		}
		var sources []window.Source
		n := 10
		for at := 1; at <= n; at++ {
			sources = append(sources, part(at))
		}
		for range 6 {
			switch rapid.SampledFrom([]string{"next", "next", "late", "more"}).Draw(rt, "event") {
			case "next":
				n++
				sources = append(sources[1:], part(n))
			case "late":
				i := rapid.IntRange(0, len(sources)-1).Draw(rt, "source")
				s := part(n - len(sources) + 1 + i)
				sources[i].Run, sources[i].ID = merged(t, bound, sources[i].Run, s.Run), s.ID
			case "more":
				sources = append(sources, part(n))
			}
			want, err := pane(func(emit func(window.Documents) error) error {
				return window.Fold(bound, sources, nil, minute(n), emit)
			})
			if err != nil {
				rt.Fatal(err)
			}
			got, err := pane(func(emit func(window.Documents) error) error {
				did, err := r.Fold(nil, bound, sources, nil, minute(n), nil, emit)
				if did.Complete {
					whole++
				} else {
					rolled++
				}
				refolded += did.Refolded
				return err
			})
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%s, want %s", got, want)
			}
		}
	})
	t.Logf("%d folds rolled, %d were whole, %d pairs of key and fn folded anew", rolled, whole, refolded)
	if rolled == 0 || refolded == 0 || whole == 0 {
		t.Errorf("%d folds rolled, %d were whole, %d pairs of key and fn folded anew: the test is too tame", rolled, whole, refolded)
	}
}
