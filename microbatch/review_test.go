package microbatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// TestWaitingIsNotFailing: a trigger that back-off lets pass read nothing, so
// it is no failed run of the objects that failed before it.
func TestWaitingIsNotFailing(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.SkipAfter = 100 }})
	b.put("03:00", "a.ndjson", "nonsense")
	says := map[int]string{3: "waiting 1 more trigger after 2 failed attempts: ", 5: "waiting 3 more triggers after 3 failed attempts: "}
	for n := 1; n <= 26; n++ { // attempts at triggers 1, 2, 4, 8, 16 and 26
		if r := b.step("03:00", microbatch.Failed); !strings.HasPrefix(r.Err.Error(), says[n]) {
			t.Errorf("trigger %d: %v, want %s…", n, r.Err, says[n])
		}
	}
	states, err := b.state.ObjectStates(t.Context(), "ads")
	if err != nil || len(states) != 1 || states[0].Failures != 6 {
		t.Fatalf("object states %+v, %v, want 6 failures", states, err)
	}
	run, err := b.state.RunByID(t.Context(), states[0].LastRunID)
	if err != nil || run.Status != watermark.RunFailed {
		t.Errorf("the failure names run %q (%s, %v), want the journalled one", states[0].LastRunID, run.Status, err)
	}
}

// TestLongerWindowIsListed: a configuration that reaches further back lists
// what it covers, whatever the live pane covered.
func TestLongerWindowIsListed(t *testing.T) {
	b := newBench(t, benchOptions{rule: hour(10 * time.Minute)})
	for c := at("00:00"); !c.After(at("03:00")); c = c.Add(10 * time.Minute) {
		clock := c.Format("15:04")
		b.put(clock, "a.ndjson", row("k"+clock, clock, 1, clock))
	}
	b.step("03:00", microbatch.Advanced)
	b.set.Rule, b.set.ConfigHash = hour(3*time.Hour), "c2"
	b.restart()
	b.step("03:00", microbatch.Refined)
	if m := b.live(); len(m.Inputs) != 18 || b.docs()["k00:10"] == "" {
		t.Errorf("%d inputs from %s, want all 18 after 00:00", len(m.Inputs), m.Coverage.From)
	}
	b.step("03:00", microbatch.WasIdle)
}

// TestB28PanicFailsOneRun: a panic at any point of a run fails that run, in
// the journal too, and the leader goes on.
func TestB28PanicFailsOneRun(t *testing.T) {
	for _, where := range []string{"claimed", "planned", "slices", "data", "manifest", "current", "committed"} {
		t.Run(where, func(t *testing.T) {
			armed := true
			b := newBench(t, benchOptions{change: func(s *microbatch.Settings) {
				s.Trace = func(step string) {
					if step == where && armed {
						armed = false
						panic("boom")
					}
				}
			}})
			b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
			err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
				r := term.Step(ctx, at("03:00"), microbatch.StepOptions{})
				if r.Outcome != microbatch.Failed || !errors.Is(r.Err, microbatch.ErrPanic) || !strings.Contains(r.Err.Error(), "boom") {
					t.Errorf("outcome %s, error %v, want the panic", r.Outcome, r.Err)
				}
				term.Step(ctx, at("03:00"), microbatch.StepOptions{})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if b.docs()["x"] == "" || b.ledger()["03:00"] != "covered" {
				t.Errorf("the step after the panic left documents %v, ledger %v", b.docs(), b.ledger())
			}
			b.noPlannedRuns()
		})
	}
}

// noPlannedRuns wants every journalled run settled.
func (b *bench) noPlannedRuns() {
	b.t.Helper()
	planned, err := b.state.PlannedRuns(b.t.Context(), "ads")
	if err != nil || len(planned) > 0 {
		b.t.Errorf("runs still planned: %+v, %v", planned, err)
	}
}

// TestUnreadablePaneIsNoStop: the live pane's documents only serve the counts.
// Where they are gone the next pane is published all the same.
func TestUnreadablePaneIsNoStop(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	for _, f := range b.live().Files {
		if err := b.out.Delete(t.Context(), f.Key); err != nil {
			t.Fatal(err)
		}
	}
	b.restart()
	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
	b.step("03:01", microbatch.Advanced)
	said := false
	for _, c := range b.live().Checks {
		said = said || c.Name == "compared_to_parent" && !c.Passed
	}
	if !said || b.docs()["x"] == "" {
		t.Errorf("checks %+v, documents %v", b.live().Checks, b.docs())
	}
	b.set.Documents = func(context.Context, sink.Manifest, func(*column.Batch) error) error { return store.ErrUnavailable }
	b.restart()
	b.put("03:02", "a.ndjson", row("x", "03:02", 1, "t"))
	b.step("03:02", microbatch.Failed) // an outage is tried again instead
}

