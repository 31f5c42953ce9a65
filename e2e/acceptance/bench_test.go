//go:build integration

package acceptance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/e2e/binary"
	"github.com/deltad/deltad/e2e/servers"
	"github.com/deltad/deltad/sink"
)

// The servers, the binary under test, and a build of it that kills itself at a
// named step; set once by TestMain.
var (
	env    servers.Env
	deltad string
	doomed string
)

func TestMain(m *testing.M) {
	rig := binary.Rig{
		Name: "acceptance", Env: &env, After: printFigures,
		Builds: map[*string]binary.Build{&deltad: {}, &doomed: {Tags: "crashtest"}},
	}
	os.Exit(rig.Main(m))
}

// bench is a pipeline "items" on one S3 server, with a prefix and a database
// of its own. deltad reaches the server through a proxy that counts.
type bench struct {
	t      *testing.T
	server servers.Endpoint
	s3     *s3.Client
	bucket string
	root   string // ends in a slash
	dsn    string
	proxy  *proxy
	config string // path
	admin  string // host:port, if it has one
}

// setup is what a configuration says beyond the usual.
type setup struct {
	prefixes string
	window   string // of "window:"; an hour
	trigger  string // of "trigger:"
	workers  int
	admin    bool
	object   string // errors.object
	format   string
	cache    string // cache.dir
}

// serial makes the names of prefixes and databases different.
var serial atomic.Int64

var buckets = servers.Buckets{Prefix: "acceptance"}

func bucketOn(t *testing.T, server servers.Endpoint) string {
	t.Helper()
	name, err := buckets.On(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func newBench(t *testing.T, server servers.Endpoint, o setup) *bench {
	t.Helper()
	name := fmt.Sprintf("%s_%d_%d", server.Name, time.Now().UnixNano(), serial.Add(1))
	b := &bench{
		t: t, server: server, s3: servers.NewClient(server.URL), bucket: bucketOn(t, server), root: name + "/", proxy: newProxy(t, server.URL),
		dsn: database(t, "acceptance_"+name),
	}
	if o.admin {
		b.admin = freeAddress(t)
	}
	b.config = b.write("deltad.yaml", o)
	return b
}

// write writes a configuration of the pipeline.
func (b *bench) write(name string, o setup) string {
	b.t.Helper()
	for _, d := range []struct {
		to   *string
		want string
	}{{&o.prefixes, "[]"}, {&o.window, "{size: 1h}"}, {&o.trigger, "{every: 30s}"}, {&o.object, "fail"}, {&o.format, "ndjson"}} {
		if *d.to == "" {
			*d.to = d.want
		}
	}
	if o.workers == 0 {
		o.workers = 2
	}
	admin := b.admin
	if !o.admin {
		admin = ""
	}
	text := fmt.Sprintf(`
state: {url: %q}
cache: {dir: %q, size: 64MiB}
limits: {workers: %d}
admin: {listen: %q}
restart: {every: 0, jitter: 0s}
pipelines:
  items:
    source:
      url: s3://%s/%sin
      prefixes: %s
      s3: &s3 {region: us-east-1, endpoint: %q, path_style: true}
      layout: "%%Y/%%m/%%d/%%H/%%M"
      format: %s
    trigger: %s
    window: %s
    index:
      key: [item]
      event_time: at
      delete_when: "op == 'D'"
      fields:
        updates: {count: "*"}
        clicks: {sum: clicks}
        clicks_5m: {sum: clicks, over: 5m}
        price: {mean: price}
        title: {latest: title}
        titles: {set: title, cap: 100}
    errors: {object: %s}
    output: {url: "s3://%[5]s/%[6]sout", s3: *s3}
`, b.dsn, o.cache, o.workers, admin, b.bucket, b.root, o.prefixes, b.proxy.url, o.format, o.trigger, o.window, o.object)
	path := filepath.Join(b.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// database makes an empty database and returns its DSN.
func database(t *testing.T, name string) string {
	t.Helper()
	dsn, err := servers.NewDatabase(t.Context(), env.PG, name)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// each runs a test on every server, side by side.
func each(t *testing.T, o setup, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, e := range env.S3 {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, e, o))
		})
	}
}

// inTurn runs a test that measures on one server after the other.
func inTurn(t *testing.T, o setup, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, e := range env.S3 {
		t.Run(e.Name, func(t *testing.T) { test(t, newBench(t, e, o)) })
	}
}

// command is a process of deltad with the benches' environment.
func command(ctx context.Context, bin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+env.Key, "AWS_SECRET_ACCESS_KEY="+env.Secret)
	return cmd
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func execute(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(t.Context(), deltad, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(began)}
}

// run runs a command with the bench's configuration and JSON output, wants an
// exit code, and decodes what it printed into v (nil: nothing is decoded).
func (b *bench) run(code int, v any, args ...string) result {
	b.t.Helper()
	r := execute(b.t, append(args, "-c", b.config, "-o", "json")...)
	if r.code != code {
		b.t.Fatalf("deltad %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.stdout, r.stderr)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(r.stdout), v); err != nil {
			b.t.Fatalf("deltad %s printed no JSON (%v): %s", strings.Join(args, " "), err, r.stdout)
		}
	}
	return r
}

// line is a line of run --once.
type line struct {
	Pipeline  string    `json:"pipeline"`
	Outcome   string    `json:"outcome"`
	Watermark time.Time `json:"watermark"`
	RunID     string    `json:"run_id"`
	Documents int64     `json:"documents"`
	Manifest  string    `json:"manifest"`
	Error     string    `json:"error"`
	Why       string    `json:"why"`
}

// once takes one step at a time of day and wants an outcome.
func (b *bench) once(clock, outcome string) line {
	b.t.Helper()
	code := 0
	switch outcome {
	case "failed", "held":
		code = 1
	case "standby":
		code = 3
	}
	var l line
	r := b.run(code, &l, "run", "--once", "--now", at(clock).Format(time.RFC3339))
	if l.Pipeline != "items" || l.Outcome != outcome {
		b.t.Fatalf("run --once at %s printed %s\nwant the outcome %s\n%s", clock, r.stdout, outcome, r.stderr)
	}
	return l
}

// at is a time of 2026-11-30.
func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", "2026-11-30 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

// put drops an object below the source.
func (b *bench) put(key string, body []byte) {
	b.t.Helper()
	_, err := b.s3.PutObject(b.t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: aws.String(b.root + "in/" + key), Body: bytes.NewReader(body)})
	if err != nil {
		b.t.Fatal(err)
	}
}

