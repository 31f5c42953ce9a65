package microbatch_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
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
