package microbatch_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/watermark"
)

// secondCandidate is a bench over its first base, with five keys that only the
// deltas over that one have, and a second base that waits to be promoted.
func secondCandidate(t *testing.T, change func(*microbatch.Settings)) (b *bench, first, second watermark.Rebuild) {
	b = newBaseBench(t, change)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	first = b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	var rows []string
	for i := range 5 {
		rows = append(rows, row(fmt.Sprint("k", i), "03:10", 1, "t"))
	}
	b.put("03:10", "a.ndjson", rows...)
	b.step("03:11", microbatch.Advanced)
	b.put("03:30", "a.ndjson", row("x", "03:30", 4, "two"))
	b.step("03:31", microbatch.Advanced)
	b.set.SupportPrevious = 0 // the pane over the second base has x alone
	b.restart()
	second = b.rebuild(watermark.RebuildHeld) // it grew
	if _, err := b.state.ApproveRebuild(t.Context(), "ads", second.ID, []string{"document_count"}, watermark.Change{ID: b.set.NewID(), Actor: "t", Reason: "it grew indeed"}); err != nil {
		t.Fatal(err)
	}
	return b, first, second
}

// TestPromotionShrinksTheDelta: fewer documents because of another base are no
// reason for the guard of shrinking to refuse the promotion.
func TestPromotionShrinksTheDelta(t *testing.T) {
	b, _, second := secondCandidate(t, func(s *microbatch.Settings) { s.Guards.MaxShrink = 0.2 })
	b.step("03:31", microbatch.Refined)
	if m := b.live(); m.Base.Generation != second.ID || m.Counts.Documents != 1 {
		t.Errorf("%d documents over %s, want 1 over %s", m.Counts.Documents, m.Base.Generation, second.ID)
	}
}

// TestRefusedPromotionLeavesTheDeltas: a guard refuses the pane of a promotion;
// the deltas over the live base go on, and the promotion is tried again later.
func TestRefusedPromotionLeavesTheDeltas(t *testing.T) {
	b, first, second := secondCandidate(t, func(s *microbatch.Settings) { s.Guards.MinDocuments = 1 })
	b.set.Guards.MinDocuments = 3
	b.restart()
	b.put("03:32", "a.ndjson", row("x", "03:32", 1, "three"))
	b.step("03:33", microbatch.Advanced)
	if m := b.live(); m.Base.Generation != first.ID {
		t.Fatalf("over %s", m.Base.Generation)
	}
	b.put("03:34", "a.ndjson", row("p", "03:34", 1, "p"), row("q", "03:34", 1, "q"), row("r", "03:34", 1, "r"))
	b.step("03:35", microbatch.Advanced)
	if m := b.live(); m.Base.Generation != first.ID {
		t.Errorf("over %s, too soon", m.Base.Generation)
	}
	b.step("03:44", microbatch.Refined)
	if m := b.live(); m.Base.Generation != second.ID {
		t.Errorf("over %s, want %s", m.Base.Generation, second.ID)
	}
}

// TestGapAsksForOneRebuild: the jump stays covered for a window after the
// rebuild that it asked for was promoted, and asks for no other.
func TestGapAsksForOneRebuild(t *testing.T) {
	b := newBaseBench(t, nil)
	b.set.Rule.Max, b.set.Rule.OnGap = 20*time.Minute, window.Rebuild
	b.restart()
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("04:00", "a.ndjson", row("x", "04:00", 2, "two"))
	b.step("04:01", microbatch.Advanced)
	rb, err := b.state.OpenRebuild(t.Context(), "ads")
	if err != nil || rb.Cause != watermark.RebuildGap {
		t.Fatalf("%+v, %v", rb, err)
	}
	if r, err := b.make(rb); err != nil || r.State != watermark.RebuildCandidate {
		t.Fatalf("%s, %v", r.State, err)
	}
	b.step("04:01", microbatch.Refined)
	if m := b.live(); m.Base.Generation != rb.ID || !m.Coverage.From.Before(at("03:40")) {
		t.Fatalf("over %s, coverage from %s", m.Base.Generation, m.Coverage.From)
	}
	b.put("04:01", "a.ndjson", row("x", "04:01", 2, "three"))
	b.step("04:02", microbatch.Advanced)
	if rb, err := b.state.OpenRebuild(t.Context(), "ads"); !errors.Is(err, watermark.ErrNotFound) {
		t.Errorf("asked for again: %+v, %v", rb, err)
	}
}

// TestUnfitCandidateIsNoRebuild: a candidate that was read before a column
// widened cannot be promoted, and does not keep another from being asked for.
func TestUnfitCandidateIsNoRebuild(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.rebuild(watermark.RebuildCandidate)
	b.put("03:05", "a.ndjson", `{"item":"x","ts":"2026-11-30T03:05:00Z","clicks":0.5,"title":"half","op":"U"}`)
	b.step("03:06", microbatch.Failed)
	open, err := b.state.OpenRebuild(t.Context(), "ads")
	if err != nil || open.Cause != watermark.RebuildTypes {
		t.Fatalf("%+v, %v", open, err)
	}
}

// TestPromotionEndsWhatOnGapHolds: where the live base has grown so old that
// on_gap: fail holds the deltas, the candidate that ends it is promoted, and the
// base that it replaces is not supported.
func TestPromotionEndsWhatOnGapHolds(t *testing.T) {
	b := newBaseBench(t, func(s *microbatch.Settings) { s.Rule.OnGap, s.Rule.Max = window.Fail, 2*time.Hour })
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("04:50", "a.ndjson", row("x", "04:50", 2, "two"))
	b.step("04:51", microbatch.Advanced)
	second := b.rebuild(watermark.RebuildCandidate)
	b.put("05:00", "a.ndjson", row("x", "05:00", 2, "three"))
	b.step("05:01", microbatch.Advanced)
	if m := b.live(); m.Base.Generation != second.ID || len(m.Supports) != 0 {
		t.Errorf("over %s, supports %+v", m.Base.Generation, m.Supports)
	}
	b.same(map[string]string{"x": `{"item":"x","updates":3,"clicks":6,"title":"three","clicks_5m":2,"double":12}`})
}
