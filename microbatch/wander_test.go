package microbatch_test

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/watermark"
)

// TestHistoriesGoBackAndAreCollected lives histories as those of
// TestWhatIsKeptMakesTheSamePane, written in layers by two instances in turn, of
// which a person goes back to earlier panes while what is not retained is
// deleted: every pane is that of its objects alone, and can be read.
func TestHistoriesGoBackAndAreCollected(t *testing.T) {
	t.Parallel()
	wanderers(t, 3, func(w *wanderer) { w.bulky = w.rng.IntN(4) > 0 }, func(t *testing.T, did wandered) {
		if did.back == 0 || did.deleted == 0 || did.turns == 0 || did.layers == 0 || did.compared < 20 {
			t.Errorf("%+v: the test is too tame", did)
		}
	})
}

// TestHistoriesGoBackOverBases: the same over a full index that is built again
// now and then, with all that a rollback and a promotion have of one another.
func TestHistoriesGoBackOverBases(t *testing.T) {
	t.Parallel()
	wanderers(t, 3, func(w *wanderer) {
		w.bulky, w.bases = true, true
		w.set.Full, w.set.Combiners = true, combine.Builtins()
		w.set.SupportPrevious = []time.Duration{0, 5 * time.Minute, time.Hour}[w.rng.IntN(3)]
		w.set.Rule = window.Rule{Size: 20 * time.Minute, Longest: 14 * time.Minute, Max: 6 * time.Hour, OnGap: window.Rebuild}
	}, func(t *testing.T, did wandered) {
		if did.back == 0 || did.deleted == 0 || did.turns == 0 || did.layers == 0 || did.built == 0 || did.promoted == 0 || did.compared < 20 {
			t.Errorf("%+v: the test is too tame", did)
		}
	})
}

// wanderer is a history that goes back.
type wanderer struct {
	*kept
	bases     bool                 // a full index is built now and then
	other     *microbatch.Pipeline // that has its turn next
	panes     int                  // that are retained
	refs      []sink.Ref           // of the panes that were live, each after another
	collector *sink.Collector
	did       wandered
}

// wandered is how often something happened.
type wandered struct{ back, refused, deleted, turns, built, promoted, compared, layers int }

func (d *wandered) add(o wandered) {
	d.back, d.refused, d.deleted, d.turns = d.back+o.back, d.refused+o.refused, d.deleted+o.deleted, d.turns+o.turns
	d.built, d.promoted, d.compared, d.layers = d.built+o.built, d.promoted+o.promoted, d.compared+o.compared, max(d.layers, o.layers)
}

// wanderers lives so many histories, as often more as rapid.checks is above 100, and has
// check see what happened in all.
func wanderers(t *testing.T, histories int, change func(*wanderer), check func(*testing.T, wandered)) {
	t.Helper()
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	did := make([]wandered, max(histories, histories*checks/100))
	t.Cleanup(func() { // when all are over
		var all wandered
		for _, d := range did {
			all.add(d)
		}
		check(t, all)
	})
	for seed := range did {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWanderer(t, uint64(seed), change)
			for range 45 {
				w.moment()
			}
			did[seed] = w.did
			did[seed].compared, did[seed].layers = w.compared, w.layers
		})
	}
}

func newWanderer(t *testing.T, seed uint64, change func(*wanderer)) *wanderer {
	t.Helper()
	w := &wanderer{kept: newKept(t, seed)}
	inLayers(&w.set)
	change(w)
	w.restart()
	w.other, w.panes = microbatch.New(w.set), 1+w.rng.IntN(4)
	w.collector = sink.NewCollector(w.set.Sink)
	return w
}

