package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/slice"
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
			for _, name := range []string{"inputs", "skipped", "quarantined", "skips", "vanished"} {
				if _, list := got[name].([]any); !list {
					t.Errorf("%s is %v, want a list", name, got[name])
				}
			}
			if strings.Contains(string(body), "0001-01-01") || got["pipeline"] != "ads" || got["kind"] != string(c.plan.Kind) {
				t.Errorf("%s", body)
			}
		})
	}
}

// TestPlanNamesItsInputs as a manifest does, and says how much they are.
func TestPlanNamesItsInputs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	objects := []partition.Object{{Key: "a b", ETag: "e", Size: 7, Partition: at}, {Key: "c", ETag: "f", Size: 5, Partition: at}}
	plan := microbatch.Plan{Kind: microbatch.Refine, Inputs: []microbatch.Input{{Input: slice.Input{Start: at, Objects: objects}, Read: true}}}
	body, err := json.Marshal(planOf("ads", plan))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"inputs":[{"start":"2026-11-30T03:00:00Z","objects":[{"key":"a b","partition":"2026-11-30T03:00:00Z","etag":"e","bytes":7},{"key":"c",`,
		`"cost":{"partitions":1,"objects":2,"bytes":12}`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("got %s\nwant in it %s", body, want)
		}
	}
}
