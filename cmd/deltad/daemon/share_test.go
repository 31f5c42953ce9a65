package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/watermark"
)

// TestPause: proportional, bounded, and nothing for who holds nothing.
func TestPause(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "every"))
		ttl := time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Minute)).Draw(t, "ttl"))
		pipelines := rapid.IntRange(0, 1000).Draw(t, "pipelines")
		held := rapid.IntRange(0, 1001).Draw(t, "held")
		longest := courtesy(every, ttl)
		got := pause(held, pipelines, longest)
		if got < 0 || got > every/4 || got > ttl/6 || got > maxCourtesy || held == 0 && got != 0 || got > pause(held+1, pipelines, longest) {
			t.Errorf("%d of %d held, a trigger of %s and a lease of %s: %s", held, pipelines, every, ttl, got)
		}
	})
	for _, c := range []struct {
		held int
		want time.Duration
	}{{0, 0}, {1, time.Second}, {2, 2 * time.Second}, {5, 5 * time.Second}, {6, 5 * time.Second}} {
		if got := pause(c.held, 5, courtesy(30*time.Second, 30*time.Second)); got != c.want {
			t.Errorf("holding %d of 5: %s, want %s", c.held, got, c.want)
		}
	}
}

// never is a schedule that has no next fire.
type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

func TestPeriod(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	daily, err := configs.ParseCron("0 4 * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s    cron.Schedule
		want time.Duration
	}{{cron.Every(30 * time.Second), 30 * time.Second}, {daily, 24 * time.Hour}, {never{}, 0}} {
		if got := period(c.s, at); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// sharedTrigger makes a pause so long that a loaded machine answers within it.
const sharedTrigger = 16 * time.Second

// replicas are processes with one configuration: six pipelines on one SQLite.
type replicas struct {
	t      *testing.T
	config *configs.Config
	stores map[string]store.Store
	state  watermark.Store // of no replica
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{t: t, stores: map[string]store.Store{}}
	var b strings.Builder
	fmt.Fprintf(&b, "state: {url: \"sqlite://%s/state.db\"}\npipelines:\n", t.TempDir())
	for n := range 6 {
		fmt.Fprintf(&b, `
  p%[1]d:
    source: {url: "file:///in/p%[1]d", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: %[2]s}
    window: {size: 10m}
    index: {key: [k], fields: {n: {count: "*", over: 10m}}}
    output: {url: "file:///out/p%[1]d"}
`, n, sharedTrigger)
	}
	var err error
	if r.config, err = configs.Read(strings.NewReader(b.String()), "test.yaml", func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.config.Pipelines {
		p.Source.URL, p.Output.URL = "mem://in-"+p.Name, "mem://out-"+p.Name
		r.stores["in-"+p.Name], r.stores["out-"+p.Name] = mem.New("in-"+p.Name), mem.New("out-"+p.Name)
	}
	a, err := Open(t.Context(), r.config, Options{Mem: r.stores})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	r.state = a.State
	return r
}

// start starts one more process; it ends with the test or when it is stopped.
func (r *replicas) start(name string) (a *App, stop func()) {
	r.t.Helper()
	a, err := Prepare(r.t.Context(), r.config, Options{Mem: r.stores, Instance: name, LeaseTTL: 24 * time.Second, Grace: time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Serve(ctx); err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
		_ = a.Close()
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return a, stop
}

// led waits until every pipeline has a leader, and counts them by process.
func (r *replicas) led(limit time.Duration) map[string]int {
	r.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		by, total := map[string]int{}, 0
		for _, p := range r.config.Pipelines {
			if l, err := r.state.LeaseStatus(r.t.Context(), p.Name, watermark.RoleDelta); err == nil && l.Live {
				by[l.Holder]++
				total++
			}
		}
		if total == len(r.config.Pipelines) {
			return by
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("after %s only %v", limit, by)
		}
	}
}

func (r *replicas) fair(by map[string]int, names ...string) {
	r.t.Helper()
	want := len(r.config.Pipelines) / len(names)
	for _, name := range names {
		if by[name] < want-1 || by[name] > want+1 {
			r.t.Errorf("%s leads %d pipelines, want about %d: %v", name, by[name], want, by)
		}
	}
}

// TestReplicasShare: three processes that start together or shortly after one
// another lead two of six pipelines each; when one leaves, the others share
// what it had; one that comes back takes from the next that leaves.
func TestReplicasShare(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]time.Duration{"together": 0, "one after another": 150 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicas(t)
			_, stop := r.start("a")
			time.Sleep(apart)
			r.start("b")
			time.Sleep(apart)
			r.start("c")
			by := r.led(sharedTrigger)
			t.Log(by)
			r.fair(by, "a", "b", "c")
			stop()
			by = r.led(2 * sharedTrigger)
			t.Log(by)
			r.fair(by, "b", "c")
		})
	}
}

// TestAloneTakesAll: a single replica has taken a step of every pipeline
// before the first trigger, and takes back at once what it held last.
func TestAloneTakesAll(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	began := time.Now()
	a, stop := r.start("a")
	all := func(a *App) bool {
		for _, p := range a.Pipes {
			if _, ok := a.Metrics.Last(p.Config.Name); !ok {
				return false
			}
		}
		return true
	}
	until := func(a *App) time.Duration {
		for !all(a) {
			if time.Since(began) > 3*sharedTrigger {
				t.Fatal("it does not lead everything")
			}
			time.Sleep(10 * time.Millisecond)
		}
		return time.Since(began)
	}
	if took := until(a); took > sharedTrigger {
		t.Errorf("the last pipeline took its first step after %s, longer than a trigger", took)
	}
	stop()
	began = time.Now()
	again, _ := r.start("a")
	if took := until(again); took > sharedTrigger/4 {
		t.Errorf("what it held last it had after %s", took)
	}
}
