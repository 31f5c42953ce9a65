//go:build integration

package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
)

// trigger is the daemons' trigger in these tests.
const trigger = time.Second

// slack is what a takeover may take beside lease and trigger: starting the
// step and doing it, on a busy machine.
const slack = 2 * time.Second

// produced counts the partitions that a producer has dropped.
type produced struct {
	mu   sync.Mutex
	n    int
	stop func()
}

func (p *produced) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// produce drops five partitions a second, each of one second, from day on. It
// ends with the test at the latest.
func (r *rig) produce(pipeline string) *produced {
	ctx, cancel := context.WithCancel(context.Background())
	p := &produced{}
	done := make(chan struct{})
	var once sync.Once
	p.stop = func() { once.Do(func() { cancel(); <-done }) }
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			s := stage{partition: day.Add(time.Duration(i) * time.Second), gen: i + 1}
			if err := r.put(context.WithoutCancel(ctx), pipeline, s.key(), drop(s.partition, s.gen)); err != nil {
				r.t.Errorf("the producer: %v", err)
				return
			}
			p.mu.Lock()
			p.n = i + 1
			p.mu.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	r.t.Cleanup(p.stop)
	return p
}

// caughtUp waits until a pipeline's live pane holds every record produced.
func (r *rig) caughtUp(w *watcher, total int) time.Duration {
	r.t.Helper()
	return await(r.t, 60*time.Second, fmt.Sprintf("the live pane holds all %d partitions", total), func() bool {
		last, ok := w.last()
		return ok && last.gen == int64(total) && last.n == int64(total)
	})
}

// leader is the daemon whose process owns CURRENT, or nil.
func leader(w *watcher, ds []*daemon) *daemon {
	last, ok := w.last()
	if !ok {
		return nil
	}
	return owner(last, ds)
}

func owner(s seen, ds []*daemon) *daemon {
	for _, d := range ds {
		if strings.HasSuffix(s.Owner.Instance, fmt.Sprintf("/%d", d.pid)) {
			return d
		}
	}
	return nil
}

// takenOver waits for the first new pane that another process than from has
// published after a time, and returns how long after.
func takenOver(t *testing.T, w *watcher, from *daemon, after time.Time) time.Duration {
	t.Helper()
	var took time.Duration
	await(t, 60*time.Second, "another process publishes", func() bool {
		for _, s := range w.since(after) {
			if owner(s, []*daemon{from}) == nil && (s.Reason == "publish" || s.Reason == "refine") {
				took = s.at.Sub(after)
				return true
			}
		}
		return false
	})
	return took
}

// chaosFor is how long TestChaos lets its nemesis loose.
func chaosFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("DELTAD_TEST_CHAOS")
	if text == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestChaos stops leaders beyond their lease and wakes them, kills and
// restarts daemons at random, while partitions come in five times a second.
// There must be one line of versions and, in the end, everything in it.
func TestChaos(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		place    string
		replicas int
	}{{"file", 2}, {"versitygw", 3}, {"seaweedfs", 3}} {
		t.Run(fmt.Sprintf("%s/%d daemons", c.place, c.replicas), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			rng := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, placeOf(t, c.place), options{window: "{size: 30m}", over: "30m"})
			w := r.watch("p")
			n := &nemesis{r: r, w: w, rng: rng}
			for range c.replicas {
				n.ds = append(n.ds, r.start(first, nil))
			}
			p := r.produce("p")
			await(t, 30*time.Second, "a first pane", func() bool { return w.loads() > 0 })
			for end := time.Now().Add(chaosFor(t)); time.Now().Before(end); {
				n.strike()
			}
			p.stop()
			total := p.count()
			r.caughtUp(w, total)
			for _, d := range n.ds {
				d.stop()
			}
			w.stop()
			history := r.history("p")
			r.oneLine(history)
			if got, want := r.sums("p"), r.again(total); got != want {
				t.Errorf("files %s, undisturbed %s", got, want)
			}
			last, _ := w.last()
			t.Logf("seed %d: %s; %d partitions, %d panes over %d epochs, version %d, %d states seen; takeovers after kill -9 %v",
				seed, n, total, len(history), epochs(history), last.Version, w.loads(), round(n.takeovers))
			// The standby may have been killed a moment ago and be starting.
			if slowest := maxOf(n.takeovers); slowest > r.o.leaseTTL+trigger+3*slack {
				t.Errorf("a takeover took %s, more than the lease of %s and a trigger of %s", slowest, r.o.leaseTTL, trigger)
			}
		})
	}
}

