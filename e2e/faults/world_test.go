//go:build integration

package faults_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/e2e/binary"
	"github.com/deltad/deltad/e2e/faults/s3proxy"
	"github.com/deltad/deltad/e2e/servers"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/store/s3"
	"github.com/deltad/deltad/watermark"
)

// The servers and the binary under test, set once by TestMain.
var (
	env    servers.Env
	deltad string
)

func TestMain(m *testing.M) {
	rig := binary.Rig{
		Name: "faults", Env: &env, Builds: map[*string]binary.Build{&deltad: {}},
		Parallel: 20, // the tests wait for timeouts and pauses more than they work
		After: func() {
			if testing.Verbose() {
				fmt.Print(met.String())
			}
		},
	}
	os.Exit(rig.Main(m))
}

// serial makes the names of prefixes and databases different.
var serial atomic.Int64

var buckets = servers.Buckets{Prefix: "faults"}

// newRoot returns the bucket of a server, and a prefix in it that is new.
func newRoot(t *testing.T, server string) (bucket, root string) {
	t.Helper()
	bucket, err := buckets.On(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	return bucket, fmt.Sprintf("w%d", serial.Add(1))
}

func newDatabase(t *testing.T, admin string) string {
	t.Helper()
	dsn, err := servers.NewDatabase(t.Context(), admin, fmt.Sprintf("faults_%d_%d", time.Now().UnixNano()%1e12, serial.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// openBucket opens the bucket of a server at an endpoint, below a prefix.
func openBucket(t *testing.T, endpoint, bucket, root string, o s3.Options) store.Store {
	t.Helper()
	o.Bucket, o.Region, o.Endpoint, o.PathStyle = bucket, "us-east-1", endpoint, true
	o.Credentials = credentials.NewStaticCredentialsProvider(env.Key, env.Secret, "")
	st, err := s3.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return store.Prefixed(st, root+"/")
}

const index = `
state: {url: %q}
limits: {workers: 2}
admin: {listen: ""}
pipelines:
  items:
    source: {url: %q, layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: 1s}
    window: {size: 8m}
    index:
      key: [item]
      event_time: at
      delete_when: "op == 'D'"
      fields:
        updates: {count: "*"}
        clicks: {sum: clicks}
        clicks_3m: {sum: clicks, over: 3m}
        price: {mean: price}
        title: {latest: title}
        titles: {set: title, cap: 100}
    output: {url: %q, retain: {for: 0s, panes: 2, bases: 1}}
`

func config(t *testing.T, state, raw, out string) *configs.Config {
	t.Helper()
	c, err := configs.Read(strings.NewReader(fmt.Sprintf(index, state, raw, out)), "faults.yaml", func(string) (string, bool) { return "", false })
	if err == nil {
		names := make([]string, 0, 30)
		for name := range combine.Builtins() {
			names = append(names, name)
		}
		err = c.Validate(configs.Fns{Names: names, Refused: combine.Refused})
	}
	if err != nil {
		t.Fatal(err)
	}
	// Stores with timeouts of the test's choice go by a name in this process.
	for _, p := range c.Pipelines {
		p.Source.URL = strings.Replace(p.Source.URL, "s3:", "mem:", 1)
		p.Output.URL = strings.Replace(p.Output.URL, "s3:", "mem:", 1)
	}
	return c
}

// engine is one process's wiring of the pipeline.
type engine struct {
	app  *daemon.App
	pipe *daemon.Pipe
	p    *microbatch.Pipeline
}

func newEngine(t *testing.T, c *configs.Config, o daemon.Options) *engine {
	t.Helper()
	app, err := daemon.Open(t.Context(), c, o)
	for deadline := time.Now().Add(30 * time.Second); errors.Is(err, watermark.ErrUnavailable) && time.Now().Before(deadline); {
		app, err = daemon.Open(t.Context(), c, o) // a slow machine; a daemon that starts waits too
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = app.Close() })
	pipe, err := app.Pipe("")
	if err != nil {
		t.Fatal(err)
	}
	return &engine{app, pipe, pipe.Pipeline()}
}

// restart forgets what the pipeline remembers, as a new process would.
func (e *engine) restart() { e.p = e.pipe.Pipeline() }

// worldOptions are what a world has beyond the usual.
type worldOptions struct {
	dsn   string // how the engine reaches the database; empty: directly
	s3    s3.Options
	lease time.Duration
	tls   bool // between the engine and the proxy
}

// world is a pipeline behind a proxy, its control, a producer and a reader.
type world struct {
	t        *testing.T
	endpoint servers.Endpoint
	bucket   string
	root     string // of everything in it
	dsn      string // direct
	proxy    *s3proxy.Proxy
	direct   store.Store // the bucket by a path without faults
	engine   *engine
	state    watermark.Store // by a path without faults
	control  *engine
	reader   *reader.Reader

	first, clock time.Time // starts of the first and the newest partition
	put          int
	version      int64
	watermark    time.Time
	panes        int // read whole
}

func newWorld(t *testing.T, e servers.Endpoint, o worldOptions) *world {
	t.Helper()
	w := unbuilt(t, e, env.PG)
	w.build(o)
	return w
}

// unbuilt is a world with a place in a bucket and a database on a server.
func unbuilt(t *testing.T, e servers.Endpoint, admin string) *world {
	t.Helper()
	w := &world{t: t, endpoint: e, dsn: newDatabase(t, admin)}
	w.bucket, w.root = newRoot(t, e.URL)
	return w
}

func (w *world) build(o worldOptions) {
	t := w.t
	t.Helper()
	var err error
	if w.proxy, err = s3proxy.New(w.endpoint.URL); o.tls {
		w.proxy.Close()
		w.proxy, err = s3proxy.NewTLS(w.endpoint.URL)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.proxy.Close)
	if o.tls {
		o.s3.CAFile = w.certificate()
	}
	w.direct = openBucket(t, w.endpoint.URL, w.bucket, w.root, s3.Options{})
	if o.dsn == "" {
		o.dsn = w.dsn
	}
	log := zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel))
	w.engine = newEngine(t, config(t, o.dsn, "s3://bucket/in", "s3://bucket/out"), daemon.Options{
		Log: log, Build: "faults", LeaseTTL: o.lease, Mem: map[string]store.Store{"bucket": openBucket(t, w.proxy.URL, w.bucket, w.root, o.s3)},
	})
	w.state = newEngine(t, config(t, w.dsn, "s3://bucket/in", "s3://bucket/out"), daemon.Options{
		Log: log, Mem: map[string]store.Store{"bucket": w.direct},
	}).app.State
	w.control = newEngine(t, config(t, "sqlite://"+filepath.Join(t.TempDir(), "state.db"), "s3://bucket/in", "s3://control/out"), daemon.Options{
		Log: log, Build: "control", Mem: map[string]store.Store{"bucket": w.direct, "control": mem.New("control")},
	})
	w.reader = reader.Open(store.Prefixed(w.direct, "out/"), reader.Options{})
	w.first = time.Now().UTC().Truncate(time.Hour).Add(-12 * time.Hour)
	w.clock = w.first.Add(-time.Minute)
}

// produce drops the next partition.
func (w *world) produce() {
	w.t.Helper()
	w.clock = w.clock.Add(time.Minute)
	for file := range 2 {
		var b strings.Builder
		for row := range 15 {
			item := (w.put*7 + row*3 + file) % 60
			op := "U"
			if (item+w.put)%17 == 0 {
				op = "D"
			}
			fmt.Fprintf(&b, `{"item":"item-%02d","at":%q,"op":%q,"clicks":%d,"price":%d.25,"title":"t%d"}`+"\n",
				item, w.clock.Add(time.Duration(row)*time.Second).Format(time.RFC3339), op, row*w.put%13, w.put+row, (w.put+row)%5)
		}
		w.put++
		if _, err := store.PutBytes(w.t.Context(), w.direct, w.object(w.clock, file), []byte(b.String()), store.PutOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) object(p time.Time, file int) string {
	return fmt.Sprintf("in/%s/part-%d.ndjson", p.Format("2006/01/02/15/04"), file)
}

// remove takes an object out of a partition inside the window.
func (w *world) remove(file int) {
	w.t.Helper()
	if err := w.direct.Delete(w.t.Context(), w.object(w.clock.Add(-2*time.Minute), file)); err != nil {
		w.t.Fatal(err)
	}
}

// read polls as a strict consumer: whole panes, verified down the chain, and
// never backwards.
func (w *world) read() *reader.Snapshot {
	w.t.Helper()
	_, err := w.reader.Poll(w.t.Context())
	if errors.Is(err, reader.ErrNoIndex) {
		return nil
	}
	if err != nil {
		w.t.Fatalf("the reader failed: %v", err)
	}
	s := w.reader.Snapshot()
	if s.Current.Version < w.version || s.Current.Watermark.Before(w.watermark) {
		w.t.Fatalf("version %d and watermark %s after %d and %s", s.Current.Version, s.Current.Watermark, w.version, w.watermark)
	}
	if s.Current.Version > w.version {
		w.panes++
	}
	w.version, w.watermark = s.Current.Version, s.Current.Watermark.Time
	return s
}

// follow lets the control take the step that is due.
func (w *world) follow() {
	w.t.Helper()
	r := w.control.p.Once(w.t.Context(), w.now(), microbatch.StepOptions{})
	if r.Err != nil || !r.Watermark.Equal(w.clock) {
		w.t.Fatalf("the control: %s at %s (%v)", r.Outcome, r.Watermark, r.Err)
	}
}

// now is the clock of a step: the newest partition has just come.
func (w *world) now() time.Time { return w.clock.Add(30 * time.Second) }

// recovered says whether a step did what is due after a fault has ended.
func (w *world) recovered(r microbatch.Report) {
	w.t.Helper()
	done := r.Outcome == microbatch.Advanced || r.Outcome == microbatch.Refined || r.Outcome == microbatch.WasIdle
	if r.Err != nil || r.StateErr != nil || !done || !r.Watermark.Equal(w.clock) {
		w.t.Errorf("the first step after the fault: %s at %s, want it at %s (%s; %v; %v)", r.Outcome, r.Watermark, w.clock, r.Why, r.Err, r.StateErr)
	}
}

// same compares the live pane with the control's: the bytes of each file.
func (w *world) same() {
	w.t.Helper()
	w.follow()
	got := w.read()
	if got == nil {
		w.t.Fatal("there is no pane")
	}
	want, err := w.control.pipe.Sink.Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := w.control.pipe.Sink.ReadManifest(w.t.Context(), want.Delta.Ref())
	if err != nil {
		w.t.Fatal(err)
	}
	if !got.Manifest.Watermark.Equal(m.Watermark.Time) || *got.Manifest.Coverage != *m.Coverage {
		w.t.Errorf("the pane covers %v, an undisturbed one %v", *got.Manifest.Coverage, *m.Coverage)
	}
	if g, w2 := hashes(got.Manifest), hashes(m); g != w2 {
		w.t.Errorf("the pane of version %d has other bytes than an undisturbed one:\n%s\nwant\n%s", got.Current.Version, g, w2)
	}
}

func hashes(m sink.Manifest) string {
	var out []string
	for _, f := range m.DataFiles() {
		out = append(out, fmt.Sprintf("%s %d %s", f.Key[strings.LastIndexByte(f.Key, '/')+1:], f.Rows, f.SHA256))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// agrees holds the state store against CURRENT: the row copies it, each run of
// the chain is journalled as published, and no other is; none is left planned.
func (w *world) agrees() {
	w.t.Helper()
	ctx := w.t.Context()
	out := sink.New(sink.Settings{Store: store.Prefixed(w.direct, "out/"), Pipeline: "items", NewID: w.engine.app.NewID})
	head, err := out.Head(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	row, err := w.state.Pipeline(ctx, "items")
	if err != nil {
		w.t.Fatal(err)
	}
	if row.RunID != head.RunID || !row.Watermark.Equal(head.Watermark.Time) || row.CurrentVersion > head.Version {
		w.t.Errorf("the state store has run %s at %s, version %d; CURRENT has %s at %s, version %d",
			row.RunID, row.Watermark, row.CurrentVersion, head.RunID, head.Watermark, head.Version)
	}
	chain := map[string]bool{}
	err = out.Walk(ctx, head, func(_ sink.Ref, m sink.Manifest) (bool, error) {
		chain[m.RunID] = true
		return true, nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Fatal(err)
	}
	runs, err := w.state.Runs(ctx, "items", 10_000, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range runs {
		switch published := r.Status == watermark.RunPublished; {
		case r.Status == watermark.RunPlanned:
			w.t.Errorf("run %s is still planned", r.ID)
		case published != chain[r.ID]:
			w.t.Errorf("run %s is %s in the state store; in CURRENT's history: %t", r.ID, r.Status, chain[r.ID])
		}
		delete(chain, r.ID)
	}
	for id := range chain {
		w.t.Errorf("run %s of CURRENT's history is not in the state store", id)
	}
}

// under takes steps in one tenure. An error says that the lease could not be
// had.
func (w *world) under(do func(ctx context.Context, t microbatch.Term)) error {
	return w.engine.p.Under(w.t.Context(), func(ctx context.Context, t microbatch.Term) error {
		do(ctx, t)
		return nil
	})
}

// recomputed publishes the live pane once more, from the raw objects alone and
// by a path without faults: it must have the same bytes.
func (w *world) recomputed() {
	w.t.Helper()
	before := w.read()
	fresh := newEngine(w.t, config(w.t, w.dsn, "s3://bucket/in", "s3://bucket/out"), daemon.Options{
		Build: "recompute", NoCache: true, Mem: map[string]store.Store{"bucket": w.direct},
	})
	r := fresh.p.Once(w.t.Context(), w.now(), microbatch.StepOptions{Force: true})
	if r.Err != nil || r.Outcome != microbatch.Refined {
		w.t.Fatalf("recompute: %s (%v)", r.Outcome, r.Err)
	}
	if got, want := hashes(before.Manifest), hashes(w.read().Manifest); got != want {
		w.t.Errorf("the pane has other bytes than one computed anew:\n%s\nwant\n%s", got, want)
	}
}

// certificate writes the certificate of a TLS proxy and returns the path.
func (w *world) certificate() string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "ca.pem")
	body := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.proxy.Certificate()})
	if err := os.WriteFile(path, body, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// waitFor polls as a reader does until the newest partition is live, with both
// of its objects, and says how long that took.
func (w *world) waitFor(limit time.Duration) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		if s := w.read(); s != nil && s.Current.Watermark.Equal(w.clock) && w.whole(s.Manifest) {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			w.t.Fatalf("%s is not live after %s; the watermark is %s", w.clock, limit, w.watermark)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// whole says whether a pane has every object of the newest partition: one
// published between the two puts has only the first, until it is refined.
func (w *world) whole(m sink.Manifest) bool {
	n := 0
	for _, in := range m.Inputs {
		if in.Partition.Equal(w.clock) {
			n++
		}
	}
	return n == 2
}
