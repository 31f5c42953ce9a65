package microbatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
)

// TestResetOutOfTheFuture: a step whose clock was a year ahead took a stray
// partition for the newest. The reset that the daemon then names leads back to
// the present, with everything in its window.
func TestResetOutOfTheFuture(t *testing.T) {
	b := newBench(t, benchOptions{})
	for _, clock := range []string{"02:59", "03:00"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
	}
	b.step("03:00", microbatch.Advanced)
	year := at("03:00").AddDate(1, 0, 0)
	b.putKey(year.Format("2006/01/02/15/04/")+"stray.ndjson", row("x", "03:00", 1000, "stray"))
	b.step("03:00", microbatch.WasIdle)
	if r := b.p.Once(t.Context(), year, microbatch.StepOptions{}); r.Outcome != microbatch.Advanced || !r.Watermark.Equal(year) {
		t.Fatalf("with the clock a year ahead: %s at %s (%v)", r.Outcome, r.Watermark, r.Err)
	}
	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
	b.put("03:02", "a.ndjson", row("x", "03:02", 1, "t"))
	if r := b.step("03:02", microbatch.WasHeld); !strings.Contains(r.Why, "--to 2026-11-30T03:01:00Z") {
		t.Fatalf("no way out: %s", r.Why)
	}
	b.reset("03:01")
	r := b.step("03:02", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:02")) || len(b.live().Inputs) != 4 {
		t.Errorf("after the reset: watermark %s, %d inputs; want 03:02 and 4", r.Watermark, len(b.live().Inputs))
	}
	if q := b.live().Quarantined; len(q) != 1 {
		t.Errorf("quarantined %v, want the stray partition", q)
	}
	b.step("03:02", microbatch.WasIdle)
}

// TestQuarantinedOnce: the first pane names a partition of the future once.
func TestQuarantinedOnce(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("05:00", "a.ndjson", row("x", "05:00", 1, "t"))
	if r := b.step("03:00", microbatch.WasIdle); r.Quarantined != 1 {
		t.Errorf("%d quarantined before the first pane, want 1", r.Quarantined)
	}
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	if q := b.live().Quarantined; len(q) != 1 {
		t.Errorf("quarantined %v, want one", q)
	}
}

// TestLedgerOfALongGap: a gap of a year is a bounded number of lines, of which
// the oldest counts those that have none.
func TestLedgerOfALongGap(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	year := at("03:00").AddDate(1, 0, 0)
	b.putKey(year.Format("2006/01/02/15/04/")+"a.ndjson", row("x", "03:00", 1, "t"))
	b.p.Once(t.Context(), year, microbatch.StepOptions{})
	lines, err := b.state.LedgerRange(t.Context(), "ads", "", at("03:00"), year, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	gap := b.live().Gap[0]
	total := int(gap.To.Sub(gap.From.Time) / time.Minute)
	never := 0
	for _, l := range lines {
		if l.State == "never_covered" {
			never++
		}
	}
	if want := fmt.Sprintf("and all %d partitions before it", total-1000); never != 1000 || !strings.HasPrefix(lines[0].Note, want) {
		t.Errorf("%d lines never covered, the first says %q; want 1000 and %q", never, lines[0].Note, want)
	}
}
