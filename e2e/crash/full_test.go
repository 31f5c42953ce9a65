//go:build integration

package crash_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// rebuildSteps are the steps of a rebuild as the engine names them, in their
// order.
var rebuildSteps = []string{"started", "pinned", "read", "accumulators", "written", "gated", "manifest", "finished"}

// complete says of a step that the generation is complete then: what comes later
// is not in it.
func complete(step string) bool { return step == "manifest" || step == "finished" }

func newID() string { return ulid.Make().String() }

// generation is the n-th object of the tests of full indexes.
func generation(n int) stage {
	return stage{partition: day.Add(time.Duration(n) * time.Second), gen: n, outcome: "advanced"}
}

// TestCrashAtEveryStepOfARebuild kills the process that makes a rebuild, by
// hand or as a daemon, at every step. The next one takes the rebuild over under
// its id, with what has come meanwhile, and it becomes the base.
func TestCrashAtEveryStepOfARebuild(t *testing.T) {
	t.Parallel()
	want := undisturbedRebuilds(t)
	for _, p := range places() {
		for _, mode := range modes(p) {
			t.Run(p.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r := newFullRig(t, p, full())
				w := r.watch("p")
				next := 1
				step := func() {
					r.drop(generation(next))
					r.live(w, "once", generation(next))
					next++
				}
				for i, at := range rebuildSteps {
					step()
					var id string
					if mode == "once" {
						r.crash("rebuild "+at, "rebuild", "--reason", "a rebuild that crashes")
						id = r.newest().ID
					} else {
						id = r.ask().ID
						r.start(first, []string{"DELTAD_CRASH_AT=rebuild " + at}).dies("rebuild " + at)
					}
					if rb := r.newest(); rb.ID != id || rb.State != watermark.RebuildRunning && at != "finished" || at == "finished" && rb.State != watermark.RebuildCandidate {
						t.Fatalf("after a crash at %q rebuild %s is %s, the newest %s", at, id, rb.State, rb.ID)
					}
					step()
					r.takenOver(mode, id)
					if got := r.pairSums(); got != want[i] {
						t.Fatalf("after a crash at %q: files %s, undisturbed %s", at, got, want[i])
					}
				}
				if n := r.moves(sink.Promote); len(n) != len(rebuildSteps) {
					t.Errorf("promotions by base %v, want one of each of %d", n, len(rebuildSteps))
				}
				r.oneLine(r.history("p"))
				r.noPins()
				t.Logf("%d crashes, the reader loaded %d panes", len(rebuildSteps), w.loads())
			})
		}
	}
}

// undisturbedRebuilds is what each rebuild leaves when nothing dies.
func undisturbedRebuilds(t *testing.T) (sums []string) {
	t.Helper()
	r := newFullRig(t, places()[0], full())
	next := 1
	step := func() {
		r.drop(generation(next))
		r.once()
		next++
	}
	for _, at := range rebuildSteps {
		step()
		var rb watermark.Rebuild
		if complete(at) {
			rb = r.rebuilt()
		}
		step()
		if !complete(at) {
			rb = r.rebuilt()
		}
		r.promoted(rb.ID)
		sums = append(sums, r.pairSums())
	}
	return sums
}

// takenOver has a rebuild whose maker died made, and its base promoted.
func (r *rig) takenOver(mode, id string) {
	r.t.Helper()
	if mode == "once" {
		if r.newest().State != watermark.RebuildCandidate {
			r.led(nil, "rebuild", "--wait")
		}
		r.promoted(id)
		return
	}
	d := r.start(first, nil)
	await(r.t, 60*time.Second, "the rebuild becomes the base, and is journalled", func() bool {
		return r.newest().State == watermark.RebuildPromoted
	})
	d.stop()
	r.overBase(id)
}

// noPins wants nothing pinned: rebuilds let go of what they pinned.
func (r *rig) noPins() {
	r.t.Helper()
	r.with(pinned(r.t))
}

