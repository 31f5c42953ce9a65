// Package admin is deltad's HTTP endpoint: health, metrics, a JSON API under
// /api/v1 to look at pipelines and to move them, and one status page.
//
// What it promises:
//
//  1. Without a token it serves loopback listeners only, and only requests
//     that name a loopback host: a page that rebinds its DNS name to this
//     machine reaches nothing.
//  2. With a token the API and the page need it (compared in constant time):
//     as a bearer, or as the password of basic authentication so that a
//     browser can ask for it. /healthz, /readyz and /metrics need none.
//  3. Nothing moves through a GET. A POST must come from no browser page or
//     from one of this origin, and its body must be application/json.
//  4. Whatever moves progress is planned, then applied: package control has
//     the rules, this package only translates them.
//  5. Errors of the API are application/problem+json (RFC 9457); their type is
//     stable, and field names the argument at fault.
//  6. Bodies, headers and times are bounded, and a panic ends one request.
//
// Ids of the elements on the page, for tests: pipelines; refresh-state;
// pipeline-NAME with, below it, NAME-age, NAME-watermark, NAME-progress,
// NAME-outcome, NAME-why, NAME-documents, NAME-new, NAME-changed, NAME-left,
// NAME-gaps, NAME-quarantined, NAME-late, NAME-leader, NAME-paused,
// NAME-prefixes and NAME-runs; where there is a full index NAME-full with
// NAME-base-cut, NAME-base, NAME-next, NAME-rebuild and NAME-gate. The age of the data has the watermark it is
// counted from in data-at, and a pipeline its colour in data-tone.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/cmd/deltad/daemon"
)

// Options are what an endpoint is made of.
type Options struct {
	App *daemon.App
	// Token is the bearer token; empty means loopback only.
	Token string
	// Log may be nil.
	Log *zap.Logger
	// Build is shown to people.
	Build string
}

// ErrOpen means that an endpoint without a token would have been reachable
// from other machines.
var ErrOpen = errors.New("without admin.token_file only loopback addresses are served")

// Server is the endpoint. It is an http.Handler.
type Server struct {
	o       Options
	handler http.Handler
	started time.Time
	gc      gcMeter
	formats knownFormats
}

// New returns the endpoint; it listens to nothing.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	s := &Server{o: o, started: time.Now()}
	s.handler = s.guard(s.routes())
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// How long a connection may take. Writing is bounded by what a caller may wait
// for, see maxWait.
const (
	headerTime   = 5 * time.Second
	readTime     = 15 * time.Second
	writeTime    = maxWait + time.Minute
	idleTime     = time.Minute
	shutdownTime = 5 * time.Second
	maxHeader    = 16 << 10
	maxBody      = 64 << 10
)

// Listen listens on host:port for Serve. It refuses what Serve would refuse
// before anybody can connect.
func (s *Server) Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	if err := s.permit(l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (s *Server) permit(l net.Listener) error {
	a, ok := l.Addr().(*net.TCPAddr)
	if s.o.Token == "" && ok && !a.IP.IsLoopback() {
		return fmt.Errorf("admin.listen %s: %w", l.Addr(), ErrOpen)
	}
	return nil
}

// Serve serves a listener until ctx ends, then lets requests in hand finish
// for a few seconds. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := s.permit(l); err != nil {
		return errors.Join(err, l.Close())
	}
	logger, err := zap.NewStdLogAt(s.o.Log, zap.WarnLevel)
	if err != nil {
		return errors.Join(fmt.Errorf("make the endpoint's logger: %w", err), l.Close())
	}
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: logger,
		// Waits end with the process and not with their own time.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	s.o.Log.Info("admin endpoint", zap.Stringer("listen", l.Addr()), zap.Bool("token", s.o.Token != ""))
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if srv.Shutdown(late) != nil {
			_ = srv.Close() // what is still in hand was given its time
		}
	})
	err = srv.Serve(l)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the admin endpoint on %s: %w", l.Addr(), err)
}
