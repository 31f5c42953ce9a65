package sink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// The simulation runs leaders and a reader against one output, one request at a time in an order and with faults that rapid chooses:
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
	t      *rapid.T
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

func newSimulation(t *rapid.T) *simulation {
	s := &simulation{t: t, clock: sinktest.Hour(0), stands: make(chan *actor), runs: sinktest.IDs(20), moved: map[string]bool{}, acked: map[string]bool{}}
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
		ctx, out := context.Background(), sinktest.New(st, mark)
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

func (s *simulation) act(ctx context.Context, out *sink.Sink, c *sink.Collector, me sink.Owner, h sink.Head, action int) (sink.Head, error) {
	run := s.runs()
	pane := sinktest.Pane{RunID: run, Documents: map[string]int64{run: 1}}
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
	case action <= 3 && h.Delta != nil:
		plan, perr := c.Plan(ctx, h, sink.CollectOptions{Retain: sink.Retain{Panes: 1}})
		if perr != nil {
			return h, perr
		}
		return c.Do(ctx, me, h, plan)
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

// reconciles checks that the walk from CURRENT finds every run that was ever published and whose record is there: what a new leader's
// journal is reconciled from.
func (s *simulation) reconciles(ctx context.Context, out *sink.Sink, h sink.Head) error {
	walked := map[string]bool{}
	err := out.Walk(ctx, h, func(_ sink.Ref, m sink.Manifest) (bool, error) { walked[m.RunID] = true; return true, nil })
	if err != nil {
		return err
	}
	for _, c := range s.watch.History() {
		if c.Version <= h.Version && c.RunID != "" && !walked[c.RunID] {
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
	choice := rapid.IntRange(0, 19).Draw(s.t, "what")
	switch {
	case choice == 0 && s.leaders < 4 || len(ready) == 0 && s.leaders == 0:
		s.leaders++
		script := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 6).Draw(s.t, "script")
		s.log("leader %d takes the lease, %v", s.leaders, script)
		s.start(fmt.Sprint("leader ", s.leaders), true, s.leader(script, byte(s.leaders)))
		return true
	case choice == 1 && len(s.late) > 0:
		i := rapid.IntRange(0, len(s.late)-1).Draw(s.t, "arrives")
		s.log("a late request arrives")
		do := s.late[i]
		s.late = append(s.late[:i], s.late[i+1:]...)
		do()
		return true
	case choice == 2:
		s.clock = s.clock.Add(13 * time.Hour)
		return true
	case choice == 3:
		s.log("state store restored from epoch %d to %d", s.epoch, s.restored)
		s.epoch, s.restored = s.restored, s.epoch
		return true
	}
	if len(ready) == 0 {
		return false
	}
	a := ready[rapid.IntRange(0, len(ready)-1).Draw(s.t, "who")]
	v := applied
	if a.faults {
		if f := rapid.IntRange(0, 24).Draw(s.t, "fault"); f <= int(crashAfter) {
			v = verdict(f)
		}
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
		s := newSimulation(t)
		defer s.close()
		s.start("reader", false, s.reader(6))
		for range 250 {
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
