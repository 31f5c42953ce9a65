package window_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
)

var zero = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func minute(n int) time.Time { return zero.Add(time.Duration(n) * time.Minute) }

func TestCoverageExamples(t *testing.T) {
	rule := window.Rule{Size: time.Hour, Max: 4 * time.Hour, OnGap: window.Skip}
	for _, c := range []struct {
		name  string
		rule  window.Rule
		past  window.Past
		n     int
		skips bool
		from  int
		gap   [2]int // from, to; both 0 for none
	}{
		{"first pane", rule, window.Past{}, 180, false, 120, [2]int{}},
		{"next granule", rule, window.Past{Progress: minute(179)}, 180, false, 120, [2]int{}},
		{"a jump inside the window", rule, window.Past{Progress: minute(150)}, 180, true, 120, [2]int{}},
		{"a jump beyond the window", rule, window.Past{Progress: minute(60)}, 180, true, 60, [2]int{}},
		{"a jump beyond the maximum", rule, window.Past{Progress: minute(0)}, 500, true, 260, [2]int{0, 260}},
		{"a remembered jump", rule, window.Past{Progress: minute(180), Jumps: []window.Jump{{From: minute(60), At: minute(180)}}}, 181, false, 60, [2]int{}},
		{"a forgotten jump", rule, window.Past{Progress: minute(240), Jumps: []window.Jump{{From: minute(60), At: minute(180)}}}, 241, false, 181, [2]int{}},
		{"a longer field", window.Rule{Size: time.Hour, Longest: 2 * time.Hour, Max: 4 * time.Hour}, window.Past{Progress: minute(299)}, 300, false, 180, [2]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.rule.Advance(c.past, minute(c.n), time.Time{}, c.skips)
			if err != nil {
				t.Fatal(err)
			}
			if !got.From.Equal(minute(c.from)) || !got.To.Equal(minute(c.n)) {
				t.Errorf("covers %s, want from %s", got.Range, minute(c.from))
			}
			if c.gap[1] == 0 && got.Gap != nil {
				t.Errorf("gap %s, want none", got.Gap)
			}
			if c.gap[1] != 0 && (got.Gap == nil || !got.Gap.From.Equal(minute(c.gap[0])) || !got.Gap.To.Equal(minute(c.gap[1]))) {
				t.Errorf("gap %v, want %v", got.Gap, c.gap)
			}
		})
	}
}

func TestOnGapFailHolds(t *testing.T) {
	rule := window.Rule{Size: time.Hour, Max: time.Hour, OnGap: window.Fail}
	if _, err := rule.Advance(window.Past{Progress: minute(0)}, minute(100), time.Time{}, true); !errors.Is(err, window.ErrHeld) {
		t.Errorf("error %v", err)
	}
}

// TestInvariant1EverySkippedPartitionIsCovered plays random advances and
// checks the promise as a reader feels it: one that looks at least once in W
// (by watermarks) sees a pane whose coverage holds each partition that was
// skipped, unless a gap names it.
func TestInvariant1EverySkippedPartitionIsCovered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(4, 30).Draw(rt, "window")
		rule := window.Rule{
			Size: time.Duration(size) * time.Minute, Longest: time.Duration(rapid.IntRange(0, 40).Draw(rt, "longest")) * time.Minute, OnGap: window.Skip,
		}
		rule.Max = max(rule.Size, rule.Longest) * time.Duration(rapid.IntRange(1, 4).Draw(rt, "max"))
		type skipped struct{ start, until time.Time }
		var owed []skipped
		var past window.Past
		at := 0
		for range rapid.IntRange(2, 40).Draw(rt, "advances") {
			step := 1
			if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				step = rapid.IntRange(2, 120).Draw(rt, "step")
			}
			was := at
			at += step
			first := past.Progress.IsZero()
			c, err := rule.Advance(past, minute(at), time.Time{}, step > 1 && !first)
			if err != nil {
				rt.Fatal(err)
			}
			if c.From.After(minute(at).Add(-max(rule.Size, rule.Longest))) {
				rt.Fatalf("invariant 2: %s reaches back less than the window and the longest field", c.Range)
			}
			if c.From.Before(minute(at).Add(-rule.Max)) {
				rt.Fatalf("%s reaches back beyond the maximum", c.Range)
			}
			if !first {
				for s := was + 1; s < at; s++ {
					owed = append(owed, skipped{minute(s), minute(at).Add(rule.Size)})
				}
			}
			for _, o := range owed {
				if !minute(at).Before(o.until) {
					continue
				}
				inGap := false
				for _, g := range c.Gaps {
					inGap = inGap || g.Contains(o.start)
				}
				// Covered when it was skipped, it may leave later by the maximum alone.
				jumped := o.until.Add(-rule.Size)
				left := minute(at).After(jumped) && !o.start.After(minute(at).Add(-rule.Max))
				if !c.Contains(o.start) && !inGap && !left {
					rt.Fatalf("%s was skipped, is owed until %s, and %s has it neither in %s nor in a gap %v", o.start, o.until, minute(at), c.Range, c.Gaps)
				}
			}
			past = window.Past{Progress: minute(at), Jumps: c.Jumps, Gaps: c.Gaps}
		}
	})
}

