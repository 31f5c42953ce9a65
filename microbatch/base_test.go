package microbatch_test

import (
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// newBaseBench is a bench whose pipeline has a full index. The window is ten
// minutes, the longest field five.
func newBaseBench(t *testing.T, change func(*microbatch.Settings)) *bench {
	return newBench(t, benchOptions{
		rule: window.Rule{Size: 10 * time.Minute, Longest: 5 * time.Minute, Max: 6 * time.Hour, OnGap: window.Rebuild},
		change: func(s *microbatch.Settings) {
			s.Full, s.Combiners, s.SupportPrevious = true, combine.Builtins(), time.Hour
			if change != nil {
				change(s)
			}
		},
	})
}

// rebuilder makes full indexes of the bench's pipeline.
func (b *bench) rebuilder() *full.Rebuilder {
	s := b.set
	lister, ok := s.Lister.(full.Lister)
	if !ok {
		b.t.Fatal("the lister cannot scan")
	}
	return full.New(full.Settings{
		Name: s.Name, Calendar: s.Calendar, ConfigHash: s.ConfigHash, Program: s.Program, Combiners: s.Combiners, Since: s.Since,
		Promote: true, Gate: full.DefaultGate(), MaxRejectShare: s.MaxRejectShare,
		Builder: slice.Builder{Program: s.Program, Format: s.Format, Row: s.Row, Limits: s.ScanLimits, Open: s.Open},
		Workers: 2, Lister: lister, Sink: s.Sink, State: b.state, Documents: s.Documents,
		Log: zaptest.NewLogger(b.t), NewID: s.NewID, Build: "test", Instance: "t1", LeaseTTL: 30 * time.Second,
	})
}

// rebuild makes a full index and wants it to end so.
func (b *bench) rebuild(want watermark.RebuildState) watermark.Rebuild {
	b.t.Helper()
	rb, err := b.state.CreateRebuild(b.t.Context(), watermark.Rebuild{ID: b.set.NewID(), Pipeline: "ads", Cause: watermark.RebuildManual, Actor: "t", Reason: "a test asks for it"})
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := b.rebuilder().Run(b.t.Context(), rb)
	if r.State != want {
		b.t.Fatalf("rebuild ended %s (%v, checks %+v), want %s", r.State, err, r.Checks, want)
	}
	if rb, err = b.state.RebuildByID(b.t.Context(), rb.ID); err != nil {
		b.t.Fatal(err)
	}
	return rb
}

// same wants some documents.
func (b *bench) same(want map[string]string) {
	b.t.Helper()
	got := b.docs()
	for k, v := range want {
		if got[k] != v {
			b.t.Errorf("%s is\n%s, want\n%s", k, got[k], v)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			b.t.Errorf("%s is there: %s", k, got[k])
		}
	}
}

// TestBaseAndDeltaAreOneIndex follows a pipeline through its first base, what
// comes after it, what the base did not read, and a second base.
func TestBaseAndDeltaAreOneIndex(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"), row("x", "02:00", 1, "first"), row("gone", "02:00", 1, "here"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"), row("y", "03:00", 1, "why"))
	b.step("03:01", microbatch.Advanced)
	b.same(map[string]string{ // without a base documents hold what coverage holds
		"x": `{"item":"x","updates":1,"clicks":2,"title":"one","clicks_5m":2,"double":4}`,
		"y": `{"item":"y","updates":1,"clicks":1,"title":"why","clicks_5m":1,"double":2}`,
	})
	base := b.rebuild(watermark.RebuildCandidate)
	if r := b.step("03:01", microbatch.Refined); b.live().Reason != sink.Promote || b.live().Base.Generation != base.ID {
		t.Fatalf("not promoted: %s, manifest %+v", r.Why, b.live())
	}
	want := map[string]string{
		"old":  `{"item":"old","updates":1,"clicks":7,"title":"ancient","clicks_5m":null,"double":14}`,
		"gone": `{"item":"gone","updates":1,"clicks":1,"title":"here","clicks_5m":null,"double":2}`,
		"x":    `{"item":"x","updates":2,"clicks":3,"title":"one","clicks_5m":2,"double":6}`,
		"y":    `{"item":"y","updates":1,"clicks":1,"title":"why","clicks_5m":1,"double":2}`,
	}
	b.same(want)
	b.step("03:02", microbatch.WasIdle)

	// What comes after the cut joins the base; a delete reaches into it.
	b.put("03:20", "a.ndjson", row("x", "03:20", 5, "two"), del("gone", "03:20"))
	b.step("03:21", microbatch.Advanced)
	want["x"] = `{"item":"x","updates":3,"clicks":8,"title":"two","clicks_5m":5,"double":16}`
	want["y"] = `{"item":"y","updates":1,"clicks":1,"title":"why","clicks_5m":null,"double":2}`
	delete(want, "gone")
	b.same(want)

	// An object of before the cut, far before the window: unread, it stays an
	// input when the window has long moved on and it is listed no more.
	b.put("02:50", "late.ndjson", row("old", "02:50", 1, "less ancient"))
	b.step("03:22", microbatch.Refined)
	want["old"] = `{"item":"old","updates":2,"clicks":8,"title":"less ancient","clicks_5m":null,"double":16}`
	b.same(want)
	b.put("05:00", "a.ndjson", row("z", "05:00", 1, "zed"))
	b.step("05:01", microbatch.Advanced)
	want["x"] = `{"item":"x","updates":3,"clicks":8,"title":"two","clicks_5m":null,"double":16}`
	want["z"] = `{"item":"z","updates":1,"clicks":1,"title":"zed","clicks_5m":1,"double":2}`
	b.same(want)
	b.restart()
	b.step("05:02", microbatch.WasIdle)

	second := b.rebuild(watermark.RebuildCandidate)
	b.step("05:02", microbatch.Refined)
	b.same(want)
	m := b.live()
	if m.Base.Generation != second.ID || len(m.Supports) != 1 || m.Supports[0].Generation != base.ID || len(m.History) != 1 {
		t.Fatalf("over %+v, supports %+v, history %+v", m.Base, m.Supports, m.History)
	}
	b.step("05:03", microbatch.WasIdle)
}
