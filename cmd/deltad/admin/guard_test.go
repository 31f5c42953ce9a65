package admin_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deltad/deltad/cmd/deltad/admin"
)

func TestTokenIsNeeded(t *testing.T) {
	b := newBench(t, options{token: "s3cret-token"})
	b.token = "" // each case says what it sends
	for _, c := range []struct {
		name, path, auth string
		status           int
	}{
		{"none", "/api/v1/pipelines", "", 401},
		{"wrong", "/api/v1/pipelines", "Bearer s3cret-tokem", 401},
		{"a prefix of it", "/api/v1/pipelines", "Bearer s3cret", 401},
		{"empty", "/api/v1/pipelines", "Bearer ", 401},
		{"another scheme", "/api/v1/pipelines", "Digest s3cret-token", 401},
		{"right", "/api/v1/pipelines", "Bearer s3cret-token", 200},
		{"right, lower-case scheme", "/api/v1/pipelines", "bearer s3cret-token", 200},
		{"as the password of a browser", "/", "Basic YW55OnMzY3JldC10b2tlbg==", 200},
		{"page without", "/", "", 401},
		{"unknown path without", "/api/v1/nothing", "", 401},
		{"around the page's files", "/assets/../api/v1/pipelines", "", 401},
		{"around them, escaped", "/assets/..%2fapi/v1/pipelines", "", 401},
		{"around health", "/healthz/../api/v1/pipelines", "", 401},
		{"twice the slash", "//api/v1/pipelines", "", 401},
		{"health", "/healthz", "", 200},
		{"readiness", "/readyz", "", 200},
		{"metrics", "/metrics", "", 200},
		{"style", "/assets/status.css", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.call("GET", c.path, nil, "Authorization", c.auth)
			if c.status != 401 {
				r.want(t, c.status)
				return
			}
			r.want(t, 401, "unauthorized", "Authorization")
			offers := strings.Join(r.header.Values("WWW-Authenticate"), "; ")
			if !strings.Contains(offers, "Bearer") || strings.HasPrefix(c.path, "/api/") && strings.Contains(offers, "Basic") {
				t.Errorf("offers %s", offers)
			}
		})
	}
	b.call("POST", ads+"/pause", object{"reason": "nobody"}).want(t, 401)
	if row, err := b.app.State.EnsurePipeline(t.Context(), "ads"); err != nil || row.Paused {
		t.Errorf("paused without a token (%v)", err)
	}
	b.call("GET", "/api/v1/pipelines", nil, "Host", "deltad.example", "Authorization", "Bearer s3cret-token").want(t, 200)
}

// TestBrowsersOfOthersReachNothing: a foreign page can neither rebind its name
// to this machine nor send a form or a request of its own.
func TestBrowsersOfOthersReachNothing(t *testing.T) {
	b := newBench(t, options{})
	for _, host := range []string{"evil.example", "evil.example:80", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example", "[2001:db8::1]:80"} {
		b.call("GET", "/api/v1/pipelines", nil, "Host", host).want(t, 403, "host-not-allowed", "Host")
		b.call("GET", "/", nil, "Host", host).want(t, 403, "host-not-allowed")
	}
	for _, host := range []string{"localhost", "LOCALHOST:8480", "localhost.", "127.0.0.1", "127.8.9.1:80", "[::1]:8480", "[::1]"} {
		b.call("GET", "/api/v1/pipelines", nil, "Host", host).want(t, 200)
	}
	body := object{"reason": "a foreign page did it"}
	b.call("POST", ads+"/pause", body, "Sec-Fetch-Site", "cross-site").want(t, 403, "cross-origin", "Origin")
	b.call("POST", ads+"/pause", body, "Sec-Fetch-Site", "same-site").want(t, 403, "cross-origin")
	b.call("POST", ads+"/pause", body, "Origin", "http://evil.example").want(t, 403, "cross-origin")
	b.call("POST", ads+"/pause", body, "Origin", "null").want(t, 403, "cross-origin")
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json-seq"} {
		b.call("POST", ads+"/pause", body, "Content-Type", kind).want(t, 415, "not-json", "Content-Type")
	}
	if row, err := b.app.State.EnsurePipeline(t.Context(), "ads"); err != nil || row.Paused {
		t.Fatalf("paused by a foreign page (%v)", err)
	}
	b.call("POST", ads+"/pause", body, "Origin", b.http.URL, "Sec-Fetch-Site", "same-origin").want(t, 200)
	b.call("POST", ads+"/resume", body).want(t, 200)
	b.call("POST", ads+"/pause", body, "Content-Type", "application/json; charset=utf-8").want(t, 200)
	if got := b.call("GET", ads, nil, "Origin", "http://evil.example").header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("a foreign page may read: %q", got)
	}
}

func TestWithoutTokenOnlyLoopback(t *testing.T) {
	b := newBench(t, options{})
	closed := admin.New(admin.Options{App: b.app})
	if l, err := closed.Listen(t.Context(), "0.0.0.0:0"); !errors.Is(err, admin.ErrOpen) {
		t.Errorf("listening everywhere without a token: %v, %v", l, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Serve(t.Context(), l); !errors.Is(err, admin.ErrOpen) {
		t.Errorf("serving everywhere without a token: %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener refused was left open")
	}
	guarded := admin.New(admin.Options{App: b.app, Token: "x"})
	if l, err = guarded.Listen(t.Context(), "0.0.0.0:0"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestServeEnds: a stop ends what waits, answers it, and leaves nothing
// behind.
func TestServeEnds(t *testing.T) {
	b := newBench(t, options{})
	b.http.Close()
	before := goleak.IgnoreCurrent()
	l, err := b.srv.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.srv.Serve(ctx, l) }()
	lease, err := b.app.State.Acquire(t.Context(), "ads", "delta", "elsewhere", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	answered := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+ads+"/trigger?wait=50s", nil)
		if err != nil {
			answered <- 0
			return
		}
		res, err := client.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	for {
		if rq, err := b.app.State.TakeRequests(t.Context(), lease); err == nil && len(rq) == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	began := time.Now()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %s to end", took)
	}
	if status := <-answered; status != 503 {
		t.Errorf("the caller that waited got %d, want 503", status)
	}
	client.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}
