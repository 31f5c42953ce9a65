package window_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// most is an index of one field, the greatest v.
func most(t *testing.T) *index.Bound {
	t.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "most", Fn: "max", Args: []string{"v"}}}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	bound, err := program.Bind([]column.Type{column.Of(column.String), column.Of(column.Int64)})
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// one is a source of one record for each of so many keys.
func one(t *testing.T, bound *index.Bound, at, keys int, v int64) window.Source {
	t.Helper()
	tab := table.New(bound.Shape())
	lifter, err := bound.NewLifter(tab, minute(at))
	if err != nil {
		t.Fatal(err)
	}
	batch := &column.Batch{Len: keys, Columns: []*column.Vector{column.New(column.Of(column.String)), column.New(column.Of(column.Int64))}}
	for k := range keys {
		batch.Columns[0].AppendString(fmt.Sprint("k", k))
		batch.Columns[1].AppendInt(v)
	}
	if _, err := lifter.Add(batch, 0); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
		t.Fatal(err)
	}
	run, err := table.OpenBytes(out.Bytes(), bound.Shape())
	if err != nil {
		t.Fatal(err)
	}
	return window.Source{ID: fmt.Sprint(at, "/", v), Start: minute(at), Run: run, All: true, Windowed: true}
}

// foldsAlike folds the sources that each change leaves, kept and from nothing.
func foldsAlike(t *testing.T, bound *index.Bound, r *window.Rolling, sources *[]window.Source, changes ...func()) {
	t.Helper()
	for step, change := range changes {
		change()
		want, err := pane(func(emit func(window.Documents) error) error {
			return window.Fold(bound, *sources, nil, minute(12), emit)
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pane(func(emit func(window.Documents) error) error {
			_, err := r.Fold(nil, bound, *sources, nil, minute(12), nil, emit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: %s, want %s", step, got, want)
		}
	}
}

// TestTheOldestRungIsBeatenInItsOwnPartition: of five values, each worse than
// the one before, the fifth is not kept. When the first three have left, the
// fourth is the only one that is known; then its partition gets a better one.
func TestTheOldestRungIsBeatenInItsOwnPartition(t *testing.T) {
	bound := most(t)
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	var sources []window.Source
	for at := 1; at <= 12; at++ {
		sources = append(sources, one(t, bound, at, 1, int64(100-at)))
	}
	leave := func() { sources = sources[1:] }
	foldsAlike(t, bound, r, &sources, func() {}, leave, leave, leave, func() { sources[0] = one(t, bound, 4, 1, 98) })
}

// TestWhatBeginsToFeedEntersInItsTurn: a source that was there and only begins
// to feed a field is later than one that is new, and not kept; the new one must
// not be taken for the last.
func TestWhatBeginsToFeedEntersInItsTurn(t *testing.T) {
	bound := most(t)
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	var sources []window.Source
	for at, v := range []int64{100, 90, 80, 70} {
		sources = append(sources, one(t, bound, at+1, 1, v))
	}
	for at := -20; at < 0; at++ { // that feed nothing, so that there is little to change
		s := one(t, bound, at, 9, 0)
		s.All = false
		sources = append(sources, s)
	}
	last := one(t, bound, 10, 1, 50)
	last.All = false
	leave := func() { sources = sources[1:] }
	foldsAlike(t, bound, r, &sources,
		func() { sources = append(sources, last) },
		func() { sources[len(sources)-1].All = true; sources = append(sources, one(t, bound, 5, 1, 75)) },
		leave, leave, leave, leave, func() {
			sources = slices.DeleteFunc(sources, func(s window.Source) bool { return s.Start.Equal(minute(5)) })
		},
	)
}

// TestNodesKeepNoSlices: a slice that is opened anew for every run is not kept
// by the nodes that were made of it.
func TestNodesKeepNoSlices(t *testing.T) {
	bound := most(t)
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	r.LookUp(0)
	var former []weak.Pointer[table.Run]
	nodes := int64(0)
	for step := range 3 {
		var sources []window.Source
		for at := 1; at <= 20; at++ {
			// The winner of all vanishes: it is folded anew, over nodes.
			if v := int64(at * 37 % 20); at != 7 || step == 0 {
				sources = append(sources, one(t, bound, at, 3, v))
			}
		}
		if step == 1 { // when the nodes are made
			for _, s := range sources {
				former = append(former, weak.Make(s.Run))
			}
		}
		did, err := r.Fold(nil, bound, sources, nil, minute(20), nil, func(window.Documents) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		nodes += did.Nodes
	}
	runtime.GC()
	runtime.GC()
	kept := 0
	for _, run := range former {
		if run.Value() != nil {
			kept++
		}
	}
	if kept > 0 || nodes == 0 {
		t.Errorf("%d runs of a former fold are kept, %d nodes made", kept, nodes)
	}
	runtime.KeepAlive(r)
}

// TestAWindowIsFoldedWithoutRoomForNodes: nodes save time. Where there is
// neither memory nor disk for them the fold does without.
func TestAWindowIsFoldedWithoutRoomForNodes(t *testing.T) {
	bound := most(t)
	r := window.NewRolling(window.RollingOptions{
		Budget: 1 << 30, Granule: time.Minute, Dir: filepath.Join(t.TempDir(), "missing"), Memory: spool.NewBudget(0),
	})
	r.LookUp(0)
	var sources []window.Source
	for at := 1; at <= 20; at++ {
		sources = append(sources, one(t, bound, at, 3, int64(at*37%20)))
	}
	foldsAlike(t, bound, r, &sources, func() {}, func() { sources = slices.Delete(sources, 6, 7) })
	if did, err := r.Fold(nil, bound, slices.Delete(slices.Clone(sources), 12, 13), nil, minute(12), nil, func(window.Documents) error { return nil }); err != nil || did.Complete || did.Nodes > 0 {
		t.Errorf("%+v, %v: want a fold that went on, without nodes", did, err)
	}
}

// TestAFoldEndsWithItsRun: neither a window that is folded anew nor one that
// goes on waits for its documents to notice, and the slices are not to blame.
func TestAFoldEndsWithItsRun(t *testing.T) {
	bound := most(t)
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	var sources []window.Source
	for at := 1; at <= 12; at++ {
		sources = append(sources, one(t, bound, at, 3, int64(at)))
	}
	fenced := errors.New("fenced")
	ended := func() error { return fenced }
	none := func(window.Documents) error { t.Error("documents of a run that has ended"); return nil }
	for range 2 {
		if _, err := r.Fold(ended, bound, sources, nil, minute(12), nil, none); !errors.Is(err, fenced) || errors.Is(err, window.ErrUnreadable) {
			t.Errorf("%v, want why the run has ended", err)
		}
		foldsAlike(t, bound, r, &sources, func() {}) // and next is one that goes on
		sources = append(sources[1:], one(t, bound, 13, 3, 13))
	}
	foldsAlike(t, bound, r, &sources, func() {})
}

// TestAWindowIsTriedAgain: a burst of keys takes more than the budget. When it
// has left, the window goes on from run to run again, with as many rows.
func TestAWindowIsTriedAgain(t *testing.T) {
	bound := most(t)
	source := func(at, from int) window.Source {
		batch := &column.Batch{Len: 3000, Columns: []*column.Vector{column.New(column.Of(column.String)), column.New(column.Of(column.Int64))}}
		for k := range batch.Len {
			batch.Columns[0].AppendString(fmt.Sprint("k", from+k))
			batch.Columns[1].AppendInt(int64(k))
		}
		s := leaf(t, bound, minute(at), batch)
		s.ID = fmt.Sprint(at)
		return s
	}
	var sources []window.Source
	for at := range 12 {
		sources = append(sources, source(at, at%4*10_000)) // three of four have keys of their own
	}
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 20, Granule: time.Minute})
	var rolled []int
	for n := 12; n < 30; n++ {
		want, err := pane(func(emit func(window.Documents) error) error {
			return window.Fold(bound, sources, nil, minute(n), emit)
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pane(func(emit func(window.Documents) error) error {
			did, err := r.Fold(nil, bound, sources, nil, minute(n), nil, emit)
			if !did.Complete {
				rolled = append(rolled, n)
			}
			if r.Bytes() > 1<<20 {
				t.Errorf("%d bytes of %d", r.Bytes(), 1<<20)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("at %d documents differ", n)
		}
		sources = append(sources[1:], source(n, 0))
	}
	if !slices.Equal(rolled, []int{25, 26, 27, 28, 29}) {
		t.Errorf("the window went on at %v", rolled)
	}
}

// TestAnAccumulatorThatIsNoneHasItsKeyNamed: in a window that is folded anew
// and in one that goes on, and the next fold is well.
func TestAnAccumulatorThatIsNoneHasItsKeyNamed(t *testing.T) {
	bound := most(t)
	bad := func(at int) window.Source {
		var out bytes.Buffer
		w, err := table.NewWriter(&out, bound.Shape(), table.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			key  string
			most []byte
		}{{"k0", nil}, {"k1", []byte{0xff}}} {
			if err := w.Append(tuple.AppendString(nil, row.key), [][]byte{{1}, row.most}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		run, err := table.OpenBytes(out.Bytes(), bound.Shape())
		if err != nil {
			t.Fatal(err)
		}
		return window.Source{ID: fmt.Sprint("bad", at), Start: minute(at), Run: run, All: true, Windowed: true}
	}
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	var sources []window.Source
	for at := 1; at <= 12; at++ {
		sources = append(sources, one(t, bound, at, 3, int64(at)))
	}
	for at := range 2 {
		_, err := r.Fold(nil, bound, append(slices.Clone(sources), bad(at*20)), nil, minute(12), nil, func(window.Documents) error { return nil })
		if key := fmt.Sprintf("%x", tuple.AppendString(nil, "k1")); !errors.Is(err, window.ErrUnreadable) || !strings.Contains(err.Error(), key) {
			t.Errorf("%v, want %v that names key %s", err, window.ErrUnreadable, key)
		}
		foldsAlike(t, bound, r, &sources, func() {})
	}
}

// TestASliceThatCannotBeReadHasItsPartitionNamed: whether the window is folded
// anew, the slice enters, it leaves, or what is new is held to it.
func TestASliceThatCannotBeReadHasItsPartitionNamed(t *testing.T) {
	bound := most(t)
	for _, tt := range []struct {
		name    string
		goes    bool // the window goes on
		changes func(sources []window.Source, spoilt window.Source) []window.Source
	}{
		{"anew", false, func(sources []window.Source, spoilt window.Source) []window.Source { return append(sources, spoilt) }},
		{"enters", true, func(sources []window.Source, spoilt window.Source) []window.Source { return append(sources, spoilt) }},
		{"leaves", true, func(sources []window.Source, _ window.Source) []window.Source { return sources }},
		{"another version", true, func(sources []window.Source, _ window.Source) []window.Source {
			return append(sources, one(t, bound, 13, 3, 7))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
			var sources []window.Source
			for at := 1; at <= 12; at++ {
				sources = append(sources, one(t, bound, at, 3, int64(at)))
			}
			spoilt, spoil := spoiling(t, bound, 13)
			after := tt.changes(slices.Clone(sources), spoilt)
			if tt.goes {
				held := sources
				if tt.name != "enters" {
					held = append(slices.Clone(sources), spoilt)
				}
				foldsAlike(t, bound, r, &held, func() {})
			}
			spoil()
			did, err := r.Fold(nil, bound, after, nil, minute(13), nil, func(window.Documents) error { return nil })
			want := "read slice of " + minute(13).UTC().Format(time.RFC3339) + ": run block 0: digest does not match"
			if !errors.Is(err, window.ErrUnreadable) || !strings.Contains(err.Error(), want) || did.Complete == tt.goes {
				t.Errorf("%+v, %v: want %q", did, err, want)
			}
		})
	}
}

// spoiling is a source whose run is another's after spoil.
func spoiling(t *testing.T, bound *index.Bound, at int) (s window.Source, spoil func()) {
	t.Helper()
	var out bytes.Buffer
	w, err := table.NewWriter(&out, bound.Shape(), table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k0", "k1", "k2"} {
		if err := w.Append(tuple.AppendString(nil, key), [][]byte{{1}, nil}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	run, err := table.OpenBytes(b, bound.Shape())
	if err != nil {
		t.Fatal(err)
	}
	s = window.Source{ID: fmt.Sprint("spoilt", at), Start: minute(at), Run: run, All: true, Windowed: true}
	return s, func() { b[bytes.Index(b, []byte("k0"))] ^= 1 }
}
