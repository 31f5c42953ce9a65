package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// healthOf runs `deltad health` and returns its exit code and both streams.
func healthOf(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), Options{Args: append([]string{"health"}, args...), Stdout: &o, Stderr: &e})
	return code, o.String(), e.String()
}

func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHealthURL(t *testing.T) {
	for _, c := range []struct{ name, listen, want string }{
		{"loopback", "127.0.0.1:8480", "http://127.0.0.1:8480"},
		{"a name", "localhost:8480", "http://localhost:8480"},
		{"every address", "0.0.0.0:8480", "http://127.0.0.1:8480"},
		{"no address", ":8480", "http://127.0.0.1:8480"},
		{"every address of version 6", "[::]:8480", "http://[::1]:8480"},
		{"one address of version 6", "[fd00::1]:80", "http://[fd00::1]:80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := urlOf(c.listen); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	for _, listen := range []string{"", "8480"} {
		if got, err := urlOf(listen); err == nil || !strings.Contains(err.Error(), "admin.listen") {
			t.Errorf("%q: got %q, %v", listen, got, err)
		}
	}
}

func TestHealthAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		ready  bool
		code   int
		want   string
	}{
		{"alive", 200, `{"status":"ok"}`, false, 0, "/healthz: ok"},
		{"alive and busy collecting", 200, `{"status":"gc-thrash"}`, false, 0, "gc-thrash"},
		{"ready", 200, `{"ready":true,"checks":[]}`, true, 0, "/readyz: ready"},
		{"not ready", 503, `{"ready":false,"checks":[{"name":"state","ready":false,"error":"unavailable"},{"name":"current/ads","ready":true}]}`, true, 1, "not ready: state: unavailable\n"},
		{"an error", 500, `{"type":"about:blank","status":500}`, false, 1, "answered 500"},
		{"somebody else", 404, `<html>`, false, 1, "answered 404"},
		{"elsewhere", 302, ``, false, 1, "answered 302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var path string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.Path
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer srv.Close()
			args := []string{"--url", srv.URL + "/"}
			want := "/healthz"
			if c.ready {
				args, want = append(args, "--ready"), "/readyz"
			}
			code, out, errs := healthOf(t, args...)
			if code != c.code || !strings.Contains(out, c.want) || path != want || errs != "" {
				t.Errorf("exit %d, stdout %q, stderr %q, asked %s", code, out, errs, path)
			}
			code, out, _ = healthOf(t, append(args, "-o", "json")...)
			var line healthLine
			if err := json.Unmarshal([]byte(out), &line); err != nil || code != c.code || line.Status != c.status || line.Healthy != (c.code == 0) {
				t.Errorf("exit %d, JSON %q: %+v, %v", code, out, line, err)
			}
		})
	}
}

// TestHealthOfNobody: every kind of silence is an exit code of 1, since
// container engines reserve the others.
func TestHealthOfNobody(t *testing.T) {
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	gone, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"refused", []string{"--url", "http://" + gone.Addr().String()}, "connection refused"},
		{"hangs", []string{"--url", "http://" + silent.Addr().String(), "--timeout", "100ms"}, "deadline exceeded"},
		{"no URL", []string{"--url", "127.0.0.1:8480"}, "--url: must be"},
		{"no configuration", []string{"-c", filepath.Join(t.TempDir(), "none.yaml")}, "no such file"},
		{"no endpoint", []string{"-c", fileOf(t, "a.yaml", `admin: {listen: ""}`)}, "there is no endpoint"},
		{"a wrong endpoint", []string{"-c", fileOf(t, "b.yaml", `admin: {listen: 5, nothing: 6}`)}, "admin.nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			code, out, errs := healthOf(t, c.args...)
			if code != 1 || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit %d, %q %q, want 1 and %q", code, out, errs, c.want)
			}
			if time.Since(began) > 3*time.Second {
				t.Errorf("took %s", time.Since(began))
			}
		})
	}
}

// TestHealthByConfiguration finds the endpoint in the file, whatever else is
// wrong with it, and gives the token only where it is asked for.
func TestHealthByConfiguration(t *testing.T) {
	var guarded bool
	var tokens []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		if guarded && r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	defer srv.Close()
	token := fileOf(t, "token", "s3cret\n")
	file := fileOf(t, "deltad.yaml", "admin: {listen: "+srv.Listener.Addr().String()+", token_file: "+token+"}\npipelines: {ads: {nonsense: 1}}\n")
	if code, out, errs := healthOf(t, "-c", file); code != 0 || len(tokens) != 1 || tokens[0] != "" {
		t.Errorf("open: exit %d, %q %q, tokens %q", code, out, errs, tokens)
	}
	guarded, tokens = true, nil
	if code, out, errs := healthOf(t, "-c", file); code != 0 || len(tokens) != 2 || tokens[0] != "" || tokens[1] != "Bearer s3cret" {
		t.Errorf("guarded: exit %d, %q %q, tokens %q", code, out, errs, tokens)
	}
	if code, out, _ := healthOf(t, "--url", srv.URL, "--token-file", token); code != 0 {
		t.Errorf("with --token-file: exit %d, %q", code, out)
	}
	if code, out, _ := healthOf(t, "--url", srv.URL); code != 1 || !strings.Contains(out, "answered 401") {
		t.Errorf("without a token: exit %d, %q", code, out)
	}
}
