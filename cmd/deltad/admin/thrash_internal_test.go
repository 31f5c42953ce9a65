package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/daemon"
)

// link is a piece of garbage, or of what is kept.
type link struct {
	next *link
	more [7]*link // pointers to look at
}

func chain(n int) (l *link) {
	for range n {
		l = &link{next: l, more: [7]*link{l}}
	}
	return l
}

// litter allocates on every processor for a while.
func litter(d time.Duration) {
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for began := time.Now(); time.Since(began) < d; {
				runtime.KeepAlive(chain(1000))
			}
		})
	}
	all.Wait()
}

// TestB26ThrashingIsSeen: health names a process whose memory limit makes it
// collect garbage all the time, and neither one that has room nor one that does
// so little that a collection is most of it.
func TestB26ThrashingIsSeen(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	processors := runtime.GOMAXPROCS(2) // more than there are would count their waiting as work
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	s := &Server{started: time.Now(), o: Options{App: &daemon.App{}}}
	runtime.GC() // brings the runtime's account up to date
	s.gc.look(time.Now())
	ask := func(after time.Duration) healthView {
		t.Helper()
		s.gc.mu.Lock()
		s.gc.mu.at = s.gc.mu.at.Add(-after)
		s.gc.mu.Unlock()
		w := httptest.NewRecorder()
		if err := s.healthz(w, nil); err != nil || w.Code != http.StatusOK {
			t.Fatalf("code %d, %v: a restart mends nothing", w.Code, err)
		}
		var v healthView
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	kept := chain(32 << 20 / 64)

	litter(300 * time.Millisecond)
	if v := ask(meterEvery); v.Status != "ok" || v.GCShare <= 0 || v.MemoryLimit != limit {
		t.Errorf("with room: %+v", v)
	}
	for range 5 {
		time.Sleep(20 * time.Millisecond)
		runtime.GC()
	}
	if v := ask(meterEvery); v.Status != "ok" {
		t.Errorf("of little else: %+v", v)
	}
	debug.SetMemoryLimit(24 << 20)
	litter(700 * time.Millisecond)
	if v := ask(0); v.Status != "ok" {
		t.Errorf("after a moment: %+v", v)
	}
	if v := ask(meterEvery); v.Status != "gc-thrash" || v.GCShare > 1 {
		t.Errorf("without room: %+v", v)
	}
	debug.SetMemoryLimit(limit)
	litter(300 * time.Millisecond)
	runtime.GC()
	if v := ask(meterEvery); v.Status != "ok" {
		t.Errorf("with room again: %+v", v)
	}
	runtime.KeepAlive(kept)
}
