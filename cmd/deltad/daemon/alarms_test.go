package daemon

import (
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
)

// TestB1B7AlarmsAreSeries: partitions that no pane covered stand in a series for
// as long as the live pane names them, and each late object is counted once, in
// the step that found it.
func TestB1B7AlarmsAreSeries(t *testing.T) {
	a := &App{Metrics: NewMetrics()}
	a.Metrics.Register("p")
	now := time.Now()
	for i, step := range []struct {
		report          microbatch.Report
		uncovered, late float64
	}{
		{microbatch.Report{Outcome: microbatch.Advanced, Epoch: 1, Watermark: now}, 0, 0},
		{microbatch.Report{Outcome: microbatch.Advanced, Epoch: 1, Watermark: now, Uncovered: 70, Late: 2}, 70, 2},
		{microbatch.Report{Outcome: microbatch.WasIdle, Epoch: 1, Watermark: now, Uncovered: 70, Late: 1}, 70, 3},
		{microbatch.Report{Outcome: microbatch.Failed, Epoch: 1}, 70, 3}, // CURRENT was not seen
		{microbatch.Report{Outcome: microbatch.Standby, Watermark: now, Uncovered: 70}, 70, 3},
		{microbatch.Report{Outcome: microbatch.Refined, Epoch: 2, Watermark: now}, 0, 3},
	} {
		step.report.Pipeline = "p"
		a.Metrics.Observe(step.report)
		if got := series(t, a, `deltad_uncovered_partitions{pipeline="p"}`); got != step.uncovered {
			t.Errorf("step %d: %v uncovered, want %v", i, got, step.uncovered)
		}
		if got := series(t, a, `deltad_late_objects_total{pipeline="p"}`); got != step.late {
			t.Errorf("step %d: %v late, want %v", i, got, step.late)
		}
	}
}
