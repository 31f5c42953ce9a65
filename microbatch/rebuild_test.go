package microbatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/watermark"
)

// runRebuild queues a rebuild and makes it with a rebuilder of changed
// settings.
func (b *bench) runRebuild(ask watermark.Rebuild, change func(*full.Settings)) (full.Report, error) {
	b.t.Helper()
	ask.ID, ask.Pipeline = b.set.NewID(), "ads"
	if ask.Cause == "" {
		ask.Cause, ask.Actor, ask.Reason = watermark.RebuildManual, "t", "a test asks for it"
	}
	rb, err := b.state.CreateRebuild(b.t.Context(), ask)
	if err != nil {
		b.t.Fatal(err)
	}
	return full.New(b.full(change)).Run(b.t.Context(), rb)
}

// generation is the manifest of a rebuild that ended with one.
func (b *bench) generation(id string) sink.Manifest {
	b.t.Helper()
	rb, err := b.state.RebuildByID(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := b.set.Sink.ReadManifest(b.t.Context(), sink.Ref{Manifest: rb.Manifest.Key, SHA256: rb.Manifest.SHA256})
	if err == nil {
		err = b.set.Sink.LoadInputs(b.t.Context(), &m)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// TestRebuildOverTypesThatWiden: the newest partitions do not have the types
// that an old one needs; everything is read again at the wider ones.
func TestRebuildOverTypesThatWiden(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("01:00", "a.ndjson", `{"item":"x","ts":"2026-11-30T01:00:00Z","clicks":0.5,"title":"half","op":"U"}`)
	for i := range 40 {
		b.put(fmt.Sprintf("02:%02d", i), "a.ndjson", row("x", fmt.Sprintf("02:%02d", i), 1, "t"))
	}
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.same(map[string]string{"x": `{"item":"x","updates":42,"clicks":42.5,"title":"one","clicks_5m":2,"double":85}`})
}

// TestRebuildIsAFunctionOfItsInputs: the same files whatever the workers and
// the memory.
func TestRebuildIsAFunctionOfItsInputs(t *testing.T) {
	b := newBaseBench(t, nil)
	for i := range 75 {
		clock := at("01:00").Add(time.Duration(i) * time.Minute).Format("15:04")
		b.put(clock, "a.ndjson", row(fmt.Sprint("k", i%7), clock, i, fmt.Sprint("t", i)), row("all", clock, 1, "t"))
		b.put(clock, "b.ndjson", row(fmt.Sprint("k", i%5), clock, i, fmt.Sprint("u", i)))
	}
	b.step("02:16", microbatch.Advanced)
	var want string
	for _, c := range []struct {
		name    string
		workers int
		table   int64
	}{{"two workers", 2, 0}, {"one worker", 1, 0}, {"tables spill at once", 4, 1}} {
		t.Run(c.name, func(t *testing.T) {
			r, err := b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) { s.Workers, s.Builder.TableBytes = c.workers, c.table })
			if err != nil || r.State != watermark.RebuildCandidate {
				t.Fatalf("%s, %v", r.State, err)
			}
			m := b.generation(r.ID)
			got := m.Files[0].SHA256 + m.Full.Accumulators[0].SHA256 + m.Full.Seen[0].SHA256
			if want == "" {
				want = got
			}
			if got != want || len(m.Inputs) != 150 || m.Counts.Rows != 225 {
				t.Errorf("%d inputs, %d rows, files %s, want %s", len(m.Inputs), m.Counts.Rows, got, want)
			}
		})
	}
}

// TestRebuildOfABadObject: it fails and names the object, or leaves it out and
// names it; mended, the object is unread and joins the delta.
func TestRebuildOfABadObject(t *testing.T) {
	b := newBaseBench(t, nil)
	bad := b.put("02:00", "bad.ndjson", `{"item":`)
	b.put("02:00", "good.ndjson", row("old", "02:00", 7, "ancient"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	r, err := b.runRebuild(watermark.Rebuild{}, nil)
	if r.State != watermark.RebuildFailed || err == nil || !strings.Contains(err.Error(), bad) {
		t.Fatalf("%s, %v", r.State, err)
	}
	if r, err = b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) { s.SkipObjects = true }); r.State != watermark.RebuildCandidate {
		t.Fatalf("%s, %v", r.State, err)
	}
	if m := b.generation(r.ID); len(m.Skipped) != 1 || m.Skipped[0].Key != bad || len(m.Inputs) != 2 {
		t.Fatalf("skipped %+v, %d inputs", m.Skipped, len(m.Inputs))
	}
	b.step("03:01", microbatch.Refined)
	if got := b.docs()["old"]; !strings.Contains(got, `"clicks":7`) {
		t.Errorf("old is %s", got)
	}
}

// TestRebuildAtAnEarlierCut: what lies between the cut and the watermark is the
// delta's.
func TestRebuildAtAnEarlierCut(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("x", "02:00", 1, "first"))
	b.put("02:10", "a.ndjson", row("y", "02:10", 1, "why"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	for _, c := range []struct {
		name string
		cut  time.Time
		want string
	}{
		{"beyond the watermark", at("03:01"), "beyond the watermark"},
		{"no start", at("02:00").Add(time.Second), "no partition starts then"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := b.runRebuild(watermark.Rebuild{Cut: c.cut}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	if r, err := b.runRebuild(watermark.Rebuild{Cut: at("02:00")}, nil); err != nil || r.Documents != 1 {
		t.Fatalf("%d documents, %v", r.Documents, err)
	}
	b.step("03:02", microbatch.Refined)
	b.same(map[string]string{
		"x": `{"item":"x","updates":2,"clicks":3,"title":"one","clicks_5m":2,"double":6}`,
		"y": `{"item":"y","updates":1,"clicks":1,"title":"why","clicks_5m":null,"double":2}`,
	})
}

func TestRebuildIsCancelled(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	var once sync.Once
	r, err := b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) {
		s.Yield = func(ctx context.Context) {
			once.Do(func() {
				rb, err := b.state.OpenRebuild(ctx, "ads")
				if err == nil {
					_, err = b.state.CancelRebuild(ctx, rb.ID, watermark.Change{ID: b.set.NewID(), Actor: "t", Reason: "not now"})
				}
				if err != nil {
					t.Error(err)
				}
				<-ctx.Done()
			})
		}
	})
	if !errors.Is(err, full.ErrCancelled) || r.State != watermark.RebuildCancelled {
		t.Fatalf("%s, %v", r.State, err)
	}
	if pins, err := b.state.Pins(t.Context(), "ads"); err != nil || len(pins) > 0 {
		t.Errorf("pins %+v, %v", pins, err)
	}
}

// TestRebuildIsTakenOver: one whose maker died is begun again under its id.
func TestRebuildIsTakenOver(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	rb, err := b.state.CreateRebuild(t.Context(), watermark.Rebuild{ID: b.set.NewID(), Pipeline: "ads", Cause: watermark.RebuildManual, Actor: "t", Reason: "a test asks for it"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, die := context.WithCancel(t.Context())
	_, err = full.New(b.full(func(s *full.Settings) {
		s.Trace = func(step string) {
			if step == "rebuild accumulators" {
				die()
			}
		}
	})).Run(ctx, rb)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if rb, err = b.state.RebuildByID(t.Context(), rb.ID); err != nil || rb.State != watermark.RebuildRunning {
		t.Fatalf("%s, %v", rb.State, err)
	}
	if r, err := full.New(b.full(nil)).Run(t.Context(), rb); err != nil || r.State != watermark.RebuildCandidate || r.ID != rb.ID {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestB28PanicFailsOneRebuild is case B28 of a rebuild: the next one runs.
func TestB28PanicFailsOneRebuild(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	r, err := b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) {
		s.Trace = func(step string) {
			if step == "rebuild read" {
				panic("a combine fn of somebody's own")
			}
		}
	})
	if !errors.Is(err, microbatch.ErrPanic) || r.State != watermark.RebuildFailed {
		t.Fatalf("%s, %v", r.State, err)
	}
	b.rebuild(watermark.RebuildCandidate)
}

// TestScheduledTimeIsUsedOnce: by any number of replicas, and not again after
// they are restarted.
func TestScheduledTimeIsUsedOnce(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	due := oneTime{time.Now().Add(time.Second).Truncate(time.Microsecond)}
	if _, _, err := b.state.ScheduleState(t.Context(), "ads", due.String()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 7*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s := b.full(func(s *full.Settings) { s.Schedule = due })
			if err := full.New(s).Serve(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := b.state.Rebuilds(t.Context(), "ads", 10, "")
	if err != nil || len(all) != 1 || all[0].State != watermark.RebuildCandidate || !all[0].Due.Equal(due.at) {
		t.Fatalf("%+v, %v", all, err)
	}
}

// oneTime is a schedule of one time.
type oneTime struct{ at time.Time }

func (o oneTime) String() string { return "once" }
func (o oneTime) Latest(after, until time.Time) (time.Time, bool) {
	return o.at, o.at.After(after) && !o.at.After(until)
}

// TestObjectReplacedDuringARebuild: it is left out by name, and what is there
// now is unread: it joins the delta.
func TestObjectReplacedDuringARebuild(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"))
	gone := b.put("02:50", "b.ndjson", row("gone", "02:50", 1, "going"))
	b.put("02:51", "c.ndjson", row("y", "02:51", 1, "one"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	var once sync.Once
	r, err := b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) {
		s.Yield = func(context.Context) {
			once.Do(func() {
				b.put("02:51", "c.ndjson", row("y", "02:51", 5, "two"))
				if err := b.raw.Delete(t.Context(), gone); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if err != nil || r.State != watermark.RebuildCandidate {
		t.Fatalf("%s, %v", r.State, err)
	}
	if m := b.generation(r.ID); len(m.Skipped) != 2 || len(m.Inputs) != 2 {
		t.Fatalf("skipped %+v, inputs %+v", m.Skipped, m.Inputs)
	}
	b.step("03:01", microbatch.Refined)
	b.same(map[string]string{
		"old": `{"item":"old","updates":1,"clicks":7,"title":"ancient","clicks_5m":null,"double":14}`,
		"y":   `{"item":"y","updates":1,"clicks":5,"title":"two","clicks_5m":null,"double":10}`,
		"x":   `{"item":"x","updates":1,"clicks":2,"title":"one","clicks_5m":2,"double":4}`,
	})
}

// TestRebuildDoesNotBeginAgainForAReplacedObject: in a source where objects are
// replaced all the time, what was read stays read.
func TestRebuildDoesNotBeginAgainForAReplacedObject(t *testing.T) {
	b := newBaseBench(t, nil)
	for i := range 70 { // three batches of partitions, newest first
		clock := at("01:50").Add(time.Duration(i) * time.Minute).Format("15:04")
		b.put(clock, "a.ndjson", row(clock, clock, 1, "t"))
	}
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	var mu sync.Mutex
	opened := map[string]int{}
	r, err := b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) {
		open := s.Builder.Open
		s.Builder.Open = func(o partition.Object) (scan.Blob, map[string]string) {
			mu.Lock()
			defer mu.Unlock()
			if opened[o.Key]++; len(opened) == 1 {
				b.put("01:50", "a.ndjson", row("other", "01:50", 1, "t"))
				b.put("02:10", "a.ndjson", row("other", "02:10", 1, "t"))
			}
			return open(o)
		}
	})
	if err != nil || r.State != watermark.RebuildCandidate {
		t.Fatalf("%s, %v", r.State, err)
	}
	if m := b.generation(r.ID); len(m.Skipped) != 2 || len(m.Inputs) != 69 {
		t.Errorf("skipped %+v, %d inputs", m.Skipped, len(m.Inputs))
	}
	for key, n := range opened {
		if n > 1 {
			t.Errorf("%s was opened %d times", key, n)
		}
	}
}

// TestRebuildOutlivesAnOutage: one that an outage interrupts is not over; it is
// begun again under its id.
func TestRebuildOutlivesAnOutage(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	down := fault.New(b.out)
	down.Add(fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: "full/", Err: store.ErrUnavailable})
	r, err := b.runRebuild(watermark.Rebuild{}, func(s *full.Settings) {
		s.Sink = sink.New(sink.Settings{Store: down, Pipeline: "ads", NewID: s.NewID})
	})
	if !errors.Is(err, store.ErrUnavailable) || r.State != watermark.RebuildRunning {
		t.Fatalf("%s, %v", r.State, err)
	}
	rb, err := b.state.OpenRebuild(t.Context(), "ads")
	if err != nil || rb.ID != r.ID {
		t.Fatalf("%+v, %v", rb, err)
	}
	if r, err = full.New(b.full(nil)).Run(t.Context(), rb); err != nil || r.State != watermark.RebuildCandidate {
		t.Fatalf("%s, %v", r.State, err)
	}
}

// TestScheduledTimeBeforeTheFirstPaneIsKept: there is nothing to cut at yet.
func TestScheduledTimeBeforeTheFirstPaneIsKept(t *testing.T) {
	b := newBaseBench(t, nil)
	due := oneTime{time.Now().Add(500 * time.Millisecond).Truncate(time.Microsecond)}
	if _, _, err := b.state.ScheduleState(t.Context(), "ads", due.String()); err != nil {
		t.Fatal(err)
	}
	serve := func(d time.Duration) []watermark.Rebuild {
		ctx, stop := context.WithTimeout(t.Context(), d)
		defer stop()
		if err := full.New(b.full(func(s *full.Settings) { s.Schedule = due })).Serve(ctx); err != nil {
			t.Fatal(err)
		}
		all, err := b.state.Rebuilds(t.Context(), "ads", 10, "")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := serve(3 * time.Second); len(all) > 0 {
		t.Fatalf("%+v", all)
	}
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	if all := serve(4 * time.Second); len(all) != 1 || all[0].State != watermark.RebuildCandidate {
		t.Fatalf("%+v", all)
	}
}
