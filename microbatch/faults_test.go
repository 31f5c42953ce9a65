package microbatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/watermark"
)

func TestB21EmptyObjectsCountAsRead(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.put("03:01", "empty.ndjson")
	b.put("03:01", "blank.ndjson", "", "")
	r := b.step("03:01", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:01")) || len(b.live().Inputs) != 3 {
		t.Errorf("watermark %s, inputs %v", r.Watermark, b.live().Inputs)
	}
	b.step("03:01", microbatch.WasIdle)
}

func TestBadObjectFailsTheRunAndNamesIt(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.SkipAfter = 3 }})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "good"))
	b.step("03:00", microbatch.Advanced)
	bad := b.put("03:01", "b.ndjson", `{"item":"x","clicks":`)
	b.put("03:01", "a.ndjson", row("y", "03:01", 1, "good"))
	r := b.step("03:01", microbatch.Failed)
	if !strings.Contains(r.Err.Error(), bad) || !r.Watermark.Equal(at("03:00")) {
		t.Fatalf("error %v, watermark %s", r.Err, r.Watermark)
	}
	if b.docs()["y"] != "" {
		t.Error("part of the failed partition was published")
	}
	b.restart() // forgets the back-off
	b.step("03:01", microbatch.Failed)
	b.restart()
	r = b.step("03:01", microbatch.Advanced) // the third failure skips it
	m := b.live()
	if len(m.Skipped) != 1 || m.Skipped[0].Key != bad || b.docs()["y"] == "" {
		t.Errorf("skipped %v, documents %v", m.Skipped, b.docs())
	}
	b.step("03:01", microbatch.WasIdle)
	b.put("03:01", "b.ndjson", row("z", "03:01", 1, "mended"))
	b.step("03:01", microbatch.Refined) // another ETag: due again
	if b.docs()["z"] == "" || len(b.live().Skipped) != 0 {
		t.Errorf("after mending: skipped %v, documents %v", b.live().Skipped, b.docs())
	}
}

func TestFailuresCountInARow(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.SkipAfter = 2 }})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"), `{"item":"x","clicks":"not a number","ts":null,"title":null,"op":null}`)
	b.step("03:00", microbatch.Failed)
	lenient := clicks()
	lenient.Fields = lenient.Fields[:1] // reads no clicks: the object is fine
	program, err := index.Compile(lenient, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	strict := b.set.Program
	b.set.Program = program
	b.restart()
	b.step("03:00", microbatch.Advanced)
	b.set.Program, b.set.ConfigHash = strict, "c2"
	b.restart()
	b.step("03:00", microbatch.Failed) // the first in a row again: not skipped yet
}

func TestObjectSkipPolicy(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.ObjectErrors = microbatch.ObjectSkip }})
	for i := range 3 {
		b.put("03:00", fmt.Sprintf("bad%d.ndjson", i), "nonsense")
	}
	b.put("03:00", "good.ndjson", row("x", "03:00", 1, "good"))
	b.step("03:00", microbatch.Advanced)
	if m := b.live(); len(m.Skipped) != 3 || len(m.Inputs) != 1 || m.Skipped[0].Reason == "" {
		t.Errorf("inputs %v, skipped %v", m.Inputs, m.Skipped)
	}
}

// TestSkippingEverythingPublishesNothing: a pane in which every object of the
// coverage is left out would empty the index.
func TestSkippingEverythingPublishesNothing(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.ObjectErrors = microbatch.ObjectSkip }})
	b.put("03:00", "good.ndjson", row("x", "03:00", 1, "good"))
	b.step("03:00", microbatch.Advanced)
	b.put("03:00", "good.ndjson", "nonsense")
	bad := b.put("03:01", "bad.ndjson", "nonsense")
	r := b.step("03:01", microbatch.Failed)
	if !errors.Is(r.Err, microbatch.ErrGuard) || !strings.Contains(r.Err.Error(), "all 2 objects") || b.docs()["x"] == "" {
		t.Errorf("error %v, documents %v", r.Err, b.docs())
	}
	b.put("03:01", "bad.ndjson", row("y", "03:01", 1, "mended"))
	b.restart()
	b.step("03:01", microbatch.Advanced)
	if b.docs()["y"] == "" {
		t.Errorf("after mending %s: %v", bad, b.docs())
	}
}

