package microbatch_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// TestResetPlanOverABase: the plan knows the bases: its coverage, inputs and
// unread objects are those of the run that follows, and what the base has is not
// lost.
func TestResetPlanOverABase(t *testing.T) {
	for _, c := range []struct {
		name, newest, to string
		unread, lost     int
	}{
		{"back before the cut", "03:40", "02:10", 0, 0},
		{"forward over what nothing read", "03:40", "03:38", 4, 0},
		{"back, nothing newer", "03:30", "03:05", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBaseBench(t, nil)
			fill := func(from, to string) {
				for m := at(from); !m.After(at(to)); m = m.Add(2 * time.Minute) {
					b.put(m.Format("15:04"), "a.ndjson", row("k"+m.Format("1504"), m.Format("15:04"), 1, "t"))
				}
			}
			fill("02:00", "03:00")
			b.step("03:01", microbatch.Advanced)
			base := b.rebuild(watermark.RebuildCandidate)
			b.step("03:01", microbatch.Refined)
			fill("03:02", "03:30")
			b.step("03:31", microbatch.Advanced)
			b.put("02:40", "late.ndjson", row("late", "02:40", 1, "t")) // unread: an input wherever it lies
			b.step("03:32", microbatch.Refined)
			if c.newest != "03:30" {
				fill("03:32", c.newest)
			}
			plan := b.reset(c.to)
			if plan.Unread.Partitions != c.unread || plan.Lost.Partitions != c.lost || plan.Gap != nil || plan.Watermark != at("03:30") {
				t.Errorf("unread %+v, lost %+v, gap %v", plan.Unread, plan.Lost, plan.Gap)
			}
			if plan.Next.Coverage.From.After(base.ActualCut.Add(-5 * time.Minute)) {
				t.Errorf("planned coverage %s does not reach the base's %s", plan.Next.Coverage, base.ActualCut)
			}
			r := b.p.Once(t.Context(), at("09:00"), microbatch.StepOptions{})
			m := b.live()
			if r.Err != nil || r.Outcome == microbatch.WasIdle != (plan.Next.Kind == microbatch.Idle) {
				t.Fatalf("planned %s (%s), did %s (%s)", plan.Next.Kind, plan.Next.Why, r.Outcome, r.Why)
			}
			if plan.Next.Kind == microbatch.Idle {
				return
			}
			if !m.Coverage.From.Equal(plan.Next.Coverage.From) || !m.Watermark.Equal(plan.Next.Watermark) || len(m.Inputs) != plan.Recomputed.Objects {
				t.Errorf("planned %s with %d objects, did (%s, %s] with %d", plan.Next.Coverage, plan.Recomputed.Objects,
					m.Coverage.From, m.Watermark, len(m.Inputs))
			}
		})
	}
}

// TestRollbackPlanIsWhatHappens: the plan of a rollback names both panes, what is
// barred, and the run that follows.
func TestRollbackPlanIsWhatHappens(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "one"))
	b.step("03:01", microbatch.Advanced)
	first := b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("03:10", "a.ndjson", row("x", "03:10", 1, "two"))
	b.step("03:11", microbatch.Advanced)
	over := sink.Ref{Manifest: b.head().Delta.Manifest, SHA256: b.head().Delta.SHA256}
	second := b.rebuild(watermark.RebuildCandidate)
	b.step("03:11", microbatch.Refined)
	b.put("03:20", "a.ndjson", row("y", "03:20", 1, "three"))
	b.step("03:21", microbatch.Advanced)

	f, _, ok, err := b.p.Former(t.Context(), first.ID)
	if err != nil || !ok || f.Pane != over {
		t.Fatalf("former pane %+v, %v (%v), want %+v", f, ok, err, over)
	}
	plan, err := b.p.PlanRollback(t.Context(), at("03:21"), f.Pane, false)
	if err != nil {
		t.Fatal(err)
	}
	if plan.To.Generation != first.ID || plan.From.Generation != second.ID || plan.Bar != second.ID || plan.Pause ||
		plan.Back != 600 || plan.Next.Kind != microbatch.Advance || !plan.Next.Watermark.Equal(at("03:20")) {
		t.Errorf("plan %+v", plan)
	}
	again, err := b.p.PlanRollback(t.Context(), at("03:25"), f.Pane, false)
	if err != nil || again.Digest != plan.Digest {
		t.Errorf("planned again its digest is %s, was %s (%v)", again.Digest, plan.Digest, err)
	}
	if paused, err := b.p.PlanRollback(t.Context(), at("03:25"), f.Pane, true); err != nil || paused.Digest == plan.Digest {
		t.Errorf("with a pause it has the same digest (%v)", err)
	}
	if _, err := b.p.PlanRollback(t.Context(), at("03:25"), sink.Ref{Manifest: b.head().Delta.Manifest, SHA256: b.head().Delta.SHA256}, true); err == nil {
		t.Error("a rollback to the live pane is planned")
	}
}
