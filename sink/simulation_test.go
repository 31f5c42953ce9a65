package sink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// The simulation runs leaders and a reader against one output, one request at a time in an order and with faults chosen by a seed:
// replies that are lost, requests that never arrive or arrive much later, crashes before and after each request, leases that expire
// while their holder works on, and a state store restored to an older epoch. Watcher checks every change as it is applied.

var errCrashed = errors.New("the process is gone")

type verdict uint8

const (
	applied verdict = iota
	replyLost
	notApplied
	late
	crash
	crashAfter
)

// verdicts is how often each is given.
var verdicts = func() (v []verdict) {
	for what, n := range []int{applied: 240, replyLost: 10, notApplied: 10, late: 16, crash: 2, crashAfter: 2} {
		for range n {
			v = append(v, verdict(what))
		}
	}
	return v
}()

// actor is a goroutine that stands still before each of its requests.
type actor struct {
	sim     *simulation
	name    string
	faults  bool
	grant   chan verdict
	pending string
	crashed bool
	done    bool
	err     error
}

type simulation struct {
	rand   *rand.Rand
	clock  time.Time
	mem    *mem.Store
	watch  *sinktest.Watcher
	actors []*actor
	stands chan *actor // the actor that was let go stands before its next request, or is done
	late   []func()
	runs   func() string
	closed bool

	epoch, restored int64 // the state store's row, and an older copy of it
	leaders         int
	moved           map[string]bool // runs that were told they are not published
	acked           map[string]bool // runs that were told they are
	trace           []string
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{rand: rand.New(rand.NewPCG(seed, 1)), clock: sinktest.Hour(0), stands: make(chan *actor), runs: sinktest.IDs(20), moved: map[string]bool{}, acked: map[string]bool{}}
	s.mem = mem.NewAt("out", func() time.Time { return s.clock })
	s.watch = sinktest.Watch(s.mem)
	return s
}

func (s *simulation) start(name string, faults bool, run func(st store.Store) error) {
	a := &actor{sim: s, name: name, faults: faults, grant: make(chan verdict)}
	s.actors = append(s.actors, a)
	go func() {
		a.err = run(&gate{a})
		a.done = true
		s.stands <- a
	}()
	<-s.stands
}

// gate is the store as an actor sees it.
type gate struct{ a *actor }

// call stands still, then does what the scheduler says. do is nil-safe to run later.
func (g *gate) call(op, key string, do func(ctx context.Context) error) error {
	a := g.a
	if a.crashed || a.sim.closed {
		return errCrashed
	}
	a.pending = op + " " + key
	a.sim.stands <- a
	ctx := context.Background()
	switch <-a.grant {
	case replyLost:
		if err := do(ctx); err != nil {
			return err
		}
		return store.ErrUnavailable
	case notApplied:
		return store.ErrUnavailable
	case late:
		a.sim.late = append(a.sim.late, func() { _ = do(ctx) })
		return store.ErrUnavailable
	case crash:
		a.crashed = true
		return errCrashed
	case crashAfter:
		a.crashed = true
		_ = do(ctx)
		return errCrashed
	}
	return do(ctx)
}

func (g *gate) List(_ context.Context, o store.ListOptions) (p store.Page, err error) {
	err = g.call("list", o.Prefix, func(ctx context.Context) (err error) { p, err = g.a.sim.watch.List(ctx, o); return err })
	return p, err
}

func (g *gate) Get(_ context.Context, key string, o store.GetOptions) (obj store.Object, err error) {
	err = g.call("get", key, func(ctx context.Context) (err error) { obj, err = g.a.sim.watch.Get(ctx, key, o); return err })
	return obj, err
}

func (g *gate) Put(_ context.Context, key string, body io.ReadSeeker, o store.PutOptions) (etag string, err error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	err = g.call("put", key, func(ctx context.Context) (err error) {
		etag, err = g.a.sim.watch.Put(ctx, key, bytes.NewReader(b), o)
		return err
	})
	return etag, err
}

func (g *gate) Head(_ context.Context, key string) (info store.ObjectInfo, err error) {
	err = g.call("head", key, func(ctx context.Context) (err error) { info, err = g.a.sim.watch.Head(ctx, key); return err })
	return info, err
}

func (g *gate) Delete(_ context.Context, key string) error {
	return g.call("delete", key, func(ctx context.Context) error { return g.a.sim.watch.Delete(ctx, key) })
}

func (g *gate) String() string { return "sim://" + g.a.name }

