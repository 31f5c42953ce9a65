package microbatch_test

import (
	"testing"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// TestIdleOfAFreshProcess: a step that remembers nothing and finds nothing new
// reads CURRENT, the manifest and a listing, once each.
func TestIdleOfAFreshProcess(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:00", microbatch.Advanced)
	b.restart()
	b.step("03:00", microbatch.WasIdle)
	total := 0
	for _, n := range b.calls {
		total += n
	}
	if b.calls["list"] != 1 || b.calls["get"] != 2 || total != 3 {
		t.Errorf("it made %v, want one list and two gets", b.calls)
	}
}

// TestEpochGoesOnFromCurrent: with a state store that was lost, epochs go on
// above that of CURRENT.
func TestEpochGoesOnFromCurrent(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	var last int64
	for range 4 {
		if l, err := b.state.Acquire(t.Context(), "ads", watermark.RoleDelta, "t0", b.set.LeaseTTL, last+10); err != nil {
			t.Fatal(err)
		} else if err := b.state.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		} else {
			last = l.Epoch
		}
	}
	b.step("03:00", microbatch.Advanced)
	head, err := b.set.Sink.Head(t.Context())
	if err != nil || head.Owner.Epoch <= last {
		t.Fatalf("epoch %d in CURRENT (%v), want one above %d", head.Owner.Epoch, err, last)
	}
	fresh := newBench(t, benchOptions{})
	fresh.set.Sink, fresh.set.Lister, fresh.set.Documents = b.set.Sink, b.set.Lister, b.set.Documents
	fresh.restart()
	r := fresh.p.Once(t.Context(), at("03:00"), microbatch.StepOptions{})
	if r.Epoch != head.Owner.Epoch+1 {
		t.Errorf("epoch %d with an empty state store (%s: %v), want %d", r.Epoch, r.Outcome, r.Err, head.Owner.Epoch+1)
	}
}
