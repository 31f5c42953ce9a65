//go:build !race

package crash_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	wiring "github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/watermark"
)

// TestB38DayOfTicks: a day has 2,880 ticks of half a minute. After one and
// after two of them, with a rebuild every four hours, the output has what
// retention asks for and no more, and a process that starts asks the store as
// little as in the first hour.
func TestB38DayOfTicks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDays(t)
		d.ticks(120)
		hour := d.start()
		d.ticks(2880 - 120)
		one, first := d.output(), d.start()
		d.ticks(2880)
		two, second := d.output(), d.start()
		t.Logf("requests of a start: %d after an hour, %d after a day, %d after two; outputs %v and %v", hour, first, second, one, two)
		if first > hour+5 || second > hour+5 {
			t.Errorf("a start after an hour takes %d requests, after a day %d, after two %d", hour, first, second)
		}
		// 20 panes, those of ten minutes, up to 64 condemned and as many that wait; a day's bases and those of retention.
		// Cached slices are those of four hours and ten minutes of coverage, an hour of others, and what waits for a collection.
		for name, most := range map[string]int{"panes": 160, "generations": 12, "slices": 10, "cached slices": 330, "other": 2} {
			if one[name] > most || two[name] > most {
				t.Errorf("%d %s after a day and %d after two, want at most %d", one[name], name, two[name], most)
			}
		}
	})
}

// days is a pipeline of minutes in memory, whose clock is the bubble's.
type days struct {
	t        *testing.T
	config   *configs.Config
	raw, out *mem.Store
	requests atomic.Int64
	app      *wiring.App
	p        *microbatch.Pipeline
	n        int
}

func newDays(t *testing.T) *days {
	t.Helper()
	text := fmt.Sprintf(`
state: {url: "sqlite://%s"}
limits: {workers: 1}
pipelines:
  p:
    source: {url: "file:///in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 10m}
    index: {key: [k], event_time: at, fields: {n: {count: "*"}, recent: {count: "*", over: 10m}, last: {latest: v}}}
    full: {schedule: "0 */4 * * *", support_previous_for: 1h}
    output: {url: "file:///out", retain: {for: 10m, panes: 20, bases: 2}}
`, filepath.Join(t.TempDir(), "state.db"))
	c, err := configs.Read(strings.NewReader(text), "test.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	c.Pipelines[0].Source.URL, c.Pipelines[0].Output.URL = "mem://in", "mem://out"
	d := &days{t: t, config: c, raw: mem.New("in"), out: mem.New("out")}
	d.open()
	t.Cleanup(func() { _ = d.app.Close() })
	return d
}

func (d *days) open() {
	d.t.Helper()
	counted := func(st store.Store) store.Store {
		return store.Metered(st, func(string, string, time.Duration, int64) { d.requests.Add(1) })
	}
	app, err := wiring.Open(d.t.Context(), d.config, wiring.Options{Mem: map[string]store.Store{"in": counted(d.raw), "out": counted(d.out)}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.app, d.p = app, app.Pipes[0].Pipeline()
}

func (d *days) stop() {
	d.t.Helper()
	if err := d.app.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// start is a process that begins: the requests up to the end of its first
// step, which finds nothing new.
func (d *days) start() int64 {
	d.t.Helper()
	d.stop()
	before := d.requests.Load()
	d.open()
	if err := wiring.Probe(d.t.Context(), d.app.Pipes[0]); err != nil {
		d.t.Fatal(err)
	}
	d.step("idle")
	return d.requests.Load() - before
}

// ticks lets the clock run: a step every half minute, a partition every minute,
// a rebuild every four hours.
func (d *days) ticks(n int) {
	d.t.Helper()
	for range n {
		want := "idle"
		if d.n%2 == 0 {
			now := time.Now().UTC()
			var b bytes.Buffer
			for k := range 5 {
				fmt.Fprintf(&b, `{"k":"key-%d","at":%q,"v":%d}`+"\n", (d.n/2+k)%40, now.Format(time.RFC3339), d.n)
			}
			if _, err := store.PutBytes(d.t.Context(), d.raw, now.Format("2006/01/02/15/04")+"/a.ndjson", b.Bytes(), store.PutOptions{}); err != nil {
				d.t.Fatal(err)
			}
			want = "advanced"
		}
		d.step(want)
		if d.n++; d.n%480 == 240 {
			d.rebuild()
			d.step("refined")
		}
		time.Sleep(30 * time.Second)
	}
}

func (d *days) step(want string) {
	d.t.Helper()
	if r := d.p.Once(d.t.Context(), time.Now(), microbatch.StepOptions{}); r.Err != nil || string(r.Outcome) != want {
		d.t.Fatalf("tick %d: %s (%s; %v), want %s", d.n, r.Outcome, r.Why, r.Err, want)
	}
}

func (d *days) rebuild() {
	d.t.Helper()
	ctx := d.t.Context()
	rb, err := d.app.State.CreateRebuild(ctx, watermark.Rebuild{ID: d.app.NewID(), Pipeline: "p", Cause: watermark.RebuildGap, Reason: "four hours have gone by"})
	if err != nil {
		d.t.Fatal(err)
	}
	maker, err := d.app.Pipes[0].Rebuilder(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if r, err := maker.Run(ctx, rb); err != nil || r.State != watermark.RebuildCandidate {
		d.t.Fatalf("rebuild %s: %s (%v; %+v)", rb.ID, r.State, err, r.Checks)
	}
}

// output counts what is in the output, by kind.
func (d *days) output() map[string]int {
	d.t.Helper()
	seen, out := map[string]bool{}, map[string]int{}
	for page, err := range store.Pages(context.WithoutCancel(d.t.Context()), d.out, store.ListOptions{}) {
		if err != nil {
			d.t.Fatal(err)
		}
		for _, o := range page.Objects {
			parts := strings.Split(o.Key, "/")
			kind, id := "other", o.Key
			switch {
			case parts[0] == "delta":
				kind, id = "panes", parts[1]
			case parts[0] == "full" && !strings.HasPrefix(parts[2], "manifest."), strings.HasPrefix(o.Key, "state/full/"):
				kind, id = "generations", parts[len(parts)-2]
			case strings.HasPrefix(o.Key, "state/cache/"):
				kind = "cached slices"
			case strings.HasPrefix(o.Key, "state/slices/"):
				kind = "slices"
			case strings.HasPrefix(o.Key, "manifests/") || parts[0] == "full":
				kind = "manifests, kept for a week"
			}
			if !seen[kind+id] {
				seen[kind+id] = true
				out[kind]++
			}
		}
	}
	return out
}