func TestFailuresBackOffUntilInputsChange(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.SkipAfter = 0 }})
	b.put("03:00", "a.ndjson", "nonsense")
	attempts := func(steps int) int {
		n := 0
		for range steps {
			if r := b.p.Once(t.Context(), at("03:00"), microbatch.StepOptions{}); !strings.Contains(r.Why, "waiting") {
				n++
			}
		}
		return n
	}
	// Attempts at triggers 1, 2, 4, 8, 16 and 26.
	if got := attempts(26); got != 6 {
		t.Errorf("%d attempts in 26 triggers, want 6", got)
	}
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "mended"))
	b.step("03:00", microbatch.Advanced)
}

func TestB22TypesThatWidenAndThoseThatDoNot(t *testing.T) {
	spec := index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "v", Fn: "sum", Args: []string{"v"}}}}
	t.Run("integers and fractions of one column", func(t *testing.T) {
		b := newBench(t, benchOptions{spec: spec})
		b.put("03:00", "a.ndjson", `{"k":"a","v":1}`, `{"k":"b","v":2}`)
		b.step("03:00", microbatch.Advanced)
		b.put("03:01", "a.ndjson", `{"k":"a","v":1.5}`)
		b.step("03:01", microbatch.Advanced)
		if got := b.docs(); got["a"] != `{"k":"a","v":2.5}` || got["b"] != `{"k":"b","v":2}` {
			t.Errorf("documents %v", got)
		}
	})
	t.Run("a string among numbers names object and column", func(t *testing.T) {
		b := newBench(t, benchOptions{spec: spec})
		b.put("03:00", "a.ndjson", `{"k":"a","v":1}`)
		b.step("03:00", microbatch.Advanced)
		bad := b.put("03:01", "b.ndjson", `{"k":"a","v":"two"}`)
		r := b.step("03:01", microbatch.Failed)
		if !strings.Contains(r.Err.Error(), bad) || !strings.Contains(r.Err.Error(), "fields.v") {
			t.Errorf("error %v", r.Err)
		}
	})
	t.Run("a missing column is an error, not zeros", func(t *testing.T) {
		b := newBench(t, benchOptions{spec: spec})
		bad := b.put("03:00", "a.ndjson", `{"k":"a","V":1}`)
		r := b.step("03:00", microbatch.Failed)
		if !strings.Contains(r.Err.Error(), bad) || !strings.Contains(r.Err.Error(), "v") {
			t.Errorf("error %v", r.Err)
		}
	})
	t.Run("a sum beyond int64 names key and field", func(t *testing.T) {
		b := newBench(t, benchOptions{spec: spec})
		b.put("03:00", "a.ndjson", `{"k":"big","v":9223372036854775807}`, `{"k":"big","v":1}`)
		r := b.step("03:00", microbatch.Failed)
		if !strings.Contains(r.Err.Error(), "k=big") || !strings.Contains(r.Err.Error(), "field v") {
			t.Errorf("error %v", r.Err)
		}
	})
}

func TestBadRows(t *testing.T) {
	good := row("x", "03:00", 1, "t")
	nullKey := `{"item":null,"ts":null,"clicks":1,"title":"t","op":"U"}`
	noTime := `{"item":"x","ts":"yesterday","clicks":1,"title":"t","op":"U"}`
	for _, c := range []struct{ name, row, says string }{
		{"null key", nullKey, "key column item is null"},
		{"event time", noTime, "RFC 3339"},
		{"unparsable", "{", "line 2"},
	} {
		t.Run(c.name+" fails", func(t *testing.T) {
			b := newBench(t, benchOptions{})
			b.put("03:00", "a.ndjson", good, c.row)
			if r := b.step("03:00", microbatch.Failed); !strings.Contains(r.Err.Error(), c.says) {
				t.Errorf("error %v, want %q in it", r.Err, c.says)
			}
		})
		t.Run(c.name+" is rejected", func(t *testing.T) {
			b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.Row, s.MaxRejectShare = scan.Reject, 0.5 }})
			b.put("03:00", "a.ndjson", good, c.row)
			b.step("03:00", microbatch.Advanced)
			if m := b.live(); m.Counts.Rejected != 1 || m.Counts.Documents != 1 {
				t.Errorf("counts %+v", m.Counts)
			}
		})
	}
	t.Run("too many rejected rows", func(t *testing.T) {
		b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.Row, s.MaxRejectShare = scan.Reject, 0.1 }})
		b.put("03:00", "a.ndjson", good, nullKey)
		if r := b.step("03:00", microbatch.Failed); !strings.Contains(r.Err.Error(), "1 of 2 rows were rejected") {
			t.Errorf("error %v", r.Err)
		}
	})
}

