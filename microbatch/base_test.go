package microbatch_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
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

// full are the settings of a rebuilder of the bench's pipeline.
func (b *bench) full(change func(*full.Settings)) full.Settings {
	b.t.Helper()
	s := b.set
	lister, ok := s.Lister.(full.Lister)
	if !ok {
		b.t.Fatal("the lister cannot scan")
	}
	f := full.Settings{
		Name: s.Name, Calendar: s.Calendar, ConfigHash: s.ConfigHash, Program: s.Program, Since: s.Since,
		Promote: true, Gate: full.DefaultGate(), MaxRejectShare: s.MaxRejectShare,
		Builder: slice.Builder{Program: s.Program, Format: s.Format, Row: s.Row, Limits: s.ScanLimits, Open: s.Open},
		Workers: 2, Lister: lister, Sink: s.Sink, State: b.state,
		Log: zaptest.NewLogger(b.t), NewID: s.NewID, Build: "test", Instance: "t1", LeaseTTL: 30 * time.Second,
	}
	if change != nil {
		change(&f)
	}
	return f
}

// rebuild makes a full index and wants it to end so.
func (b *bench) rebuild(want watermark.RebuildState) watermark.Rebuild {
	b.t.Helper()
	rb, err := b.state.CreateRebuild(b.t.Context(), watermark.Rebuild{ID: b.set.NewID(), Pipeline: "ads", Cause: watermark.RebuildManual, Actor: "t", Reason: "a test asks for it"})
	if err != nil {
		b.t.Fatal(err)
	}
	if r, err := b.make(rb); r.State != want {
		b.t.Fatalf("rebuild ended %s (%v, checks %+v), want %s", r.State, err, r.Checks, want)
	}
	if rb, err = b.state.RebuildByID(b.t.Context(), rb.ID); err != nil {
		b.t.Fatal(err)
	}
	return rb
}

