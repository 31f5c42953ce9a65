package flights_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

// place is where a pipeline reads, writes and keeps its state.
type place struct {
	name       string
	state      string // URL
	raw, index string // URLs
	s3         string // the value of source.s3 and output.s3
	workers    int
}

// index is what a flights document is: every kind of field over one hour, six
// hours and all of the coverage.
const index = `
      key: [origin]
      event_time: date
      %s
      fields:
        flights: {count: "*"}
        flights_6h: {count: "*", over: 6h}
        delays_1h: {count: delay, over: 1h}
        far_6h: {count: "*", where: "distance > 1000", over: 6h}
        delay_total: {sum: delay}
        delay_total_6h: {sum: delay, over: 6h}
        delay_max: {max: delay}
        delay_max_6h: {max: delay, over: 6h}
        delay_min_1h: {min: delay, over: 1h}
        distance_mean: {mean: distance}
        delay_mean_6h: {mean: delay, over: 6h}
        destination: {latest: destination}
        destination_1h: {latest: destination, over: 1h}
        destination_first: {earliest: destination}
        destinations: {set: destination, cap: 1000}
        destinations_6h: {distinct_exact: destination, over: 6h}
        delay_per_flight: {expr: "delay_total / flights"}
`

func (p place) config(t *testing.T, format, deletes string) *configs.Config {
	t.Helper()
	return p.parsed(t, format, fmt.Sprintf("max: %dh, on_gap: skip", limit), fmt.Sprintf(index, deletes))
}

// parsed is the configuration with more of its window, and its index.
func (p place) parsed(t *testing.T, format, window, index string) *configs.Config {
	t.Helper()
	if p.s3 == "" {
		p.s3 = "{}"
	}
	text := fmt.Sprintf(`
state: {url: %q}
limits: {workers: %d}
admin: {listen: ""}
pipelines:
  flights:
    source: {url: %q, s3: %s, layout: "%%Y/%%m/%%d/%%H", format: %s}
    window: {size: %dh, %s}
    output: {url: %q, s3: %[4]s, retain: {for: 10s}}
    index:%[9]s`, p.state, p.workers, p.raw, p.s3, format, size, window, p.index, index)
	c, err := configs.Read(strings.NewReader(text), "flights.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	names := make([]string, 0, 20)
	for name := range combine.Builtins() {
		names = append(names, name)
	}
	if err := c.Validate(configs.Fns{Names: names, Refused: combine.Refused}); err != nil {
		t.Fatal(err)
	}
	return c
}

// rig is a pipeline at a place, driven step by step.
type rig struct {
	t      *testing.T
	place  place
	config *configs.Config
	app    *daemon.App
	pipe   *daemon.Pipe
	p      *microbatch.Pipeline
	reader *reader.Reader
	trace  func(step string) // may be nil
}

func newRig(t *testing.T, p place, format, deletes string) *rig {
	t.Helper()
	r := &rig{t: t, place: p, config: p.config(t, format, deletes)}
	r.open()
	t.Cleanup(func() { _ = r.app.Close() })
	return r
}

// embedded is a directory and a SQLite file.
func embedded(t *testing.T, workers int) place {
	dir := t.TempDir()
	return place{
		name: "files", state: "sqlite://" + filepath.Join(dir, "state.db"), workers: workers,
		raw: "file://" + filepath.Join(dir, "raw"), index: "file://" + filepath.Join(dir, "index"),
	}
}

func (r *rig) open() {
	r.t.Helper()
	r.app, r.pipe = r.opened(false)
	r.p, r.reader = r.pipe.Pipeline(), r.pipe.Reader(reader.Options{})
}

func (r *rig) opened(noCache bool) (*daemon.App, *daemon.Pipe) {
	r.t.Helper()
	log := zaptest.NewLogger(r.t, zaptest.Level(zap.ErrorLevel))
	app, err := daemon.Open(r.t.Context(), r.config, daemon.Options{Log: log, NoCache: noCache, Build: "deltad e2e", Trace: r.trace})
	if err != nil {
		r.t.Fatal(err)
	}
	pipe, err := app.Pipe("")
	if err != nil {
		r.t.Fatal(err)
	}
	return app, pipe
}

// restart forgets everything: the pipeline, or the process' whole wiring.
func (r *rig) restart(whole bool) {
	r.t.Helper()
	if !whole {
		r.p = r.pipe.Pipeline()
		return
	}
	if err := r.app.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

func (r *rig) put(key string, body []byte) {
	r.t.Helper()
	if _, err := store.PutBytes(r.t.Context(), r.pipe.Raw, key, body, store.PutOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) drop(key string) {
	r.t.Helper()
	if err := r.pipe.Raw.Delete(r.t.Context(), key); err != nil {
		r.t.Fatal(err)
	}
}

// step takes one step and compares its report.
func (r *rig) step(now time.Time, e expectation) {
	r.t.Helper()
	report := r.p.Once(r.t.Context(), now, microbatch.StepOptions{})
	if report.Err != nil || report.StateErr != nil || string(report.Outcome) != e.outcome {
		r.t.Fatalf("%s: step at %s: %s (%s; %v; %v), want %s", r.place.name, now, report.Outcome, report.Why, report.Err, report.StateErr, e.outcome)
	}
	if !e.n.IsZero() && (!report.Watermark.Equal(e.n) || !report.Progress.Equal(e.n)) {
		r.t.Fatalf("%s: step at %s: watermark %s, progress %s, want %s", r.place.name, now, report.Watermark, report.Progress, e.n)
	}
	if report.Late != e.late || int64(report.Quarantined) != e.quarantined {
		r.t.Fatalf("%s: step at %s: %d late objects and %d quarantined partitions, want %d and %d",
			r.place.name, now, report.Late, report.Quarantined, e.late, e.quarantined)
	}
}

// recompute publishes the same pane again from the raw files alone.
func (r *rig) recompute(now time.Time) {
	r.t.Helper()
	app, pipe := r.opened(true)
	report := pipe.Pipeline().Once(r.t.Context(), now, microbatch.StepOptions{Force: true})
	if report.Err != nil || report.Outcome != microbatch.Refined {
		r.t.Fatalf("%s: recomputing at %s: %s (%s; %v)", r.place.name, now, report.Outcome, report.Why, report.Err)
	}
	if err := app.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// snapshot reads the index as a consumer does.
func (r *rig) snapshot() *reader.Snapshot {
	r.t.Helper()
	if _, err := r.reader.Poll(r.t.Context()); err != nil {
		r.t.Fatalf("%s: %v", r.place.name, err)
	}
	return r.reader.Snapshot()
}

// hashes reads the data files of a pane and returns what they hash to, by
// name; they must be what the manifest says.
func (r *rig) hashes(m sink.Manifest) string {
	r.t.Helper()
	var out []string
	for _, f := range m.DataFiles() {
		b, _, err := store.ReadAll(r.t.Context(), r.pipe.Out, f.Key, 1<<30, store.GetOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		got := hex.EncodeToString(sum[:])
		if got != f.SHA256 || int64(len(b)) != f.Bytes {
			r.t.Fatalf("%s: %s has %d bytes of SHA-256 %s, the manifest says %d and %s", r.place.name, f.Key, len(b), got, f.Bytes, f.SHA256)
		}
		out = append(out, f.Key[strings.LastIndexByte(f.Key, '/')+1:]+" "+got)
	}
	return strings.Join(out, "\n")
}
