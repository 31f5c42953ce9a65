package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/watermark"
)

// world is what processes share: stores, a state file, and the clock's minute
// at which the data begins.
type world struct {
	t      *testing.T
	dir    string
	in     *fault.Store
	stores map[string]store.Store
	base   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), in: fault.New(mem.New("in")), base: time.Now().UTC().Truncate(time.Minute).Add(-30 * time.Minute)}
	w.stores = map[string]store.Store{"in": w.in, "out": mem.New("out")}
	return w
}

// put drops an object of one row into the partition of a minute.
func (w *world) put(minutes ...int) {
	w.t.Helper()
	for _, n := range minutes {
		key := w.base.Add(time.Duration(n)*time.Minute).Format("2006/01/02/15/04") + "/a.ndjson"
		body := strings.NewReader(fmt.Sprintf(`{"k":"k%d","v":%d}`+"\n", n, n))
		if _, err := w.in.Put(w.t.Context(), key, body, store.PutOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// file is a configuration; fields are more of them, full the full section.
func (w *world) file(fields, full string) *configs.Config {
	w.t.Helper()
	text := fmt.Sprintf(`
state: {url: "sqlite://%s/state.db"}
pipelines:
  p:
    source: {url: "file:///in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: 500ms}
    window: {size: 10m}
    index: {key: [k], fields: {n: {count: "*", over: all}%s}}
    full: %s
    output: {url: "file:///out"}
`, w.dir, fields, full)
	c, err := configs.Read(strings.NewReader(text), "test.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		w.t.Fatal(err)
	}
	c.Pipelines[0].Source.URL, c.Pipelines[0].Output.URL = "mem://in", "mem://out"
	return c
}

// open opens a process over the world, without serving.
func (w *world) open(c *configs.Config, o Options) *App {
	w.t.Helper()
	o.Mem, o.Log, o.Grace = w.stores, zaptest.NewLogger(w.t), 5*time.Second
	if o.LeaseTTL == 0 {
		o.LeaseTTL = 3 * time.Second
	}
	a, err := Open(w.t.Context(), c, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = a.Close() })
	return a
}

// serve serves a process until the test ends or stop is called with a cause.
func (w *world) serve(a *App) (stop func(cause error)) {
	w.t.Helper()
	ctx, cancel := context.WithCancelCause(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Serve(ctx); err != nil {
			w.t.Errorf("%s: %v", a.Instance, err)
		}
	}()
	stop = func(cause error) { cancel(cause); <-done }
	w.t.Cleanup(func() { stop(nil) })
	return stop
}

func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s", what)
		}
	}
}

// live is the generation that CURRENT names, and the configuration of its pane.
func (w *world) live(a *App) (generation, hash string) {
	w.t.Helper()
	head, err := a.Pipes[0].Sink.Head(w.t.Context())
	if err != nil || head.Delta == nil {
		return "", ""
	}
	m, err := a.Pipes[0].Sink.ReadManifest(w.t.Context(), head.Delta.Ref())
	if err != nil {
		w.t.Fatal(err)
	}
	if m.Base != nil {
		generation = m.Base.Generation
	}
	return generation, m.ConfigHash
}

func (w *world) rebuild(a *App) watermark.Rebuild {
	w.t.Helper()
	rb, err := a.State.CreateRebuild(w.t.Context(), watermark.Rebuild{
		ID: a.NewID(), Pipeline: "p", Cause: watermark.RebuildManual, Actor: "ada", Reason: "a test asks for it",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rb
}

func (w *world) state(a *App, id string) watermark.RebuildState {
	w.t.Helper()
	rb, err := a.State.RebuildByID(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return rb.State
}

// hold keeps reads of the objects of a minute waiting until it is let go.
func (w *world) hold(minute int) (hit <-chan struct{}, free func()) {
	w.t.Helper()
	gate, reached := make(chan struct{}), make(chan struct{}, 100)
	w.in.Add(fault.Rule{Kind: fault.Delay, Op: "get", Key: w.base.Add(time.Duration(minute) * time.Minute).Format("2006/01/02/15/04"), Hold: gate, OnHit: func() { reached <- struct{}{} }})
	return reached, func() { w.in.Heal(); close(gate) }
}

// series is the value that a process gives out for a series.
func series(t *testing.T, a *App, name string) float64 {
	t.Helper()
	rec := httptest.NewRecorder()
	a.Metrics.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// TestRolesShareTheWork: one process leads deltas, another one only rebuilds;
// what it makes the first one promotes, and their series say so.
func TestRolesShareTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(0, 1)
	c := w.file("", "{}")
	deltas, rebuilds := w.open(c, Options{Instance: "d", Role: RoleDelta}), w.open(c, Options{Instance: "f", Role: RoleFull})
	w.serve(deltas)
	w.serve(rebuilds)
	w.until("the first pane", func() bool { _, h := w.live(deltas); return h != "" })
	rb := w.rebuild(deltas)
	w.until("it is promoted", func() bool { g, _ := w.live(deltas); return g == rb.ID })
	if l, err := deltas.State.LeaseStatus(t.Context(), "p", watermark.RoleDelta); err != nil || l.Holder != "d" {
		t.Errorf("deltas are led by %s (%v)", l.Holder, err)
	}
	if n := series(t, rebuilds, `deltad_rebuilds_total{pipeline="p",state="candidate"}`); n != 1 {
		t.Errorf("%v rebuilds counted where they are made", n)
	}
	w.until("the leader's series have the base", func() bool {
		return series(t, deltas, `deltad_base_cut_timestamp_seconds{pipeline="p"}`) == float64(w.base.Add(time.Minute).Unix())
	})
	if p := series(t, rebuilds, `deltad_rebuild_progress_ratio{pipeline="p"}`); p != 0 {
		t.Errorf("progress stays at %v", p)
	}
}

// TestDeltasGoOnBesideARebuild, and a planned restart waits for it, but not for
// ever; a stop gives it up, and the next process makes it under the same id.
func TestDeltasGoOnBesideARebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(0, 1)
	c := w.file("", "{}")
	a := w.open(c, Options{Instance: "a"})
	stop := w.serve(a)
	w.until("the first pane", func() bool { _, h := w.live(a); return h != "" })
	hit, free := w.hold(0)
	rb := w.rebuild(a)
	<-hit
	w.put(2)
	w.until("a delta beside it", func() bool {
		r, ok := a.Metrics.Last("p")
		return ok && r.Watermark.Equal(w.base.Add(2*time.Minute))
	})
	began := time.Now()
	a.Retire(t.Context(), 300*time.Millisecond)
	if took := time.Since(began); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("a planned restart waited %s for a rebuild that does not end", took)
	}
	stop(ErrRestart)
	if s := w.state(a, rb.ID); s != watermark.RebuildRunning {
		t.Errorf("given up it is %s", s)
	}
	free()
	b := w.open(c, Options{Instance: "b"})
	w.serve(b)
	w.until("the next process makes it", func() bool { g, _ := w.live(b); return g == rb.ID })
	// Now none is under way, and one that is asked for later waits for the next life.
	b.Retire(t.Context(), time.Minute)
	next := w.rebuild(b)
	time.Sleep(2500 * time.Millisecond)
	if s := w.state(b, next.ID); s != watermark.RebuildQueued {
		t.Errorf("a process that restarts began a rebuild: it is %s", s)
	}
}

// TestRetireEndsWithTheRebuild: the wait of a planned restart is over when the
// rebuild is.
func TestRetireEndsWithTheRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(0, 1)
	a := w.open(w.file("", "{}"), Options{Instance: "a"})
	w.serve(a)
	w.until("the first pane", func() bool { _, h := w.live(a); return h != "" })
	hit, free := w.hold(0)
	rb := w.rebuild(a)
	<-hit
	time.AfterFunc(200*time.Millisecond, free)
	a.Retire(t.Context(), time.Minute)
	if s := w.state(a, rb.ID); s != watermark.RebuildCandidate && s != watermark.RebuildPromoted {
		t.Errorf("it did not wait: the rebuild is %s", s)
	}
}

