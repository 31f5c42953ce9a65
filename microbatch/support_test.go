package microbatch_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// TestSupportEndsByTheClockOfTheStep: a step at a given time, as of `deltad run
// --once --now`, supports the base that it leaves from that time on, and an
// advance at a later one ends it, whatever the clock on the wall says.
func TestSupportEndsByTheClockOfTheStep(t *testing.T) {
	b, first, _ := twoBases(t, nil)
	m := b.live()
	if len(m.Supports) != 1 || m.Supports[0].Generation != first.ID || !m.Supports[0].Until.Equal(at("03:31").Add(time.Hour)) {
		t.Fatalf("supports %+v, want %s for an hour", m.Supports, first.ID)
	}
	b.put("04:20", "a.ndjson", row("x", "04:20", 1, "three"))
	b.step("04:21", microbatch.Advanced)
	if m = b.live(); len(m.Supports) != 1 || !m.Coverage.From.Equal(first.ActualCut.Add(-5*time.Minute)) {
		t.Errorf("at 04:21 it supports %+v and covers %+v", m.Supports, m.Coverage)
	}
	b.put("04:31", "a.ndjson", row("x", "04:31", 1, "four"))
	b.step("04:31", microbatch.Advanced)
	if m = b.live(); len(m.Supports) != 0 {
		t.Errorf("at 04:31 it supports %+v", m.Supports)
	}
}

// TestPromotionSupportsNothingThatItDoesNotFit: of several bases promoted one
// after the other the pane is computed to fit the last two, and says so.
func TestPromotionSupportsNothingThatItDoesNotFit(t *testing.T) {
	b, first, second := twoBases(t, nil)
	b.put("03:40", "a.ndjson", row("x", "03:40", 1, "three"))
	b.step("03:41", microbatch.Advanced)
	third := b.rebuild(watermark.RebuildCandidate)
	b.step("03:42", microbatch.Refined)
	m := b.live()
	if m.Base.Generation != third.ID || len(m.Supports) != 1 || m.Supports[0].Generation != second.ID {
		t.Errorf("over %s it supports %+v, want %s and not %s, whose cut its coverage %+v does not reach", m.Base.Generation, m.Supports, second.ID, first.ID, m.Coverage)
	}
}
