package microbatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// reset pauses, plans, resets and resumes.
func (b *bench) reset(to string) microbatch.ResetPlan {
	b.t.Helper()
	ctx := b.t.Context()
	plan, err := b.p.PlanReset(ctx, at("09:00"), at(to))
	if err != nil {
		b.t.Fatal(err)
	}
	row, err := b.state.Pause(ctx, "ads", watermark.Change{ID: ulid.Make().String(), Actor: "ada"})
	if err != nil {
		b.t.Fatal(err)
	}
	in, err := b.state.CreateIntent(ctx, watermark.Intent{
		ID: ulid.Make().String(), Pipeline: "ads", Target: plan.To, Digest: plan.Digest, Actor: "ada", Reason: "a test of resets",
	}, row.Version)
	if err != nil {
		b.t.Fatal(err)
	}
	if err = b.p.Under(ctx, func(ctx context.Context, t microbatch.Term) error { return t.Settle(ctx) }); err == nil {
		in, err = b.state.IntentByID(ctx, in.ID)
	}
	if err != nil || in.State != watermark.IntentApplied {
		b.t.Fatalf("reset to %s: %s %s (%v)", to, in.State, in.Note, err)
	}
	if _, err := b.state.Resume(ctx, "ads", watermark.Change{ID: ulid.Make().String(), Actor: "ada"}); err != nil {
		b.t.Fatal(err)
	}
	return plan
}

// TestResetPlanIsWhatTheNextRunDoes: the plan's coverage, inputs and gap are
// those of the pane that follows, whatever the distances.
func TestResetPlanIsWhatTheNextRunDoes(t *testing.T) {
	for _, c := range []struct {
		name          string
		live, newest  string // the pane before, and the newest partition then
		to            string
		unread, gap   int
		coverageFrom  string
		needsApproval bool
	}{
		{"back inside the window", "03:00", "03:01", "02:50", 0, 0, "02:01", false},
		{"back beyond the window", "03:00", "03:01", "01:00", 0, 0, "01:00", false},
		{"back beyond window.max", "06:00", "06:01", "01:00", 0, 61, "02:01", true},
		{"back, nothing newer than before", "03:00", "03:00", "01:30", 0, 0, "01:30", false},
		{"forward over unread ones", "03:00", "06:00", "05:30", 75, 0, "05:00", true},
		{"forward to the newest", "03:00", "03:30", "03:30", 15, 0, "02:00", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			fill := func(from, to string) {
				for m := at(from); !m.After(at(to)); m = m.Add(2 * time.Minute) {
					b.put(m.Format("15:04"), "a.ndjson", row("x", m.Format("15:04"), 1, "t"))
				}
				b.put(to, "a.ndjson", row("x", to, 1, "t"))
			}
			fill("00:30", c.live)
			b.step(c.live, microbatch.Advanced)
			if c.newest != c.live {
				fill(at(c.live).Add(2*time.Minute).Format("15:04"), c.newest)
			}
			plan := b.reset(c.to)
			if plan.Unread.Partitions != c.unread || plan.GapPartitions != c.gap || plan.NeedsAcceptance != c.needsApproval {
				t.Errorf("unread %d, gap %d, needs acceptance %v", plan.Unread.Partitions, plan.GapPartitions, plan.NeedsAcceptance)
			}
			if plan.Next.Kind == microbatch.Advance {
				if got := plan.Next.Coverage.From; !got.Equal(at(c.coverageFrom)) {
					t.Errorf("planned coverage from %s, want %s", got, c.coverageFrom)
				}
			}
			r := b.p.Once(t.Context(), at("09:00"), microbatch.StepOptions{})
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			m := b.live()
			if kind := map[microbatch.Outcome]microbatch.Kind{
				microbatch.Advanced: microbatch.Advance, microbatch.Refined: microbatch.Refine, microbatch.WasIdle: microbatch.Idle,
			}[r.Outcome]; kind != plan.Next.Kind {
				t.Errorf("planned %s (%s), did %s (%s)", plan.Next.Kind, plan.Next.Why, r.Outcome, r.Why)
			}
			if r.Outcome == microbatch.WasIdle {
				return
			}
			if !m.Coverage.From.Equal(plan.Next.Coverage.From) || !m.Watermark.Equal(plan.Next.Watermark) || len(m.Inputs) != plan.Recomputed.Objects {
				t.Errorf("planned %s with %d objects, did (%s, %s] with %d", plan.Next.Coverage, plan.Recomputed.Objects,
					m.Coverage.From, m.Watermark, len(m.Inputs))
			}
			if gaps := len(m.Gap); (gaps > 0) != (plan.Gap != nil) {
				t.Errorf("planned gap %v, the pane has %v", plan.Gap, m.Gap)
			}
		})
	}
}

