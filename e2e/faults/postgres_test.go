//go:build integration

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deltad/deltad/e2e/faults/tcpproxy"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// call is one kind of call of the state store, told by a statement of it.
type call struct {
	name, statement string
	// known is a call that asks by id first whether it has been done.
	known bool
	// lease is how long leases live: short where the test waits for one to run
	// out.
	lease time.Duration
}

const (
	shortLease = 8 * time.Second
	usualLease = 30 * time.Second
)

var calls = []call{
	{"acquire", "UPDATE deltad_lease SET holder", true, shortLease},
	{"renew", "UPDATE deltad_lease SET ttl_us", false, shortLease},
	{"release", "UPDATE deltad_lease SET released", false, shortLease},
	{"look up objects", "FROM deltad_object_failure", false, usualLease},
	{"plan", "INSERT INTO deltad_run", true, usualLease},
	{"publish", "UPDATE deltad_run SET status = 'published'", true, usualLease},
	{"take requests", "UPDATE deltad_request SET state = 'taken'", false, usualLease},
	{"finish request", "UPDATE deltad_request SET state = $2", true, usualLease},
}

// vanished is how long the server keeps the locks of a client that vanished
// from the network: twice the time that a call may take.
const vanished = 10 * time.Second

// soft is a fault of the path to the database.
type soft struct {
	name        string
	rule        tcpproxy.Rule
	once, burst func(call) verdict
}

func any1(v verdict) func(call) verdict { return func(call) verdict { return v } }

// softFaults: a cut connection is tried again within the call, up to three
// times; a black hole ends a call at its deadline. What was committed and not
// heard of is found done by the calls that ask.
var softFaults = []soft{
	{"cut before the statement", tcpproxy.Rule{Fault: tcpproxy.CutBefore}, any1(through), any1(fails)},
	{"cut before COMMIT", tcpproxy.Rule{Fault: tcpproxy.CutBefore, Commit: true}, any1(through), any1(fails)},
	{"cut after COMMIT", tcpproxy.Rule{Fault: tcpproxy.CutAfter, Commit: true}, any1(through), found(through, fails)},
	{"backend killed", tcpproxy.Rule{Fault: tcpproxy.KillBefore}, any1(through), any1(fails)},
	{"backend killed at COMMIT", tcpproxy.Rule{Fault: tcpproxy.KillBefore, Commit: true}, any1(through), any1(fails)},
	{"black hole", tcpproxy.Rule{Fault: tcpproxy.BlackHole}, any1(fails), any1(fails)},
	{"black hole after COMMIT", tcpproxy.Rule{Fault: tcpproxy.HoleAfter, Commit: true}, any1(either), found(either, fails)},
	{"delayed", tcpproxy.Rule{Fault: tcpproxy.DelayThen, Delay: 400 * time.Millisecond}, any1(through), any1(through)},
}

// found is one verdict for calls that ask by id first, another for the rest.
func found(known, other verdict) func(call) verdict {
	return func(c call) verdict {
		if c.known {
			return known
		}
		return other
	}
}

// behind gives a world's database a proxy.
func behind(t *testing.T, dsn string) (*tcpproxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tcpproxy.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Kill = func(pid uint32) {
		_ = execute(context.WithoutCancel(t.Context()), dsn, fmt.Sprintf("select pg_terminate_backend(%d)", pid))
	}
	u.Host = p.Addr
	return p, u.String()
}

