package full

import (
	"errors"
	"fmt"
	"slices"

	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
)

// canary folds sampled keys a second time: not over the generation's
// accumulators, as its documents were, but from the slices and merged runs that
// these were made of. A difference is for the gate.
func (r *reader) canary(g *gathered, recent []window.Source, join index.Join, samples []window.Sample) (sink.CheckResult, error) {
	leaves := slices.Clone(recent)
	for i := range leaves {
		leaves[i].All = true
	}
	var older []window.Base
	for _, level := range g.levels {
		for _, d := range level {
			run, err := table.Open(d, d.Size(), g.bound.BaseShape())
			if err != nil {
				return sink.CheckResult{}, fmt.Errorf("open merged slices: %w", err)
			}
			older = append(older, window.Base{Run: run, Join: join})
		}
	}
	if r.set.Tombstones != 0 {
		// What the accumulators have forgotten, the slices still have.
		samples = slices.DeleteFunc(samples, func(s window.Sample) bool { return len(s.Accs[0]) == 0 })
	}
	err := window.CanaryOver(g.bound, leaves, older, r.cut, samples)
	if d := (*window.Difference)(nil); errors.As(err, &d) {
		return sink.CheckResult{Name: CheckCanary, Detail: d.Error()}, nil
	}
	return sink.CheckResult{Name: CheckCanary, Passed: true, Detail: fmt.Sprintf("%d keys folded in two ways", len(samples))}, err
}
