//go:build integration

package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/binary"
	"github.com/deltad/deltad/e2e/servers"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/open"
	"github.com/deltad/deltad/store/s3"
)

// The servers, and two builds that differ in their version, set once by
// TestMain.
var (
	env          servers.Env
	first, other string
)

const firstVersion, otherVersion = "0.0.1-first", "0.0.2-other"

func TestMain(m *testing.M) {
	rig := binary.Rig{
		Name: "crash", Env: &env,
		Builds: map[*string]binary.Build{
			&first: {Tags: "crashtest", Version: firstVersion},
			&other: {Tags: "crashtest", Version: otherVersion},
		},
		Parallel: 12, // the tests mostly wait, for leases to expire and for triggers
		// Stores that a test opens for itself take them from the environment.
		Before: func(context.Context) error {
			return errors.Join(os.Setenv("AWS_ACCESS_KEY_ID", env.Key), os.Setenv("AWS_SECRET_ACCESS_KEY", env.Secret))
		},
	}
	os.Exit(rig.Main(m))
}

// place is where source, output and state store of a rig are.
type place struct {
	name   string
	server string // an S3 server's URL; empty: files and SQLite
}

// places are files with SQLite, and every S3 server with Postgres.
func places() []place {
	out := []place{{name: "file"}}
	for _, e := range env.S3 {
		out = append(out, place{e.Name, e.URL})
	}
	return out
}

