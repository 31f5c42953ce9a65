package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/watermark"
)

// changes are the configurations of the panes that CURRENT named, newest first,
// each as often as it followed another.
func (w *world) changes(a *App) (hashes []string) {
	w.t.Helper()
	runs, err := a.State.Runs(w.t.Context(), "p", 1000, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range runs {
		if r.Status == watermark.RunPublished && (len(hashes) == 0 || hashes[len(hashes)-1] != r.ConfigHash) {
			hashes = append(hashes, r.ConfigHash)
		}
	}
	return hashes
}

func (w *world) leader(a *App) string {
	w.t.Helper()
	l, err := a.State.LeaseStatus(w.t.Context(), "p", watermark.RoleDelta)
	if err != nil && !errors.Is(err, watermark.ErrNotFound) {
		w.t.Fatal(err)
	}
	if !l.Live {
		return ""
	}
	return l.Holder
}

// TestReplicasWithOtherFiles: an update goes from one replica to the next, with
// triggers between and restarts of either: the configuration of the index
// changes once. When the newer one is gone for good, the older goes on; a lone
// older one leads after the grace.
func TestReplicasWithOtherFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(0, 1)
	older, newer := w.file("", "{}"), w.file(", v: {latest: v}", "{}")
	start := func(name string, newest bool) (*App, func(error)) {
		c := older
		if newest {
			c = newer
		}
		a := w.open(c, Options{Instance: name, Replica: name})
		return a, w.serve(a)
	}
	a, stopA := start("a", false)
	w.until("the older one leads", func() bool { _, h := w.live(a); return h == a.Pipes[0].Hash })
	b, stopB := start("b", true)
	w.until("the newer one leads", func() bool { _, h := w.live(b); return h == b.Pipes[0].Hash })

	minute := 2
	steady := func(what string) {
		t.Helper()
		for range 3 { // several triggers with something to publish
			w.put(minute)
			at := w.base.Add(time.Duration(minute) * time.Minute)
			w.until(what, func() bool {
				row, err := b.State.Pipeline(t.Context(), "p")
				return err == nil && row.Watermark.Equal(at)
			})
			minute++
		}
		if got := w.changes(b); len(got) != 2 || got[0] != b.Pipes[0].Hash {
			t.Fatalf("%s: the configuration of the index changed like this: %v", what, got)
		}
	}
	steady("side by side")
	stopA(ErrRestart)
	_, stopA = start("a", false)
	steady("after a planned restart of the older one")
	stopB(ErrRestart)
	if time.Sleep(2 * time.Second); w.leader(b) == "a" {
		t.Error("the older one leads during a planned restart of the newer")
	}
	b, stopB = start("b", true)
	steady("after a planned restart of the newer one")

	// The newer one stops for good: the older one is the newest there is.
	stopB(nil)
	w.until("the older one leads again", func() bool { return w.leader(b) == "a" })
	w.put(minute)
	w.until("with its own configuration", func() bool { _, h := w.live(b); return h == a.Pipes[0].Hash })
	stopA(nil)
}

// TestLoneOlderReplica: where the replica with the newer file has died, the older
// one leads after the grace, and says meanwhile what it waits for.
func TestLoneOlderReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(0)
	a := w.open(w.file("", "{}"), Options{Instance: "a", Replica: "a", LeaseTTL: time.Second})
	hash := "feedbeef"
	register := func() {
		t.Helper()
		if _, _, err := a.State.RegisterConfig(t.Context(), "p", "dead", hash); err != nil {
			t.Fatal(err)
		}
	}
	stop := w.serve(a)
	w.until("it leads alone", func() bool { _, h := w.live(a); return h != "" })
	register()
	w.until("it has given its lease up and says why", func() bool {
		r, _ := a.Metrics.Last("p")
		return strings.Contains(r.Why, "left to dead") && w.leader(a) == ""
	})
	began := time.Now()
	w.until("it leads after the grace", func() bool { return w.leader(a) == "a" })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("after %s", took)
	}
	// It keeps it: this registration has had its chance.
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if w.leader(a) != "a" {
			t.Fatal("it gave its lease up again")
		}
	}
	stop(nil)
	if newest, err := a.State.NewestConfig(t.Context(), "p"); err != nil || newest.Replica != "dead" {
		t.Errorf("a replica that stopped is still registered: %+v (%v)", newest, err)
	}
}

// TestOrder: what a replica may do, case by case, at times that are given.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.open(w.file("", "{}"), Options{Instance: "a", Replica: "a"})
	ctx := t.Context()
	if _, err := a.State.EnsurePipeline(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	o := &order{state: a.State, pipeline: "p", replica: "a", hash: "old", registers: true, grace: time.Minute, log: zap.NewNop()}
	o.mu.free = map[watermark.Role]freeLease{}
	now := time.Now()
	free := watermark.LeaseStatus{Lease: watermark.Lease{Pipeline: "p", Role: watermark.RoleDelta, Holder: "x", Epoch: 7}}
	may := func(after time.Duration, last watermark.LeaseStatus) string {
		took, err := o.may(ctx, "a", last, now.Add(after))
		var held *watermark.HeldError
		switch {
		case err == nil && took == 0:
			return "yes"
		case err == nil:
			o.led(last.Role, took)
			return "after the grace"
		case errors.As(err, &held):
			return fmt.Sprintf("in %s", held.Remaining)
		}
		return err.Error()
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	want("nobody is registered", may(0, free), "yes")
	o.register(ctx)
	want("only this one is", may(0, free), "yes")
	if _, _, err := a.State.RegisterConfig(ctx, "p", "b", "new"); err != nil {
		t.Fatal(err)
	}
	want("another one is newer", may(0, free), "in 1m0s")
	want("for a while", may(20*time.Second, free), "in 40s")
	taken := free
	taken.Epoch = 8
	want("somebody took it and gave it back", may(30*time.Second, taken), "in 1m0s")
	want("nobody took it", may(90*time.Second, taken), "after the grace")
	mine := taken
	mine.Holder, mine.Epoch = "a", 9
	want("it was lost for a moment", may(2*time.Minute, mine), "after the grace")
	live := mine
	live.Live, live.Remaining = true, 5*time.Second
	want("it is held", may(2*time.Minute, live), "in 5s")
	if o.giveUp(ctx) {
		t.Error("a lease had after the grace is given up")
	}
	if _, _, err := a.State.RegisterConfig(ctx, "p", "c", "newer"); err != nil {
		t.Fatal(err)
	}
	if !o.giveUp(ctx) || o.giveUp(ctx) {
		t.Error("for a newer registration it is not given up once")
	}
	// A second process of the same host has taken the registration with it.
	if err := a.State.UnregisterConfig(ctx, "p", "a", "old"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.State.RegisterConfig(ctx, "p", "d", "new"); err != nil {
		t.Fatal(err)
	}
	want("it registers again", may(3*time.Minute, free), "yes")
	rebuilds := &order{state: a.State, pipeline: "p", replica: "f", hash: "other", grace: time.Minute, log: zap.NewNop()}
	rebuilds.mu.free = map[watermark.Role]freeLease{}
	if _, err := rebuilds.may(ctx, "f", free, now); !errors.Is(err, watermark.ErrHeld) {
		t.Errorf("one that only rebuilds: %v", err)
	}
}
