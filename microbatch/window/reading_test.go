package window_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/window"
)

// threads are how many the tests fill windows with: none to help, and more than
// there are fns of some.
var threads = []int{1, 2, 8}

func sameAccs(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// TestThreadsChangeNothing: however many fold a window anew, it has the same
// accumulators and documents, holds as many bytes, and is within the same budgets.
func TestThreadsChangeNothing(t *testing.T) {
	type input struct {
		bound *index.Bound
		runs  []*table.Run
		base  *window.Base
	}
	inputOf := func(bound *index.Bound, records ...int) (in input) {
		in.bound = bound
		for i, n := range records {
			in.runs = append(in.runs, random(t, bound, minute(0), int64(i+1), n, n))
		}
		in.base = baseOf(t, bound, "base", random(t, bound, minute(0), 7, 500, 900))
		return in
	}
	few, all := inputOf(some(t), 1, 300, 2000, 2500, 9000), inputOf(everything(t), 1, 300, 800, 1200)
	blocks, refused, within := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		in := few
		if rapid.IntRange(0, 9).Draw(rt, "everything") == 0 {
			in = all
		}
		bound := in.bound
		var sources []window.Source
		for at := range rapid.IntRange(1, 4).Draw(rt, "sources") {
			s := window.Source{
				ID: fmt.Sprint(at), Start: minute(at), Run: rapid.SampledFrom(in.runs).Draw(rt, "run"),
				All: rapid.IntRange(0, 4).Draw(rt, "all") > 0, Windowed: rapid.IntRange(0, 4).Draw(rt, "windowed") > 0,
			}
			blocks = max(blocks, len(s.Run.Starts()))
			sources = append(sources, s)
		}
		var base *window.Base
		if rapid.Bool().Draw(rt, "based") {
			base = in.base
		}
		want, err := pane(func(emit func(window.Documents) error) error {
			return window.Fold(bound, sources, base, minute(6), emit)
		})
		if err != nil {
			rt.Fatal(err)
		}
		budget := rapid.SampledFrom([]int64{1 << 30, 1 << 30, 2 << 20, 1 << 20, 100 << 10}).Draw(rt, "budget")
		var one map[string][][]byte
		var held int64
		for _, n := range threads {
			r := window.NewRolling(window.RollingOptions{Budget: budget, Granule: time.Minute, Workers: n})
			got, err := pane(func(emit func(window.Documents) error) error {
				_, err := r.Fold(nil, bound, sources, base, minute(6), nil, emit)
				return err
			})
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%d threads: documents differ", n)
			}
			bytes, accs := r.Bytes(), r.Accumulators()
			if one == nil {
				one, held = accs, bytes
				if bytes == 0 {
					refused++
				} else {
					within++
				}
			}
			if bytes != held {
				rt.Fatalf("%d threads: %d bytes held, and by one %d", n, bytes, held)
			}
			if !maps.EqualFunc(accs, one, sameAccs) {
				rt.Fatalf("%d threads: accumulators differ", n)
			}
		}
	})
	if blocks < 5 || refused == 0 || within == 0 {
		t.Errorf("%d blocks, %d windows beyond the budget, %d within: the test is too tame", blocks, refused, within)
	}
}

// spoilt is a run like another, of which some keys have what no fn can merge, by
// the place of the key the fn, with a byte of its blocks changed where one is to be.
func spoilt(t testing.TB, bound *index.Bound, like *table.Run, bad map[int]int, flip bool) *table.Run {
	t.Helper()
	shape, good := bound.Shape(), like.Cursor()
	var out bytes.Buffer
	w, err := table.NewWriter(&out, shape, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; good.Next(); i++ {
		accs := make([][]byte, len(shape.Fns))
		for j := range accs {
			accs[j] = good.Acc(j)
		}
		if j, ok := bad[i]; ok {
			accs[j] = []byte{0xff, 0xff, 0xff}
		}
		if err := w.Append(good.Key(), accs); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(good.Err(), errOf(w.Close())); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	if flip {
		b[len(b)*4/5] ^= 1
	}
	run, err := table.OpenBytes(b, shape)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func errOf(_ table.Summary, err error) error { return err }

// TestThreadsMakeTheSameError: of all that is wrong with a slice it is the first,
// by block and fn, whichever thread meets what first.
func TestThreadsMakeTheSameError(t *testing.T) {
	bound := some(t)
	fns := len(bound.Shape().Fns)
	good, like := random(t, bound, minute(2), 5, 3000, 6000), random(t, bound, minute(1), 3, 9000, 6000)
	merges, reads := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		bad := map[int]int{}
		for range rapid.IntRange(0, 4).Draw(rt, "bad") {
			bad[rapid.IntRange(0, int(like.Rows())-1).Draw(rt, "key")] = rapid.IntRange(0, fns-1).Draw(rt, "fn")
		}
		flip := rapid.Bool().Draw(rt, "flip")
		sources := []window.Source{
			{ID: "good", Start: minute(2), Run: good, All: true, Windowed: true},
			{ID: "spoilt", Start: minute(1), Run: spoilt(t, bound, like, bad, flip), All: true, Windowed: true},
		}
		want := ""
		for _, n := range threads {
			r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Workers: n})
			_, err := r.Fold(nil, bound, sources, nil, minute(2), nil, func(window.Documents) error { return nil })
			if wrong := len(bad) > 0 || flip; wrong != errors.Is(err, window.ErrUnreadable) {
				rt.Fatalf("%d threads: %v", n, err)
			}
			got := fmt.Sprint(err)
			if n == threads[0] {
				want = got
			}
			if got != want {
				rt.Fatalf("%d threads: %q, and of one %q", n, got, want)
			}
			if err != nil && r.Bytes() != 0 {
				rt.Fatalf("%d threads: a window that cannot be read holds %d bytes", n, r.Bytes())
			}
		}
		switch {
		case len(want) > 24 && want[:24] == "merge slices: merge key ":
			merges++
		case len(want) > 28 && want[:28] == "merge slices: read slice of ":
			reads++
		}
	})
	if merges == 0 || reads == 0 {
		t.Errorf("%d times a key could not be merged, %d times a slice not be read: the test is too tame", merges, reads)
	}
}

// TestFillingEndsWithTheRun: between any blocks, with what the run ends with.
func TestFillingEndsWithTheRun(t *testing.T) {
	bound := some(t)
	over := errors.New("over")
	var sources []window.Source
	for at := range 3 {
		sources = append(sources, window.Source{ID: fmt.Sprint(at), Start: minute(at), Run: random(t, bound, minute(at), int64(at), 9000, 9000), All: true, Windowed: true})
	}
	for _, n := range threads {
		asked := 0
		for left := 0; ; left++ {
			asked = 0
			r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Workers: n})
			_, err := r.Fold(func() error {
				if asked++; asked > left {
					return over
				}
				return nil
			}, bound, sources, nil, minute(2), nil, func(window.Documents) error { return nil })
			if err == nil {
				break
			}
			if !errors.Is(err, over) || r.Bytes() != 0 {
				t.Fatalf("%d threads, after %d blocks: %v, %d bytes held", n, left, err, r.Bytes())
			}
		}
		if asked < 6 {
			t.Errorf("%d threads: it was asked %d times whether the run is over", n, asked)
		}
	}
}