// nemesis does to daemons what machines do.
type nemesis struct {
	r   *rig
	w   *watcher
	rng *rand.Rand
	ds  []*daemon

	stops, kills, terms, zombies int
	takeovers                    []time.Duration
}

func (n *nemesis) String() string {
	return fmt.Sprintf("%d leaders stopped beyond the lease (%d had lost CURRENT to another when they woke), %d processes killed, %d told to end", n.stops, n.zombies, n.kills, n.terms)
}

// strike does one thing to one daemon and waits a little.
func (n *nemesis) strike() {
	l := leader(n.w, n.ds)
	i := n.rng.IntN(len(n.ds))
	switch what := n.rng.IntN(5); {
	case what <= 1 && l != nil:
		n.pause(l)
	case what == 2 && l != nil:
		i = slices.Index(n.ds, l)
		at := time.Now()
		n.replace(i, l.Kill)
		n.kills++
		n.takeovers = append(n.takeovers, takenOver(n.r.t, n.w, l, at))
	case what == 3:
		n.replace(i, n.ds[i].Kill)
		n.kills++
	case what == 4:
		n.replace(i, func() { n.ds[i].stop() })
		n.terms++
	}
	time.Sleep(time.Duration(n.rng.IntN(1500)) * time.Millisecond)
}

// pause stops a leader for up to two of its leases beyond it, and wakes it.
func (n *nemesis) pause(l *daemon) {
	before, _ := n.w.last()
	l.Signal(syscall.SIGSTOP)
	time.Sleep(n.r.o.leaseTTL + time.Duration(n.rng.Int64N(int64(2*n.r.o.leaseTTL))))
	now, _ := n.w.last()
	l.Signal(syscall.SIGCONT)
	n.stops++
	if now.Owner.Epoch > before.Owner.Epoch {
		n.zombies++ // what it publishes now, the watcher would tell
	}
}

// replace ends the i-th daemon and starts another.
func (n *nemesis) replace(i int, end func()) {
	end()
	n.ds[i] = n.r.start(first, nil)
}

// oneLine checks that the journal has as published exactly the panes of the
// history.
func (r *rig) oneLine(history []sink.Manifest) {
	r.t.Helper()
	chain := map[string]bool{}
	for _, m := range history {
		chain[m.RunID] = true
	}
	var runs []journalled
	r.led(&runs, "runs", "--limit", "100000")
	published := 0
	for _, run := range runs {
		if run.Status == "published" {
			published++
		}
		if (run.Status == "published") != chain[run.RunID] && run.RunID != history[0].RunID {
			r.t.Errorf("run %s is journalled as %s; in the line of versions: %t", run.RunID, run.Status, chain[run.RunID])
		}
	}
	if published < len(history)-1 {
		r.t.Errorf("%d runs are journalled as published, the line has %d", published, len(history))
	}
}

// again is what an undisturbed run on files makes of the same partitions.
func (r *rig) again(total int) string {
	r.t.Helper()
	o := r.o
	o.dsn = ""
	fresh := newRig(r.t, places()[0], o)
	for i := range total {
		fresh.drop(stage{partition: day.Add(time.Duration(i) * time.Second), gen: i + 1})
	}
	fresh.once()
	return fresh.sums("p")
}

func epochs(history []sink.Manifest) int {
	set := map[int64]bool{}
	for _, m := range history {
		set[m.Writer.Epoch] = true
	}
	return len(set)
}

func maxOf(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	return slices.Max(ds)
}

func round(ds []time.Duration) []time.Duration {
	out := make([]time.Duration, len(ds))
	for i, d := range ds {
		out[i] = d.Round(10 * time.Millisecond)
	}
	return out
}