func TestGapsAreRepeatedWhileTheirJumpIs(t *testing.T) {
	rule := window.Rule{Size: time.Hour, Max: time.Hour, OnGap: window.Skip}
	c, err := rule.Advance(window.Past{Progress: minute(0)}, minute(200), time.Time{}, true)
	if err != nil {
		t.Fatal(err)
	}
	for n := 201; n <= 262; n++ {
		past := window.Past{Progress: minute(n - 1), Jumps: c.Jumps, Gaps: c.Gaps}
		if c, err = rule.Advance(past, minute(n), time.Time{}, false); err != nil {
			t.Fatal(err)
		}
		want := 0
		if n < 260 {
			want = 1
		}
		if len(c.Gaps) != want {
			t.Fatalf("at %d: gaps %v, want %d", n, c.Gaps, want)
		}
		if c.Gap != nil {
			t.Fatalf("at %d the gap is told again as new", n)
		}
	}
}

// TestGapsOfTwoJumpsFromOneStart: after a reset back to where a jump began two
// jumps have one start. Each pane repeats their gaps once; they doubled with
// every pane.
func TestGapsOfTwoJumpsFromOneStart(t *testing.T) {
	rule := window.Rule{Size: time.Hour, Max: time.Hour, OnGap: window.Skip}
	var c window.Coverage
	for _, at := range []int{200, 200, 201} { // twice reset to 0
		past := window.Past{Progress: minute(0), Jumps: c.Jumps, Gaps: c.Gaps}
		var err error
		if c, err = rule.Advance(past, minute(at), time.Time{}, true); err != nil {
			t.Fatal(err)
		}
	}
	want := []partition.Range{{From: minute(0), To: minute(140)}, {From: minute(0), To: minute(141)}}
	for n := 202; n <= 220; n++ {
		if !slices.Equal(c.Gaps, want) {
			t.Fatalf("before %d: gaps %v, want %v", n, c.Gaps, want)
		}
		past := window.Past{Progress: minute(n - 1), Jumps: c.Jumps, Gaps: c.Gaps}
		if n%2 == 0 {
			c = rule.Refine(past, minute(n-1), time.Time{})
			continue
		}
		var err error
		if c, err = rule.Advance(past, minute(n), time.Time{}, false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefineKeepsTheCoverage(t *testing.T) {
	rule := window.Rule{Size: time.Hour, Max: 4 * time.Hour, OnGap: window.Skip}
	c, err := rule.Advance(window.Past{Progress: minute(60)}, minute(180), time.Time{}, true)
	if err != nil {
		t.Fatal(err)
	}
	again := rule.Refine(window.Past{Progress: minute(180), Jumps: c.Jumps, Gaps: c.Gaps}, minute(180), time.Time{})
	if again.Range != c.Range || len(again.Jumps) != 1 {
		t.Errorf("refined %+v, want %+v", again, c)
	}
	var none partition.Range
	if again.Range == none {
		t.Error("nothing covered")
	}
}

func TestCoverageAsJSON(t *testing.T) {
	c, err := window.Rule{Size: time.Hour, Max: time.Hour, OnGap: window.Skip}.Advance(window.Past{Progress: minute(0)}, minute(200), time.Time{}, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(c)
	want := `{"from":"2026-11-30T02:20:00Z","to":"2026-11-30T03:20:00Z","jumps":[{"from":"2026-11-30T00:00:00Z","at":"2026-11-30T03:20:00Z"}],` +
		`"gaps":[{"from":"2026-11-30T00:00:00Z","to":"2026-11-30T02:20:00Z"}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, want %s, %v", got, want, err)
	}
}