// TestCrashAtEveryStepOfAPromotion kills the leader in the run that promotes.
func TestCrashAtEveryStepOfAPromotion(t *testing.T) {
	t.Parallel()
	want := undisturbedPromotions(t)
	for _, p := range places() {
		for _, mode := range modes(p) {
			t.Run(p.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r := newFullRig(t, p, full())
				w := r.watch("p")
				for i, at := range runSteps {
					s := generation(i + 1)
					r.drop(s)
					r.live(w, "once", s)
					id := r.rebuilt().ID
					if mode == "once" {
						r.crash(at, "base", "promote")
						r.once()
						r.promoted(id)
					} else {
						r.start(first, []string{"DELTAD_CRASH_AT=" + at}).dies(at)
						r.takenOver(mode, id)
					}
					if got := r.pairSums(); got != want[i] {
						t.Fatalf("after a crash at %q: files %s, undisturbed %s", at, got, want[i])
					}
					if n := r.moves(sink.Promote)[id]; n != 1 {
						t.Errorf("after a crash at %q base %s was promoted %d times", at, id, n)
					}
				}
				r.oneLine(r.history("p"))
				t.Logf("%d crashes, the reader loaded %d panes", len(runSteps), w.loads())
			})
		}
	}
}

func undisturbedPromotions(t *testing.T) (sums []string) {
	t.Helper()
	r := newFullRig(t, places()[0], full())
	for i := range runSteps {
		r.drop(generation(i + 1))
		r.once()
		r.promoted(r.rebuilt().ID)
		sums = append(sums, r.pairSums())
	}
	return sums
}

// TestCrashAtEveryStepOfARollback kills a rollback to the base before, by hand
// where nobody leads and in a leader. It comes about once; the base that was
// left stays barred, through restarts and new partitions, until somebody says
// otherwise.
func TestCrashAtEveryStepOfARollback(t *testing.T) {
	t.Parallel()
	steps := []string{"claimed", "rollback planned", "rollback current", "rollback committed"}
	for _, p := range places() {
		for _, mode := range modes(p) {
			t.Run(p.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r := newFullRig(t, p, full())
				w := r.watch("p")
				next := 1
				step := func() {
					r.drop(generation(next))
					r.live(w, "once", generation(next))
					next++
				}
				var bases [2]string
				for i := range bases {
					step()
					bases[i] = r.rebuilt().ID
					r.promoted(bases[i])
				}
				step()
				for i, at := range steps {
					before := r.manifest("p")
					if mode == "once" {
						r.crash(at, "base", "rollback", "--reason", "a rollback that crashes")
					} else {
						r.rollbackOfDaemon(at)
					}
					r.once() // settles what is left, and goes on over the base before
					r.overBase(bases[0])
					if n := r.moves(sink.Rollback)[bases[0]]; n != i+1 {
						t.Fatalf("after a crash at %q there are %d rollbacks in the line, want %d", at, n, i+1)
					}
					if m := r.manifest("p"); !m.Watermark.Equal(before.Watermark.Time) {
						t.Errorf("after a crash at %q the next run is at %s, want %s", at, m.Watermark, before.Watermark)
					}
					r.rolledBack(i+1, bases[1])
					// Nothing undoes it: not a leader, not a new partition.
					d := r.start(first, nil)
					await(t, 30*time.Second, "a leader", func() bool { return len(d.said("leading")) > 0 })
					r.drop(generation(next))
					await(t, 30*time.Second, "a pane of the new partition", func() bool {
						last, _ := w.last()
						return last.gen == int64(next)
					})
					next++
					time.Sleep(2 * trigger)
					d.stop()
					r.overBase(bases[0])
					r.led(nil, "base", "promote", bases[1], "--reason", "it was right after all")
					r.overBase(bases[1])
				}
				got := r.pairSums()
				if want := undisturbedLine(t, next-1); got != want {
					t.Errorf("in the end: files %s, undisturbed %s", got, want)
				}
				r.oneLine(r.history("p"))
				t.Logf("%d crashes, the reader loaded %d panes", len(steps), w.loads())
			})
		}
	}
}

