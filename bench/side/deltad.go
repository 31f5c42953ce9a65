package side

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deltad/deltad/bench/events"
	"github.com/deltad/deltad/bench/meter"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store/file"
)

// Pipeline is the name of the one pipeline that is measured.
const Pipeline = "ads"

// Setup says what a daemon is started with.
type Setup struct {
	Binary  string // deltad
	Dir     string // empty, the daemon's own
	Threads int
	Memory  int64 // bytes
	Window  int   // partitions
	Further int   // partitions that are shown beyond the first window
	Index   string
	Layers  int64    // bytes from which a pane is one of layers; 0 for what deltad has by default
	Env     []string // of the process, beside this one's
}

// Daemon is a deltad that runs one pipeline on files, at nobody's trigger but
// the measurement's.
type Daemon struct {
	setup  Setup
	first  time.Time // the partition of index 0
	admin  string    // host:port
	cmd    *exec.Cmd
	log    bytes.Buffer // read when the process has ended
	exited chan struct{}
}

// config is the daemon's. A day is longer than any measurement: the trigger
// and the restart never fire in one.
const config = `
state: {url: "sqlite://%[1]s/state.db"}
limits: {workers: %[2]d, memory: %[3]dMiB}
cache: {dir: "%[1]s/cache"}
admin: {listen: "%[4]s"}
restart: {every: 0, jitter: 0s}
pipelines:
  %[5]s:
    source: {url: "file://%[1]s/in", layout: "%[6]s", format: parquet}
    trigger: {every: 24h}
    window: {size: %[7]dm}
    index:
%[8]s
    output: {url: "file://%[1]s/out", retain: {for: 1s, panes: 2}%[9]s}
`

// NewDaemon writes the configuration of a daemon. Nothing runs yet.
func NewDaemon(ctx context.Context, s Setup) (*Daemon, error) {
	for _, d := range []string{"in", "out", "cache"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("prepare a daemon: %w", err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	// The last partition that is shown is the minute that has just begun, as for
	// a daemon whose producers are on time; one that finds only old partitions
	// has to look whether there are newer ones.
	first := time.Now().UTC().Truncate(events.Granule).Add(-time.Duration(s.Window+s.Further-1) * events.Granule)
	d := &Daemon{setup: s, first: first, admin: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	index := "      " + strings.ReplaceAll(strings.TrimSpace(s.Index), "\n", "\n      ")
	layers := ""
	if s.Layers > 0 {
		layers = fmt.Sprintf(", layers: {above: %dB}", s.Layers)
	}
	text := fmt.Sprintf(config, s.Dir, s.Threads, s.Memory>>20, d.admin, Pipeline, events.Layout, s.Window, index, layers)
	if err := os.WriteFile(d.config(), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("prepare a daemon: %w", err)
	}
	return d, nil
}

func (d *Daemon) config() string { return filepath.Join(d.setup.Dir, "deltad.yaml") }

// Start starts the process and waits for the end of its first step.
func (d *Daemon) Start(ctx context.Context) error {
	d.log.Reset()
	d.cmd = exec.Command(d.setup.Binary, "run", "-c", d.config()) //nolint:noctx // Stop ends it
	d.cmd.Env = append(os.Environ(), d.setup.Env...)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it never outlives the measurement
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start deltad: %w", err)
	}
	d.exited = make(chan struct{})
	go func() {
		defer close(d.exited)
		_ = d.cmd.Wait() // ProcessState says how it ended
	}()
	for {
		// Looking costs the daemon CPU that is not its own: look seldom.
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), d.Stop())
		case <-d.exited:
			return fmt.Errorf("deltad ended with %v at its start:\n%s", d.cmd.ProcessState, d.log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if s, err := d.series(ctx); err == nil && s["deltad_run_duration_seconds_count"] > 0 {
			return nil
		}
	}
}

// Stop ends the process as a supervisor does and waits for that.
func (d *Daemon) Stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // one that has ended is seen below
	select {
	case <-d.exited:
	case <-time.After(time.Minute):
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
	if !d.cmd.ProcessState.Success() {
		return fmt.Errorf("deltad ended with %v:\n%s", d.cmd.ProcessState, d.log.String())
	}
	return nil
}

// PID is the process's.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// folder is where the daemon looks for a partition.
func (d *Daemon) folder(i int) string {
	return filepath.Join(d.setup.Dir, "in", events.Folder(d.first.Add(time.Duration(i)*events.Granule)))
}

// Show makes the objects of a partition visible, all at once.
func (d *Daemon) Show(s events.Set, i int) error {
	to := d.folder(i)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("show partition %d: %w", i, err)
	}
	for _, path := range s.Objects(i) {
		if err := os.Link(path, filepath.Join(to, filepath.Base(path))); err != nil {
			return fmt.Errorf("show partition %d: %w", i, err)
		}
	}
	return nil
}

// ShowLate makes the late object of a partition visible.
func (d *Daemon) ShowLate(s events.Set, i int) error {
	if err := os.Link(s.Late(i), filepath.Join(d.folder(i), "part-late.parquet")); err != nil {
		return fmt.Errorf("show the late object of partition %d: %w", i, err)
	}
	return nil
}

