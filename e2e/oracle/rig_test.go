package oracle

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/sqlite"
)

const pipeline = "ads"

// rig drives the engine through its public API.
type rig struct {
	t       *testing.T
	world   *world
	config  *config
	support int // full.support_previous_for, in granules
	noCache bool
	slices  *tiers
	// The budgets are so small in some histories that little is kept.
	cacheBytes, windowBytes int64

	out    *mem.Store
	state  watermark.Store
	sink   *sink.Sink
	source *lister
	set    microbatch.Settings
	p      *microbatch.Pipeline
	reader *reader.Reader
	newID  func() string
	trace  func(step string)
}

// lister remembers how far back the last step listed.
type lister struct {
	*source.Source
	from    time.Time
	scanned bool
}

func (l *lister) Scan(ctx context.Context, now, after time.Time) (source.Listing, error) {
	if !l.scanned || after.Before(l.from) {
		l.from, l.scanned = after, true
	}
	return l.Source.Scan(ctx, now, after)
}

// template is an empty state store, migrated once for all histories.
func template(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// scratch is a folder in memory where there is one: every transaction of the
// state store waits for the disk otherwise.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "oracle-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newRig(t *testing.T, w *world, c *config, support int, slices *tiers, empty []byte) *rig {
	t.Helper()
	r := &rig{t: t, world: w, config: c, support: support, slices: slices, out: mem.NewAt("out", w.clock), newID: newID()}
	path := filepath.Join(scratch(t), "state.db")
	if err := os.WriteFile(path, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.state, err = sqlite.Open(t.Context(), sqlite.Options{Path: path, CallTimeout: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.state.Close() })
	r.sink = sink.New(sink.Settings{Store: r.out, Pipeline: pipeline, NewID: r.newID})
	r.reader = reader.Open(r.out, reader.Options{})
	r.configure(c)
	return r
}

// newID makes ids that ascend, however many are made in a millisecond.
func newID() func() string {
	var mu sync.Mutex
	entropy := ulid.Monotonic(rand.Reader, 0)
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return ulid.MustNew(ulid.Now(), entropy).String()
	}
}

