package microbatch_test

import (
	"context"
	"testing"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// TestAnotherStateStoreIsToldOfAResetToo: the history that a state store
// without memory is told of, back to W, may have resets and rollbacks, of whose
// intents it knows nothing. They are published like the other runs.
func TestAnotherStateStoreIsToldOfAResetToo(t *testing.T) {
	b := newBench(t, benchOptions{})
	var panes []sink.Ref
	for _, clock := range []string{"03:00", "03:01"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
		b.step(clock, microbatch.Advanced)
		panes = append(panes, b.head().Delta.Ref())
	}
	if in := b.rollback(panes[0], "", true, "03:01"); in.State != watermark.IntentApplied {
		t.Fatalf("the rollback is %+v", in)
	}
	lost := b.state
	b.state = newBench(t, benchOptions{}).state
	b.set.State = b.state
	b.restart()
	err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
		_, err := term.Adopt(ctx, "me", "the old database is lost")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.put("03:02", "a.ndjson", row("x", "03:02", 1, "t"))
	b.step("03:02", microbatch.Advanced)
	before, err := lost.Runs(t.Context(), "ads", 10, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range before {
		if told, err := b.state.RunByID(t.Context(), run.ID); err != nil || told.Status != watermark.RunPublished || told.Reason != run.Reason {
			t.Errorf("run %s (%s) is told as %+v (%v)", run.ID, run.Reason, told, err)
		}
	}
	if len(before) < 3 {
		t.Errorf("history %+v", before)
	}
}
