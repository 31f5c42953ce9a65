package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/deltad/deltad/cmd/deltad/admin"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// bench is a real daemon on file stores and SQLite in a directory of its own,
// with its endpoint.
type bench struct {
	t    *testing.T
	dir  string
	app  *daemon.App
	srv  *admin.Server
	http *httptest.Server
	// base is the minute the data counts from: far enough back that all of it
	// is in the past of the real clock.
	base  time.Time
	token string
}

const configText = `
state: {url: "sqlite://%[1]s/state.db"}
admin: {listen: "127.0.0.1:0"}
pipelines:
  ads:
    source: {url: "file://%[1]s/raw", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: 1h}
    window: {size: 10m%[2]s}
    index:
      key: [item]
      event_time: ts
      fields: {clicks: {sum: clicks, over: 10m}, title: {latest: title}}
%[3]s    output: {url: "file://%[1]s/out"}
`

type options struct {
	window string // more of the window section
	full   string // the full section; empty for none
	role   string
	token  string
	trace  func(string)
}

func newBench(t *testing.T, o options) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), base: time.Now().UTC().Truncate(time.Minute).Add(-40 * time.Minute), token: o.token}
	section := ""
	if o.full != "" {
		section = "    full: " + o.full + "\n"
	}
	text := fmt.Sprintf(configText, b.dir, o.window, section)
	if err := os.WriteFile(filepath.Join(b.dir, "deltad.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open(o)
	return b
}

// open starts a process over what is there.
func (b *bench) open(o options) {
	b.t.Helper()
	var names []string
	for name := range combine.Builtins() {
		names = append(names, name)
	}
	cfg, err := configs.LoadValid(filepath.Join(b.dir, "deltad.yaml"), os.LookupEnv, configs.Fns{Names: names})
	if err != nil {
		b.t.Fatal(err)
	}
	log := zaptest.NewLogger(b.t)
	b.app, err = daemon.Open(b.t.Context(), cfg, daemon.Options{Log: log, Trace: o.trace, Role: o.role, LeaseTTL: 5 * time.Second, Grace: time.Second, Build: "test"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.srv = admin.New(admin.Options{App: b.app, Token: o.token, Log: log, Build: "test"})
	b.http = httptest.NewServer(b.srv)
	app, server := b.app, b.http
	b.t.Cleanup(func() { server.Close(); _ = app.Close() })
}

// serve runs the daemon's pipelines, as a leader, until the test ends or stop
// is called.
func (b *bench) serve() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	app := b.app
	go func() { done <- app.Serve(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
		done <- nil
	}
	b.t.Cleanup(stop)
	for !b.leads() {
		time.Sleep(10 * time.Millisecond)
	}
	return stop
}

func (b *bench) leads() bool {
	st, err := b.app.State.LeaseStatus(b.t.Context(), "ads", watermark.RoleDelta)
	return err == nil && st.Live
}

func (b *bench) minute(n int) time.Time { return b.base.Add(time.Duration(n) * time.Minute) }

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// put drops an object of one row into the partition of a minute.
func (b *bench) put(minutes ...int) {
	b.t.Helper()
	for _, n := range minutes {
		at := b.minute(n)
		dir := filepath.Join(b.dir, "raw", at.Format("2006/01/02/15/04"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		row := fmt.Sprintf(`{"item":"i%d","ts":%q,"clicks":%d,"title":"t%d"}`+"\n", n, text(at), n, n)
		// At once, as a producer has to: a daemon may be looking.
		staged := filepath.Join(dir, "_part.ndjson")
		if err := os.WriteFile(staged, []byte(row), 0o600); err != nil {
			b.t.Fatal(err)
		}
		if err := os.Rename(staged, filepath.Join(dir, "part.ndjson")); err != nil {
			b.t.Fatal(err)
		}
	}
}

// step takes one step of the daemon's own code at a minute.
func (b *bench) step(n int, want microbatch.Outcome) microbatch.Report {
	b.t.Helper()
	r := b.app.Pipes[0].Pipeline().Once(b.t.Context(), b.minute(n), microbatch.StepOptions{})
	if r.Outcome != want {
		b.t.Fatalf("step at minute %d: %s (%s, %v), want %s", n, r.Outcome, r.Why, r.Err, want)
	}
	return r
}

func (b *bench) live() (sink.Head, sink.Manifest) {
	b.t.Helper()
	head, err := b.app.Pipes[0].Sink.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := b.app.Pipes[0].Sink.ReadManifest(b.t.Context(), head.Delta.Ref())
	if err != nil {
		b.t.Fatal(err)
	}
	return head, m
}

type object = map[string]any

// reply is an answer of the endpoint.
type reply struct {
	status int
	header http.Header
	body   object
	raw    string
}

// call sends a request; headers are pairs.
func (b *bench) call(method, path string, body any, headers ...string) reply {
	b.t.Helper()
	var r io.Reader
	if body != nil {
		j, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		if s, ok := body.(string); ok {
			j = []byte(s)
		}
		r = bytes.NewReader(j)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.http.URL+path, r)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		switch headers[i] {
		case "Host":
			req.Host = headers[i+1]
		default:
			req.Header.Set(headers[i], headers[i+1])
		}
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	out := reply{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if method != http.MethodHead && strings.Contains(res.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(raw, &out.body); err != nil {
			b.t.Fatalf("%s %s: %v: %s", method, path, err, raw)
		}
		if wrong := nulls("", out.body); len(wrong) > 0 {
			b.t.Errorf("%s %s: null: %s\n%s", method, path, strings.Join(wrong, ", "), raw)
		}
	}
	return out
}

// nullable are what is null in JSON where there is none: times, numbers, text
// for the next page, and objects. A list is empty then, and so it is not among
// them.
var nullable = strings.Fields(`
	watermark previous_watermark progress coverage_from data_age_seconds age_seconds published_at planned_at updated_at created_at started_at finished_at
	at due cut to newest supported_until next_rebuild next_before next_from first last gap
	manifest pause leader last_step full starting rebuild candidate details plan
`)

// nulls are the paths of what is null and must not be.
func nulls(path string, v any) (wrong []string) {
	switch v := v.(type) {
	case nil:
		if !slices.Contains(nullable, path[strings.LastIndex(path, ".")+1:]) && !strings.HasSuffix(path, "full.held") {
			return []string{path}
		}
	case []any:
		for _, e := range v {
			wrong = append(wrong, nulls(path, e)...)
		}
	case object:
		for name, e := range v {
			wrong = append(wrong, nulls(path+"."+name, e)...)
		}
	}
	return wrong
}

const ads = "/api/v1/pipelines/ads"

// want checks status and, for problems, the slug and the field at fault.
func (r reply) want(t *testing.T, status int, slug ...string) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.raw)
	}
	if len(slug) == 0 {
		return r
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q of a problem", got)
	}
	if r.body["type"] != "urn:deltad:problem:"+slug[0] || r.body["status"] != float64(status) || r.body["title"] == "" {
		t.Errorf("problem %s, want %s", r.raw, slug[0])
	}
	if len(slug) > 1 && r.body["field"] != slug[1] {
		t.Errorf("field %v, want %s: %s", r.body["field"], slug[1], r.raw)
	}
	return r
}

func (b *bench) pause() reply {
	b.t.Helper()
	return b.call("POST", ads+"/pause", object{"reason": "a look at the data", "actor": "ada"}).want(b.t, 200)
}

// plan plans a reset and returns the answer.
func (b *bench) plan(n int) reply {
	b.t.Helper()
	return b.call("POST", ads+"/watermark/plan", object{"to": text(b.minute(n))}).want(b.t, 200)
}

// apply applies a plan, all in order.
func (b *bench) apply(plan reply, more object, headers ...string) reply {
	b.t.Helper()
	body := object{"to": plan.body["to"], "digest": plan.body["digest"], "reason": "the producer wrote nonsense", "actor": "ada"}
	for k, v := range more {
		body[k] = v
	}
	return b.call("POST", ads+"/watermark/apply", body, append([]string{"If-Match", plan.header.Get("ETag")}, headers...)...)
}