// TestPausedCollectsNothing: while a pipeline is paused requests go on, runs
// and collection do not.
func TestPausedCollectsNothing(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	if _, err := b.state.Pause(t.Context(), "ads", b.change("looking at it")); err != nil {
		t.Fatal(err)
	}
	ids := map[string]watermark.RequestState{}
	for _, kind := range []string{microbatch.RequestCollect, microbatch.RequestTrigger, "nonsense"} {
		id := b.set.NewID()
		ids[id] = watermark.RequestFailed
		if kind == microbatch.RequestTrigger {
			ids[id] = watermark.RequestDone
		}
		if err := b.state.Enqueue(t.Context(), watermark.Request{ID: id, Pipeline: "ads", Kind: kind, Actor: "me", Reason: "why not"}); err != nil {
			t.Fatal(err)
		}
	}
	err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
		if _, err := term.Collect(ctx, false); err == nil || !strings.Contains(err.Error(), "paused") {
			t.Errorf("collection of a paused pipeline: %v", err)
		}
		if _, err := term.Collect(ctx, true); err != nil {
			t.Errorf("what it would do may be asked: %v", err)
		}
		return term.Attend(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range ids {
		rq, err := b.state.RequestByID(t.Context(), id)
		if err != nil || rq.State != want {
			t.Errorf("%s request is %s (%s, %v), want %s", rq.Kind, rq.State, rq.Result, err, want)
		}
	}
}

func (b *bench) change(reason string) watermark.Change {
	return watermark.Change{ID: b.set.NewID(), Actor: "me", Reason: reason}
}

// TestSkippedObjectThatIsGoneRefines: the manifest names what was skipped; it
// stops doing so when the object goes.
func TestSkippedObjectThatIsGoneRefines(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.ObjectErrors = microbatch.ObjectSkip }})
	bad := b.put("03:00", "bad.ndjson", "nonsense")
	b.put("03:00", "good.ndjson", row("x", "03:00", 1, "good"))
	b.step("03:00", microbatch.Advanced)
	b.step("03:00", microbatch.WasIdle)
	if err := b.raw.Delete(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	b.step("03:00", microbatch.Refined)
	if got := b.live().Skipped; len(got) != 0 {
		t.Errorf("still skipped: %v", got)
	}
	b.step("03:00", microbatch.WasIdle)
}

// TestSkipByHandAndBack: a skip and its undoing are due at the next trigger.
func TestSkipByHandAndBack(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	key := b.put("03:00", "b.ndjson", row("y", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	ref := watermark.ObjectRef{Key: key, ETag: b.live().Inputs[1].ETag}
	if err := b.state.SkipObject(t.Context(), "ads", ref, b.change("it is wrong")); err != nil {
		t.Fatal(err)
	}
	b.step("03:00", microbatch.Refined)
	if b.docs()["y"] != "" || len(b.live().Skipped) != 1 {
		t.Errorf("documents %v, skipped %v", b.docs(), b.live().Skipped)
	}
	b.step("03:00", microbatch.WasIdle)
	if err := b.state.UnskipObject(t.Context(), "ads", ref, b.change("it was right")); err != nil {
		t.Fatal(err)
	}
	b.step("03:00", microbatch.Refined)
	if b.docs()["y"] == "" || len(b.live().Skipped) != 0 {
		t.Errorf("documents %v, skipped %v", b.docs(), b.live().Skipped)
	}
}

// TestNullEventTimesAreCounted: they sort first, and the manifest says how
// many there are.
func TestNullEventTimesAreCounted(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "timed"), `{"item":"x","ts":null,"clicks":1,"title":"timeless","op":"U"}`)
	b.step("03:00", microbatch.Advanced)
	found := false
	for _, c := range b.live().Checks {
		found = found || c.Name == "null_event_times" && strings.Contains(c.Detail, "1 of 2")
	}
	if !found || !strings.Contains(b.docs()["x"], `"timed"`) {
		t.Errorf("checks %+v, x is %s", b.live().Checks, b.docs()["x"])
	}
}

