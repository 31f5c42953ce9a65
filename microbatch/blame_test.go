package microbatch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
)

// TestExpressionThatFitsNothingSkipsNothing: a mistake in the configuration
// is not the objects' fault. With them skipped the index would be empty.
func TestExpressionThatFitsNothingSkipsNothing(t *testing.T) {
	for _, policy := range []string{microbatch.ObjectSkip, microbatch.ObjectFail} {
		t.Run(policy, func(t *testing.T) {
			spec := clicks()
			spec.Where = "clicks > 'many'"
			b := newBench(t, benchOptions{spec: spec, change: func(s *microbatch.Settings) { s.ObjectErrors, s.SkipAfter = policy, 2 }})
			b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
			b.put("03:00", "b.ndjson", row("y", "03:00", 1, "t"))
			b.put("03:01", "a.ndjson", row("z", "03:01", 1, "t"))
			for range 4 {
				r := b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{Force: true})
				if r.Outcome != microbatch.Failed || !errors.Is(r.Err, slice.ErrNothingFits) {
					t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
				}
			}
		})
	}
}

// TestMisfitAmongGoodObjectsIsSkipped: the objects are at fault where others
// fit, in their own partition or another.
func TestMisfitAmongGoodObjectsIsSkipped(t *testing.T) {
	spec := clicks()
	spec.Where = "clicks > 0"
	b := newBench(t, benchOptions{spec: spec, change: func(s *microbatch.Settings) { s.ObjectErrors = microbatch.ObjectSkip }})
	const misfit = `{"item":"x","ts":"2026-11-30T03:00:00Z","clicks":"many","title":"t","op":"U"}`
	b.put("03:00", "a.ndjson", misfit)
	b.put("03:00", "b.ndjson", row("y", "03:00", 1, "t"))
	b.put("03:01", "a.ndjson", misfit)
	b.put("03:02", "a.ndjson", row("z", "03:02", 1, "t"))
	if r := b.step("03:02", microbatch.Advanced); r.Skipped != 2 {
		t.Errorf("the report counts %d skipped objects, want 2", r.Skipped)
	}
	if m := b.live(); len(m.Inputs) != 2 || len(m.Skipped) != 2 {
		t.Errorf("inputs %v, skipped %v", m.Inputs, m.Skipped)
	}
}

// TestOddObjectIsAtFault and not those after it: one object of another type
// that sorts first must not cost the others.
func TestOddObjectIsAtFault(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.ObjectErrors = microbatch.ObjectSkip }})
	const odd = `{"item":"x","ts":"2026-11-30T03:00:00Z","clicks":1,"title":5,"op":"U"}`
	b.put("03:00", "a.ndjson", odd)
	b.put("03:00", "b.ndjson", row("y", "03:00", 1, "t"))
	b.put("03:00", "c.ndjson", row("y", "03:00", 1, "t"))
	b.put("03:01", "a.ndjson", odd)
	b.put("03:02", "a.ndjson", row("z", "03:02", 1, "t"))
	b.step("03:02", microbatch.Advanced)
	m := b.live()
	if len(m.Inputs) != 3 || len(m.Skipped) != 2 {
		t.Errorf("inputs %v, skipped %v", m.Inputs, m.Skipped)
	}
	for _, s := range m.Skipped {
		if !strings.HasSuffix(s.Key, "/a.ndjson") {
			t.Errorf("%s is skipped: %s", s.Key, s.Reason)
		}
	}
}

// TestDeniedObjectIsNotSkipped: a skipped object is due again when its ETag
// changes, which access that is mended does not bring about.
func TestDeniedObjectIsNotSkipped(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.ObjectErrors = microbatch.ObjectSkip }})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
	denying := fault.New(b.raw, fault.Rule{Kind: fault.ErrorBefore, Op: "get", Times: -1, Err: store.ErrDenied})
	b.set.Open = func(o partition.Object) (scan.Blob, map[string]string) { return source.NewBlob(denying, o), nil }
	b.restart()
	b.step("03:01", microbatch.Failed)
	denying.Heal()
	b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{Force: true})
	if m := b.live(); len(m.Inputs) != 2 || len(m.Skipped) != 0 {
		t.Errorf("inputs %v, skipped %v", m.Inputs, m.Skipped)
	}
}

// TestQuarantinedIsNamedOnce, in the first pane too, for which the newest
// partition is found before the listing.
func TestQuarantinedIsNamedOnce(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "now"))
	b.put("03:30", "a.ndjson", row("x", "03:30", 1, "early"))
	r := b.step("03:00", microbatch.Advanced)
	if m := b.live(); len(m.Quarantined) != 1 || r.Quarantined != 1 {
		t.Errorf("%d reported, manifest has %v", r.Quarantined, m.Quarantined)
	}
}

// TestErrorsNameAnObjectOnce: the layers that a fault passes do not each add
// its name.
func TestErrorsNameAnObjectOnce(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"unparsable line", `{"item":`, "line 1"},
		{"missing column", `{"item":"x","ts":"2026-11-30T03:00:00Z","clicks":1,"op":"U"}`, "column title: missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			b.put("03:00", "odd.ndjson", tc.body)
			r := b.p.Once(t.Context(), at("03:00"), microbatch.StepOptions{})
			if r.Err == nil || strings.Count(r.Err.Error(), "odd.ndjson") != 1 || !strings.Contains(r.Err.Error(), tc.want) {
				t.Errorf("got %v, want %s and the object named once", r.Err, tc.want)
			}
		})
	}
}

// TestIntegerThatFractionsWouldRound names its object, column and row, though
// the fractions are another object's and came later.
func TestIntegerThatFractionsWouldRound(t *testing.T) {
	b := newBench(t, benchOptions{})
	key := b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"), row("x", "03:00", 9007199254740993, "t"))
	b.step("03:00", microbatch.Advanced)
	b.put("03:01", "b.ndjson", `{"item":"x","ts":"2026-11-30T03:01:00Z","clicks":0.5,"title":"t","op":"U"}`)
	r := b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "object "+key+": line 2: column clicks: 9007199254740993 has no exact double") {
		t.Errorf("got %v", r.Err)
	}
}
