package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
)

// TestPlanAsJSON: before the first pane nothing has a time, and none is made
// up.
func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		plan microbatch.Plan
		want map[string]any
	}{
		{"nothing there", microbatch.Plan{Kind: microbatch.Idle}, map[string]any{"watermark": nil, "previous_watermark": nil, "progress": nil, "coverage": nil}},
		{
			"the first pane",
			microbatch.Plan{Kind: microbatch.Advance, Watermark: at, Progress: at, Coverage: window.Coverage{Range: partition.Range{From: at.Add(-time.Hour), To: at}}},
			map[string]any{"watermark": "2026-11-30T03:00:00Z", "previous_watermark": nil, "progress": "2026-11-30T03:00:00Z"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(planOf("ads", c.plan))
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				if v, there := got[name]; !there || v != want {
					t.Errorf("%s is %v, want %v", name, v, want)
				}
			}
			if strings.Contains(string(body), "0001-01-01") || got["pipeline"] != "ads" || got["kind"] != string(c.plan.Kind) {
				t.Errorf("%s", body)
			}
		})
	}
}
