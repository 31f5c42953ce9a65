package microbatch_test

import (
	"testing"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// TestCrashedResetIsFinished stops a reset after each of its steps; the next
// leader finishes it.
func TestCrashedResetIsFinished(t *testing.T) {
	for _, step := range []string{"claimed", "reset planned", "reset current", "reset committed"} {
		t.Run(step, func(t *testing.T) {
			armed := false
			b := newBench(t, benchOptions{change: func(s *microbatch.Settings) {
				s.Trace = func(at string) {
					if armed && at == step {
						armed = false
						panic(crash{step})
					}
				}
			}})
			for _, clock := range []string{"02:00", "02:30", "03:00"} {
				b.put(clock, "a.ndjson", row("x", clock, 1, clock))
			}
			b.step("03:00", microbatch.Advanced)
			row, err := b.state.Pause(t.Context(), "ads", watermark.Change{ID: b.set.NewID(), Actor: "me", Reason: "a reset is coming"})
			if err != nil {
				t.Fatal(err)
			}
			in, err := b.state.CreateIntent(t.Context(), watermark.Intent{
				ID: b.set.NewID(), Pipeline: "ads", Target: at("02:30"), Digest: "d", Actor: "me", Reason: "wrong prices since then",
			}, row.Version)
			if err != nil {
				t.Fatal(err)
			}
			armed = true
			if r := b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{}); armed || r.Outcome != microbatch.Failed {
				t.Fatalf("the reset was not stopped: %s", r.Outcome)
			}
			b.restart()
			b.step("03:01", microbatch.WasHeld)
			in, err = b.state.IntentByID(t.Context(), in.ID)
			if err != nil || in.State != watermark.IntentApplied {
				t.Errorf("the reset is %s: %s (%v)", in.State, in.Note, err)
			}
			head, err := b.set.Sink.Head(t.Context())
			if err != nil || !head.Progress.Equal(at("02:30")) || !head.Watermark.Equal(at("03:00")) {
				t.Errorf("CURRENT has progress %s and watermark %s (%v)", head.Progress, head.Watermark, err)
			}
		})
	}
}
