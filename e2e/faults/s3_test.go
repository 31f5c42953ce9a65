//go:build integration

package faults_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/faults/s3proxy"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store/s3"
)

// place is one kind of request that a step makes.
type place struct {
	name  string
	match func(r s3proxy.Request) bool
	// restart lets the step begin without memory, so that the request is made.
	restart bool
	// gone removes an object first, collect collects garbage afterwards.
	gone, collect bool
}

// at is the request that op makes below a prefix.
func at(op s3proxy.Op, prefix string) func(s3proxy.Request) bool {
	return func(r s3proxy.Request) bool {
		key := r.Key
		if op == s3proxy.List {
			key = r.Prefix
		}
		_, key, _ = strings.Cut(key, "/") // after the world's root
		return r.Op == op && strings.HasPrefix(key, prefix)
	}
}

// change is a put of CURRENT for a reason.
func change(reason string) func(s3proxy.Request) bool {
	return func(r s3proxy.Request) bool {
		return r.Op == s3proxy.Put && strings.HasSuffix(r.Key, "/out/CURRENT") && strings.Contains(string(r.Body), `"reason":"`+reason+`"`)
	}
}

var places = []place{
	{name: "list source", match: at(s3proxy.List, "in/")},
	{name: "get object", match: at(s3proxy.Get, "in/")},
	{name: "get CURRENT", match: at(s3proxy.Get, "out/CURRENT")},
	{name: "get manifest", match: at(s3proxy.Get, "out/manifests/"), restart: true},
	{name: "get pane", match: at(s3proxy.Get, "out/delta/"), restart: true},
	{name: "head", match: at(s3proxy.Head, "in/"), gone: true},
	{name: "put data", match: at(s3proxy.Put, "out/delta/")},
	{name: "put manifest", match: at(s3proxy.Put, "out/manifests/")},
	{name: "put CURRENT, claim", match: change("claim")},
	{name: "put CURRENT, publish", match: change("publish")},
	{name: "delete", match: at(s3proxy.Delete, "out/"), collect: true},
}

func (p place) reads() bool { return !p.writes() }
func (p place) writes() bool {
	return strings.HasPrefix(p.name, "put") || p.name == "delete"
}
func (p place) lists() bool   { return strings.HasPrefix(p.name, "list") }
func (p place) puts() bool    { return strings.HasPrefix(p.name, "put") }
func (p place) current() bool { return strings.HasPrefix(p.name, "put CURRENT") }
func (p place) bodies() bool  { return p.lists() || strings.HasPrefix(p.name, "get") }

// verdict is how the step that meets the fault must end.
type verdict int

const (
	either  verdict = iota
	through         // done in spite of the fault
	fails           // failed, nothing visible changed
)

// hard is a fault of S3 with the places where it makes sense and what must
// come of it the first time only, and for as long as it lasts.
type hard struct {
	fault       s3proxy.Fault
	where       func(place) bool // nil: everywhere
	once, burst func(place) verdict
	options     s3.Options
}

func always(v verdict) func(place) verdict { return func(place) verdict { return v } }

// retried is what a retry of the request overcomes. applied says that the
// server did it all the same: then a change of CURRENT is found out by reading
// it, however long the fault lasts.
func retried(f s3proxy.Fault, applied bool) hard {
	return hard{fault: f, once: always(through), burst: func(p place) verdict {
		if applied && p.current() {
			return through
		}
		return fails
	}}
}

func hardFaults() []hard {
	quick := s3.Options{Attempts: 2, Timeout: 1500 * time.Millisecond}
	stalled := retried(s3proxy.Stalled(30*time.Second), true)
	stalled.options = quick
	stalledBody := retried(s3proxy.StalledBody(30*time.Second), true)
	stalledBody.options, stalledBody.where = quick, place.bodies
	conflict := retried(s3proxy.Conflict(), false)
	conflict.where = place.puts
	truncated := retried(s3proxy.Truncated(), true)
	truncated.where = place.bodies
	refusal := func(p place) verdict { // not retried by the client
		if p.current() {
			return through // the change reads CURRENT and sends again
		}
		return fails
	}
	denied := func(p place) verdict { // the live pane serves only counts: one that cannot be read does not stop the next
		if p.name == "get pane" {
			return through
		}
		return fails
	}
	deniedOnce := func(p place) verdict {
		if p.current() {
			return through
		}
		return denied(p)
	}
	newest := func(entry string) bool { return strings.Contains(entry, "part-1") }
	return []hard{
		retried(s3proxy.SlowDown(), false),
		retried(s3proxy.Internal(), false),
		retried(s3proxy.AppliedInternal(), true),
		retried(s3proxy.ResetBefore(), false),
		retried(s3proxy.ResetAfter(), true),
		conflict, truncated, stalled, stalledBody,
		{fault: s3proxy.Corrupted(), where: place.bodies, once: always(either), burst: always(either)},
		{fault: s3proxy.CorruptedUpload(), where: place.puts, once: always(either), burst: always(fails)},
		{fault: s3proxy.HTML(), where: func(p place) bool { return p.name != "delete" }, once: refusal, burst: always(fails)},
		{fault: s3proxy.NoToken(), where: place.lists, once: always(fails), burst: always(fails)},
		{fault: s3proxy.SameToken(), where: place.lists, once: always(fails), burst: always(fails)},
		{fault: s3proxy.Missing(newest), where: place.lists, once: always(through), burst: always(through)},
		{fault: s3proxy.Denied(), once: deniedOnce, burst: denied},
		{fault: s3proxy.ClientSkewed(), once: always(either), burst: denied},
		{fault: s3proxy.Late(2 * time.Millisecond), where: place.writes, once: always(either), burst: always(either), options: quick},
		{fault: s3proxy.ServerSkewed(365 * 24 * time.Hour), where: place.reads, once: always(either), burst: always(either)},
		{fault: s3proxy.Delayed(300 * time.Millisecond), once: always(through), burst: always(through)},
	}
}

