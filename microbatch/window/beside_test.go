package window

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestJobsAreDoneOnceSideBySide: by no more goroutines than there may be, and
// none is left when they are done.
func TestJobsAreDoneOnceSideBySide(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 8} {
		for _, n := range []int{0, 1, 2, 50} {
			done := make([]int, n)
			var now, most atomic.Int64
			sideBySide(workers, n, func(i int) {
				if k := now.Add(1); k > most.Load() {
					most.Store(k)
				}
				time.Sleep(time.Microsecond)
				done[i]++ // the race detector sees one that is done twice at once
				now.Add(-1)
			})
			for i, times := range done {
				if times != 1 {
					t.Errorf("%d workers: job %d of %d was done %d times", workers, i, n, times)
				}
			}
			if most.Load() > int64(max(1, workers)) || now.Load() != 0 {
				t.Errorf("%d workers, %d jobs: %d at a time, %d at the end", workers, n, most.Load(), now.Load())
			}
		}
	}
}

// TestAPanicOfAJobIsTheCallers: whoever does it, and when all have ended.
func TestAPanicOfAJobIsTheCallers(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		for bad := range 9 {
			var now atomic.Int64
			got := func() (v any) {
				defer func() { v = recover() }()
				sideBySide(workers, 9, func(i int) {
					now.Add(1)
					defer now.Add(-1)
					time.Sleep(time.Microsecond)
					if i == bad {
						panic("job")
					}
				})
				return nil
			}()
			if got != "job" || now.Load() != 0 {
				t.Errorf("%d workers, job %d: the caller's panic is %v, and %d run on", workers, bad, got, now.Load())
			}
		}
	}
}
