package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
)

// TestCacheSizeIsShared: with a directory that slices stay in, they and those of
// the process share cache.size; without one the process has all of it.
func TestCacheSizeIsShared(t *testing.T) {
	c := &configs.Config{Cache: configs.Cache{Size: 64 << 20}, Pipelines: []*configs.Pipeline{{Name: "a"}, {Name: "b"}}}
	if b := divide(c); b.slices != 32<<20 || b.shelf != 0 {
		t.Errorf("without cache.dir: %d bytes for each pipeline and %d that stay", b.slices, b.shelf)
	}
	c.Cache.Dir = "/var/cache/deltad"
	if b := divide(c); 2*b.slices+b.shelf != 64<<20 || b.shelf != 32<<20 {
		t.Errorf("with cache.dir: %d bytes for each pipeline and %d that stay, want 64 MiB in all", b.slices, b.shelf)
	}
}

// TestSlicesLastBetweenProcesses: what one process builds is in the directory
// and in the output, apart for each pipeline and source, and the next one's
// series say that it was found.
func TestSlicesLastBetweenProcesses(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
cache: {dir: "%[1]s/cache", size: 64MiB}
pipelines:
  p:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 10m}
    index: {key: [k], fields: {n: {count: "*"}}}
    output: {url: "file://%[1]s/out"}
`, dir)
	put := func(minute int) {
		key := filepath.Join(dir, "in/2026/11/30/03", fmt.Sprintf("%02d", minute), "a.ndjson")
		if err := os.MkdirAll(filepath.Dir(key), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(key, []byte(`{"k":"x"}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	step := func(minute int) (*App, microbatch.Report) {
		put(minute)
		c, err := configs.Read(strings.NewReader(text), "test.yaml", func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		a, err := Open(t.Context(), c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		r := a.Pipes[0].Pipeline().Once(t.Context(), time.Date(2026, 11, 30, 3, minute, 59, 0, time.UTC), microbatch.StepOptions{})
		if r.Outcome != microbatch.Advanced {
			t.Fatalf("%s (%v)", r.Outcome, r.Err)
		}
		return a, r
	}
	for i := range 5 {
		put(i)
	}
	if _, r := step(5); r.Slices != 6 || r.Reused != 0 {
		t.Errorf("first: %d slices, %d reused, want 6 and none", r.Slices, r.Reused)
	}
	count := func(pattern string) int {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if here, there := count("cache/slices/p-*/*.run"), count("out/state/cache/*/*.run"); here != 6 || there != 6 {
		t.Fatalf("%d slices in the directory and %d in the output, want 6 in each", here, there)
	}
	a, r := step(6)
	if r.Slices != 7 || r.Reused != 6 {
		t.Errorf("then: %d slices, %d reused, want 7 and 6", r.Slices, r.Reused)
	}
	w := httptest.NewRecorder()
	a.Metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`deltad_slice_cache_requests_total{outcome="hit",tier="directory"} 6`, `deltad_slice_cache_requests_total{outcome="hit",tier="objects"} 1`,
		`deltad_slice_cache_requests_total{outcome="stored",tier="bucket"} 1`, `deltad_slice_cache_requests_total{outcome="damaged",tier="bucket"} 0`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("the series lack %s", want)
		}
	}
}
