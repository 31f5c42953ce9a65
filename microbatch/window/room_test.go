package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/window"
)

// TestAWindowGivesRoomAndTakesItBack: a window that holds more than there is
// room for is let go; one that had served a run is folded whole again, one that
// had not only when there is room.
func TestAWindowGivesRoomAndTakesItBack(t *testing.T) {
	bound := most(t)
	var sources []window.Source
	for at := range 12 {
		sources = append(sources, one(t, bound, at, 300, int64(at)))
	}
	const budget = 1 << 30
	r := window.NewRolling(window.RollingOptions{Budget: budget, Granule: time.Minute})
	at := 0
	fold := func(want bool) {
		t.Helper()
		at++
		did, err := r.Fold(nil, bound, sources[at-1:at+5], nil, minute(at+4), nil, func(window.Documents) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if did.Complete != want {
			t.Fatalf("fold %d: complete %v, want %v", at, did.Complete, want)
		}
	}
	fold(true)
	fold(false)
	r.Room(budget)
	if r.Bytes() == 0 {
		t.Fatal("it was let go though there was room")
	}
	r.Room(r.Bytes() - 1) // for all but the documents
	if r.Bytes() == 0 {
		t.Fatal("it was let go for the sake of documents")
	}
	r.Room(100)
	if n := r.Bytes(); n != 0 {
		t.Fatalf("%d bytes are held, there is room for 100", n)
	}
	fold(true)
	if r.Bytes() == 0 {
		t.Fatal("a window that had served a run was not folded whole again")
	}
	r.Room(100) // it has not served since
	fold(true)
	if n := r.Bytes(); n != 0 {
		t.Fatalf("%d bytes are held of a window that serves nobody", n)
	}
	r.Room(budget)
	fold(true)
	fold(false)
}

// TestWhatAWindowLeftBehindIsNotTheWindow: a window whose columns have grown
// beyond the budget by what they no longer use is folded whole again, and held.
func TestWhatAWindowLeftBehindIsNotTheWindow(t *testing.T) {
	bound := some(t)
	const width = 24
	var sources []window.Source
	for at := range 72 {
		sources = append(sources, window.Source{ID: fmt.Sprint(at), Start: minute(at), Run: random(t, bound, minute(at), int64(at)+1, 300, 600), All: true, Windowed: true})
	}
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	whole := 0
	for at := range len(sources) - width {
		did, err := r.Fold(nil, bound, sources[at:at+width], nil, minute(at+width-1), nil, func(window.Documents) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if did.Complete {
			whole++
		}
		if r.Bytes() == 0 {
			t.Fatalf("step %d: the window was let go", at)
		}
		if at == 0 {
			held := r.Bytes() - r.DocumentBytes()
			r.Limit(held + held/4)
		}
	}
	if whole < 2 || whole > len(sources)/4 {
		t.Errorf("%d of the folds were whole", whole)
	}
}
