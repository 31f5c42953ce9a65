package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"

	"go.uber.org/zap"
)

// open are the paths that never need a token: probes and scrapers have none,
// and the page's own files hold nothing of the pipelines.
func open(path string) bool {
	switch path { // whole paths: a prefix would open what .. leads to
	case "/healthz", "/readyz", "/metrics", "/assets/status.css", "/assets/status.js":
		return true
	}
	return false
}

// guard is what every request passes through.
func (s *Server) guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.o.Log.Error("request panicked", zap.String("path", r.URL.Path), zap.Any("err", p), zap.ByteString("stack", debug.Stack()))
				s.fail(w, r, fmt.Errorf("answer %s %s: panic: %v", r.Method, r.URL.Path, p))
			}
		}()
		secure(w.Header())
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if s.o.Token == "" && !loopbackHost(r.Host) {
			s.fail(w, r, refusal(forbiddenHost, "Host", "without a token only loopback names are answered, not %q", r.Host))
			return
		}
		if s.o.Token != "" && !open(r.URL.Path) && !s.authorized(r) {
			w.Header().Add("WWW-Authenticate", `Bearer realm="deltad"`)
			if !strings.HasPrefix(r.URL.Path, "/api/") {
				w.Header().Add("WWW-Authenticate", `Basic realm="deltad: any user, the token as password", charset="UTF-8"`)
			}
			s.fail(w, r, refusal(unauthorized, "Authorization", "give the token of admin.token_file as a bearer"))
			return
		}
		if err := origins.Check(r); err != nil {
			s.fail(w, r, refusal(crossOrigin, "Origin", "%v", err))
			return
		}
		if err := jsonBody(r); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// policy lets the page load its own two files and talk to its own origin.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// authorized compares digests, so that neither content nor length of the
// token shows in the time it takes.
func (s *Server) authorized(r *http.Request) bool {
	given := ""
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		given = strings.TrimSpace(token)
	} else if _, password, ok := r.BasicAuth(); ok {
		given = password
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.o.Token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// loopbackHost says whether a Host header names this machine and nothing
// else.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// jsonBody refuses the kinds of body that a form on any page could send.
func jsonBody(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	kind := r.Header.Get("Content-Type")
	if kind == "" && r.ContentLength == 0 {
		return nil
	}
	if t, _, err := mime.ParseMediaType(kind); err != nil || t != "application/json" {
		return refusal(notJSON, "Content-Type", "must be application/json, got %q", kind)
	}
	return nil
}