func TestResetPlanBeforeTheFirstPane(t *testing.T) {
	b := newBench(t, benchOptions{})
	if _, err := b.p.PlanReset(t.Context(), at("03:00"), at("02:00")); err == nil {
		t.Error("a plan without a pane")
	}
}

// TestResetPlanProperties: a plan is a function of its facts; its sums are
// consistent; its digest ignores what only grows and notices what is lost.
func TestResetPlanProperties(t *testing.T) {
	calendar, err := partition.NewCalendar(time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule := hour(time.Hour)
	rapid.Check(t, func(t *rapid.T) {
		minute := func(label string, lo, hi int) time.Time {
			return at("00:00").Add(time.Duration(rapid.IntRange(lo, hi).Draw(t, label)) * time.Minute)
		}
		mark := minute("watermark", 100, 400)
		live := sink.Manifest{
			Pipeline: "ads", RunID: ulid.Make().String(), Watermark: sink.AtPtr(mark), ConfigHash: "c1",
			Coverage: &sink.Range{From: sink.At(mark.Add(-time.Hour)), To: sink.At(mark)},
		}
		head := sink.Head{Exists: true, Current: sink.Current{
			Version: 7, Watermark: live.Watermark, Progress: live.Watermark, Delta: &sink.DeltaRef{Manifest: "manifests/m.json"},
		}}
		f := microbatch.ResetFacts{Now: at("12:00"), Head: head, Live: live, To: minute("to", 0, 600), ConfigHash: "c1"}
		f.Newest = mark
		for i, m := range rapid.SliceOfN(rapid.IntRange(0, 600), 0, 30).Draw(t, "objects") {
			o := partition.Object{Key: string(rune('a' + i)), ETag: "e", Size: int64(i), Partition: at("00:00").Add(time.Duration(m) * time.Minute)}
			f.Objects = append(f.Objects, o)
			if o.Partition.After(f.Newest) {
				f.Newest = o.Partition
			}
		}
		f.Listed = partition.Range{To: at("12:00")}
		plan, err := microbatch.PlanReset(rule, calendar, f)
		if err != nil {
			t.Fatal(err)
		}
		again, err := microbatch.PlanReset(rule, calendar, f)
		if err != nil || again.Digest != plan.Digest {
			t.Fatalf("planned twice: %s and %s (%v)", plan.Digest, again.Digest, err)
		}
		if plan.Lost.Objects > plan.Unread.Objects || plan.Skipped.Objects > plan.Recomputed.Objects {
			t.Fatalf("lost %d of %d unread, skipped %d of %d", plan.Lost.Objects, plan.Unread.Objects, plan.Skipped.Objects, plan.Recomputed.Objects)
		}
		if back := !f.To.After(mark); back && plan.Unread.Objects > 0 {
			t.Fatal("a move back passes over nothing")
		}
		if plan.Gap == nil && plan.Next.Kind == microbatch.Advance && !f.To.After(mark) && plan.Next.Coverage.From.After(f.To) {
			t.Fatalf("coverage from %s does not reach back to %s and names no gap", plan.Next.Coverage.From, f.To)
		}
		// One more object between the two progresses is one more to be lost; one
		// beyond changes nothing that was agreed to, unless the gap grows.
		more := f
		more.Objects = append(append([]partition.Object{}, f.Objects...), partition.Object{Key: "more", ETag: "e", Partition: f.To})
		grown, err := microbatch.PlanReset(rule, calendar, more)
		if err != nil {
			t.Fatal(err)
		}
		if (grown.Digest != plan.Digest) != f.To.After(mark) {
			t.Fatalf("an object at %s (progress %s, to %s): digest changed: %v", f.To, mark, f.To, grown.Digest != plan.Digest)
		}
	})
}
