package microbatch_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/watermark"
)

// TestRebuildIsTakenOverAtEveryStep: what one whose maker died has left does
// not stand in the way of the next, which may find other objects and another
// watermark, and makes the base under the same id.
func TestRebuildIsTakenOverAtEveryStep(t *testing.T) {
	for _, step := range []string{"started", "pinned", "read", "accumulators", "written", "gated", "manifest"} {
		for _, changed := range []bool{false, true} {
			name := step + "/as it was"
			if changed {
				name = step + "/with more"
			}
			t.Run(name, func(t *testing.T) {
				b := newBaseBench(t, nil)
				b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
				b.step("03:01", microbatch.Advanced)
				rb, err := b.state.CreateRebuild(t.Context(), watermark.Rebuild{ID: b.set.NewID(), Pipeline: "ads", Cause: watermark.RebuildManual, Actor: "t", Reason: "a test asks for it"})
				if err != nil {
					t.Fatal(err)
				}
				ctx, die := context.WithCancel(t.Context())
				_, err = full.New(b.full(func(s *full.Settings) {
					s.Trace = func(at string) {
						if at == "rebuild "+step {
							die()
						}
					}
				})).Run(ctx, rb)
				if rb, rerr := b.state.RebuildByID(t.Context(), rb.ID); rerr != nil || rb.State != watermark.RebuildRunning || !errors.Is(err, context.Canceled) {
					t.Fatalf("%s, %v, %v", rb.State, rerr, err)
				}
				want := map[string]string{"x": `{"item":"x","updates":1,"clicks":2,"title":"one","clicks_5m":2,"double":4}`}
				if changed {
					b.put("03:02", "a.ndjson", row("x", "03:02", 1, "two"))
					b.step("03:02", microbatch.Advanced)
					want["x"] = `{"item":"x","updates":2,"clicks":3,"title":"two","clicks_5m":3,"double":6}`
				}
				if r, err := full.New(b.full(nil)).Run(t.Context(), rb); err != nil || r.State != watermark.RebuildCandidate || r.ID != rb.ID {
					t.Fatalf("%+v, %v", r, err)
				}
				b.step("03:03", microbatch.Refined)
				if g := b.live().Base; g == nil || g.Generation != rb.ID {
					t.Errorf("over %+v", g)
				}
				b.same(want)
				base, err := b.set.Sink.ReadBase(t.Context(), *b.live().Base)
				if err == nil {
					err = b.set.Sink.LoadInputs(t.Context(), &base)
				}
				if err != nil {
					t.Fatal(err)
				}
				again, err := full.New(b.full(nil)).Recompute(t.Context(), base, nil)
				if err != nil || !reflect.DeepEqual(again.Files, base.Files) || !reflect.DeepEqual(again.StateFiles(), base.StateFiles()) {
					t.Errorf("made again (%v): %+v %+v, want %+v %+v", err, again.Files, again.StateFiles(), base.Files, base.StateFiles())
				}
			})
		}
	}
}