// undisturbedLine is what stands in the end where nothing died and nothing was
// rolled back, over the same two bases.
func undisturbedLine(t *testing.T, last int) string {
	t.Helper()
	r := newFullRig(t, places()[0], full())
	for n := 1; n <= last; n++ {
		r.drop(generation(n))
		r.once()
		if n <= 2 {
			r.promoted(r.rebuilt().ID)
		}
	}
	return r.pairSums()
}

// rollbackOfDaemon kills the leader at a step of a rollback. The command that
// asked for it does it itself once the lease has expired.
func (r *rig) rollbackOfDaemon(step string) {
	r.t.Helper()
	if step == "claimed" {
		step = "rollback planned" // a leader with nothing to do claims with the rollback
	}
	d := r.start(first, []string{"DELTAD_CRASH_AT=" + step})
	await(r.t, 30*time.Second, "the daemon leads", func() bool { return len(d.said("leading")) > 0 })
	r.led(nil, "base", "rollback", "--reason", "a rollback that crashes")
	d.dies(step)
}

// rolledBack wants no intent open, so many rollbacks applied, and a base
// barred.
func (r *rig) rolledBack(n int, barred string) {
	r.t.Helper()
	r.with(applied(r.t, r.history("p"), n, barred))
}

// TestLeftoversOfFullIndexesAreCollected: what crashed rebuilds, promotions and
// rollbacks have left goes a day later, and nothing else.
func TestLeftoversOfFullIndexesAreCollected(t *testing.T) {
	t.Parallel()
	o := full()
	o.retain, o.full = "{for: 0s, panes: 1, bases: 1}", "{support_previous_for: 0s}"
	r := newFullRig(t, placeOf(t, "file"), o)
	w := r.watch("p")
	for i, at := range rebuildSteps {
		r.drop(generation(i + 1))
		r.live(w, "once", generation(i+1))
		r.crash("rebuild "+at, "rebuild")
		if i%2 == 0 { // called off: what is there is nobody's
			r.led(nil, "rebuild", "--wait")
			if i%4 == 0 {
				r.crash("data", "base", "promote")
				r.promoted(r.newest().ID)
			}
			continue
		}
		id := r.newest().ID
		if r.newest().State == watermark.RebuildRunning {
			r.led(nil, "rebuild", "--cancel", id, "--reason", "nobody wants it")
			if res := r.run(nil, "rebuild", "--wait"); res.code == 0 {
				t.Fatalf("a rebuild that was called off: %s", res.stdout)
			}
		}
	}
	last := r.head("p").Base.Generation
	if ids := r.generations(); len(ids) < 4 {
		t.Fatalf("only %v are there: nothing to collect", ids)
	}
	w.stop()
	r.age(25 * time.Hour)
	r.drop(generation(len(rebuildSteps) + 1)) // by what is written now the store's clock is known
	r.once()
	for i := 0; ; i++ {
		var plan sink.Collection
		r.led(&plan, "gc")
		if plan.Empty() {
			break
		}
		if i == 10 {
			t.Fatalf("collections go on and on: %+v", plan)
		}
	}
	keep := []string{last}
	if rb := r.newest(); rb.State == watermark.RebuildCandidate || rb.State == watermark.RebuildHeld {
		keep = append(keep, rb.ID)
	}
	slices.Sort(keep)
	if ids := r.generations(); !slices.Equal(ids, slices.Compact(keep)) {
		t.Errorf("after a day there are the generations %v, want %v", ids, keep)
	}
	if ids := r.dataIDs(); !slices.Equal(ids, []string{r.dataID()}) {
		t.Errorf("after a day there is the data of %v, want that of %s", ids, r.dataID())
	}
	if got := fmt.Sprint(r.head("p").Condemned); got != "[]" {
		t.Errorf("still condemned: %s", got)
	}
}