// configure starts a process with a configuration: caches are empty.
func (r *rig) configure(c *config) {
	r.t.Helper()
	r.config = c
	w := r.world
	layout, err := partition.ParseLayout(w.layout, partition.LayoutOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	src, err := source.New(w.raw, source.Options{Layout: layout, Eligibility: partition.Eligibility{Granule: w.granule}})
	if err != nil {
		r.t.Fatal(err)
	}
	program, err := index.Compile(c.spec(w.granule), combine.Builtins())
	if err != nil {
		r.t.Fatalf("compile: %v\n%s", err, c.hash())
	}
	r.source = &lister{Source: src}
	long := func(granules int) time.Duration { return time.Duration(granules) * w.granule }
	r.set = microbatch.Settings{
		Name: pipeline, Calendar: layout.Calendar, ConfigHash: sink.Sum([]byte(c.hash())), Program: program, Combiners: combine.Builtins(),
		Rule: window.Rule{Size: long(c.window), Longest: long(c.longest()), Max: long(c.limit), OnGap: c.onGap},
		Full: true, SupportPrevious: long(r.support), Format: scan.NDJSON,
		ObjectErrors: microbatch.ObjectFail, SkipAfter: 10, Retain: sink.Retain{For: long(2), Panes: 4, Bases: 2},
		Workers: 1, CacheBytes: r.cacheBytes, WindowBytes: r.windowBytes, NoCache: r.noCache,
		Lister: r.source, Sink: r.sink, State: r.state,
		Open: func(o partition.Object) (scan.Blob, map[string]string) { return source.NewBlob(w.raw, o), nil },
		Documents: func(ctx context.Context, m sink.Manifest, emit func(*column.Batch) error) error {
			return reader.Pane(ctx, r.out, m, emit)
		},
		Trace: func(step string) {
			if r.trace != nil {
				r.trace(step)
			}
		},
		Log: zap.NewNop(), NewID: r.newID, Build: "test", Instance: "one", LeaseTTL: time.Hour, Grace: time.Second,
	}
	if c.since != noSince {
		r.set.Since = w.start(c.since)
	}
	r.slices.use(r.t, &r.set)
	r.p = microbatch.New(r.set)
}

// restart is a new process with the same configuration.
func (r *rig) restart() {
	r.slices.spoil(r.t, r.out)
	r.configure(r.config)
}

// step takes one step.
func (r *rig) step(o microbatch.StepOptions) microbatch.Report {
	r.source.scanned = false
	return r.p.Once(r.t.Context(), r.world.clock(), o)
}

// rebuild makes a full index up to a cut, of the live watermark where it is
// zero. The gate is wide, or that of the design.
func (r *rig) rebuild(cut time.Time, approve, wide bool) (watermark.Rebuild, error) {
	ctx := r.t.Context()
	rb, err := r.state.CreateRebuild(ctx, watermark.Rebuild{
		ID: r.set.NewID(), Pipeline: pipeline, Cause: watermark.RebuildManual, Cut: cut, Actor: "oracle", Reason: "a history asks for it",
	})
	var open *watermark.RebuildOpenError
	switch {
	case errors.As(err, &open): // what a gap asked for is made now
		if rb, err = r.state.RebuildByID(ctx, open.ID); err != nil {
			return rb, err
		}
	case err != nil:
		return rb, err
	}
	gate := full.DefaultGate()
	if wide {
		gate = full.Gate{MaxShrink: 1, MaxGrowth: 1e9, MaxNulls: 1}
	}
	s := r.set
	maker := full.New(full.Settings{
		Name: s.Name, Calendar: s.Calendar, ConfigHash: s.ConfigHash, Program: s.Program, Since: s.Since,
		Promote: approve, Gate: gate, MaxRejectShare: s.MaxRejectShare,
		Builder: slice.Builder{Program: s.Program, Format: s.Format, Row: s.Row, Limits: s.ScanLimits, Open: s.Open},
		Workers: 1, Lister: r.source.Source, Sink: s.Sink, State: r.state,
		Log: zap.NewNop(), NewID: s.NewID, Build: "test", Instance: "one", LeaseTTL: time.Hour,
	})
	if _, err := maker.Run(ctx, rb); err != nil {
		return rb, fmt.Errorf("rebuild: %w", err)
	}
	return r.state.RebuildByID(ctx, rb.ID)
}

// manifest reads a manifest with its inputs.
func (r *rig) manifest(ref sink.Ref) (sink.Manifest, error) {
	m, err := r.sink.ReadManifest(r.t.Context(), ref)
	if err != nil {
		return m, err
	}
	return m, r.sink.LoadInputs(r.t.Context(), &m)
}

// published are documents as they stand in files: by key, values by column.
type published map[string]document

// pane are the documents of one manifest, and the keys of its tombstones.
func (r *rig) pane(m sink.Manifest) (docs published, tombstones map[string]bool, err error) {
	ctx := r.t.Context()
	keys := 0
	for _, f := range m.Schema.Fields {
		if f.Key {
			keys++
		}
	}
	docs, tombstones = published{}, map[string]bool{}
	var fields []column.Field
	for _, f := range m.Schema.Fields {
		fields = append(fields, column.Field{Name: f.Name})
	}
	err = reader.Pane(ctx, r.out, m, func(b *column.Batch) error {
		for i := range b.Len {
			d := reader.Document{Fields: fields, Batch: b, Row: i}
			doc, err := decode(d)
			if err != nil {
				return err
			}
			docs[keyText(doc, m, keys)] = doc
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	dead := m
	dead.Files, dead.Tombstones = m.Tombstones, nil
	dead.Schema.Fields = m.Schema.Fields[:keys]
	types := make([]column.Field, keys)
	for i, f := range dead.Schema.Fields {
		types[i] = column.Field{Name: f.Name, Type: column.Of(column.String), Key: true}
	}
	dead.Schema.Hash = parquet.SchemaHash(types)
	err = reader.Pane(ctx, r.out, dead, func(b *column.Batch) error {
		for i := range b.Len {
			doc, err := decode(reader.Document{Fields: fields[:keys], Batch: b, Row: i})
			if err != nil {
				return err
			}
			tombstones[keyText(doc, m, keys)] = true
		}
		return nil
	})
	return docs, tombstones, err
}

func keyText(doc document, m sink.Manifest, keys int) string {
	parts := make([]string, keys)
	for i, f := range m.Schema.Fields[:keys] {
		parts[i], _ = doc[f.Name].(string)
	}
	return strings.Join(parts, "|")
}

func decode(d reader.Document) (document, error) {
	b, err := d.MarshalJSON()
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	doc := document{}
	return doc, dec.Decode(&doc)
}

// snapshot is everything that a reader has.
func snapshot(ctx context.Context, s *reader.Snapshot) (published, error) {
	out := published{}
	for d, err := range s.All(ctx) {
		if err != nil {
			return nil, err
		}
		doc, err := decode(d)
		if err != nil {
			return nil, err
		}
		out[strings.Join(d.Key(), "|")] = doc
	}
	return out, nil
}