// leader takes the lease, claims, and works through its script.
func (s *simulation) leader(script []int, mark byte) func(st store.Store) error {
	return func(st store.Store) error {
		ctx := context.Background()
		// Two attempts only, so that changes are often given up while their requests are still in the network.
		out := sink.New(sink.Settings{Store: st, Pipeline: sinktest.Pipeline, NewID: sinktest.IDs(mark), Backoff: time.Nanosecond, Attempts: 2})
		h, err := out.Head(ctx)
		if err != nil {
			return err
		}
		s.epoch = max(s.epoch, h.Owner.Epoch) + 1
		me := owner(s.epoch, fmt.Sprint("nonce-", mark))
		if h, err = out.Claim(ctx, me, sink.ClaimOptions{Now: s.clock}); err != nil {
			return err
		}
		if err := s.reconciles(ctx, out, h); err != nil {
			return err
		}
		c := sink.NewCollector(out)
		for _, action := range script {
			if h, err = s.act(ctx, out, c, me, h, action); err == nil {
				continue
			}
			if errors.Is(err, sink.ErrFenced) || errors.Is(err, errCrashed) {
				return err
			}
			if h, err = out.Claim(ctx, me, sink.ClaimOptions{Now: s.clock}); err != nil {
				return err
			}
		}
		return nil
	}
}

// actions are what a leader may do; from there on the same again, in layers.
const actions = 9

func (s *simulation) act(ctx context.Context, out *sink.Sink, c *sink.Collector, me sink.Owner, h sink.Head, action int) (sink.Head, error) {
	run := s.runs()
	pane := sinktest.Pane{RunID: run, Documents: map[string]int64{"same": 1, run: 1}, From: sinktest.Hour(-100), SupportUntil: s.clock.Add(time.Hour)}
	if action >= actions { // as a layer over what is there
		action, pane.Below = action-actions, s.mem
	}
	next := 1
	if h.Progress != nil {
		next = int(h.Progress.Sub(sinktest.Hour(0))/time.Hour) + 1
	}
	var err error
	before := h
	switch {
	case action == 0 && h.Delta != nil:
		pane.Watermark = h.Watermark.Time
		pane.Reason = sink.Refine
		h, err = sinktest.Publish(ctx, out, me, h, pane)
	case action == 1 && h.Delta != nil:
		h, _, err = out.ResetProgress(ctx, me, h, sink.ResetOptions{To: sinktest.Hour(next - 2), RunID: run, Now: s.clock})
	case action == 2 && h.Delta != nil:
		h, err = s.rollback(ctx, out, me, h, run)
	case action <= 4 && h.Delta != nil:
		plan, perr := c.Plan(ctx, h, sink.CollectOptions{Retain: sink.Retain{Panes: 1, Bases: 2}})
		if perr != nil {
			return h, perr
		}
		return c.Do(ctx, me, h, plan)
	case action == 5:
		base := sinktest.Base{Generation: s.runs(), Cut: sinktest.Hour(-50), Documents: map[string]int64{"base": int64(next)}}
		var m sink.Manifest
		if m, pane.BaseSHA256, err = base.Write(ctx, out, me); err != nil {
			break
		}
		pane.Base, pane.Watermark = &m, sinktest.Hour(next)
		h, err = sinktest.Publish(ctx, out, me, h, pane)
	default:
		pane.Watermark = sinktest.Hour(next)
		h, err = sinktest.Publish(ctx, out, me, h, pane)
	}
	switch {
	case err == nil:
		s.acked[run] = true
	case errors.Is(err, sink.ErrMoved):
		s.moved[run] = true
	case errors.Is(err, sink.ErrTransition), errors.Is(err, sink.ErrCondemned), errors.Is(err, sink.ErrCorrupt), errors.Is(err, sink.ErrExists):
		s.trace = append(s.trace, fmt.Sprintf("BROKEN %s from version %d: %v", run, before.Version, err))
	}
	return h, err
}

// rollback publishes the oldest pane again whose data and base are there, if there is one.
func (s *simulation) rollback(ctx context.Context, out *sink.Sink, me sink.Owner, h sink.Head, run string) (sink.Head, error) {
	var target sink.Ref
	err := out.Walk(ctx, h, func(ref sink.Ref, m sink.Manifest) (bool, error) {
		gone := sinktest.Whole(ctx, s.mem, ref, h.Condemns)
		if gone == nil && ref != h.Delta.Ref() && (m.Base != nil || h.Base == nil) {
			target = ref
		}
		return true, nil
	})
	if err != nil {
		return h, err
	}
	if target == (sink.Ref{}) {
		return h, fmt.Errorf("no pane to go back to: %w", sink.ErrMoved)
	}
	now, _, err := out.Rollback(ctx, me, h, sink.RollbackOptions{Target: target, RunID: run, Now: s.clock, SupportUntil: s.clock.Add(time.Hour)})
	if errors.Is(err, sink.ErrCondemned) { // by another leader, meanwhile
		return h, fmt.Errorf("%w: %v", sink.ErrMoved, err)
	}
	return now, err
}