func TestDeletesAreTombstones(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 5, "t"), row("y", "03:00", 5, "t"))
	b.put("03:01", "a.ndjson", del("x", "03:01"))
	b.step("03:01", microbatch.Advanced)
	if b.docs()["x"] != "" || b.live().Counts.Tombstones != 1 {
		t.Errorf("documents %v, counts %+v", b.docs(), b.live().Counts)
	}
	b.put("03:01", "late.ndjson", row("x", "03:00", 1, "older than the delete"))
	b.step("03:01", microbatch.Refined)
	if b.docs()["x"] != "" {
		t.Error("an older record brought the deleted key back")
	}
	b.put("03:02", "a.ndjson", row("x", "03:02", 1, "again"))
	b.step("03:02", microbatch.Advanced)
	if want := `{"item":"x","updates":3,"clicks":7,"title":"again","clicks_5m":7,"double":14}`; b.docs()["x"] != want {
		t.Errorf("x is %s, want %s (a delete hides, it neither resets nor counts)", b.docs()["x"], want)
	}
}

func TestChangedConfigurationRefines(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 5, "t"))
	b.step("03:00", microbatch.Advanced)
	b.set.ConfigHash = "c2"
	b.restart()
	r := b.step("03:00", microbatch.Refined)
	if !r.Watermark.Equal(at("03:00")) || b.live().ConfigHash != "c2" {
		t.Errorf("watermark %s, config %s", r.Watermark, b.live().ConfigHash)
	}
	b.step("03:00", microbatch.WasIdle)
}

