// Package indextest is a small pipeline in memory, with base and delta, for the
// tests of what reads a live index. Each step is taken by the engine itself.
package indextest

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/full"
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

// Index is a pipeline "ads" of minute partitions of NDJSON, a window of ten
// minutes and a longest field of five.
type Index struct {
	Raw, Out *mem.Store
	State    watermark.Store
	Source   *source.Source
	Set      microbatch.Settings
	// Clock is what time it is.
	Clock time.Time

	t *testing.T
	p *microbatch.Pipeline
}

// Spec is the index of the documents: key item; fields updates, clicks, title
// (latest), least (min), clicks_5m, big (a filtered count) and double.
func Spec() index.Spec {
	return index.Spec{
		Key: []string{"item"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op == 'D'", Where: "op != 'X'",
		Fields: []index.FieldSpec{
			{Name: "updates", Fn: "count", Args: []string{"*"}},
			{Name: "clicks", Fn: "sum", Args: []string{"clicks"}},
			{Name: "title", Fn: "latest", Args: []string{"title"}},
			{Name: "least", Fn: "min", Args: []string{"clicks"}},
			{Name: "clicks_5m", Fn: "sum", Args: []string{"clicks"}, Over: 5 * time.Minute},
			{Name: "big", Fn: "count", Args: []string{"*"}, Where: "clicks > 4"},
			{Name: "double", Expr: "clicks * 2"},
		},
	}
}

// New returns a pipeline to which nothing has come yet. With full it has a full
// index.
func New(t *testing.T, hasFull bool) *Index {
	t.Helper()
	x := &Index{t: t, Raw: mem.New("raw"), Out: mem.New("out")}
	var err error
	if x.State, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "state.db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.State.Close() })
	if _, err := x.State.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	layout, err := partition.ParseLayout("%Y/%m/%d/%H/%M", partition.LayoutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if x.Source, err = source.New(x.Raw, source.Options{Layout: layout}); err != nil {
		t.Fatal(err)
	}
	program, err := index.Compile(Spec(), combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	newID := func() string { return ulid.Make().String() }
	rule := window.Rule{Size: 10 * time.Minute, Longest: 5 * time.Minute, Max: time.Hour, OnGap: window.Skip}
	if hasFull {
		rule.Max, rule.OnGap = 24*time.Hour, window.Rebuild
	}
	x.Set = microbatch.Settings{
		Name: "ads", Rule: rule, Calendar: layout.Calendar, ConfigHash: "c1", Program: program, Format: scan.NDJSON, Combiners: combine.Builtins(),
		Full: hasFull, SupportPrevious: 24 * time.Hour,
		ObjectErrors: microbatch.ObjectFail, SkipAfter: 10, Retain: sink.DefaultRetain(), Workers: 2, CacheBytes: 64 << 20,
		Lister: x.Source, Sink: sink.New(sink.Settings{Store: x.Out, Pipeline: "ads", NewID: newID}), State: x.State,
		Open: func(o partition.Object) (scan.Blob, map[string]string) { return source.NewBlob(x.Raw, o), nil },
		Documents: func(ctx context.Context, m sink.Manifest, emit func(*column.Batch) error) error {
			return reader.Pane(ctx, x.Out, m, emit)
		},
		Log: zap.NewNop(), NewID: newID, Build: "test", Instance: "t1", LeaseTTL: 30 * time.Second, Grace: time.Second,
	}
	x.p = microbatch.New(x.Set)
	return x
}

// At is the instant of a clock time.
func At(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", "2026-11-30 "+clock)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Key is the key of an object in the partition of a minute.
func Key(clock, name string) string { return At(clock).Format("2006/01/02/15/04/") + name }

// Put drops an object of rows into the partition of a minute.
func (x *Index) Put(clock, name string, rows ...string) {
	x.t.Helper()
	body := []byte(strings.Join(append(rows, ""), "\n"))
	if _, err := x.Raw.Put(x.t.Context(), Key(clock, name), bytes.NewReader(body), store.PutOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

// Row is a record of a key.
func Row(item, clock string, clicks int, title string) string {
	return fmt.Sprintf(`{"item":%q,"ts":%q,"clicks":%d,"title":%q,"op":"U"}`, item, At(clock).Format(time.RFC3339), clicks, title)
}

// Del is a record that deletes a key.
func Del(item, clock string) string {
	return fmt.Sprintf(`{"item":%q,"ts":%q,"op":"D","clicks":0,"title":null}`, item, At(clock).Format(time.RFC3339))
}

// Step takes one step and wants an outcome.
func (x *Index) Step(clock string, want microbatch.Outcome) {
	x.t.Helper()
	x.Clock = At(clock)
	r := x.p.Once(x.t.Context(), x.Clock, microbatch.StepOptions{})
	if r.Outcome != want || r.StateErr != nil {
		x.t.Fatalf("step at %s: outcome %s (%s, %v, %v), want %s", clock, r.Outcome, r.Why, r.Err, r.StateErr, want)
	}
}

// Once takes one step and returns how it ended.
func (x *Index) Once(now time.Time) microbatch.Report {
	x.Clock = now
	return x.p.Once(x.t.Context(), now, microbatch.StepOptions{})
}

// Restart lets go of everything that the pipeline remembers.
func (x *Index) Restart() { x.p = x.Pipeline() }

// Rebuild makes a full index that waits to be promoted.
func (x *Index) Rebuild() watermark.Rebuild {
	x.t.Helper()
	s := x.Set
	rebuilder := full.New(full.Settings{
		Name: s.Name, Calendar: s.Calendar, ConfigHash: s.ConfigHash, Program: s.Program,
		Promote: true, Gate: full.Gate{MaxShrink: 1, MaxGrowth: 9, MaxNulls: 1}, Builder: x.Pipeline().Builder(), Workers: 2, Lister: x.Source, Sink: s.Sink, State: x.State,
		Log: s.Log, NewID: s.NewID, Build: "test", Instance: "t1", LeaseTTL: 30 * time.Second,
	})
	rb, err := x.State.CreateRebuild(x.t.Context(), watermark.Rebuild{ID: s.NewID(), Pipeline: s.Name, Cause: watermark.RebuildManual, Actor: "t", Reason: "a test asks for it"})
	if err != nil {
		x.t.Fatal(err)
	}
	if r, err := rebuilder.Run(x.t.Context(), rb); r.State != watermark.RebuildCandidate {
		x.t.Fatalf("rebuild ended %s (%v, checks %+v)", r.State, err, r.Checks)
	}
	if rb, err = x.State.RebuildByID(x.t.Context(), rb.ID); err != nil {
		x.t.Fatal(err)
	}
	return rb
}

// Pipeline is one that remembers nothing.
func (x *Index) Pipeline() *microbatch.Pipeline { return microbatch.New(x.Set) }

// Live is the live pane's manifest.
func (x *Index) Live() sink.Manifest {
	x.t.Helper()
	head, err := x.Set.Sink.Head(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	m, err := x.Set.Sink.ReadManifest(x.t.Context(), head.Delta.Ref())
	if err != nil {
		x.t.Fatal(err)
	}
	return m
}

// Grown is an index that has everything a live one can have: a base with keys
// that the delta does not have (deep) or that are deleted in it (lost), an
// object that it did not read, carried far outside the coverage (old), one that
// was replaced before it was made (seen), tombstones (gone, y), a record that the
// filter leaves out (hidden), and a former base that is still supported.
func Grown(t *testing.T) *Index {
	t.Helper()
	x := New(t, true)
	x.Put("02:00", "a.ndjson", Row("old", "02:00", 7, "ancient"), Row("x", "02:00", 1, "first"), Row("gone", "02:00", 1, "here"),
		Row("deep", "02:00", 4, "untouched"), Row("lost", "02:00", 1, "deleted in the base"), Del("lost", "02:01"))
	x.Put("02:58", "a.ndjson", Row("seen", "02:58", 2, "two"))
	x.Put("03:00", "a.ndjson", Row("x", "03:00", 2, "one"), Row("y", "03:00", 1, "why"))
	x.Step("03:01", microbatch.Advanced)
	x.Rebuild()
	x.Step("03:01", microbatch.Refined)
	x.Put("03:20", "a.ndjson", Row("x", "03:20", 5, "two"), Del("gone", "03:20"))
	x.Step("03:21", microbatch.Advanced)
	x.Put("02:58", "a.ndjson", Row("seen", "02:58", 3, "three"))
	x.Step("03:22", microbatch.Refined)
	x.Rebuild()
	x.Step("03:22", microbatch.Refined)
	x.Put("02:50", "late.ndjson", Row("old", "02:50", 1, "less ancient"))
	x.Step("03:23", microbatch.Refined)
	x.Put("03:40", "a.ndjson", Row("x", "03:40", 4, "three"), Row("z", "03:40", 1, "zed"), Del("y", "03:40"))
	x.Step("03:41", microbatch.Advanced)
	x.Put("05:00", "a.ndjson", Row("z", "05:00", 6, "zet"), strings.ReplaceAll(Row("hidden", "05:00", 1, "filtered"), `"U"`, `"X"`))
	x.Step("05:01", microbatch.Advanced)
	return x
}
