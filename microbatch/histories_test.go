package microbatch_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// What is tested here was found by random histories (e2e/oracle), each by the
// shortest one that shows it.

// reindex restarts the bench's pipeline with another index.
func (b *bench) reindex(hash string, change func(*index.Spec)) {
	b.t.Helper()
	spec := b.set.Program.Spec()
	spec.Fields = append([]index.FieldSpec(nil), spec.Fields...)
	change(&spec)
	program, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		b.t.Fatal(err)
	}
	b.set.Program, b.set.ConfigHash = program, hash
	b.restart()
}

// TestCondemnedOnce: what one publish condemned, the next does not condemn
// again where no collection was planned in between.
func TestCondemnedOnce(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.Retain = sink.Retain{} }})
	for _, clock := range []string{"03:00", "03:01"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
		b.step(clock, microbatch.Advanced)
	}
	b.restart() // which plans a collection at once
	for i, clock := range []string{"03:02", "03:03", "03:04", "03:05"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
		r := b.p.Once(t.Context(), at(clock), microbatch.StepOptions{KeepGarbage: i > 0})
		if r.Outcome != microbatch.Advanced {
			t.Fatalf("step at %s: %s (%v)", clock, r.Outcome, r.Err)
		}
	}
	head, err := b.set.Sink.Head(t.Context())
	if err != nil || len(head.Condemned) == 0 {
		t.Errorf("condemned is %v (%v): nothing was tested", head.Condemned, err)
	}
}

// TestKeptSliceOfAnotherIndex: the slice that is kept of an unread object is
// made anew where the index has changed since. Where the object is gone too,
// it leaves the inputs.
func TestKeptSliceOfAnotherIndex(t *testing.T) {
	for _, gone := range []bool{false, true} {
		b := newBaseBench(t, nil)
		b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
		b.step("03:01", microbatch.Advanced)
		b.rebuild(watermark.RebuildCandidate)
		b.step("03:01", microbatch.Refined)
		late := b.put("02:50", "late.ndjson", row("old", "02:50", 1, "ancient"))
		b.step("03:02", microbatch.Refined)
		b.put("05:00", "a.ndjson", row("y", "05:00", 1, "why"))
		b.step("05:01", microbatch.Advanced)
		want := map[string]string{"x": `{"item":"x","updates":1,"clicks":2,"clicks_1m":null,"title":"one","clicks_5m":null,"double":4}`}
		if gone {
			if err := b.raw.Delete(t.Context(), late); err != nil {
				t.Fatal(err)
			}
		} else {
			want["old"] = `{"item":"old","updates":1,"clicks":1,"clicks_1m":null,"title":"ancient","clicks_5m":null,"double":2}`
		}
		b.reindex("c2", func(s *index.Spec) {
			s.Fields = append(s.Fields[:2:2], append([]index.FieldSpec{{Name: "clicks_1m", Fn: "sum", Args: []string{"clicks"}, Over: time.Minute}}, s.Fields[2:]...)...)
		})
		b.put("05:02", "a.ndjson", row("x", "03:00", 0, "one"))
		b.step("05:02", microbatch.Advanced)
		want["x"] = `{"item":"x","updates":2,"clicks":2,"clicks_1m":0,"title":"one","clicks_5m":0,"double":4}`
		want["y"] = `{"item":"y","updates":1,"clicks":1,"clicks_1m":null,"title":"why","clicks_5m":1,"double":2}`
		b.same(want)
	}
}

// TestCandidateThatWaitsLeavesTheBase: a candidate whose cut lies beyond what
// is there does not take the live base out of the panes that go on meanwhile.
func TestCandidateThatWaitsLeavesTheBase(t *testing.T) {
	b := newBaseBench(t, func(s *microbatch.Settings) { s.SupportPrevious = 0 })
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "one"))
	b.step("03:01", microbatch.Advanced)
	first := b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	pane := b.head().Delta.Ref()
	key := b.put("03:30", "a.ndjson", row("x", "03:30", 1, "two"))
	b.step("03:31", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.rollback(pane, "", true, "03:31")
	if _, err := b.state.Resume(t.Context(), "ads", watermark.Change{ID: b.set.NewID(), Actor: "t", Reason: "the test goes on"}); err != nil {
		t.Fatal(err)
	}
	if err := b.raw.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	b.put("02:59", "b.ndjson", row("y", "02:59", 1, "late"))
	b.step("03:32", microbatch.Refined)
	if m := b.live(); m.Base == nil || m.Base.Generation != first.ID {
		t.Errorf("the pane is over %+v, want %s", m.Base, first.ID)
	}
}