// TestRebuildCancelled: whoever makes it ends it, and the next one is made.
func TestRebuildCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(0, 1)
	a := w.open(w.file("", "{}"), Options{Instance: "a"})
	w.serve(a)
	w.until("the first pane", func() bool { _, h := w.live(a); return h != "" })
	hit, free := w.hold(0)
	rb := w.rebuild(a)
	<-hit
	var open *watermark.RebuildOpenError
	if _, err := a.State.CreateRebuild(t.Context(), watermark.Rebuild{
		ID: a.NewID(), Pipeline: "p", Cause: watermark.RebuildManual, Actor: "bob", Reason: "x",
	}); !errors.As(err, &open) || open.ID != rb.ID {
		t.Errorf("a second request: %v", err)
	}
	if _, err := a.State.CancelRebuild(t.Context(), rb.ID, watermark.Change{ID: a.NewID(), Actor: "ada", Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	w.until("it is cancelled", func() bool { return w.state(a, rb.ID) == watermark.RebuildCancelled })
	free()
	next := w.rebuild(a)
	w.until("the next is promoted", func() bool { g, _ := w.live(a); return g == next.ID })
	if n := series(t, a, `deltad_rebuilds_total{pipeline="p",state="cancelled"}`); n != 1 {
		t.Errorf("%v cancelled rebuilds counted", n)
	}
}

// fragile is count with a switch that makes the next Add panic.
type fragile struct {
	combine.Fn
	broken *atomic.Bool
}

func (f fragile) NewColumn() combine.Column { return fragileColumn{f.Fn.NewColumn(), f.broken} }

type fragileColumn struct {
	combine.Column
	broken *atomic.Bool
}

func (c fragileColumn) Add(in *combine.Input) error {
	if c.broken.CompareAndSwap(true, false) {
		panic("a combine fn of somebody's own")
	}
	return c.Column.Add(in)
}

// TestB28PanicOnce: a combine fn that panics once fails one step, or one rebuild;
// the next of each runs, and both are counted.
func TestB28PanicOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(0) // of several, the one that only tells the types may fail and is read again
	var broken atomic.Bool
	fns := combine.Builtins()
	count := fns["count"]
	build := count.Build
	count.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) {
		fn, err := build(p, args)
		return fragile{fn, &broken}, err
	}
	fns["count"] = count
	broken.Store(true)
	a := w.open(w.file("", "{}"), Options{Instance: "a", Combiners: fns})
	panics := func() float64 { return series(t, a, `deltad_panics_total{pipeline="p"}`) }
	w.serve(a)
	w.until("the step after the panic publishes", func() bool { _, h := w.live(a); return h != "" })
	if panics() != 1 {
		t.Errorf("%v panics counted", panics())
	}
	broken.Store(true)
	rb := w.rebuild(a)
	w.until("the rebuild fails", func() bool { return w.state(a, rb.ID) == watermark.RebuildFailed })
	next := w.rebuild(a)
	w.until("the next is promoted", func() bool { g, _ := w.live(a); return g == next.ID })
	if panics() != 2 {
		t.Errorf("%v panics counted", panics())
	}
	if r, ok := a.Metrics.Last("p"); !ok || r.Outcome == microbatch.Failed {
		t.Errorf("the last step: %+v", r)
	}
}