func TestManyVanishedInputsHold(t *testing.T) {
	b := newBench(t, benchOptions{})
	var keys []string
	for i := range 30 {
		keys = append(keys, b.put("03:00", fmt.Sprintf("%02d.ndjson", i), row("x", "03:00", 1, "t")))
	}
	b.step("03:00", microbatch.Advanced)
	for _, k := range keys[:3] {
		if err := b.raw.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	b.step("03:00", microbatch.Refined) // a few may go
	for _, k := range keys[3:25] {
		if err := b.raw.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	r := b.step("03:00", microbatch.WasHeld)
	if !strings.Contains(r.Why, "accept-loss") {
		t.Errorf("why %q", r.Why)
	}
	if r := b.p.Once(t.Context(), at("03:00"), microbatch.StepOptions{AcceptLoss: true}); r.Outcome != microbatch.Refined {
		t.Errorf("accepted loss: %s (%v)", r.Outcome, r.Err)
	}
	if got := len(b.live().Inputs); got != 5 {
		t.Errorf("%d inputs, want 5", got)
	}
}

func TestWatermarkInTheFutureIsNotSilent(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("05:00", "a.ndjson", row("x", "05:00", 1, "t"))
	b.step("05:00", microbatch.Advanced)
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	r := b.step("03:00", microbatch.WasHeld)
	if !strings.Contains(r.Why, "watermark reset") {
		t.Errorf("why %q", r.Why)
	}
}

// crash is what a stopped process panics with in these tests.
type crash struct{ step string }

// TestCrashAfterEveryStep stops a run after each of its named steps, lets
// another leader take over, and compares: readers always saw a whole pane, and
// the end is the end of an undisturbed run.
func TestCrashAfterEveryStep(t *testing.T) {
	want := undisturbed(t)
	for _, step := range []string{"claimed", "planned", "slices", "data", "manifest", "current", "committed"} {
		t.Run(step, func(t *testing.T) {
			armed := false
			b := newBench(t, benchOptions{change: func(s *microbatch.Settings) {
				s.Trace = func(at string) {
					if armed && at == step {
						armed = false
						panic(crash{step})
					}
				}
			}})
			b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
			if step != "claimed" {
				b.step("03:00", microbatch.Advanced)
			}
			b.put("03:01", "a.ndjson", row("x", "03:01", 2, "p1"))
			armed = true
			r := b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{})
			if armed || r.Outcome != microbatch.Failed {
				t.Fatalf("the step was not stopped: %s", r.Outcome)
			}
			if step != "claimed" {
				if got := b.docs()["x"]; !strings.Contains(got, `"title":"p`) {
					t.Errorf("a reader sees %q", got)
				}
			}
			b.restart()
			b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{})
			b.put("03:02", "a.ndjson", row("x", "03:02", 4, "p2"))
			b.step("03:02", microbatch.Advanced)
			if got := b.files(); !slices.Equal(got, want) {
				t.Errorf("files %v, want %v", got, want)
			}
			runs, err := b.state.Runs(t.Context(), "ads", 100, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range runs {
				if run.Status == watermark.RunPlanned {
					t.Errorf("run %s is still planned", run.ID)
				}
			}
			row, err := b.state.Pipeline(t.Context(), "ads")
			if err != nil || !row.Watermark.Equal(at("03:02")) {
				t.Errorf("the state store's watermark is %s, %v", row.Watermark, err)
			}
			for _, p := range []string{"03:00", "03:01", "03:02"} {
				if b.ledger()[p] != "covered" {
					t.Errorf("ledger of %s is %q", p, b.ledger()[p])
				}
			}
		})
	}
}

func undisturbed(t *testing.T) []string {
	b := newBench(t, benchOptions{})
	for i, clock := range []string{"03:00", "03:01", "03:02"} {
		b.put(clock, "a.ndjson", row("x", clock, 1<<i, fmt.Sprintf("p%d", i)))
		b.step(clock, microbatch.Advanced)
	}
	return b.files()
}

// TestStateStoreLost: the state store is the writers' memory alone. A new,
// empty one is refused until it is adopted, because the old may still be
// there; readers and pane are untouched.
func TestStateStoreLost(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	other := newBench(t, benchOptions{})
	b.set.State = other.state
	b.restart()
	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
	r := b.step("03:01", microbatch.Failed)
	if !strings.Contains(r.Err.Error(), "adopt") {
		t.Errorf("error %v", r.Err)
	}
}

func TestPausedPipelineDoesNotRun(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	if _, err := b.state.Pause(t.Context(), "ads", watermark.Change{ID: b.set.NewID(), Actor: "me", Reason: "looking at it"}); err != nil {
		t.Fatal(err)
	}
	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
	b.step("03:01", microbatch.WasHeld)
	if _, err := b.state.Resume(t.Context(), "ads", watermark.Change{ID: b.set.NewID(), Actor: "me", Reason: "seen enough"}); err != nil {
		t.Fatal(err)
	}
	b.step("03:01", microbatch.Advanced)
}

// TestResetReachesBack: after a reset to T the next run still jumps to the
// newest, and its coverage reaches back to T.
func TestResetReachesBack(t *testing.T) {
	b := newBench(t, benchOptions{})
	for c := at("01:00"); !c.After(at("03:00")); c = c.Add(10 * time.Minute) {
		clock := c.Format("15:04")
		b.put(clock, "a.ndjson", row("k"+clock, clock, 1, clock))
	}
	b.step("03:00", microbatch.Advanced)
	if b.docs()["k01:30"] != "" {
		t.Fatal("01:30 is inside the coverage from the start")
	}
	pause := watermark.Change{ID: b.set.NewID(), Actor: "me", Reason: "looking at it"}
	row, err := b.state.Pause(t.Context(), "ads", pause)
	if err != nil {
		t.Fatal(err)
	}
	in := watermark.Intent{ID: b.set.NewID(), Pipeline: "ads", Target: at("01:20"), Actor: "me", Reason: "01:30 was wrong before"}
	if _, err := b.state.CreateIntent(t.Context(), in, row.Version); err != nil {
		t.Fatal(err)
	}
	r := b.step("03:00", microbatch.WasHeld) // paused: the reset is carried out, no run
	if !r.Progress.Equal(at("01:20")) || !r.Watermark.Equal(at("03:00")) {
		t.Fatalf("progress %s, watermark %s", r.Progress, r.Watermark)
	}
	if in, err := b.state.IntentByID(t.Context(), in.ID); err != nil || in.State != watermark.IntentApplied {
		t.Errorf("intent is %s, %v", in.State, err)
	}
	if _, err := b.state.Resume(t.Context(), "ads", watermark.Change{ID: b.set.NewID(), Actor: "me", Reason: "done looking"}); err != nil {
		t.Fatal(err)
	}
	r = b.step("03:00", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:00")) || !b.live().Coverage.From.Equal(at("01:20")) || b.docs()["k01:30"] == "" {
		t.Errorf("watermark %s, coverage from %s, document %q", r.Watermark, b.live().Coverage.From, b.docs()["k01:30"])
	}
}

// counted counts the writes to the journal and its reads of single runs.
type counted struct {
	microbatch.State
	writes, reads int
}

func (c *counted) PlanRun(ctx context.Context, l watermark.Lease, r watermark.Run) error {
	c.writes++
	return c.State.PlanRun(ctx, l, r)
}

func (c *counted) PublishRun(ctx context.Context, l watermark.Lease, p watermark.Publication) (watermark.Published, error) {
	c.writes++
	return c.State.PublishRun(ctx, l, p)
}

func (c *counted) AbandonRun(ctx context.Context, l watermark.Lease, id, why string) error {
	c.writes++
	return c.State.AbandonRun(ctx, l, id, why)
}

func (c *counted) RunByID(ctx context.Context, id string) (watermark.Run, error) {
	c.reads++
	return c.State.RunByID(ctx, id)
}

// TestIdleStepSettlesTheLeaderBefore: one that died between CURRENT and step 9
// left its run planned; the next leader's first step has it published in one
// write, though there is nothing else to do. Steps after it are as idle as any.
func TestIdleStepSettlesTheLeaderBefore(t *testing.T) {
	for _, tc := range []struct {
		name   string
		paused bool
		want   microbatch.Outcome
	}{
		{"nothing new", false, microbatch.WasIdle},
		{"paused since", true, microbatch.WasHeld},
	} {
		t.Run(tc.name, func(t *testing.T) {
			armed := false
			b := newBench(t, benchOptions{change: func(s *microbatch.Settings) {
				s.Trace = func(at string) {
					if armed && at == "current" {
						armed = false
						panic(crash{at})
					}
				}
			}})
			b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
			b.step("03:00", microbatch.Advanced)
			b.put("03:01", "a.ndjson", row("x", "03:01", 2, "p1"))
			armed = true
			b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{})
			if left, err := b.state.PlannedRuns(t.Context(), "ads"); err != nil || len(left) != 1 {
				t.Fatalf("the crash left %v planned, %v", left, err)
			}
			b.pause(tc.paused)
			state := &counted{State: b.set.State}
			b.set.State = state
			b.restart()
			b.step("03:01", tc.want)
			if state.writes != 1 {
				t.Errorf("the first step wrote %d times to the journal, want once", state.writes)
			}
			b.noPlannedRuns()
			b.journalAgrees()
			if row, err := b.state.Pipeline(t.Context(), "ads"); err != nil || !row.Watermark.Equal(at("03:01")) || b.ledger()["03:01"] != "covered" {
				t.Errorf("the state store's watermark is %s (%v), its ledger %v", row.Watermark, err, b.ledger())
			}
			b.idles(state, tc.want)
		})
	}
}