// TestQuarantinedPartitionsAreInTheLedger until they are covered.
func TestQuarantinedPartitionsAreInTheLedger(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "now"))
	b.put("03:30", "a.ndjson", row("x", "03:30", 1, "early"))
	b.step("03:00", microbatch.Advanced)
	if got := b.ledger()["03:30"]; got != "quarantined" {
		t.Errorf("ledger of 03:30 is %q", got)
	}
	b.step("03:30", microbatch.Advanced)
	if got := b.ledger()["03:30"]; got != "covered" {
		t.Errorf("then it is %q", got)
	}
}

// TestClashesAndLaggingPrefixesAreReported by name.
func TestClashesAndLaggingPrefixesAreReported(t *testing.T) {
	b := newBench(t, benchOptions{layout: "%Y/%-m/%d/%-H/%M", prefixes: []string{"a", "b"}})
	b.putKey("a/2026/11/30/03/10/f.ndjson", row("x", "03:10", 1, "a"))
	b.putKey("b/2026/11/30/02/10/f.ndjson", row("y", "02:11", 1, "b"))
	r := b.step("03:10", microbatch.Advanced)
	if len(r.Lagging) != 1 || r.Lagging[0] != "b" {
		t.Errorf("lagging %v, want b, which is more than half a window behind", r.Lagging)
	}
	core, logged := observer.New(zap.WarnLevel)
	b.set.Log = zap.New(core)
	b.restart()
	b.putKey("a/2026/11/30/3/11/f.ndjson", row("x", "03:10", 1, "a"))
	b.putKey("a/2026/11/30/03/11/f.ndjson", row("x", "03:10", 1, "a"))
	for _, outcome := range []microbatch.Outcome{microbatch.Advanced, microbatch.WasIdle} {
		if r := b.step("03:11", outcome); len(r.Clashes) != 1 {
			t.Fatalf("clashes %+v, want the one partition that is spelled in two ways", r.Clashes)
		}
	}
	said := logged.FilterMessageSnippet("spelled in several ways").All()
	if len(said) != 1 || fmt.Sprint(said[0].ContextMap()["spellings"]) != "[a/2026/11/30/03/11 a/2026/11/30/3/11]" {
		t.Errorf("the log has %v, want both spellings, once", said)
	}
}

// TestRestoredStateStoreIsFilledUp: however far the store's newest published
// run lies back, the runs since are published in it.
func TestRestoredStateStoreIsFilledUp(t *testing.T) {
	b := newBench(t, benchOptions{rule: hour(10 * time.Minute)})
	b.put("00:00", "a.ndjson", row("x", "00:00", 1, "t"))
	b.step("00:00", microbatch.Advanced)
	remembering := b.set.State
	b.set.State = forgetful{State: remembering, from: at("00:01")}
	b.restart()
	for _, clock := range []string{"00:30", "01:00", "01:30"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
		if r := b.p.Once(t.Context(), at(clock), microbatch.StepOptions{}); r.Outcome != microbatch.Advanced {
			t.Fatalf("%s: %s %v", clock, r.Outcome, r.Err)
		}
	}
	b.set.State = remembering
	b.restart()
	b.put("01:31", "a.ndjson", row("x", "01:31", 1, "t"))
	b.step("01:31", microbatch.Advanced)
	for _, clock := range []string{"00:00", "00:30", "01:00", "01:30", "01:31"} {
		if b.ledger()[clock] != "covered" {
			t.Errorf("ledger of %s is %q", clock, b.ledger()[clock])
		}
	}
}

// forgetful is a state store that loses what is published for partitions from
// from on, as one restored from a backup has.
type forgetful struct {
	microbatch.State
	from time.Time
}

func (f forgetful) PlanRun(ctx context.Context, l watermark.Lease, r watermark.Run) error {
	if r.Watermark.Before(f.from) {
		return f.State.PlanRun(ctx, l, r)
	}
	return nil
}

func (f forgetful) PublishRun(ctx context.Context, l watermark.Lease, p watermark.Publication) (watermark.Published, error) {
	if p.Watermark.Before(f.from) {
		return f.State.PublishRun(ctx, l, p)
	}
	return watermark.Published{}, nil
}

