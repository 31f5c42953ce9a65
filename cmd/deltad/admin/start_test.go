package admin_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"os"

	"github.com/deltad/deltad/cmd/deltad/admin"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
)

// TestBeforeTheStoresAnswer: the endpoint is there from the start and says
// which store of which pipeline is waited for.
func TestBeforeTheStoresAnswer(t *testing.T) {
	b := &bench{t: t, dir: t.TempDir()}
	text := `
state: {url: "postgres://nobody@127.0.0.1:1/none?sslmode=disable"}
pipelines:
  ads:
    source: {url: "file://DIR/raw", layout: "%Y/%m/%d/%H/%M", format: ndjson}
    window: {size: 10m}
    index: {key: [item], fields: {n: {count: "*", over: 10m}}}
    output: {url: "file://DIR/out"}
`
	c, err := configs.Read(strings.NewReader(strings.ReplaceAll(text, "DIR", b.dir)), "deltad.yaml", os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if b.app, err = daemon.Prepare(t.Context(), c, daemon.Options{}); err != nil {
		t.Fatal(err)
	}
	b.srv = admin.New(admin.Options{App: b.app})
	b.http = httptest.NewServer(b.srv)
	t.Cleanup(func() { b.http.Close(); _ = b.app.Close() })
	b.waits("has not answered yet")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.app.Serve(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if s, _ := b.app.Standing("ads"); s.Err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the state store was not asked")
		}
	}
	b.waits("127.0.0.1")
	stop()
	if err := <-done; err != nil {
		t.Errorf("a stop while waiting: %v", err)
	}
}

// waits checks what the endpoint says while the state store is waited for.
func (b *bench) waits(why string) {
	b.t.Helper()
	b.call("GET", "/healthz", nil).want(b.t, 200)
	ready := b.call("GET", "/readyz", nil).want(b.t, 503)
	check := ready.body["checks"].([]any)[0].(object)
	if check["name"] != "state" || check["ready"] != false || check["error"] == "" {
		b.t.Errorf("readiness %s", ready.raw)
	}
	for _, path := range []string{"/api/v1/pipelines", ads} {
		v := b.call("GET", path, nil).want(b.t, 200).body
		if list, ok := v["pipelines"].([]any); ok {
			v = list[0].(object)
		}
		start, ok := v["starting"].(object)
		if !ok || v["pipeline"] != "ads" || v["watermark"] != nil || start["waiting_for"] != "state store" || !strings.Contains(start["error"].(string), why) {
			b.t.Errorf("%s: %v", path, v)
		}
	}
	if page := b.call("GET", "/", nil).want(b.t, 200).raw; !strings.Contains(page, "waiting for the state store") || !strings.Contains(page, `data-tone="warn"`) {
		b.t.Errorf("the page says %s", page)
	}
	b.call("POST", ads+"/pause", object{"reason": "a look", "actor": "ada"}).want(b.t, 503, "unavailable")
}

// TestOutputIsWaitedFor: with the state store there, the rest of what is known
// is shown beside it.
func TestOutputIsWaitedFor(t *testing.T) {
	b := newBench(t, options{})
	out := filepath.Join(b.dir, "out")
	if err := os.WriteFile(out, nil, 0o600); err != nil { // no directory
		t.Fatal(err)
	}
	c := b.app.Config
	app, err := daemon.Prepare(t.Context(), c, daemon.Options{LeaseTTL: 5 * time.Second, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b.http.Close()
	b.http = httptest.NewServer(admin.New(admin.Options{App: app}))
	t.Cleanup(func() { b.http.Close(); _ = app.Close() })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- app.Serve(ctx) }()
	var ready reply
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		ready = b.call("GET", "/readyz", nil).want(t, 503)
		if strings.Contains(ready.raw, "output/ads") && strings.Contains(ready.raw, "pipelines.ads.output.url") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("readiness %s", ready.raw)
		}
	}
	b.call("POST", ads+"/pause", object{"reason": "a look", "actor": "ada"}).want(t, 200)
	v := b.call("GET", ads, nil).want(t, 200).body
	if start, ok := v["starting"].(object); !ok || start["waiting_for"] != "output" || v["paused"] != true {
		t.Errorf("%v", v)
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); b.call("GET", "/readyz", nil).status != 200; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never ready")
		}
	}
	if v := b.call("GET", ads, nil).want(t, 200).body; v["starting"] != nil {
		t.Errorf("%v", v)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
