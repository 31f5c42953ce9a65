//go:build integration

// Package soak looks for what grows with time.
package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
)

const (
	lives = 10 // restarts, with everything opened anew

	// What may be more on the heap at the end of the last life than at the end of
	// the second.
	heapGrowth = 8 << 20
)

// usage is what a process holds after a collection.
type usage struct {
	heap, rss   int64
	goroutines  int
	descriptors int
}

func measure(t *testing.T) usage {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{heap: int64(m.HeapAlloc), goroutines: runtime.NumGoroutine()}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	u.descriptors = len(fds)
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages, resident int64
	if _, err := fmt.Sscan(string(statm), &pages, &resident); err != nil {
		t.Fatal(err)
	}
	u.rss = resident * int64(os.Getpagesize())
	return u
}

// TestNothingGrows takes steps over ten lives, a thousand in all, and compares what the
// process holds: memory, goroutines and file descriptors stay where they were,
// and the output keeps to its retention.
func TestNothingGrows(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
pipelines:
  p:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 20m}
    index: {key: [k], event_time: ts, fields: {n: {count: "*", over: 20m}, s: {latest: s}, set: {set: s, over: 20m}}}
    output: {url: "file://%[1]s/out", retain: {for: 1m, panes: 5}}
`, dir)
	c, err := configs.Read(strings.NewReader(text), "soak.yaml", os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	var ends []usage
	for life := range lives {
		a, err := daemon.Open(t.Context(), c, daemon.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := a.Pipes[0].Pipeline()
		for i := range steps {
			minute := start.Add(time.Duration(life*steps+i) * time.Minute)
			put(t, dir, minute)
			if r := p.Once(t.Context(), minute, microbatch.StepOptions{}); r.Outcome != microbatch.Advanced || r.StateErr != nil {
				t.Fatalf("life %d, step %d: %s %v %v", life, i, r.Outcome, r.Err, r.StateErr)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		u := measure(t)
		t.Logf("after %4d steps: heap %d KiB, resident %d KiB, %d goroutines, %d descriptors", (life+1)*steps, u.heap>>10, u.rss>>10, u.goroutines, u.descriptors)
		ends = append(ends, u)
	}
	early, late := ends[1], ends[lives-1]
	if late.heap-early.heap > heapGrowth || late.rss-early.rss > rssGrowth {
		t.Errorf("memory grew from %d to %d KiB of heap, %d to %d KiB resident", early.heap>>10, late.heap>>10, early.rss>>10, late.rss>>10)
	}
	if late.goroutines > early.goroutines || late.descriptors > early.descriptors {
		t.Errorf("%d goroutines became %d, %d descriptors %d", early.goroutines, late.goroutines, early.descriptors, late.descriptors)
	}
}

func put(t *testing.T, dir string, minute time.Time) {
	t.Helper()
	d := filepath.Join(dir, "in", minute.Format("2006/01/02/15/04"))
	if err := os.MkdirAll(d, 0o755); err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for i := range 200 {
		fmt.Fprintf(&rows, `{"k":"k%d","ts":%q,"s":"s%d"}`+"\n", (i*7+minute.Minute())%500, minute.Format(time.RFC3339), i%20)
	}
	if err := os.WriteFile(filepath.Join(d, "a.ndjson"), []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
