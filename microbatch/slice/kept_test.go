package slice

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// into is a blob that is read into memory of the caller's, as a store's are, and
// counts.
type into struct {
	textBlob
	reads *atomic.Int64
}

func (b into) ReadInto(_ context.Context, buf []byte) ([]byte, error) {
	b.reads.Add(1)
	return append(buf, b.x.bodies[b.key]...), nil
}

// TestWhatIsKeptForTheSecondPassIsInTheBudget: objects of which the first pass
// tells the types stay in memory for the second as far as there is room, and are
// read again where there is none; the slice is the same. How many small ones
// there are makes no difference, for each takes its memory and not its bytes.
func TestWhatIsKeptForTheSecondPassIsInTheBudget(t *testing.T) {
	const n = 64
	x := &texts{bodies: map[string]string{}}
	for i := range n {
		x.bodies[fmt.Sprint(i)] = strings.Repeat(fmt.Sprintf(`{"k":"key-%d","n":%d,"s":"a"}`+"\n", i%7, i), 20)
	}
	room := roomOf(int64(len(x.bodies["10"])))
	plain := x.slicer(t, scan.NDJSON, scan.Fail)
	want, err := plain.buildObserved(t.Context(), x.input(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                string
		budget, least, most int64
	}{
		{"room for all", n * room, n, n},
		{"room for some", 10 * room, n + 1, 2*n - 5},
		{"no room", 0, 2 * n, 2 * n},
	} {
		for hands := range 3 {
			t.Run(fmt.Sprintf("%s, %d hands", c.name, 1+hands), func(t *testing.T) {
				s := x.slicer(t, scan.NDJSON, scan.Fail)
				s.Reuse = &Reuse{}
				s.Limits.Ahead = scan.NewAhead(c.budget)
				var reads atomic.Int64
				s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
					return into{textBlob{x, o.Key}, &reads}, nil
				}
				got, err := s.buildObserved(t.Context(), x.input(), nil, hired(1+hands))
				if err != nil || string(runOf(t, got)) != string(runOf(t, want)) {
					t.Fatalf("another slice: %v", err)
				}
				if r := reads.Load(); r < c.least || r > c.most {
					t.Errorf("%d reads, want %d to %d", r, c.least, c.most)
				}
				if !s.Limits.Ahead.Take(c.budget) {
					t.Error("not all bytes were given back")
				}
			})
		}
	}
}

// TestManySmallObjectsStayWithinTheBudget: what is read ahead and not decoded has
// no more memory than the budget says, however small the objects are.
func TestManySmallObjectsStayWithinTheBudget(t *testing.T) {
	const n = 400
	x := &texts{bodies: map[string]string{}}
	for i := range n {
		x.bodies[fmt.Sprint(i)] = `{"k":"x","n":1,"s":"a"}` + "\n"
	}
	s := x.slicer(t, scan.NDJSON, scan.Fail)
	s.Reuse = &Reuse{}
	s.Limits.Ahead = scan.NewAhead(1 << 20)
	var reads atomic.Int64
	s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		return into{textBlob{x, o.Key}, &reads}, nil
	}
	in := x.input()
	a := s.ahead(t.Context(), in.Objects)
	a.open(0)
	for calls := 1; calls > 0; runtime.Gosched() {
		a.mu.Lock()
		calls = a.mu.calls
		a.mu.Unlock()
	}
	a.stop()
	if held := reads.Load() * roomOf(24); held > 1<<20 || held == 0 {
		t.Errorf("%d objects were read ahead into %d bytes of %d", reads.Load(), held, 1<<20)
	}
	types := []column.Type{column.Of(column.String), column.Of(column.Int64), column.Of(column.String)}
	reads.Store(0)
	slice, err := s.Build(t.Context(), in, types)
	if err != nil || len(slice.Objects) != n || reads.Load() != n {
		t.Errorf("%d reads, %v", reads.Load(), err)
	}
}

// TestTheFirstPassUsesMemoryAgain: what tells the types has the memory of those
// before it, as what reads the rows has.
func TestTheFirstPassUsesMemoryAgain(t *testing.T) {
	x := &texts{bodies: map[string]string{}}
	for i := range 3 {
		x.bodies[fmt.Sprint(i)] = strings.Repeat(`{"k":"x","n":1,"s":"a"}`+"\n", 1000)
	}
	s := x.slicer(t, scan.NDJSON, scan.Fail)
	s.Reuse = &Reuse{}
	s.Limits.Ahead = scan.NewAhead(1 << 20)
	var reads atomic.Int64
	s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		return into{textBlob{x, o.Key}, &reads}, nil
	}
	const rounds = 20
	var before, after runtime.MemStats
	for n := range 1 + rounds {
		if n == 1 {
			runtime.ReadMemStats(&before)
		}
		slice, err := s.buildObserved(t.Context(), x.input(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		slice.Run.Close()
	}
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / rounds; bytes > 400<<10 {
		t.Errorf("%d bytes are allocated for a slice of three objects", bytes)
	}
}