// make makes a rebuild that is queued.
func (b *bench) make(rb watermark.Rebuild) (full.Report, error) {
	return full.New(b.full(nil)).Run(b.t.Context(), rb)
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

// rollback asks for a rollback to the last pane over a former base (or to pane,
// if given) and takes a step.
func (b *bench) rollback(pane sink.Ref, bar string, pause bool, clock string) watermark.Intent {
	b.t.Helper()
	row, err := b.state.Pipeline(b.t.Context(), "ads")
	if err != nil {
		b.t.Fatal(err)
	}
	in, err := b.state.CreateIntent(b.t.Context(), watermark.Intent{
		ID: b.set.NewID(), Pipeline: "ads", Kind: watermark.IntentRollback, Pane: watermark.ManifestRef{Key: pane.Manifest, SHA256: pane.SHA256},
		Bar: bar, Pause: pause, Digest: "d", Actor: "t", Reason: "a test goes back",
	}, row.Version)
	if err != nil {
		b.t.Fatal(err)
	}
	r := b.p.Once(b.t.Context(), at(clock), microbatch.StepOptions{})
	if r.Err != nil {
		b.t.Fatal(r.Err)
	}
	if in, err = b.state.IntentByID(b.t.Context(), in.ID); err != nil {
		b.t.Fatal(err)
	}
	return in
}

// twoBases is a bench over its second base, with documents in both.
func twoBases(t *testing.T, change func(*microbatch.Settings)) (b *bench, first, second watermark.Rebuild) {
	b = newBaseBench(t, change)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"), row("x", "02:00", 1, "first"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	first = b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("03:30", "a.ndjson", row("x", "03:30", 4, "two"))
	b.step("03:31", microbatch.Advanced)
	second = b.rebuild(watermark.RebuildCandidate)
	b.step("03:31", microbatch.Refined)
	return b, first, second
}

// TestRollbackToABaseStays: base and delta go back in one change, the base
// that was left is not promoted again by itself, and the documents are right
// over the older base at once and after the next partition.
func TestRollbackToABaseStays(t *testing.T) {
	b, first, second := twoBases(t, nil)
	want := b.docs()
	before := b.live()
	in := b.rollback(before.History[0].Pane, second.ID, false, "03:32")
	if in.State != watermark.IntentApplied {
		t.Fatalf("rollback %s: %s", in.State, in.Note)
	}
	m := b.live()
	if m.Base == nil || m.Base.Generation != first.ID {
		t.Fatalf("over %+v", m.Base)
	}
	b.same(want)
	for _, clock := range []string{"03:32", "03:33"} {
		b.p.Once(t.Context(), at(clock), microbatch.StepOptions{})
	}
	if got := b.live().Base.Generation; got != first.ID {
		t.Fatalf("the barred base %s came back", got)
	}
	b.put("03:40", "a.ndjson", row("old", "03:40", 1, "newer"))
	b.step("03:41", microbatch.Advanced)
	want["old"] = `{"item":"old","updates":2,"clicks":8,"title":"newer","clicks_5m":1,"double":16}`
	want["x"] = `{"item":"x","updates":3,"clicks":7,"title":"two","clicks_5m":null,"double":14}`
	b.same(want)
	if _, err := b.state.ApproveRebuild(t.Context(), "ads", second.ID, nil, watermark.Change{ID: b.set.NewID(), Actor: "t", Reason: "it was right after all"}); err != nil {
		t.Fatal(err)
	}
	b.step("03:42", microbatch.Refined)
	if got := b.live().Base.Generation; got != second.ID {
		t.Fatalf("over %s, want the approved base", got)
	}
	b.same(want)
}

func TestRollbackToAPanePauses(t *testing.T) {
	b, _, _ := twoBases(t, nil)
	target := b.live()
	ref := b.head().Delta.Ref()
	b.put("03:40", "a.ndjson", row("x", "03:40", 100, "wrong"))
	b.step("03:41", microbatch.Advanced)
	in := b.rollback(ref, "", true, "03:42")
	if in.State != watermark.IntentApplied {
		t.Fatalf("rollback %s: %s", in.State, in.Note)
	}
	m := b.live()
	if !m.Watermark.Equal(target.Watermark.Time) || m.Reason != sink.Rollback {
		t.Fatalf("watermark %s, reason %s", m.Watermark, m.Reason)
	}
	b.step("03:43", microbatch.WasHeld)
}

func (b *bench) head() sink.Head {
	b.t.Helper()
	h, err := b.set.Sink.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// TestStaleBase: what the base read and was replaced or is gone since stays in
// fields over all; fields with durations use what the bucket holds, for every
// key that the base saw there.
func TestStaleBase(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:58", "a.ndjson", row("x", "02:58", 1, "first"), row("y", "02:58", 1, "why"))
	b.put("02:59", "a.ndjson", row("z", "02:59", 1, "zed"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("02:58", "a.ndjson", row("x", "02:58", 10, "other")) // y is in it no more
	b.step("03:02", microbatch.Refined)
	b.same(map[string]string{
		"x": `{"item":"x","updates":2,"clicks":3,"title":"one","clicks_5m":12,"double":6}`,
		"y": `{"item":"y","updates":1,"clicks":1,"title":"why","clicks_5m":null,"double":2}`,
		"z": `{"item":"z","updates":1,"clicks":1,"title":"zed","clicks_5m":1,"double":2}`,
	})
	if m := b.live(); m.Base.StaleCount != 1 {
		t.Errorf("stale %+v", m.Base)
	}
	b.step("03:03", microbatch.WasIdle)
}

// TestBreakingConfigurationIsHeld: the last pane stays until a base that was
// built with the new configuration is promoted.
func TestBreakingConfigurationIsHeld(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	spec := clicks()
	spec.Fields[2].Fn = "earliest"
	program, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	b.set.Program, b.set.ConfigHash = program, "c2"
	b.restart()
	b.put("03:05", "a.ndjson", row("x", "03:05", 2, "two"))
	if r := b.step("03:06", microbatch.WasHeld); !strings.Contains(r.Why, "index.fields.title") {
		t.Errorf("held because %s", r.Why)
	}
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:06", microbatch.Advanced)
	b.same(map[string]string{"x": `{"item":"x","updates":2,"clicks":4,"title":"one","clicks_5m":2,"double":8}`})
}

// TestNewFieldIsPendingUntilABaseHasIt: null in deltas, and named.
func TestNewFieldIsPendingUntilABaseHasIt(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	spec := clicks()
	spec.Fields = append(spec.Fields, index.FieldSpec{Name: "n", Fn: "count", Args: []string{"clicks"}})
	program, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	b.set.Program, b.set.ConfigHash = program, "c2"
	b.restart()
	b.step("03:02", microbatch.Refined)
	b.same(map[string]string{"x": `{"item":"x","updates":1,"clicks":2,"title":"one","clicks_5m":2,"double":4,"n":null}`})
	if m := b.live(); len(m.Pending) != 1 || m.Pending[0] != "n" {
		t.Errorf("pending %v", m.Pending)
	}
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:02", microbatch.Refined)
	b.same(map[string]string{"x": `{"item":"x","updates":1,"clicks":2,"title":"one","clicks_5m":2,"double":4,"n":1}`})
}

// TestTypesThatNoLongerFitTheBase: a wider type since the base is an error that
// names the field and asks for a rebuild. The gate holds that one, as the type
// of a field is another, and with its promotion the error is over.
func TestTypesThatNoLongerFitTheBase(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("03:05", "a.ndjson", `{"item":"x","ts":"2026-11-30T03:05:00Z","clicks":0.5,"title":"half","op":"U"}`)
	if r := b.step("03:06", microbatch.Failed); !strings.Contains(r.Err.Error(), "field clicks") {
		t.Errorf("failed because %v", r.Err)
	}
	open, err := b.state.OpenRebuild(t.Context(), "ads")
	if err != nil || open.Cause != watermark.RebuildTypes {
		t.Fatalf("%+v, %v", open, err)
	}
	if r, err := b.make(open); err != nil || r.State != watermark.RebuildHeld {
		t.Fatalf("%s, %v", r.State, err)
	}
	if _, err := b.state.ApproveRebuild(t.Context(), "ads", open.ID, []string{full.CheckFields}, watermark.Change{ID: b.set.NewID(), Actor: "t", Reason: "halves are wanted"}); err != nil {
		t.Fatal(err)
	}
	b.step("03:07", microbatch.Advanced)
	b.same(map[string]string{"x": `{"item":"x","updates":2,"clicks":2.5,"title":"half","clicks_5m":0.5,"double":5}`})
}

// TestUnreadObjectOutlivesItsObject: the slice of an unread object is kept, so
// that the object may go before a base has read it; without both it is lost,
// and the ledger says so.
func TestUnreadObjectOutlivesItsObject(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	late := b.put("02:32", "late.ndjson", row("old", "02:32", 1, "late")) // listed at first, and no more from 05:01 on
	b.step("03:02", microbatch.Refined)
	b.put("05:00", "a.ndjson", row("z", "05:00", 1, "zed"))
	b.step("05:01", microbatch.Advanced)
	if err := b.raw.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.put("05:01", "a.ndjson", row("z", "05:01", 1, "zed"))
	b.step("05:02", microbatch.Advanced)
	if got := b.docs()["old"]; got != `{"item":"old","updates":2,"clicks":8,"title":"late","clicks_5m":null,"double":16}` {
		t.Errorf("old is %s", got)
	}
	m := b.live()
	if len(m.UnreadSlices) != 1 {
		t.Fatalf("slices %+v", m.UnreadSlices)
	}
	if k := m.UnreadSlices[0]; k.Key == sink.SliceKey(k.SHA256) {
		t.Errorf("slice %s is named by its content alone: a late delete may hit it after it is listed again", k.Key)
	}
	if err := b.out.Delete(t.Context(), m.UnreadSlices[0].Key); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.put("05:02", "a.ndjson", row("z", "05:02", 1, "zed"))
	b.step("05:03", microbatch.Advanced)
	if got := b.docs()["old"]; got != `{"item":"old","updates":1,"clicks":7,"title":"ancient","clicks_5m":null,"double":14}` {
		t.Errorf("old is %s", got)
	}
	if state := b.ledger()["02:32"]; state != partition.Late.String() {
		t.Errorf("ledger says %s", state)
	}
	b.step("05:04", microbatch.WasIdle)
}

// TestLostSliceIsKeptAgain: where the slice of an unread object is gone or
// damaged and the object is not, the next pane keeps another one.
func TestLostSliceIsKeptAgain(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.put("02:32", "late.ndjson", row("old", "02:32", 1, "late"))
	b.step("03:02", microbatch.Refined)
	kept := b.live().UnreadSlices
	if len(kept) != 1 {
		t.Fatalf("slices %+v", kept)
	}
	if err := b.out.Delete(t.Context(), kept[0].Key); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.put("03:01", "a.ndjson", row("z", "03:01", 1, "zed"))
	b.step("03:03", microbatch.Advanced)
	again := b.live().UnreadSlices
	if len(again) != 1 || again[0].Key == kept[0].Key || again[0].SHA256 != kept[0].SHA256 {
		t.Fatalf("slices %+v, before %+v", again, kept)
	}
	if _, err := b.out.Head(t.Context(), again[0].Key); err != nil {
		t.Error(err)
	}
}

// TestSkippedUnreadObjectStaysOut: one that is carried from before the listing
// can be skipped like any other, and every pane names it.
func TestSkippedUnreadObjectStaysOut(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	late := b.put("02:32", "late.ndjson", row("old", "02:32", 1, "late"))
	b.step("03:02", microbatch.Refined)
	b.put("05:00", "a.ndjson", row("z", "05:00", 1, "zed"))
	b.step("05:01", microbatch.Advanced)
	etag := ""
	for _, in := range b.live().Inputs {
		if in.Key == late {
			etag = in.ETag
		}
	}
	if err := b.state.SkipObject(t.Context(), "ads", watermark.ObjectRef{Key: late, ETag: etag}, watermark.Change{ID: b.set.NewID(), Actor: "t", Reason: "it is wrong"}); err != nil {
		t.Fatal(err)
	}
	b.step("05:02", microbatch.Refined)
	b.step("05:02", microbatch.WasIdle)
	b.put("05:02", "a.ndjson", row("z", "05:02", 1, "zed"))
	b.step("05:03", microbatch.Advanced)
	if got := b.docs()["old"]; got != `{"item":"old","updates":1,"clicks":7,"title":"ancient","clicks_5m":null,"double":14}` {
		t.Errorf("old is %s", got)
	}
	if m := b.live(); len(m.Skipped) != 1 || m.Skipped[0].Key != late {
		t.Errorf("skipped %+v", m.Skipped)
	}
}

// TestHeldGenerationWaitsForAPerson: a generation that shrank is held, the live base
// stays, and a person lets it past by naming the check.
func TestHeldGenerationWaitsForAPerson(t *testing.T) {
	b := newBaseBench(t, nil)
	a := b.put("02:00", "a.ndjson", row("p", "02:00", 1, "p"), row("q", "02:00", 1, "q"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	first := b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	if err := b.raw.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	held := b.rebuild(watermark.RebuildHeld)
	if !strings.Contains(held.Error, full.CheckDocuments) {
		t.Errorf("held because of %q", held.Error)
	}
	b.step("03:02", microbatch.WasIdle)
	if got := b.live().Base.Generation; got != first.ID {
		t.Fatalf("over %s", got)
	}
	if _, err := b.state.ApproveRebuild(t.Context(), "ads", held.ID, []string{full.CheckDocuments}, watermark.Change{ID: b.set.NewID(), Actor: "t", Reason: "they are gone for good"}); err != nil {
		t.Fatal(err)
	}
	b.step("03:03", microbatch.Refined)
	b.same(map[string]string{"x": `{"item":"x","updates":1,"clicks":2,"title":"one","clicks_5m":2,"double":4}`})
}
