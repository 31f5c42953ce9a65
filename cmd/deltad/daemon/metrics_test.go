package daemon

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestSeriesOfWhoDoesNotLead: a process that lost its lease and cannot ask for
// it again, since the state store is away, does not say that it leads.
func TestSeriesOfWhoDoesNotLead(t *testing.T) {
	a := &App{Metrics: NewMetrics()}
	a.Metrics.Register("p")
	for i, step := range []struct {
		report microbatch.Report
		leads  float64
	}{
		{microbatch.Report{Outcome: microbatch.WasIdle, Epoch: 3}, 1},
		{microbatch.Report{Outcome: microbatch.Failed, Epoch: 3, Err: errors.New("away")}, 1},
		{microbatch.Report{Outcome: microbatch.Failed, Err: errors.New("away")}, 0},
		{microbatch.Report{Outcome: microbatch.WasIdle, Epoch: 4}, 1},
		{microbatch.Report{Outcome: microbatch.Standby}, 0},
	} {
		step.report.Pipeline = "p"
		a.Metrics.Observe(step.report)
		if got := series(t, a, `deltad_leader{pipeline="p"}`); got != step.leads {
			t.Errorf("step %d: leader %v, want %v", i, got, step.leads)
		}
	}
	if got := series(t, a, `deltad_epoch{pipeline="p"}`); got != 4 {
		t.Errorf("epoch %v, want that of the last lease, 4", got)
	}
	if got := series(t, a, `deltad_run_duration_seconds_count{pipeline="p"}`); got != 3 {
		t.Errorf("%v steps took their time, want those under a lease, 3", got)
	}
}

// TestSeriesOutliveAnOutage: while CURRENT cannot be seen the data gets older,
// and a step that does not come to list says nothing of the source.
func TestSeriesOutliveAnOutage(t *testing.T) {
	a := &App{Metrics: NewMetrics()}
	a.Metrics.Register("p")
	a.Metrics.Observe(microbatch.Report{
		Pipeline: "p", Outcome: microbatch.WasIdle, Epoch: 1, ListCalls: 1, Quarantined: 2, Lagging: []string{"eu"}, Skipped: 3,
		Watermark: time.Now().Add(-time.Hour), Base: "g", Cut: time.Now().Add(-2 * time.Hour),
	})
	a.Metrics.Observe(microbatch.Report{Pipeline: "p", Outcome: microbatch.Failed, Epoch: 1, Err: errors.New("CURRENT is lost")})
	for name, atLeast := range map[string]float64{
		`deltad_data_age_seconds{pipeline="p"}`: 3600, `deltad_base_age_seconds{pipeline="p"}`: 7200,
		`deltad_quarantined_partitions{pipeline="p"}`: 2, `deltad_lagging_prefixes{pipeline="p"}`: 1, `deltad_skipped_objects{pipeline="p"}`: 3,
	} {
		if got := series(t, a, name); got < atLeast {
			t.Errorf("%s is %v, want at least %v", name, got, atLeast)
		}
	}
	a.Metrics.Observe(microbatch.Report{Pipeline: "p", Outcome: microbatch.WasIdle, Epoch: 1, ListCalls: 1, Watermark: time.Now()})
	for _, name := range []string{"deltad_quarantined_partitions", "deltad_lagging_prefixes", "deltad_skipped_objects", "deltad_base_age_seconds"} {
		if got := series(t, a, name+`{pipeline="p"}`); got != 0 {
			t.Errorf("%s is %v when all is well again", name, got)
		}
	}
}

// TestOperatingNamesEverySeries, and none that there is not.
func TestOperatingNamesEverySeries(t *testing.T) {
	m := NewMetrics()
	m.Register("p")
	m.Observe(microbatch.Report{Pipeline: "p", Outcome: microbatch.WasIdle, Epoch: 1, Watermark: time.Now()})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "deltad_") {
			served = append(served, f.GetName())
		}
	}
	text, err := os.ReadFile("../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`deltad_[a-z_]+`).FindAllString(string(text), -1)
	slices.Sort(named)
	if named = slices.Compact(named); !slices.Equal(named, served) {
		t.Errorf("docs/operating.md names\n%s\nserved are\n%s", strings.Join(named, "\n"), strings.Join(served, "\n"))
	}
}
