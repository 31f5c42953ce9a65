//go:build integration

package faults_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/faults/s3proxy"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store/s3"
)

// TestFaultsAtRandom takes many steps through a path on which every
// request may meet one of many faults, with partitions skipped while steps
// fail and restarts in between. Then the path is whole, and so is the index.
func TestFaultsAtRandom(t *testing.T) {
	t.Parallel()
	const steps = 60
	for _, e := range env.S3 {
		for seed := range uint64(2) {
			t.Run(e.Name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, e, worldOptions{s3: s3.Options{Attempts: 3, Timeout: time.Second}})
				w.proxy.Seed(seed)
				var failed, faults, requests int
				for i := range steps {
					for _, f := range []s3proxy.Fault{
						s3proxy.Internal(), s3proxy.AppliedInternal(), s3proxy.ResetBefore(), s3proxy.ResetAfter(), s3proxy.Truncated(),
						s3proxy.Corrupted(), s3proxy.Conflict(), s3proxy.Denied(), s3proxy.HTML(), s3proxy.Late(200 * time.Millisecond),
						s3proxy.Delayed(50 * time.Millisecond), s3proxy.ServerSkewed(time.Hour),
					} {
						w.proxy.Add(s3proxy.Rule{Fault: f, P: 0.012})
					}
					w.produce()
					if i%9 == 8 {
						w.engine.restart()
					}
					r := w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{})
					if r.Err != nil {
						failed++
					}
					w.read()
					hits := w.proxy.Clear()
					requests += len(w.proxy.Take())
					faults += hits
					met.add("any, at random", "any request", hits, r.Err != nil)
				}
				w.produce()
				w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				w.agrees()
				// What coverage the pane has depends on which steps failed; its
				// bytes, on coverage and inputs alone.
				w.recomputed()
				t.Logf("%d of %d steps failed, %d of %d requests met a fault, %d panes read", failed, steps, faults, requests, w.panes)
				if faults < 40 || failed < 5 {
					t.Errorf("%d faults, %d failed steps: too few to prove anything", faults, failed)
				}
			})
		}
	}
}
