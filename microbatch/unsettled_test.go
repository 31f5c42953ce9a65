package microbatch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/watermark"
)

// TestUnsettledChangeIsNotSettledAsLost: a put of CURRENT whose outcome is
// not known may come about long after. The same leader must not journal its
// run as abandoned while it still can.
func TestUnsettledChangeIsNotSettledAsLost(t *testing.T) {
	for _, landsFirst := range []bool{true, false} {
		b := newBench(t, benchOptions{})
		faulty := fault.New(b.out)
		b.set.Sink = sink.New(sink.Settings{Store: faulty, Pipeline: "ads", NewID: b.set.NewID, Backoff: 1})
		b.restart()
		b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
		err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
			if r := term.Step(ctx, at("03:00"), microbatch.StepOptions{}); r.Outcome != microbatch.Advanced {
				t.Fatalf("first step: %s %v", r.Outcome, r.Err)
			}
			b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
			faulty.Add(fault.Rule{Kind: fault.Late, Op: "put", Key: sink.CurrentKey})
			if r := term.Step(ctx, at("03:01"), microbatch.StepOptions{}); !errors.Is(r.Err, sink.ErrUnsettled) {
				t.Fatalf("second step: %s %v", r.Outcome, r.Err)
			}
			faulty.Heal()
			if landsFirst {
				faulty.Deliver(ctx)
			}
			// Paused: the step settles what was left open, and changes nothing itself.
			b.pause(true)
			term.Step(ctx, at("03:01"), microbatch.StepOptions{})
			b.pause(false)
			if !landsFirst {
				faulty.Deliver(ctx)
			}
			term.Step(ctx, at("03:01"), microbatch.StepOptions{})
			b.put("03:02", "a.ndjson", row("x", "03:02", 1, "t"))
			term.Step(ctx, at("03:02"), microbatch.StepOptions{})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.journalAgrees()
		for _, p := range []string{"03:00", "03:01", "03:02"} {
			if b.ledger()[p] != "covered" {
				t.Errorf("lands first %v: ledger of %s is %q", landsFirst, p, b.ledger()[p])
			}
		}
	}
}

// pause pauses or resumes the pipeline.
func (b *bench) pause(paused bool) {
	b.t.Helper()
	do := b.state.Resume
	if paused {
		do = b.state.Pause
	}
	if _, err := do(b.t.Context(), "ads", watermark.Change{ID: b.set.NewID(), Actor: "me", Reason: "for a test"}); err != nil {
		b.t.Fatal(err)
	}
}

// forgetting loses one publication after acknowledging it, as a state store
// does that fails over to a copy which lags.
type forgetting struct {
	microbatch.State
	lose bool
}

func (f *forgetting) PublishRun(ctx context.Context, l watermark.Lease, p watermark.Publication) (watermark.Published, error) {
	if f.lose {
		f.lose = false
		return watermark.Published{Run: p.Run}, nil
	}
	return f.State.PublishRun(ctx, l, p)
}

// TestStateStoreThatForgotUnderALiveLease is told what it forgot before
// anything is built on it.
func TestStateStoreThatForgotUnderALiveLease(t *testing.T) {
	b := newBench(t, benchOptions{})
	state := &forgetting{State: b.set.State}
	b.set.State = state
	b.restart()
	err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
		for _, clock := range []string{"03:00", "03:01", "03:02", "03:03"} {
			b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
			state.lose = clock == "03:01"
			if r := term.Step(ctx, at(clock), microbatch.StepOptions{}); r.Outcome != microbatch.Advanced || r.StateErr != nil {
				t.Fatalf("step at %s: %s %v %v", clock, r.Outcome, r.Err, r.StateErr)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.journalAgrees()
	for _, p := range []string{"03:00", "03:01", "03:02", "03:03"} {
		if b.ledger()[p] != "covered" {
			t.Errorf("ledger of %s is %q", p, b.ledger()[p])
		}
	}
}

// journalAgrees checks the journal against the history that CURRENT reaches:
// every run in it is published, no other one is.
func (b *bench) journalAgrees() {
	b.t.Helper()
	head, err := b.set.Sink.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	reached := map[string]bool{}
	err = b.set.Sink.Walk(b.t.Context(), head, func(_ sink.Ref, m sink.Manifest) (bool, error) {
		reached[m.RunID] = true
		return true, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	runs, err := b.state.Runs(b.t.Context(), "ads", 1000, "")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range runs {
		if published := r.Status == watermark.RunPublished; published != reached[r.ID] {
			b.t.Errorf("run %s is journalled as %s, CURRENT reaches it: %v", r.ID, r.Status, reached[r.ID])
		}
		delete(reached, r.ID)
	}
	for id := range reached {
		b.t.Errorf("run %s is not journalled", id)
	}
}

// lagging is a state store that fails over, between the plan of a run and its
// publication, to a copy that lacks the run before.
type lagging struct {
	microbatch.State
	lose  bool
	calls map[string]int
}

func (l *lagging) PlanRun(ctx context.Context, lease watermark.Lease, r watermark.Run) error {
	l.calls["plan"]++
	return l.State.PlanRun(ctx, lease, r)
}

func (l *lagging) PublishRun(ctx context.Context, lease watermark.Lease, p watermark.Publication) (watermark.Published, error) {
	l.calls["publish"]++
	if l.lose {
		l.lose = false
		return watermark.Published{}, fmt.Errorf("publish run %s: %w: run %s", p.Run.ID, watermark.ErrForgotten, p.Follows)
	}
	return l.State.PublishRun(ctx, lease, p)
}

func (l *lagging) RunByID(ctx context.Context, id string) (watermark.Run, error) {
	l.calls["read"]++
	return l.State.RunByID(ctx, id)
}

func (l *lagging) PlannedRuns(ctx context.Context, pipeline string) ([]watermark.Run, error) {
	l.calls["read"]++
	return l.State.PlannedRuns(ctx, pipeline)
}

// TestPublicationThatIsForgottenIsReconciled, and a publication that is not
// asks the journal nothing besides.
func TestPublicationThatIsForgottenIsReconciled(t *testing.T) {
	b := newBench(t, benchOptions{})
	state := &lagging{State: b.set.State, calls: map[string]int{}}
	b.set.State = state
	b.restart()
	err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
		for _, tc := range []struct {
			clock string
			lose  bool
			want  map[string]int
		}{
			{"03:00", false, map[string]int{"plan": 1, "publish": 1, "read": 2}}, // reconciled after the claim, and collected
			{"03:01", false, map[string]int{"plan": 1, "publish": 1}},
			{"03:02", true, map[string]int{"plan": 1, "publish": 2, "read": 3}},
			{"03:03", false, map[string]int{"plan": 1, "publish": 1}},
		} {
			b.put(tc.clock, "a.ndjson", row("x", tc.clock, 1, "t"))
			state.lose = tc.lose
			clear(state.calls)
			if r := term.Step(ctx, at(tc.clock), microbatch.StepOptions{}); r.Outcome != microbatch.Advanced || r.StateErr != nil {
				t.Fatalf("step at %s: %s %v %v", tc.clock, r.Outcome, r.Err, r.StateErr)
			}
			if !maps.Equal(state.calls, tc.want) {
				t.Errorf("step at %s asked %v, want %v", tc.clock, state.calls, tc.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.journalAgrees()
}