// Run asks for one step and returns what it cost the daemon, which must end as
// the outcome says. The wall time is the step's own.
func (d *Daemon) Run(ctx context.Context, outcome string) (meter.Usage, error) {
	pid := d.PID()
	// Garbage of the step before is not this one's.
	if err := meter.Rest(pid, 10*time.Second); err != nil {
		return meter.Usage{}, err
	}
	before, err := d.series(ctx)
	if err != nil {
		return meter.Usage{}, err
	}
	if err := meter.ForgetPeak(pid); err != nil {
		return meter.Usage{}, err
	}
	cpu, err := meter.CPU(pid)
	if err != nil {
		return meter.Usage{}, err
	}
	if err := d.trigger(ctx, outcome); err != nil {
		return meter.Usage{}, err
	}
	if err := meter.Rest(pid, 10*time.Second); err != nil {
		return meter.Usage{}, err
	}
	u, err := d.since(ctx, cpu, before)
	if err == nil && u.Wall == 0 {
		err = errors.New("the daemon took no step, or several")
	}
	return u, err
}

// Step asks for one step, which must end as the outcome says. It waits for no
// more than the step's end.
func (d *Daemon) Step(ctx context.Context, outcome string) error { return d.trigger(ctx, outcome) }

// Restart stops the process and starts it again, which takes a step at once.
// It returns what that cost from the start of the process on: CPU of all that,
// and as wall time how long it took until the step had ended.
func (d *Daemon) Restart(ctx context.Context) (meter.Usage, error) {
	if err := d.Stop(); err != nil {
		return meter.Usage{}, err
	}
	began := time.Now()
	if err := d.Start(ctx); err != nil {
		return meter.Usage{}, err
	}
	wall := time.Since(began)
	if err := meter.Rest(d.PID(), 10*time.Second); err != nil {
		return meter.Usage{}, err
	}
	u, err := d.since(ctx, 0, nil)
	u.Wall = wall
	return u, err
}

// since is what the process used since its CPU clock and series were as given.
func (d *Daemon) since(ctx context.Context, cpu time.Duration, before map[string]float64) (u meter.Usage, err error) {
	now, err := meter.CPU(d.PID())
	if err != nil {
		return u, err
	}
	if u.Peak, err = meter.Peak(d.PID()); err != nil {
		return u, err
	}
	after, err := d.series(ctx)
	if err != nil {
		return u, err
	}
	grown := func(name string) float64 { return after[name] - before[name] }
	u.CPU = now - cpu
	if grown("deltad_run_duration_seconds_count") == 1 {
		u.Wall = time.Duration(grown("deltad_run_duration_seconds_sum") * float64(time.Second))
	}
	u.Requests = int64(grown("deltad_store_requests_total"))
	u.Read = int64(grown(`deltad_store_bytes_total{op="get"}`))
	u.Written = int64(grown(`deltad_store_bytes_total{op="put"}`))
	return u, nil
}

// trigger asks for a step and waits for its end.
func (d *Daemon) trigger(ctx context.Context, outcome string) error {
	id := ulid.Make().String() // asking again finds the same step
	before := d.published()
	is, err := d.ask(ctx, id, "0s")
	// Every question costs the daemon: while a pane is awaited, its pointer is
	// watched from outside, and only what may have failed is asked for again.
	for n := 1; err == nil && is.Outcome == ""; n++ {
		if outcome != "idle" && d.published().Equal(before) && n%100 != 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		is, err = d.ask(ctx, id, "1s")
	}
	if err == nil && is.Outcome != outcome {
		err = fmt.Errorf("the step ended as %s (%s), want %s", is.Outcome, is.Why, outcome)
	}
	return err
}

// published is when the live pane was; zero before the first.
func (d *Daemon) published() time.Time {
	info, err := os.Stat(filepath.Join(d.setup.Dir, "out", "CURRENT"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// step is what the daemon says of one; Outcome is empty until it has ended.
type step struct{ State, Outcome, Why string }

// ask asks for the step of an id and waits for its end, for so long at most.
func (d *Daemon) ask(ctx context.Context, id, wait string) (is step, err error) {
	url := fmt.Sprintf("http://%s/api/v1/pipelines/%s/trigger?wait=%s", d.admin, Pipeline, wait)
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return is, fmt.Errorf("ask for a step: %w", err)
	}
	rq.Header.Set("Idempotency-Key", id)
	body, err := d.fetch(rq)
	if err != nil {
		return is, fmt.Errorf("ask for a step: %w", err)
	}
	if err := json.Unmarshal(body, &is); err != nil {
		return is, fmt.Errorf("ask for a step: decode %q: %w", body, err)
	}
	return is, nil
}

// series are the daemon's metrics: the sum over all labels under the bare name,
// and single series as they are printed.
func (d *Daemon) series(ctx context.Context) (map[string]float64, error) {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.admin+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	body, err := d.fetch(rq)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a label with a space: none that is asked for
		}
		bare, _, labelled := strings.Cut(name, "{")
		out[name] += v
		if labelled {
			out[bare] += v
		}
	}
	return out, nil
}

func (d *Daemon) fetch(rq *http.Request) ([]byte, error) {
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// Pane is a DuckDB table expression of the live pane's documents.
func (d *Daemon) Pane(ctx context.Context) (string, error) {
	out := filepath.Join(d.setup.Dir, "out")
	st, err := file.New(out)
	if err != nil {
		return "", fmt.Errorf("read the pane: %w", err)
	}
	r := reader.Open(st, reader.Options{Lazy: true})
	if _, err := r.Poll(ctx); err != nil {
		return "", fmt.Errorf("read the pane: %w", err)
	}
	return r.Snapshot().SQL(out), nil
}
