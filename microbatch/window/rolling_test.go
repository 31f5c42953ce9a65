package window_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// everything is an index with a field of each kind of accumulator.
func everything(t testing.TB) *index.Bound {
	t.Helper()
	field := func(name, fn string, over int, args ...string) index.FieldSpec {
		return index.FieldSpec{Name: name, Fn: fn, Args: args, Over: time.Duration(over) * time.Minute}
	}
	program, err := index.Compile(index.Spec{Key: []string{"k"}, DeleteWhen: "op", Fields: []index.FieldSpec{
		field("n", "count", 0, "*"), field("all", "sum", 0, "v"), field("recent", "sum", 3, "v"), field("spent", "sum", 4, "f"),
		field("spread", "variance", 5, "f"), field("last", "latest", 2, "s"), field("first", "earliest", 0, "s"), field("most", "max", 0, "v"),
		field("least", "min", 5, "f"), field("word", "max", 6, "s"), field("best", "arg_max", 4, "s", "v"), field("ever", "any_of", 5, "b"),
		field("every", "all_of", 0, "b"), field("words", "set", 4, "s"), field("many", "distinct", 5, "v"), field("kept", "theta", 6, "v"),
		{Name: "mid", Fn: "quantile", Args: []string{"f"}, Over: 5 * time.Minute, Params: map[string]any{"q": 0.5}}, field("three", "newest", 4, "s"), field("heights", "top", 6, "v"), field("often", "counts", 5, "s"),
		field("usual", "mode", 3, "s"), field("seen", "bitmap", 4, "v"), field("maybe", "bloom", 4, "s"), field("exact", "distinct_exact", 0, "s"),
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]column.Kind{"k": column.String, "v": column.Int64, "op": column.Bool, "f": column.Float64, "s": column.String, "b": column.Bool}
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

// random is the run of a partition with n records of so many keys.
func random(t testing.TB, bound *index.Bound, start time.Time, seed int64, n, keys int) *table.Run {
	t.Helper()
	batch := &column.Batch{Len: n}
	for _, c := range bound.Program().Columns() {
		kind := map[string]column.Kind{"k": column.String, "v": column.Int64, "op": column.Bool, "f": column.Float64, "s": column.String, "b": column.Bool}[c.Path]
		v := column.New(column.Of(kind))
		x := uint64(seed)
		for range n {
			x = x*6364136223846793005 + 1442695040888963407
			y := x >> 33
			switch {
			case c.Path == "k":
				v.AppendString(fmt.Sprintf("k%05d", y%uint64(keys)))
			case y%11 == 0:
				v.AppendNull()
			case c.Path == "op":
				v.AppendBool(y%23 == 0)
			case kind == column.Bool:
				v.AppendBool(y%5 == 0)
			case kind == column.Int64:
				v.AppendInt(int64(y % 50))
			case kind == column.Float64:
				v.AppendFloat([]float64{0.1, -3, 1e17, math.Inf(1), math.NaN(), 5e-324}[y%6] * float64(y%7))
			default:
				v.AppendString(fmt.Sprintf("s%d", y%9))
			}
		}
		batch.Columns = append(batch.Columns, v)
	}
	return leaf(t, bound, start, batch).Run
}

// only shows a run's columns of another shape.
type only struct {
	*table.RunCursor
	at []int
}

func (o only) Acc(f int) []byte { return o.RunCursor.Acc(o.at[f]) }

// merged is the run of all that the runs have.
func merged(t testing.TB, bound *index.Bound, runs ...*table.Run) *table.Run {
	t.Helper()
	var cursors []table.Cursor
	for _, r := range runs {
		cursors = append(cursors, r.Cursor())
	}
	var out bytes.Buffer
	if _, err := table.MergeRuns(&out, bound.Shape(), table.Options{}, cursors...); err != nil {
		t.Fatal(err)
	}
	run, err := table.OpenBytes(out.Bytes(), bound.Shape())
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// baseOf makes a base of the runs.
func baseOf(t testing.TB, bound *index.Bound, id string, runs ...*table.Run) *window.Base {
	t.Helper()
	join, err := bound.JoinBase(bound)
	if err != nil {
		t.Fatal(err)
	}
	at := make([]int, len(bound.BaseShape().Fns))
	for j, b := range join.At {
		if b >= 0 {
			at[b] = j
		}
	}
	var cursors []table.Cursor
	for _, r := range runs {
		cursors = append(cursors, only{r.Cursor(), at})
	}
	var out bytes.Buffer
	if _, err := table.MergeRuns(&out, bound.BaseShape(), table.Options{}, cursors...); err != nil {
		t.Fatal(err)
	}
	run, err := table.OpenBytes(out.Bytes(), bound.BaseShape())
	if err != nil {
		t.Fatal(err)
	}
	return &window.Base{ID: id, Run: run, Join: join}
}

// pane is the text of a fold's documents and tombstones.
func pane(fold func(emit func(window.Documents) error) error) ([]string, error) {
	var out []string
	err := fold(func(d window.Documents) error {
		for _, b := range []*column.Batch{d.Docs, d.Tombstones} {
			for i := range b.Len {
				line := fmt.Sprint(len(b.Columns))
				for _, v := range b.Columns {
					line += " " + fmt.Sprintf("%x", tuple.Append(nil, v, i))
				}
				out = append(out, line)
			}
		}
		return nil
	})
	return out, err
}

// TestRollingIsFold: whatever comes and goes, what is kept between runs and
// brought up to date is what a fold of everything is: the same documents, and
// the same bytes of every accumulator.
func TestRollingIsFold(t *testing.T) {
	bound := everything(t)
	var rolled, refolded, nodes, based int64
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SampledFrom([]int{3, 30, 200}).Draw(rt, "keys")
		r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
		r.LookUp(rapid.SampledFrom([]int{0, 40, 1 << 13}).Draw(rt, "lookups"))
		made := int64(0)
		part := func(at int) window.Source {
			made++
			run := random(t, bound, minute(at), made+rapid.Int64Range(0, 1<<20).Draw(rt, "seed"), rapid.IntRange(0, 2*keys).Draw(rt, "records"), keys)
			return window.Source{ID: fmt.Sprint(at, "/", made), Start: minute(at), Run: run, All: true, Windowed: true}
		}
		parts := map[int][]window.Source{}
		n := 20
		for at := 1; at <= n; at++ {
			parts[at] = append(parts[at], part(at))
		}
		var base *window.Base
		for step := range 8 {
			switch rapid.SampledFrom([]string{"next", "next", "next", "jump", "late", "more", "replace", "vanish", "base", "names", "flags", "nothing"}).Draw(rt, "event") {
			case "next":
				n++
				parts[n] = append(parts[n], part(n))
			case "jump":
				n += rapid.IntRange(2, 9).Draw(rt, "jump")
				parts[n] = append(parts[n], part(n))
			case "late":
				at := n - rapid.IntRange(0, 15).Draw(rt, "late")
				parts[at] = append(parts[at], part(at))
			case "more":
				if at := n - rapid.IntRange(0, 15).Draw(rt, "more"); len(parts[at]) > 0 {
					s := part(at)
					s.Run = merged(t, bound, s.Run, parts[at][0].Run)
					parts[at][0] = s
				}
			case "replace":
				if at := n - rapid.IntRange(0, 15).Draw(rt, "replaced"); len(parts[at]) > 0 {
					parts[at][0] = part(at)
				}
			case "vanish":
				if at := n - rapid.IntRange(0, 15).Draw(rt, "vanished"); len(parts[at]) > 0 {
					parts[at] = parts[at][1:]
				}
			case "base":
				base = nil
				if rapid.Bool().Draw(rt, "based") {
					base = baseOf(t, bound, fmt.Sprint("base", step), part(n-9).Run, part(n-8).Run)
					based++
				}
			case "names":
				s := part(n - 3)
				s.All, s.Windowed = false, false
				parts[n-3] = append(parts[n-3], s)
			case "flags":
				at := n - rapid.IntRange(0, 15).Draw(rt, "flagged")
				for i := range parts[at] {
					s := &parts[at][i]
					s.All, s.Windowed, s.Read = rapid.Bool().Draw(rt, "all"), rapid.Bool().Draw(rt, "windowed"), rapid.Bool().Draw(rt, "read")
				}
			}
			var sources []window.Source
			for at := n - 16; at <= n; at++ {
				for _, s := range parts[at] {
					if base != nil && s.All {
						s.All = at > n-8
						s.Read = !s.All && at%2 == 0
					}
					sources = append(sources, s)
				}
			}
			want, err := pane(func(emit func(window.Documents) error) error {
				return window.Fold(bound, sources, base, minute(n), emit)
			})
			if err != nil {
				rt.Fatal(err)
			}
			got, err := pane(func(emit func(window.Documents) error) error {
				did, err := r.Fold(nil, bound, rapid.Permutation(sources).Draw(rt, "order"), base, minute(n), nil, emit)
				if !did.Complete {
					rolled++
				}
				refolded, nodes = refolded+did.Refolded, nodes+did.Nodes
				return err
			})
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("step %d:\n%s\nwant\n%s", step, got, want)
			}
			anew := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
			if _, err := anew.Fold(nil, bound, sources, base, minute(n), nil, func(window.Documents) error { return nil }); err != nil {
				rt.Fatal(err)
			}
			if !maps.EqualFunc(r.Accumulators(), anew.Accumulators(), func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }) {
				rt.Fatalf("step %d: accumulators differ", step)
			}
		}
	})
	if rolled == 0 || refolded == 0 || nodes == 0 || based == 0 {
		t.Errorf("%d folds rolled, %d pairs of key and fn folded anew, %d nodes made, %d bases: the test is too tame", rolled, refolded, nodes, based)
	}
	t.Logf("%d folds rolled, %d pairs of key and fn folded anew, %d nodes made, %d bases", rolled, refolded, nodes, based)
}
