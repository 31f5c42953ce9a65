package microbatch_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/watermark"
)

// TestForgottenKeyStaysDeleted: a delete that came late was forgotten by the
// base that read it. Its records are inside the durations of base and deltas,
// and make no document there.
func TestForgottenKeyStaysDeleted(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:57", "a.ndjson", `{"item":"gone","ts":"2026-11-30T00:30:00Z","clicks":1,"title":"here","op":"U"}`)
	b.put("02:58", "a.ndjson", del("gone", "00:40"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	r, err := b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) { s.Tombstones = time.Hour })
	if err != nil || r.State != watermark.RebuildCandidate || r.Documents != 1 {
		t.Fatalf("%s with %d documents, %v", r.State, r.Documents, err)
	}
	b.step("03:01", microbatch.Refined)
	want := map[string]string{"x": `{"item":"x","updates":1,"clicks":2,"title":"one","clicks_5m":2,"double":4}`}
	b.same(want)
	if n := b.live().Counts.Tombstones; n != 1 {
		t.Errorf("%d tombstones", n)
	}
	// What comes later starts the key anew.
	b.put("03:01", "a.ndjson", row("gone", "03:01", 5, "back"))
	b.step("03:02", microbatch.Advanced)
	want["gone"] = `{"item":"gone","updates":1,"clicks":5,"title":"back","clicks_5m":6,"double":10}`
	b.same(want)
}