// putAll drops many objects, several at a time.
func (b *bench) putAll(keys []string, body func(i int) []byte) {
	b.t.Helper()
	g, ctx := errgroup.WithContext(b.t.Context())
	g.SetLimit(16)
	for i, key := range keys {
		g.Go(func() error {
			_, err := b.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: aws.String(b.root + "in/" + key), Body: bytes.NewReader(body(i))})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.t.Fatal(err)
	}
}

// minute is the prefix of the partition of a time.
func minute(t time.Time) string { return t.Format("2006/01/02/15/04/") }

func drop(clock, name string) string { return minute(at(clock)) + name }

func row(item string, t time.Time, clicks int, title string) string {
	return fmt.Sprintf(`{"item":%q,"at":%q,"op":"U","clicks":%d,"price":%d.25,"title":%q}`+"\n", item, t.Format(time.RFC3339), clicks, clicks, title)
}

func update(item, clock string, clicks int, title string) []byte {
	return []byte(row(item, at(clock), clicks, title))
}

// get reads an object below the output.
func (b *bench) get(key string) []byte {
	b.t.Helper()
	out, err := b.s3.GetObject(b.t.Context(), &s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.root + "out/" + key)})
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}

// manifest reads what a manifest says.
func (b *bench) manifest(key string) sink.Manifest {
	b.t.Helper()
	var m sink.Manifest
	if err := json.Unmarshal(b.get(key), &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// document asks for a document of the live index.
func (b *bench) document(key string) map[string]any {
	b.t.Helper()
	var doc map[string]any
	b.run(0, &doc, "get", key)
	return doc
}

// ledger is what `deltad partitions` says, by time of day.
func (b *bench) ledger() map[string]string {
	b.t.Helper()
	var lines []struct {
		Partition time.Time `json:"partition"`
		State     string    `json:"state"`
	}
	b.run(0, &lines, "partitions")
	out := map[string]string{}
	for _, l := range lines {
		out[l.Partition.Format("15:04")] = l.State
	}
	return out
}