// TestS3Faults lets each fault befall each kind of request, the first time
// only and for as long as a step lasts; on the second server one of the two,
// in turns.
func TestS3Faults(t *testing.T) {
	t.Parallel()
	for i, e := range env.S3 {
		for _, h := range hardFaults() {
			t.Run(e.Name+"/"+h.fault.Name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, e, worldOptions{s3: h.options})
				for range 4 { // something to lose
					w.produce()
					w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				}
				w.same()
				for turn, p := range places {
					if h.where != nil && !h.where(p) {
						continue
					}
					if i == 0 || turn%2 == 0 {
						w.round(h.fault, p, 1, h.once(p))
					}
					if i == 0 || turn%2 == 1 {
						w.round(h.fault, p, 0, h.burst(p))
					}
				}
				w.produce()
				w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				w.same()
				w.agrees()
			})
		}
	}
}

// round is one fault at one place: times requests meet it, 0 means all of a
// step. The one that lasts meets a leader that goes on afterwards; the single
// one meets steps with a lease each.
func (w *world) round(f s3proxy.Fault, p place, times int, v verdict) {
	t := w.t
	t.Helper()
	w.produce()
	if p.gone {
		w.remove(min(times, 1))
	}
	if p.restart {
		w.engine.restart()
	}
	arm := func() { w.proxy.Add(s3proxy.Rule{Match: p.match, Fault: f, Times: times}) }
	var got struct {
		hits int
		err  error
		r    microbatch.Report
	}
	done := func() {
		w.read()
		got.hits = w.proxy.Clear()
	}
	if !p.collect {
		arm()
	}
	began := time.Now()
	step := func(ctx context.Context, term microbatch.Term) {
		got.r = term.Step(ctx, w.now(), microbatch.StepOptions{})
		if got.err = got.r.Err; got.err == nil {
			got.err = got.r.StateErr
		}
		if p.collect {
			_, err := term.Collect(ctx, false) // condemns
			arm()
			_, cerr := term.Collect(ctx, false) // deletes
			got.err = errors.Join(got.err, err, cerr)
		}
	}
	settle := func(ctx context.Context, term microbatch.Term) {
		w.recovered(term.Step(ctx, w.now(), microbatch.StepOptions{}))
		if p.collect {
			if _, err := term.Collect(ctx, false); err != nil {
				t.Errorf("collect after the fault: %v", err)
			}
		}
	}
	entered := false
	err := w.under(func(ctx context.Context, term microbatch.Term) {
		entered = true
		step(ctx, term)
		if times == 0 {
			done()
			settle(ctx, term)
		}
	})
	if !entered {
		got.err = err
	}
	took := time.Since(began)
	if times > 0 || !entered {
		done()
		if err := w.under(settle); err != nil {
			t.Errorf("the lease after the fault: %v", err)
		}
	}
	name := "first time"
	if times == 0 {
		name = "burst"
	}
	failed := got.err != nil
	met.add(f.Name, p.name+", "+name, got.hits, failed)
	switch {
	case got.hits == 0:
		t.Errorf("%s, %s: no request met the fault", p.name, name)
	case v == through && failed:
		t.Errorf("%s, %s: failed: %v", p.name, name, got.err)
	case v == fails && !failed:
		t.Errorf("%s, %s: went through: %s", p.name, name, got.r.Outcome)
	}
	if took > 25*time.Second {
		t.Errorf("%s, %s: the step took %s", p.name, name, took)
	}
	w.same()
	if times == 0 {
		w.agrees()
	}
	if failed {
		t.Logf("%s, %s: %.300v", p.name, name, got.err)
	}
}
