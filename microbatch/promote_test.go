package microbatch_test

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// TestLogOfACandidateThatWaits says for what: a partition from its cut on, or
// one beyond where a reset has put progress, or until when it is left alone.
func TestLogOfACandidateThatWaits(t *testing.T) {
	waits := func(b *bench, clock string, outcome microbatch.Outcome, message, why string) {
		t.Helper()
		core, logged := observer.New(zap.WarnLevel)
		b.set.Log = zap.New(core)
		b.restart()
		b.step(clock, outcome)
		said := logged.FilterMessage(message).All()
		if len(said) != 1 {
			t.Fatalf("the log has %v", logged.All())
		}
		if got, _ := said[0].ContextMap()["why"].(string); !strings.HasPrefix(got, why) {
			t.Errorf("why: %s\nwant %s", got, why)
		}
	}
	candidate := func() *bench {
		b := newBaseBench(t, nil)
		for _, clock := range []string{"03:00", "03:03", "03:05"} {
			b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
		}
		b.step("03:05", microbatch.Advanced)
		b.rebuild(watermark.RebuildCandidate)
		return b
	}
	b := candidate()
	b.reset("03:08")
	waits(b, "03:08", microbatch.WasIdle, "candidate waits for a partition", "newer than 2026-11-30T03:08:00Z, where a reset has put progress")

	b = candidate()
	b.reset("03:01")
	if err := b.raw.Delete(t.Context(), "2026/11/30/03/05/a.ndjson"); err != nil {
		t.Fatal(err)
	}
	waits(b, "03:05", microbatch.Advanced, "candidate waits for a partition",
		"from its cut 2026-11-30T03:05:00Z on: the newest that a pane could have is 2026-11-30T03:03:00Z")

	b, _, _ = secondCandidate(t, func(s *microbatch.Settings) { s.Guards.MinDocuments = 1 })
	b.set.Guards.MinDocuments = 3
	b.put("03:32", "a.ndjson", row("x", "03:32", 1, "three"))
	waits(b, "03:33", microbatch.Advanced, "candidate not promoted, tried again later", "not before 2026-11-30T03:43:00Z: ")
}