func placeOf(t *testing.T, name string) place {
	t.Helper()
	for _, p := range places() {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("there is no %s", name)
	return place{}
}

// options are what a rig's configuration says beyond the usual.
type options struct {
	pipelines []string // ["p"]
	layout    string   // seconds
	zone      string
	window    string
	retain    string
	restart   string
	dsn       string // of a Postgres of the test's own
	leaseTTL  time.Duration
	trigger   string
	over      string // of the count
	full      string // the full section; fields are over all then, but for one
	listen    string // of the endpoint
}

// rig is one installation: a source, an output, a state store, and the
// configuration that names them.
type rig struct {
	t              *testing.T
	place          place
	o              options
	dir            string
	source, output store.Store // the test's own handles, above the pipelines'
	config         string
	stateURL       string
}

var serial atomic.Int64

var buckets = servers.Buckets{Prefix: "crash"}

func newRig(t *testing.T, p place, o options) *rig {
	t.Helper()
	for _, d := range []struct {
		to   *string
		want string
	}{
		{&o.layout, "%Y/%m/%d/%H/%M/%S"}, {&o.zone, "UTC"}, {&o.window, "{size: 10m}"}, {&o.trigger, "{every: 1s}"},
		{&o.retain, "{for: 2h, panes: 20}"}, {&o.restart, "{every: 0s, jitter: 0s}"}, {&o.over, "10m"},
	} {
		if *d.to == "" {
			*d.to = d.want
		}
	}
	if o.pipelines == nil {
		o.pipelines = []string{"p"}
	}
	if o.leaseTTL == 0 {
		o.leaseTTL = 3 * time.Second
	}
	r := &rig{t: t, place: p, o: o, dir: t.TempDir()}
	root, state := "file://"+r.dir, "sqlite://"+filepath.Join(r.dir, "state.db")
	if p.server != "" {
		name := fmt.Sprintf("rig-%d", serial.Add(1))
		bucket, err := buckets.On(t.Context(), p.server)
		if err != nil {
			t.Fatal(err)
		}
		root = "s3://" + bucket + "/" + name
		state = database(t, strings.ReplaceAll(bucket+"-"+p.name+"-"+name, "-", "_"))
	}
	if o.dsn != "" {
		state = o.dsn
	}
	r.stateURL = state
	r.source, r.output = r.open(root+"/in"), r.open(root+"/out")
	r.config = filepath.Join(r.dir, "deltad.yaml")
	if err := os.WriteFile(r.config, []byte(r.yaml(root, state)), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) yaml(root, state string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "state: {url: %q}\nlimits: {workers: 2}\nadmin: {listen: %q}\nrestart: %s\npipelines:\n", state, r.o.listen, r.o.restart)
	client := ""
	if r.place.server != "" {
		client = fmt.Sprintf(", s3: {region: us-east-1, endpoint: %q, path_style: true}", r.place.server)
	}
	over, more := ", over: "+r.o.over, ""
	if r.o.full != "" {
		over, more = "", fmt.Sprintf("\n        recent: {count: \"*\", over: %s}\n    full: %s", r.o.over, r.o.full)
	}
	for _, p := range r.o.pipelines {
		fmt.Fprintf(&b, `
  %[1]s:
    source: {url: "%[2]s/in/%[1]s", layout: %[3]q, time_zone: %[4]s, format: ndjson%[5]s}
    trigger: %[6]s
    window: %[7]s
    index:
      key: [k]
      event_time: at
      fields:
        n: {count: "*"%[8]s}
        sum: {sum: v%[8]s}
        gen: {latest: gen}%[10]s
    output: {url: "%[2]s/out/%[1]s", retain: %[9]s%[5]s}
`, p, root, r.o.layout, r.o.zone, client, r.o.trigger, r.o.window, over, r.o.retain, more)
	}
	return b.String()
}

// open opens a store for the test itself.
func (r *rig) open(url string) store.Store {
	r.t.Helper()
	st, err := open.Open(r.t.Context(), url, open.Options{S3: s3.Options{Region: "us-east-1", Endpoint: r.place.server, PathStyle: true}})
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// database makes an empty database on the shared server.
func database(t *testing.T, name string) string {
	t.Helper()
	return databaseOn(t, env.PG, name)
}

func databaseOn(t *testing.T, dsn, name string) string {
	t.Helper()
	made, err := servers.NewDatabase(t.Context(), dsn, name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// out is a pipeline's output.
func (r *rig) out(pipeline string) store.Store { return store.Prefixed(r.output, pipeline+"/") }

// head reads a pipeline's CURRENT.
func (r *rig) head(pipeline string) sink.Head {
	r.t.Helper()
	h, err := sink.ReadHead(r.t.Context(), r.out(pipeline), "")
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// manifest reads the manifest of a pipeline's live pane.
func (r *rig) manifest(pipeline string) sink.Manifest {
	r.t.Helper()
	var m sink.Manifest
	r.read(r.out(pipeline), r.head(pipeline).Delta.Manifest, &m)
	return m
}

func (r *rig) read(st store.Store, key string, v any) {
	r.t.Helper()
	body, _, err := store.ReadAll(r.t.Context(), st, key, 64<<20, store.GetOptions{})
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		r.t.Fatalf("read %s: %v", key, err)
	}
}

// put drops an object into a pipeline's source.
func (r *rig) put(ctx context.Context, pipeline, key string, body []byte) error {
	_, err := r.source.Put(ctx, pipeline+"/"+key, bytes.NewReader(body), store.PutOptions{})
	return err
}

// result is how a process ended.
type result struct {
	code           int // -1: killed
	killed         bool
	stdout, stderr string
}

// again says that the process stood by, or was so slow on a busy machine that
// its short lease ran out: both may be tried again.
func (r result) again() bool {
	return r.code == 3 || r.code == 1 && strings.Contains(r.stdout+r.stderr, "the lease is lost")
}

// run runs a command to its end. extra is added to its environment.
func (r *rig) run(extra []string, args ...string) result {
	r.t.Helper()
	var out, errs bytes.Buffer
	cmd := r.command(first, extra, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), signalled(cmd.ProcessState) == syscall.SIGKILL, out.String(), errs.String()}
}

func signalled(s *os.ProcessState) syscall.Signal {
	w, ok := s.Sys().(syscall.WaitStatus)
	if !ok || !w.Signaled() {
		return 0
	}
	return w.Signal()
}

func (r *rig) command(bin string, extra []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), bin, append(args, "-c", r.config, "-o", "json")...)
	cmd.Env = append(append(os.Environ(), "DELTAD_LEASE_TTL="+r.o.leaseTTL.String()), extra...)
	cmd.SysProcAttr = servers.ProcAttr(syscall.SIGKILL, nil)
	return cmd
}

// led runs a command, again and again while another process' lease is in its
// way, and wants success. v is what it printed.
func (r *rig) led(v any, args ...string) {
	r.t.Helper()
	deadline := time.Now().Add(r.o.leaseTTL + 20*time.Second)
	for {
		got := r.run(nil, args...)
		if got.again() && time.Now().Before(deadline) {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if got.code != 0 {
			r.t.Fatalf("deltad %v: exit code %d\n%s%s", args, got.code, got.stdout, got.stderr)
		}
		if v != nil {
			if err := json.Unmarshal([]byte(got.stdout), v); err != nil {
				r.t.Fatalf("deltad %v printed no JSON (%v): %s", args, err, got.stdout)
			}
		}
		return
	}
}

// line is a line of run --once.
type line struct {
	Outcome   string    `json:"outcome"`
	Watermark time.Time `json:"watermark"`
	RunID     string    `json:"run_id"`
	Error     string    `json:"error"`
	Why       string    `json:"why"`
}

// once takes one undisturbed step.
func (r *rig) once(args ...string) line {
	r.t.Helper()
	var l line
	r.led(&l, append([]string{"run", "--once"}, args...)...)
	return l
}

// crash runs a command that must die at a step.
func (r *rig) crash(step string, args ...string) {
	r.t.Helper()
	deadline := time.Now().Add(r.o.leaseTTL + 20*time.Second)
	for {
		got := r.run([]string{"DELTAD_CRASH_AT=" + step}, args...)
		if got.killed {
			return
		}
		if !got.again() || time.Now().After(deadline) {
			r.t.Fatalf("deltad %v did not come to %q: exit code %d\n%s%s", args, step, got.code, got.stdout, got.stderr)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// daemon is a running `deltad run`.
type daemon struct {
	*binary.Process
	r     *rig
	pid   int
	lines *logLines
}

// logLine is a line of a daemon's log and when it came.
type logLine struct {
	at      time.Time
	Msg     string    `json:"msg"`
	Mark    time.Time `json:"watermark"`
	Build   string    `json:"build"`
	Epoch   int64     `json:"epoch"`
	Cause   string    `json:"cause"`
	Outcome string    `json:"outcome"`
	Error   string    `json:"err"`
}

// start starts a daemon of the binary bin; it is killed when the test ends.
func (r *rig) start(bin string, extra []string, args ...string) *daemon {
	r.t.Helper()
	d := &daemon{r: r, lines: &logLines{}}
	d.Process = binary.Start(r.t, r.command(bin, extra, append([]string{"run"}, args...)...), d.lines)
	d.pid = d.Cmd.Process.Pid
	return d
}

// logLines are the lines of a log as they come.
type logLines struct {
	mu struct {
		sync.Mutex
		log   bytes.Buffer
		lines []logLine
	}
}

// Write takes some of the daemon's log.
func (d *logLines) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.log.Write(p)
	for {
		text, rest, whole := bytes.Cut(d.mu.log.Bytes(), []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l := logLine{at: time.Now()}
		if json.Unmarshal(text, &l) != nil {
			l.Msg = string(text)
		}
		d.mu.lines = append(d.mu.lines, l)
		d.mu.log.Next(len(d.mu.log.Bytes()) - len(rest))
	}
}

// said are the log lines with a message, or all of them.
func (d *daemon) said(msg string) []logLine {
	d.lines.mu.Lock()
	defer d.lines.mu.Unlock()
	var out []logLine
	for _, l := range d.lines.mu.lines {
		if msg == "" || l.Msg == msg {
			out = append(out, l)
		}
	}
	return out
}

// stop is SIGTERM, wants a clean exit and returns how long it took.
func (d *daemon) stop() time.Duration {
	d.r.t.Helper()
	await(d.r.t, 30*time.Second, "the daemon has started", func() bool { return len(d.said("started")) > 0 })
	return d.Stop(40 * time.Second)
}

// dies waits until the daemon was killed by itself.
func (d *daemon) dies(step string) {
	d.r.t.Helper()
	select {
	case <-d.Done:
	case <-time.After(30 * time.Second):
		d.r.t.Fatalf("the daemon has not come to %q after 30 s: %v", step, d.said(""))
	}
	if signalled(d.Cmd.ProcessState) != syscall.SIGKILL {
		d.r.t.Fatalf("the daemon ended with %v before it came to %q: %v", d.Cmd.ProcessState, step, d.said(""))
	}
}

// await waits until what holds.
func await(t *testing.T, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > limit {
			t.Fatalf("after %s still not: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}