func execute(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	for _, sql := range statements {
		if _, err = conn.Exec(ctx, sql); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// TestPostgresFaults lets each fault befall each kind of call, the first time
// only and for as long as it is called. B34: a run is never repeated, lost or
// regressed by it, and no call outlives its deadline.
func TestPostgresFaults(t *testing.T) {
	t.Parallel()
	for _, f := range softFaults {
		for _, c := range calls {
			t.Run(f.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				w := unbuilt(t, env.S3[0], env.PG)
				proxy, dsn := behind(t, w.dsn)
				w.build(worldOptions{dsn: dsn, lease: c.lease})
				for range 2 {
					w.produce()
					w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				}
				rule := f.rule
				rule.Statement, rule.Times = c.statement, 1
				w.pgRound(proxy, f.name, c, rule, f.once(c))
				rule.Times = 0
				w.pgRound(proxy, f.name, c, rule, f.burst(c))
			})
		}
	}
}

// pgRound is one fault at one kind of call.
func (w *world) pgRound(proxy *tcpproxy.Proxy, fault string, c call, rule tcpproxy.Rule, v verdict) {
	t := w.t
	t.Helper()
	w.produce()
	began := time.Now()
	var failure error
	hits := 0
	done := func() {
		w.read()
		hits += proxy.Clear()
	}
	step := func(ctx context.Context, term microbatch.Term) error {
		r := term.Step(ctx, w.now(), microbatch.StepOptions{})
		return errors.Join(r.Err, r.StateErr)
	}
	if c.name == "acquire" {
		proxy.Add(rule)
	}
	var request string
	entered := false
	err := w.under(func(ctx context.Context, term microbatch.Term) {
		entered = true
		switch c.name {
		case "acquire":
			failure = step(ctx, term)
		case "renew":
			proxy.Add(rule)
			failure = w.renewing(ctx, proxy, v)
			switch err := step(ctx, term); {
			case failure == nil:
				failure = err
			case err == nil:
				t.Error("a step went through after the lease was lost")
			}
		case "release":
			failure = step(ctx, term)
			proxy.Add(rule)
			return
		case "take requests", "finish request":
			request = w.ask()
			proxy.Add(rule)
			failure = term.Attend(ctx)
		default:
			proxy.Add(rule)
			failure = step(ctx, term)
		}
		done()
		if ctx.Err() != nil {
			return // no lease to go on with
		}
		w.recovered(term.Step(ctx, w.now(), microbatch.StepOptions{}))
		if request != "" {
			if err := term.Attend(ctx); err != nil {
				t.Errorf("attend to requests after the fault: %v", err)
			}
		}
	})
	if !entered {
		failure = err
	}
	took := time.Since(began)
	done()
	w.again(c, rule.Fault)
	name := "first time"
	if rule.Times == 0 {
		name = "burst"
	}
	met.add("postgres: "+fault, c.name+", "+name, hits, failure != nil)
	switch {
	case hits == 0:
		t.Errorf("%s: no call met the fault", name)
	case c.name == "release": // a lease that cannot be given back expires
	case v == through && failure != nil:
		t.Errorf("%s: failed: %v", name, failure)
	case v == fails && failure == nil:
		t.Errorf("%s: went through", name)
	}
	if failure != nil && c.name != "renew" && !errors.Is(failure, watermark.ErrUnavailable) {
		t.Errorf("%s: %v, want an outage of the state store", name, failure)
	}
	if took > 25*time.Second {
		t.Errorf("%s: it took %s", name, took)
	}
	if request != "" {
		if rq, err := w.state.RequestByID(t.Context(), request); err != nil || rq.State != watermark.RequestDone {
			t.Errorf("%s: the request is %s, %v", name, rq.State, err)
		}
	}
	w.same()
	w.agrees()
}

// renewing waits until a renewal has met the fault; where it cannot be
// overcome, until the lease is lost, which must be in time.
func (w *world) renewing(ctx context.Context, proxy *tcpproxy.Proxy, v verdict) error {
	if v == fails {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(shortLease + time.Second):
			w.t.Error("the lease was trusted beyond its time")
			return nil
		}
	}
	for deadline := time.Now().Add(shortLease); proxy.Hits() == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	return context.Cause(ctx)
}

// ask queues a request for the leader.
func (w *world) ask() string {
	w.t.Helper()
	id := w.engine.app.NewID()
	err := w.state.Enqueue(w.t.Context(), watermark.Request{ID: id, Pipeline: "items", Kind: microbatch.RequestTrigger, Actor: "ann", Reason: "look at once"})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// again takes the step that is due. It goes through at once, but where the
// lease could not be given back, or a client vanished with it: then when the
// server has given up the client's locks and the lease has expired.
func (w *world) again(c call, f tcpproxy.Fault) {
	w.t.Helper()
	deadline := time.Now()
	if c.name == "release" {
		deadline = deadline.Add(shortLease + time.Second)
	}
	if c.lease == shortLease && (f == tcpproxy.BlackHole || f == tcpproxy.HoleAfter) {
		deadline = deadline.Add(vanished + shortLease + 2*time.Second)
	}
	for ; ; time.Sleep(50 * time.Millisecond) {
		r := w.engine.p.Once(w.t.Context(), w.now(), microbatch.StepOptions{})
		waits := r.Outcome == microbatch.Standby || errors.Is(r.Err, watermark.ErrUnavailable) || errors.Is(r.Err, microbatch.ErrFenced)
		if !waits || time.Now().After(deadline) {
			w.recovered(r)
			return
		}
	}
}