// TestCurrentCarriesTheJournalledChangeID: a run is journalled with the change
// id that it then writes, resets too.
func TestCurrentCarriesTheJournalledChangeID(t *testing.T) {
	b := newBench(t, benchOptions{})
	check := func() {
		t.Helper()
		head, err := b.set.Sink.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run, err := b.state.RunByID(t.Context(), head.RunID)
		if err != nil || run.ChangeID == "" || run.ChangeID != head.ChangeID {
			t.Errorf("CURRENT has change id %q, run %s was journalled with %q (%v)", head.ChangeID, run.ID, run.ChangeID, err)
		}
	}
	for _, clock := range []string{"03:00", "03:01"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
		b.step(clock, microbatch.Advanced)
		check()
	}
	pipeline, err := b.state.Pause(t.Context(), "ads", b.change("looking at it"))
	if err != nil {
		t.Fatal(err)
	}
	in := watermark.Intent{ID: b.set.NewID(), Pipeline: "ads", Target: at("03:00"), Actor: "me", Reason: "again, please"}
	if _, err := b.state.CreateIntent(t.Context(), in, pipeline.Version); err != nil {
		t.Fatal(err)
	}
	if r := b.step("03:01", microbatch.WasHeld); !r.Progress.Equal(at("03:00")) {
		t.Fatalf("progress %s", r.Progress)
	}
	check()
}

// TestB9SettleIsTooSmall: with settle 30s an object lands 45 s late twice in
// ten. Both are read all the same, counted, named, and a larger setting is
// suggested.
func TestB9SettleIsTooSmall(t *testing.T) {
	b := newBench(t, benchOptions{settle: 30 * time.Second})
	var late []string
	var before time.Time
	for i := range 10 {
		start := at("03:00").Add(time.Duration(i) * time.Minute)
		clock, end := start.Format("15:04"), start.Add(time.Minute)
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
		b.stepAt(end.Add(29*time.Second), microbatch.WasIdle, before)
		if r := b.stepAt(end.Add(30*time.Second), microbatch.Advanced, start); r.Late != 0 {
			t.Errorf("%s: %d late", clock, r.Late)
		}
		before = start
		if i != 3 && i != 7 {
			continue
		}
		late = append(late, b.put(clock, "late.ndjson", row("y", clock, 1, "t")))
		r := b.stepAt(end.Add(50*time.Second), microbatch.Refined, start)
		if r.Late != 1 || !strings.Contains(r.Why, late[len(late)-1]) || !strings.Contains(r.Why, "settle waits 30s: 1m0s would") {
			t.Errorf("%s: %d late, why %q", clock, r.Late, r.Why)
		}
		if b.live().Counts.Late != 1 || b.ledger()[clock] != "covered" {
			t.Errorf("%s: manifest counts %d late, ledger %q", clock, b.live().Counts.Late, b.ledger()[clock])
		}
	}
	if n, err := b.state.CountLate(t.Context(), "ads"); err != nil || n != 2 {
		t.Errorf("the state store counts %d, %v, want 2", n, err)
	}
	named, err := b.state.LateObjects(t.Context(), "ads", 10)
	if err != nil || len(named) != 2 || !slices.Contains(late, named[0].Key) || !slices.Contains(late, named[1].Key) {
		t.Errorf("late objects %v, %v, want %v", named, err, late)
	}
}

