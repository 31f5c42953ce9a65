//go:build integration

package acceptance_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy stands before an S3 server and counts what passes.
type proxy struct {
	url string
	mu  sync.Mutex
	n   map[string]int
	// read are the objects that were read, by path, since the last readings.
	read map[string]int
	// spent is the time that the server itself took.
	spent time.Duration
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{n: map[string]int{}, read: map[string]int{}}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // signed
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		forward.ServeHTTP(w, r)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.n[kind(r)]++
		if kind(r) == http.MethodGet {
			p.read[r.URL.Path]++
		}
		p.spent += time.Since(began)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func kind(r *http.Request) string {
	if r.Method == http.MethodGet && r.URL.Query().Has("list-type") {
		return "LIST"
	}
	return r.Method
}

// counts are the requests since reset.
type counts struct {
	byKind map[string]int
	spent  time.Duration
}

func (c counts) total() (n int) {
	for _, k := range c.byKind {
		n += k
	}
	return n
}

// writes are requests that could change something.
func (c counts) writes() int { return c.byKind["PUT"] + c.byKind["POST"] + c.byKind["DELETE"] }

func (c counts) String() string {
	var out []string
	for _, k := range []string{"LIST", "GET", "HEAD", "PUT", "POST", "DELETE"} {
		if c.byKind[k] > 0 {
			out = append(out, fmt.Sprintf("%d %s", c.byKind[k], k))
		}
	}
	return strings.Join(out, ", ")
}

// take returns the counts so far and starts again.
func (p *proxy) take() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := counts{p.n, p.spent}
	p.n, p.spent = map[string]int{}, 0
	return c
}

// readings returns the objects that were read since it was called last, whose
// paths have a part in common.
func (p *proxy) readings(of string) (paths []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for path := range p.read {
		if strings.Contains(path, of) {
			paths = append(paths, path)
		}
	}
	p.read = map[string]int{}
	slices.Sort(paths)
	return paths
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
