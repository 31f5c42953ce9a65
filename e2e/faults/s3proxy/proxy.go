// Package s3proxy stands between a client and a real S3 server and makes the
// path between them fail as networks, gateways and overloaded servers do.
//
// It understands enough S3 to name the operation, the bucket and the key of a
// request (path style), and lets everything through unchanged unless a rule
// says otherwise: signatures stay valid, because the Host header, the escaped
// path and the query go on as the client signed them.
//
// A rule has a filter, a fault and a number of requests that it hits. A fault
// is a function of one Call: it may forward the request, before or after it
// did something else, change what goes up or comes back, answer by itself, or
// cut the connection. The faults that deltad is tested with are in faults.go.
//
// Every request is logged with the fault it met. Faults at random are seeded:
// the same requests in the same order meet the same faults.
package s3proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Op is the operation of a request.
type Op string

// The operations that are told apart.
const (
	List     Op = "list"
	Get      Op = "get"
	Head     Op = "head"
	Put      Op = "put"
	Delete   Op = "delete"
	Upload   Op = "upload" // create, part, complete or abort of a multipart upload
	OfBucket Op = "bucket" // everything about a bucket but listing it
)

// Request is what a filter sees.
type Request struct {
	Op     Op
	Bucket string
	Key    string // unescaped
	Prefix string // of a listing
	Body   []byte
	Header http.Header
}

func parse(r *http.Request, body []byte) Request {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	out := Request{Op: OfBucket, Bucket: bucket, Key: key, Prefix: q.Get("prefix"), Body: body, Header: r.Header}
	switch {
	case key == "" && r.Method == http.MethodGet && q.Get("list-type") == "2":
		out.Op = List
	case key == "":
	case q.Has("uploads"), q.Has("uploadId"):
		out.Op = Upload
	case r.Method == http.MethodGet:
		out.Op = Get
	case r.Method == http.MethodHead:
		out.Op = Head
	case r.Method == http.MethodPut:
		out.Op = Put
	case r.Method == http.MethodDelete:
		out.Op = Delete
	}
	return out
}

// Rule says which requests meet which fault.
type Rule struct {
	// Match is the filter; nil is every request.
	Match func(Request) bool
	Fault Fault
	// Skip lets so many matching requests pass first; Times is how many are
	// hit then, 0 for all.
	Skip, Times int
	// P hits each matching request with this probability; 0 means always.
	P float64
}

// Entry is one request in the log.
type Entry struct {
	At    time.Time
	Op    Op
	Key   string
	Fault string // name of the fault, or empty
}

type rule struct {
	Rule
	seen, hits int
}

// Proxy is a running proxy. Close it when done.
type Proxy struct {
	// URL is what the client is told as its endpoint.
	URL string

	target *url.URL
	server *httptest.Server
	out    *http.Transport
	ctx    context.Context
	stop   context.CancelFunc

	mu    sync.Mutex
	rules []*rule
	rng   *rand.Rand
	log   []Entry
}

// New starts a proxy before the server at target.
func New(target string) (*Proxy, error) { return start(target, false) }

// NewTLS starts a proxy that speaks TLS with the client; Certificate
// is what it shows.
func NewTLS(target string) (*Proxy, error) { return start(target, true) }

func start(target string, secure bool) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("parse the server's URL: %w", err)
	}
	p := &Proxy{target: u, out: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}, rng: rand.New(rand.NewPCG(1, 1))}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	// Connections are cut with a reset, which needs HTTP/1.1.
	p.server.EnableHTTP2 = false
	if secure {
		p.server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}}
		p.server.StartTLS()
	} else {
		p.server.Start()
	}
	p.URL = p.server.URL
	return p, nil
}

// Certificate is the DER form of the certificate of a TLS proxy.
func (p *Proxy) Certificate() []byte { return p.server.Certificate().Raw }

// Close ends every stall and every connection.
func (p *Proxy) Close() {
	p.stop()
	p.server.CloseClientConnections()
	p.server.Close()
	p.out.CloseIdleConnections()
}