// TestStoppedLeader stops a leader at a step of a run until another has taken
// over and published, and wakes it: it must not publish, and must go on as the
// standby.
func TestStoppedLeader(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"file", "versitygw"} {
		for _, step := range []string{"planned", "data", "manifest", "current"} {
			t.Run(p+"/"+step, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, placeOf(t, p), options{})
				w := r.watch("p")
				s := chain()[:4]
				r.drop(s[0])
				a := r.start(first, []string{"DELTAD_STOP_AT=" + step})
				await(t, 30*time.Second, "the leader stops", func() bool { return stopped(a.pid) })
				b := r.start(first, nil)
				r.drop(s[1])
				await(t, 30*time.Second, "the other publishes", func() bool {
					last, _ := w.last()
					return last.gen == int64(s[1].gen) && owner(last, []*daemon{b}) != nil
				})
				a.Signal(syscall.SIGCONT)
				await(t, 10*time.Second, "the first knows that it does not lead", func() bool { return len(a.said("no longer leading")) > 0 })
				r.drop(s[2])
				await(t, 30*time.Second, "the other goes on", func() bool { return len(b.said("pane published")) > 1 })
				b.stop()
				r.drop(s[3])
				await(t, 30*time.Second, "the first leads again", func() bool {
					last, _ := w.last()
					return last.gen == int64(s[3].gen) && owner(last, []*daemon{a}) != nil
				})
				a.stop()
				r.oneLine(r.history("p"))
				var runs []journalled
				r.led(&runs, "runs")
				want := map[bool]string{true: "published", false: "abandoned"}[live(step)]
				if got := runs[len(runs)-1].Status; got != want {
					t.Errorf("the run that was stopped at %q is journalled as %s, want %s", step, got, want)
				}
			})
		}
	}
}

// stopped says whether a process is stopped by a signal.
func stopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(text), ") ")
	return err == nil && ok && strings.HasPrefix(rest, "T")
}

// TestTakeover measures how long no pane is published after the leader's end:
// a lease and a trigger after kill -9, a trigger after SIGTERM, whatever the
// lease. Like the planned restart it measures, so it runs before those that
// run side by side.
//
//nolint:tparallel // it measures, and so runs before those that are side by side
func TestTakeover(t *testing.T) {
	for _, c := range []struct {
		name  string
		lease time.Duration
		end   func(*daemon)
		limit time.Duration
	}{
		{"kill -9", 3 * time.Second, (*daemon).Kill, 3*time.Second + trigger},
		{"SIGTERM", 30 * time.Second, func(d *daemon) { d.Signal(syscall.SIGTERM) }, trigger},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, placeOf(t, "versitygw"), options{window: "{size: 30m}", over: "30m", leaseTTL: c.lease})
			w := r.watch("p")
			p := r.produce("p")
			ds := []*daemon{r.start(first, nil), r.start(first, []string{}, "--role", "delta")}
			var took []time.Duration
			for range 4 {
				var l *daemon
				await(t, 40*time.Second, "somebody leads", func() bool { l = leader(w, ds); return l != nil })
				time.Sleep(trigger + trigger/3)
				at := time.Now()
				c.end(l)
				took = append(took, takenOver(t, w, l, at))
				<-l.Done
				ds[slices.Index(ds, l)] = r.start(first, nil)
				time.Sleep(trigger)
			}
			p.stop()
			r.caughtUp(w, p.count())
			t.Logf("no pane for %v after %s of the leader (lease %s, trigger %s)", round(took), c.name, c.lease, trigger)
			if slowest := maxOf(took); slowest > c.limit+slack {
				t.Errorf("%s without a new pane, want at most %s", slowest, c.limit)
			}
		})
	}
}

// TestPipelinesOverReplicas: each of several pipelines has one leader at a
// time among three daemons, and goes on when daemons die.
func TestPipelinesOverReplicas(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	r := newRig(t, placeOf(t, "versitygw"), options{pipelines: names, window: "{size: 30m}", over: "30m"})
	watchers, producers := map[string]*watcher{}, map[string]*produced{}
	for _, name := range names {
		watchers[name], producers[name] = r.watch(name), r.produce(name)
	}
	ds := []*daemon{r.start(first, nil), r.start(first, nil), r.start(first, nil)}
	leaders := func() map[int]int {
		out := map[int]int{}
		for _, w := range watchers {
			if l := leader(w, ds); l != nil {
				out[l.pid]++
			}
		}
		return out
	}
	led := func() (n int) {
		for _, c := range leaders() {
			n += c
		}
		return n
	}
	for round := range 3 {
		await(t, 40*time.Second, "every pipeline has a leader", func() bool { return led() == len(names) })
		spread := leaders()
		t.Logf("round %d: pipelines by process %v", round, spread)
		busiest := slices.MaxFunc(ds, func(a, b *daemon) int { return spread[a.pid] - spread[b.pid] })
		at := time.Now()
		busiest.Kill()
		for _, name := range names {
			if took := takenOver(t, watchers[name], busiest, at); took > r.o.leaseTTL+trigger+slack {
				t.Errorf("pipeline %s had no new pane for %s", name, took)
			}
		}
		ds[slices.Index(ds, busiest)] = r.start(first, nil)
	}
	for _, name := range names {
		producers[name].stop()
		r.caughtUp(watchers[name], producers[name].count())
	}
	for _, d := range ds {
		d.stop()
	}
}