// TestIdleStepLeavesToAClaimWhatOnlyAClaimMaySettle: a planned run that CURRENT
// does not name may still come about, and a state store that never heard of the
// run in CURRENT is told by the next run that writes.
func TestIdleStepLeavesToAClaimWhatOnlyAClaimMaySettle(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
	b.step("03:00", microbatch.Advanced)
	state := &counted{State: b.set.State}
	b.set.State = state
	var open watermark.Run
	err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
		open = watermark.Run{
			ID: b.set.NewID(), ChangeID: b.set.NewID(), Pipeline: "ads", Kind: watermark.RunDelta, Reason: "publish",
			Epoch: term.Lease().Epoch, Watermark: at("03:01"), CoverageFrom: at("02:00"),
		}
		return b.state.PlanRun(ctx, term.Lease(), open)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.idles(state, microbatch.WasIdle)
	if run, err := b.state.RunByID(t.Context(), open.ID); err != nil || run.Status != watermark.RunPlanned {
		t.Errorf("the open run is %s, %v", run.Status, err)
	}

	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "p1"))
	b.set.State = forgetful{State: state, from: at("03:01")}
	b.restart()
	b.step("03:01", microbatch.Advanced)
	b.set.State = state
	b.restart()
	b.step("03:01", microbatch.WasIdle)
	if run, err := b.state.RunByID(t.Context(), b.live().RunID); !errors.Is(err, watermark.ErrNotFound) {
		t.Errorf("the run that the state store lost is %s, %v", run.Status, err)
	}
}

// idles takes two idle steps, each of a new leader, which must ask the journal
// for no run and write nothing.
func (b *bench) idles(state *counted, want microbatch.Outcome) {
	b.t.Helper()
	for range 2 {
		state.writes, state.reads = 0, 0
		b.restart()
		b.step("03:01", want)
		if state.writes != 0 || state.reads != 0 {
			b.t.Errorf("an idle step wrote %d times to the journal and read %d runs", state.writes, state.reads)
		}
	}
}