// TestKeyOfAReplacedVersionIsHidden: a key that only the base before has, from
// a version of an object that was replaced, is a tombstone: nothing that is
// visible has a record of it.
func TestKeyOfAReplacedVersionIsHidden(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "one"), row("gone", "03:00", 1, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "one"), row("new", "03:00", 1, "one"))
	b.step("03:02", microbatch.Refined)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:03", microbatch.Refined)
	m := b.live()
	if len(m.Supports) != 1 || m.Counts.Tombstones != 1 {
		t.Errorf("supports %+v with %d tombstones", m.Supports, m.Counts.Tombstones)
	}
	b.same(map[string]string{
		"x":   `{"item":"x","updates":1,"clicks":1,"title":"one","clicks_5m":1,"double":2}`,
		"new": `{"item":"new","updates":1,"clicks":1,"title":"one","clicks_5m":1,"double":2}`,
	})
}

// TestShorterDurationHidesTheBase: the documents of a base hold values of its
// own durations. Where the configuration has shorter ones now, the pane still
// holds the keys of the longer ones.
func TestShorterDurationHidesTheBase(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:57", "a.ndjson", row("x", "02:57", 1, "one"))
	b.put("03:00", "a.ndjson", row("y", "03:00", 1, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.set.Rule.Longest = time.Minute
	b.reindex("c2", func(s *index.Spec) { s.Fields[3].Over = time.Minute })
	b.put("04:00", "a.ndjson", row("z", "04:00", 1, "one"))
	b.step("04:01", microbatch.Advanced)
	b.same(map[string]string{
		"x": `{"item":"x","updates":1,"clicks":1,"title":"one","clicks_5m":null,"double":2}`,
		"y": `{"item":"y","updates":1,"clicks":1,"title":"one","clicks_5m":null,"double":2}`,
		"z": `{"item":"z","updates":1,"clicks":1,"title":"one","clicks_5m":1,"double":2}`,
	})
}

// TestRebuildFindsUnreadObjects: an object that no run has listed, and that a
// new base has read, is unread by the base before: readers that still have
// that one find its keys in the pane.
func TestRebuildFindsUnreadObjects(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "one"), row("w", "03:00", 1, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	late := b.put("01:00", "late.ndjson", row("old", "01:00", 1, "ancient"))
	b.step("03:02", microbatch.WasIdle)
	b.rebuild(watermark.RebuildCandidate)
	for _, clock := range []string{"03:03", "04:00"} {
		if clock == "04:00" {
			b.put(clock, "a.ndjson", row("y", clock, 1, "one"))
		}
		if r := b.p.Once(t.Context(), at(clock), microbatch.StepOptions{}); r.Err != nil {
			t.Fatal(r.Err)
		}
		m := b.live()
		found := false
		for _, in := range m.Inputs {
			found = found || in.Key == late
		}
		if !found || len(m.Supports) != 1 {
			t.Errorf("at %s: supports %+v, inputs %+v", clock, m.Supports, m.Inputs)
		}
	}
}

// TestRollbackSupportsByTheClockOfTheStep: as a promotion does.
func TestRollbackSupportsByTheClockOfTheStep(t *testing.T) {
	b, _, second := twoBases(t, nil)
	b.rollback(b.live().History[0].Pane, second.ID, false, "03:32")
	if m := b.live(); len(m.Supports) != 1 || !m.Supports[0].Until.Equal(at("04:32")) {
		t.Errorf("supports %+v, want one until 04:32", m.Supports)
	}
}

// TestSinceHidesDurationsOfTheBase: what full.since leaves out is gone from
// durations, also of keys that nothing else has and that the base holds.
func TestSinceHidesDurationsOfTheBase(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:57", "a.ndjson", row("x", "02:57", 1, "one"))
	b.put("03:00", "a.ndjson", row("y", "03:00", 1, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.set.Since, b.set.ConfigHash = at("02:58"), "c2"
	b.restart()
	b.step("03:02", microbatch.Refined)
	b.same(map[string]string{
		"x": `{"item":"x","updates":1,"clicks":1,"title":"one","clicks_5m":null,"double":2}`,
		"y": `{"item":"y","updates":1,"clicks":1,"title":"one","clicks_5m":1,"double":2}`,
	})
}

// TestOldCandidateHoldsNothing: where window.on_gap is fail, a candidate with
// an old cut does not hold deltas that the live pane's base lets go on.
func TestOldCandidateHoldsNothing(t *testing.T) {
	b := newBaseBench(t, func(s *microbatch.Settings) { s.Rule.Max, s.Rule.OnGap = 30*time.Minute, window.Fail })
	for _, clock := range []string{"02:50", "03:00"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, clock))
	}
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	for _, clock := range []string{"03:20", "03:28"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, clock))
		if r := b.p.Once(t.Context(), at(clock), microbatch.StepOptions{KeepBase: true}); r.Outcome != microbatch.Advanced {
			t.Fatalf("step at %s: %s (%s)", clock, r.Outcome, r.Why)
		}
	}
	b.put("03:36", "a.ndjson", row("x", "03:36", 1, "last"))
	b.step("03:36", microbatch.Advanced)
	if m := b.live(); m.Base != nil {
		t.Errorf("promoted %+v with coverage %+v", m.Base, m.Coverage)
	}
}