// reconciles checks that the walk from CURRENT finds every run that was published since the oldest it finds: what a new leader's journal
// is reconciled from. Older records may have been collected.
func (s *simulation) reconciles(ctx context.Context, out *sink.Sink, h sink.Head) error {
	walked := map[string]bool{}
	err := out.Walk(ctx, h, func(_ sink.Ref, m sink.Manifest) (bool, error) { walked[m.RunID] = true; return true, nil })
	if err != nil {
		return err
	}
	begun := false
	for _, c := range s.watch.History() {
		begun = begun || walked[c.RunID]
		if begun && c.Version <= h.Version && !walked[c.RunID] {
			s.trace = append(s.trace, fmt.Sprintf("BROKEN run %s was published in version %d and is not found from version %d", c.RunID, c.Version, h.Version))
		}
	}
	return nil
}

func (s *simulation) reader(polls int) func(st store.Store) error {
	return func(st store.Store) error {
		r := reader.Open(st, reader.Options{Restarts: 100, Pause: time.Nanosecond})
		for range polls {
			if _, err := r.Poll(context.Background()); err != nil && !errors.Is(err, reader.ErrNoIndex) {
				return err
			}
		}
		return nil
	}
}

// step lets one thing happen.
func (s *simulation) step() bool {
	var ready []*actor
	for _, a := range s.actors {
		if !a.done {
			ready = append(ready, a)
		}
	}
	choice := s.rand.IntN(40)
	switch {
	case (choice == 0 || len(ready) == 0) && s.leaders < 4:
		s.leaders++
		script := make([]int, 3+s.rand.IntN(10))
		for i := range script {
			script[i] = s.rand.IntN(2 * actions)
		}
		s.log("leader %d takes the lease, %v", s.leaders, script)
		s.start(fmt.Sprint("leader ", s.leaders), true, s.leader(script, byte(s.leaders)))
		return true
	case choice <= 2 && len(s.late) > 0:
		i := s.rand.IntN(len(s.late))
		s.log("a late request arrives")
		do := s.late[i]
		s.late = append(s.late[:i], s.late[i+1:]...)
		do()
		return true
	case choice == 3 || choice == 4:
		s.log("25 hours pass")
		s.clock = s.clock.Add(25 * time.Hour)
		return true
	case choice == 5:
		s.log("state store restored from epoch %d to %d", s.epoch, s.restored)
		s.epoch, s.restored = s.restored, s.epoch
		return true
	}
	if len(ready) == 0 {
		return false
	}
	a := ready[s.rand.IntN(len(ready))]
	v := applied
	if a.faults {
		v = verdicts[s.rand.IntN(len(verdicts))]
	}
	if v == late && a.pending[:3] != "put" && a.pending[:3] != "del" {
		v = notApplied
	}
	s.log("%s: %s, verdict %d", a.name, a.pending, v)
	a.grant <- v
	<-s.stands
	return true
}

func (s *simulation) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// close lets everybody fail at its next request and waits for all.
func (s *simulation) close() {
	s.closed = true
	for _, a := range s.actors {
		for !a.done {
			a.grant <- crash
			<-s.stands
		}
	}
}

func TestNoInterleavingBreaksTheProtocol(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(rapid.Uint64().Draw(t, "seed"))
		defer s.close()
		s.start("reader", false, s.reader(6))
		for range 800 {
			if !s.step() {
				break
			}
		}
		s.close()
		for _, do := range s.late {
			do()
		}
		fail := func(format string, args ...any) {
			for _, l := range s.trace {
				t.Log(l)
			}
			t.Fatalf(format, args...)
		}
		for _, b := range s.watch.Broken() {
			fail("%s", b)
		}
		for _, l := range s.trace {
			if len(l) > 6 && l[:6] == "BROKEN" {
				fail("%s", l)
			}
		}
		if err := s.actors[0].err; err != nil && !errors.Is(err, errCrashed) {
			fail("reader: %v", err)
		}
		published := map[string]bool{}
		for _, c := range s.watch.History() {
			published[c.RunID] = true
		}
		for run := range s.acked {
			if !published[run] {
				fail("run %s was acknowledged and never published", run)
			}
		}
		for run := range s.moved {
			if published[run] {
				fail("run %s was told it had to plan again and is published", run)
			}
		}
	})
}
