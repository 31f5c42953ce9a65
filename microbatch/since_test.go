package microbatch_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// TestSinceFromTheFirstPane: where full.since lies within what the first run
// lists the ledger begins there, and the state store has the pane like any
// other: a rebuild finds it. since is inclusive, also where it lies between two
// starts.
func TestSinceFromTheFirstPane(t *testing.T) {
	for name, since := range map[string]time.Time{"at a start": at("03:00"), "between": at("02:59").Add(time.Second / 3), "a year": at("03:00").AddDate(-1, 0, 0)} {
		t.Run(name, func(t *testing.T) {
			b := newBaseBench(t, func(s *microbatch.Settings) { s.Since = since })
			if name != "a year" {
				b.put("02:59", "a.ndjson", row("before", "02:59", 1, "t"))
				b.step("03:00", microbatch.WasIdle)
			}
			b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
			r := b.step("03:00", microbatch.Advanced)
			run, err := b.state.RunByID(t.Context(), r.RunID)
			if err != nil || run.Status != watermark.RunPublished {
				t.Fatalf("the run is journalled as %+v (%v)", run, err)
			}
			b.same(map[string]string{"x": `{"item":"x","updates":1,"clicks":1,"title":"t","clicks_5m":1,"double":2}`})
			b.rebuild(watermark.RebuildCandidate)
			b.step("03:00", microbatch.Refined)
			b.put("02:58", "late.ndjson", row("late", "02:58", 1, "t"))
			want := microbatch.WasIdle
			if name == "a year" {
				want = microbatch.Refined
			}
			b.step("03:00", want)
		})
	}
}