// moment is an event and a step, and at times more.
func (w *wanderer) moment() {
	w.t.Helper()
	w.event()
	if w.rng.IntN(12) == 0 {
		w.p, w.other = w.other, w.p
		w.did.turns++
	}
	if w.bases && w.rng.IntN(9) == 0 && w.compared > 0 {
		w.build()
	}
	w.step()
	head := w.remember()
	if head.Delta == nil {
		return
	}
	if w.live().Reason == sink.Promote {
		w.did.promoted++
	}
	if w.rng.IntN(3) == 0 {
		w.collect(head)
	}
	if w.rng.IntN(7) == 0 && len(w.refs) > 1 {
		w.back(w.refs[max(0, len(w.refs)-2-w.rng.IntN(4))])
	}
	w.readable()
}

// remember keeps which pane is live.
func (w *wanderer) remember() sink.Head {
	w.t.Helper()
	head := w.head()
	if n := len(w.refs); head.Delta != nil && (n == 0 || w.refs[n-1] != head.Delta.Ref()) {
		w.refs = append(w.refs, head.Delta.Ref())
	}
	return head
}

// build makes a base, whatever differs from the one before.
func (w *wanderer) build() {
	w.t.Helper()
	rb, err := w.state.CreateRebuild(w.t.Context(), watermark.Rebuild{ID: w.set.NewID(), Pipeline: "ads", Cause: watermark.RebuildManual, Actor: "t", Reason: "a test asks for it"})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := full.New(w.full(func(s *full.Settings) { s.Gate = full.Gate{MaxShrink: 1, MaxGrowth: 1000, MaxNulls: 1} })).Run(w.t.Context(), rb)
	if err != nil || r.State != watermark.RebuildCandidate {
		w.t.Fatalf("rebuild ended %s (%v, checks %+v)", r.State, err, r.Checks)
	}
	w.did.built++
}

// collect deletes what is not retained. Nothing is in its way.
func (w *wanderer) collect(head sink.Head) {
	w.t.Helper()
	plan, err := w.collector.Plan(w.t.Context(), head, sink.CollectOptions{Retain: sink.Retain{Panes: w.panes, Bases: 3}})
	if err != nil || len(plan.Held) > 0 {
		w.t.Fatalf("held %v (%v)", plan.Held, err)
	}
	if _, err := w.collector.Do(w.t.Context(), head.Owner, head, plan); err != nil {
		w.t.Fatal(err)
	}
	w.did.deleted += len(plan.Delete)
}

// back asks for an earlier pane, which may be gone, and goes on from there.
func (w *wanderer) back(to sink.Ref) {
	w.t.Helper()
	ctx := w.t.Context()
	row, err := w.state.Pipeline(ctx, "ads")
	if err != nil {
		w.t.Fatal(err)
	}
	in, err := w.state.CreateIntent(ctx, watermark.Intent{
		ID: w.set.NewID(), Pipeline: "ads", Kind: watermark.IntentRollback, Pane: watermark.ManifestRef{Key: to.Manifest, SHA256: to.SHA256},
		Pause: true, Digest: "d", Actor: "t", Reason: "a test goes back",
	}, row.Version)
	if err != nil {
		w.t.Fatal(err)
	}
	if r := w.p.Once(ctx, w.minute(w.now), microbatch.StepOptions{Retry: true}); r.Err != nil {
		w.t.Fatal(r.Err)
	}
	if in, err = w.state.IntentByID(ctx, in.ID); err != nil {
		w.t.Fatal(err)
	}
	if in.State == watermark.IntentApplied {
		w.pause(false)
		w.did.back++
	} else {
		w.did.refused++
	}
	w.remember()
}

// readable reads all of the live pane.
func (w *wanderer) readable() {
	w.t.Helper()
	m := w.live()
	var docs, stones int64
	err := reader.Rows(w.t.Context(), w.out, m, func(d, s *column.Batch) error {
		docs, stones = docs+int64(d.Len), stones+int64(s.Len)
		return nil
	})
	if err != nil || docs != m.Counts.Documents || stones != m.Counts.Tombstones {
		w.t.Fatalf("%s of run %s has %d documents and %d tombstones, counts %+v: %v", m.Reason, m.RunID, docs, stones, m.Counts, err)
	}
}
