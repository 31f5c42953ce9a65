package daemon

import (
	"fmt"
	"testing"

	"github.com/deltad/deltad/microbatch"
)

func TestCanaryDifferencesAreCounted(t *testing.T) {
	a := &App{Metrics: NewMetrics()}
	a.Metrics.Register("p")
	const name = `deltad_canary_differences_total{pipeline="p"}`
	if got := series(t, a, name); got != 0 {
		t.Errorf("%v before the first", got)
	}
	for _, err := range []error{
		fmt.Errorf("%w: key k=x", microbatch.ErrCanary), nil, microbatch.ErrPanic, fmt.Errorf("paused: %w", microbatch.ErrCanary),
	} {
		a.Metrics.Observe(microbatch.Report{Pipeline: "p", Outcome: microbatch.Failed, Err: err})
	}
	if got := series(t, a, name); got != 2 {
		t.Errorf("%v of 2 counted", got)
	}
}
