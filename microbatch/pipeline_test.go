package microbatch_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap/zaptest"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/sqlite"
)

// bench is a pipeline on memory stores and a SQLite file, driven step by step.
type bench struct {
	t      testing.TB
	raw    *mem.Store
	out    *mem.Store
	state  watermark.Store
	set    microbatch.Settings
	p      *microbatch.Pipeline
	reader *reader.Reader
	calls  map[string]int
}

type benchOptions struct {
	layout   string
	prefixes []string
	zone     *time.Location
	settle   time.Duration
	rule     window.Rule
	spec     index.Spec
	change   func(*microbatch.Settings)
}

// clicks is the usual index of the tests.
func clicks() index.Spec {
	return index.Spec{
		Key: []string{"item"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op == 'D'",
		Fields: []index.FieldSpec{
			{Name: "updates", Fn: "count", Args: []string{"*"}},
			{Name: "clicks", Fn: "sum", Args: []string{"clicks"}},
			{Name: "title", Fn: "latest", Args: []string{"title"}},
			{Name: "clicks_5m", Fn: "sum", Args: []string{"clicks"}, Over: 5 * time.Minute},
			{Name: "double", Expr: "clicks * 2"},
		},
	}
}

func hour(w time.Duration) window.Rule {
	return window.Rule{Size: w, Longest: 5 * time.Minute, Max: 4 * w, OnGap: window.Skip}
}

func newBench(t testing.TB, o benchOptions) *bench {
	t.Helper()
	if o.layout == "" {
		o.layout = "%Y/%m/%d/%H/%M"
	}
	if o.rule.Size == 0 {
		o.rule = hour(time.Hour)
	}
	if o.spec.Key == nil {
		o.spec = clicks()
	}
	b := &bench{t: t, raw: mem.New("raw"), out: mem.New("out"), calls: map[string]int{}}
	state, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	if _, err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.state = state
	layout, err := partition.ParseLayout(o.layout, partition.LayoutOptions{Location: o.zone})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	count := func(op, _ string, _ time.Duration, _ int64) {
		mu.Lock()
		defer mu.Unlock()
		b.calls[op]++
	}
	raw := store.Metered(b.raw, count)
	src, err := source.New(raw, source.Options{Layout: layout, Prefixes: o.prefixes, Eligibility: partition.Eligibility{Settle: o.settle}})
	if err != nil {
		t.Fatal(err)
	}
	program, err := index.Compile(o.spec, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	out := store.Metered(b.out, count)
	newID := func() string { return ulid.Make().String() }
	b.set = microbatch.Settings{
		Name: "ads", Rule: o.rule, Calendar: layout.Calendar, ConfigHash: "c1", Program: program, Format: scan.NDJSON,
		ObjectErrors: microbatch.ObjectFail, SkipAfter: 10, Retain: sink.DefaultRetain(), Workers: 2, CacheBytes: 64 << 20, WindowBytes: 64 << 20,
		Lister: src, Sink: sink.New(sink.Settings{Store: out, Pipeline: "ads", NewID: newID}), State: state,
		Open: func(o partition.Object) (scan.Blob, map[string]string) { return source.NewBlob(raw, o), nil },
		Documents: func(ctx context.Context, m sink.Manifest, emit func(*column.Batch) error) error {
			return reader.Pane(ctx, out, m, emit)
		},
		Log: zaptest.NewLogger(t), NewID: newID, Build: "test", Instance: "t1", LeaseTTL: 30 * time.Second, Grace: time.Second,
	}
	if o.change != nil {
		o.change(&b.set)
	}
	b.restart()
	return b
}

// restart makes a pipeline that remembers nothing.
func (b *bench) restart() {
	b.p = microbatch.New(b.set)
	b.reader = reader.Open(b.out, reader.Options{})
}

func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", "2026-11-30 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

// put drops an object into the partition of a minute.
func (b *bench) put(clock, name string, rows ...string) string {
	key := at(clock).Format("2006/01/02/15/04/") + name
	b.putKey(key, rows...)
	return key
}

func (b *bench) putKey(key string, rows ...string) {
	b.t.Helper()
	body := strings.Join(rows, "\n") + "\n"
	if len(rows) == 0 {
		body = ""
	}
	if _, err := b.raw.Put(b.t.Context(), key, bytes.NewReader([]byte(body)), store.PutOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func row(item string, clock string, clicks int, title string) string {
	return fmt.Sprintf(`{"item":%q,"ts":%q,"clicks":%d,"title":%q,"op":"U"}`, item, at(clock).Format(time.RFC3339), clicks, title)
}

func del(item, clock string) string {
	return fmt.Sprintf(`{"item":%q,"ts":%q,"op":"D","clicks":0,"title":null}`, item, at(clock).Format(time.RFC3339))
}

// step takes one step and wants an outcome.
func (b *bench) step(clock string, want microbatch.Outcome) microbatch.Report {
	b.t.Helper()
	clear(b.calls)
	r := b.p.Once(b.t.Context(), at(clock), microbatch.StepOptions{})
	if r.Outcome != want {
		b.t.Fatalf("step at %s: outcome %s (%s, %v), want %s", clock, r.Outcome, r.Why, r.Err, want)
	}
	if r.StateErr != nil {
		b.t.Fatalf("step at %s: %v", clock, r.StateErr)
	}
	return r
}

// docs are the documents of the live pane, as JSON by key.
func (b *bench) docs() map[string]string {
	b.t.Helper()
	if _, err := b.reader.Poll(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	out := map[string]string{}
	for d, err := range b.reader.Snapshot().All(b.t.Context()) {
		if err != nil {
			b.t.Fatal(err)
		}
		j, err := d.MarshalJSON()
		if err != nil {
			b.t.Fatal(err)
		}
		out[strings.Join(d.Key(), "|")] = string(j)
	}
	return out
}

func (b *bench) live() sink.Manifest {
	b.t.Helper()
	head, err := b.set.Sink.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := b.set.Sink.ReadManifest(b.t.Context(), head.Delta.Ref())
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

func (b *bench) ledger() map[string]string {
	b.t.Helper()
	lines, err := b.state.LedgerRange(b.t.Context(), "ads", "", time.Time{}, time.Time{}, 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]string{}
	for _, l := range lines {
		out[l.Partition.Format("15:04")] = l.State
	}
	return out
}

func TestFirstPaneThenIdle(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.step("03:00", microbatch.WasIdle)
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"), row("y", "03:00", 1, "why"))
	b.put("03:01", "a.ndjson", row("x", "03:01", 3, "two"))
	r := b.step("03:02", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:01")) || r.Documents != 2 {
		t.Fatalf("watermark %s, %d documents", r.Watermark, r.Documents)
	}
	got := b.docs()
	want := `{"item":"x","updates":2,"clicks":5,"title":"two","clicks_5m":5,"double":10}`
	if got["x"] != want {
		t.Errorf("x is %s, want %s", got["x"], want)
	}
	r = b.step("03:03", microbatch.WasIdle)
	for op, n := range b.calls {
		if op == "put" || op == "delete" {
			t.Errorf("idle step: %d %s", n, op)
		}
	}
	if total := b.calls["list"] + b.calls["get"] + b.calls["head"]; r.ListCalls != 1 || total > 3 {
		t.Errorf("idle step made %v", b.calls)
	}
}