// Add installs a rule after those that are there; the first that hits wins.
func (p *Proxy) Add(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &rule{Rule: r})
}

// Seed starts the random choices anew.
func (p *Proxy) Seed(seed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rng = rand.New(rand.NewPCG(seed, seed))
}

// Clear removes every rule: the path is whole again. It returns how many
// requests met a fault since the last Clear.
func (p *Proxy) Clear() (hits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		hits += r.hits
	}
	p.rules = nil
	return hits
}

// Take returns the log and starts a new one.
func (p *Proxy) Take() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.log
	p.log = nil
	return l
}

// pick finds the fault of a request and logs both.
func (p *Proxy) pick(r Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Entry{At: time.Now(), Op: r.Op, Key: r.Key}
	if r.Op == List {
		e.Key = r.Prefix
	}
	var f Fault
	for _, rl := range p.rules {
		if rl.Match != nil && !rl.Match(r) || rl.Times > 0 && rl.hits == rl.Times {
			continue
		}
		if rl.seen++; rl.seen <= rl.Skip || rl.P > 0 && p.rng.Float64() >= rl.P {
			continue
		}
		rl.hits++
		f, e.Fault = rl.Fault, rl.Fault.Name
		break
	}
	p.log = append(p.log, e)
	return f
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up
	}
	c := &Call{Request: parse(r, body), p: p, w: w, r: r}
	f := p.pick(c.Request)
	if f.Do == nil {
		f.Do = func(c *Call) { c.Reply(c.Forward()) }
	}
	f.Do(c)
}

// Answer is what a server said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Call is one request on its way, in the hands of a fault.
type Call struct {
	Request
	p *Proxy
	w http.ResponseWriter
	r *http.Request
}

// Forward sends the request, with c.Body, to the server, also if the client
// has gone meanwhile. A server that cannot be reached is a cut connection.
func (c *Call) Forward() Answer {
	out := c.r.Clone(c.p.ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = c.p.target.Scheme, c.p.target.Host
	out.Host = c.r.Host // signed
	out.Header.Del("Expect")
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(c.Body)), int64(len(c.Body))
	if len(c.Body) == 0 {
		out.Body = http.NoBody
	}
	resp, err := c.p.out.RoundTrip(out)
	if err != nil {
		c.Cut()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Cut()
	}
	return Answer{resp.StatusCode, resp.Header, body}
}

// Reply answers the client. Content-Length is the body's, but for answers
// that have none.
func (c *Call) Reply(a Answer) { c.send(a, len(a.Body), len(a.Body)) }

// send announces so many bytes and sends fewer.
func (c *Call) send(a Answer, announced, sent int) {
	h := c.w.Header()
	for k, v := range a.Header {
		h[k] = slices.Clone(v)
	}
	if c.r.Method != http.MethodHead && a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		h.Set("Content-Length", fmt.Sprint(announced))
	}
	c.w.WriteHeader(a.Status)
	_, _ = c.w.Write(a.Body[:sent]) // a client that is gone does not matter
	if sent < announced {
		_ = http.NewResponseController(c.w).Flush()
	}
}

// Refuse answers with an error document.
func (c *Call) Refuse(status int, code, message string) {
	body := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message><RequestId>0</RequestId></Error>`, code, message)
	c.Reply(Answer{status, http.Header{"Content-Type": {"application/xml"}, "X-Amz-Request-Id": {"0"}}, []byte(body)})
}

// Cut resets the client's connection and ends the call.
func (c *Call) Cut() {
	if conn, _, err := http.NewResponseController(c.w).Hijack(); err == nil {
		if t, ok := conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // a reset, not an orderly end
		}
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler) //nolint:forbidigo // how net/http is told to drop a connection
}

// Wait sleeps, or until the client gives up or the proxy is closed, and says
// whether the client is still there.
func (c *Call) Wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.r.Context().Done():
	case <-c.p.ctx.Done():
	}
	return false
}