// TestRejectedRowsAreKept: the rows that a run leaves out are in a file of its
// own, which its manifest names; a run that reuses the slice does not repeat
// them, and a failed one has not told of them.
func TestRejectedRowsAreKept(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.Row, s.MaxRejectShare, s.SkipAfter = scan.Reject, 0.9, 0 }})
	key := b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"), "{torn", `{"item":null,"ts":null,"clicks":1,"title":"t","op":"U"}`)
	bad := b.put("03:01", "b.ndjson.gz", "not zipped")
	b.step("03:01", microbatch.Failed) // builds the slice of 03:00, tells nothing
	if err := b.raw.Delete(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	b.put("03:01", "a.ndjson", row("y", "03:01", 1, "t"))
	r := b.step("03:01", microbatch.Advanced)
	body, _, err := store.ReadAll(t.Context(), b.out, sink.RejectsKey(r.RunID), 1<<20, store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"object":"` + key + `","row":2,"reason":`
	if lines := strings.Split(strings.TrimSpace(string(body)), "\n"); len(lines) != 2 || !strings.Contains(string(body), want) ||
		!strings.Contains(string(body), `"text":"{torn"`) || !strings.Contains(string(body), "key column item is null") {
		t.Errorf("rejected rows:\n%s", body)
	}
	named := false
	for _, c := range b.live().Checks {
		named = named || strings.Contains(c.Detail, sink.RejectsKey(r.RunID)+" has 2 of 2")
	}
	if !named {
		t.Errorf("checks %+v", b.live().Checks)
	}
	b.put("03:02", "a.ndjson", row("y", "03:02", 1, "t"))
	r = b.step("03:02", microbatch.Advanced)
	if _, err := b.out.Head(t.Context(), sink.RejectsKey(r.RunID)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the next run wrote them again: %v", err)
	}
	if b.live().Counts.Rejected != 2 {
		t.Errorf("counts %+v", b.live().Counts)
	}
}

// TestTriggerByHandDoesNotWait for the triggers that failures would let pass.
func TestTriggerByHandDoesNotWait(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.SkipAfter = 0 }})
	b.put("03:00", "a.ndjson", "nonsense")
	for range 8 {
		b.step("03:00", microbatch.Failed)
	}
	if r := b.step("03:00", microbatch.Failed); !strings.Contains(r.Why, "waiting") {
		t.Fatalf("why %q: this trigger was to be let pass", r.Why)
	}
	id := b.set.NewID()
	if err := b.state.Enqueue(t.Context(), watermark.Request{ID: id, Pipeline: "ads", Kind: microbatch.RequestTrigger, Actor: "me", Reason: "now, please"}); err != nil {
		t.Fatal(err)
	}
	if err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error { return term.Attend(ctx) }); err != nil {
		t.Fatal(err)
	}
	rq, err := b.state.RequestByID(t.Context(), id)
	if err != nil || rq.State != watermark.RequestFailed || strings.Contains(string(rq.Result), "waiting") {
		t.Errorf("request %s: %s, %v", rq.State, rq.Result, err)
	}
}

// TestRowFollowsAnAdoptedOrRecoveredCurrent, which it did not lead to.
func TestRowFollowsAnAdoptedOrRecoveredCurrent(t *testing.T) {
	follows := func(t *testing.T, b *bench) {
		t.Helper()
		head, err := b.set.Sink.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.set.State.(interface {
			Pipeline(context.Context, string) (watermark.Pipeline, error)
		}).Pipeline(t.Context(), "ads")
		if err != nil || got.CurrentVersion != head.Version || got.RunID != head.RunID || !got.Watermark.Equal(head.Watermark.Time) || got.ConfigHash != "c1" {
			t.Errorf("row %+v, %v, CURRENT %+v", got, err, head.Current)
		}
		b.put("03:05", "a.ndjson", row("x", "03:05", 1, "t"))
		b.step("03:05", microbatch.Advanced)
	}
	t.Run("adopted", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
		b.step("03:00", microbatch.Advanced)
		b.set.State = newBench(t, benchOptions{}).state
		b.restart()
		err := b.p.Under(t.Context(), func(ctx context.Context, term microbatch.Term) error {
			_, err := term.Adopt(ctx, "me", "the old database is lost")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		follows(t, b)
	})
	t.Run("recovered", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		for _, clock := range []string{"03:00", "03:01"} {
			b.put(clock, "a.ndjson", row("x", clock, 1, "t"))
			b.step(clock, microbatch.Advanced)
		}
		if err := b.out.Delete(t.Context(), sink.CurrentKey); err != nil {
			t.Fatal(err)
		}
		b.restart()
		if r := b.step("03:02", microbatch.Failed); !errors.Is(r.Err, sink.ErrLostCurrent) {
			t.Fatalf("error %v", r.Err)
		}
		if _, err := b.p.Recover(t.Context(), "me", "", false); err != nil {
			t.Fatal(err)
		}
		follows(t, b)
	})
}

// TestHoldingAsksForFewObjects: where a whole tree vanished, it takes few
// requests to know that a person has to decide.
func TestHoldingAsksForFewObjects(t *testing.T) {
	b := newBench(t, benchOptions{})
	var keys []string
	for i := range 1500 {
		keys = append(keys, b.put("03:00", fmt.Sprintf("%04d.ndjson", i), row("x", "03:00", 1, "t")))
	}
	b.step("03:00", microbatch.Advanced)
	for _, key := range keys[10:] {
		if err := b.raw.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	r := b.step("03:01", microbatch.WasHeld)
	if b.calls["head"] > 250 || !strings.Contains(r.Why, "1490 of 1500") {
		t.Errorf("%d requests, why %q", b.calls["head"], r.Why)
	}
	if r := b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{AcceptLoss: true}); r.Outcome != microbatch.Refined || len(b.live().Inputs) != 10 {
		t.Errorf("accepted: %s, %v, %d inputs", r.Outcome, r.Err, len(b.live().Inputs))
	}
}
