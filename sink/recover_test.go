package sink_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
)

// lost is an output with three published panes, one that was never committed, and no CURRENT.
func lost(t *testing.T) (o *output, published []sink.Head, planned string) {
	o = newOutput(t)
	me := owner(7, "n1")
	h := o.claim(me)
	for i := 1; i <= 3; i++ {
		h = o.publish(me, h, i)
		published = append(published, h)
	}
	planned = o.runs()
	if _, _, err := sinktest.Write(t.Context(), o.s, me, h, sinktest.Pane{RunID: planned, Watermark: sinktest.Hour(9), Documents: map[string]int64{"x": 1}}); err != nil {
		t.Fatal(err)
	}
	if err := o.mem.Delete(t.Context(), sink.CurrentKey); err != nil {
		t.Fatal(err)
	}
	return o, published, planned
}

func TestRecoverTakesTheNewestKnownAsPublished(t *testing.T) {
	o, published, planned := lost(t)
	known := func(run string) bool { return run != planned }
	plan, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Published: known, MaxVersion: 40})
	if err != nil {
		t.Fatal(err)
	}
	last := published[2]
	if plan.Manifest.RunID != last.RunID || !plan.Proven || plan.Version != sink.RecoveryLeap+40 || plan.MinEpoch != 8 {
		t.Fatalf("plan %s proven %t version %d epoch %d", plan.Manifest.RunID, plan.Proven, plan.Version, plan.MinEpoch)
	}
	if _, err := o.s.Recover(t.Context(), owner(7, "n2"), plan, sinktest.Hour(10)); err == nil {
		t.Error("recovered under an epoch that was used before")
	}
	o.fault.Add(fault.Rule{Kind: fault.ErrorAfter, Op: "put", Key: sink.CurrentKey, Times: 1})
	h, err := o.s.Recover(t.Context(), owner(8, "n2"), plan, sinktest.Hour(10))
	if err != nil || h.Reason != sink.Recover || h.Version != sink.RecoveryLeap+40 || h.RunID != last.RunID || !h.Progress.Equal(sinktest.Hour(3)) || len(h.Condemned) != 0 {
		t.Fatalf("%+v, %v", h.Current, err)
	}
	if got, err := sinktest.Documents(t.Context(), o.mem); err != nil || got["a"] != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{}); !errors.Is(err, sink.ErrExists) {
		t.Errorf("recovering what is there: %v", err)
	}
	o.publish(owner(8, "n2"), h, 4)
}

func TestRecoverWithoutAJournalNeedsAReasonAndVerifies(t *testing.T) {
	o, published, planned := lost(t)
	if _, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{}); !errors.Is(err, sink.ErrNeedReason) {
		t.Fatalf("got %v", err)
	}
	plan, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Reason: "the database is gone"})
	if err != nil || plan.Proven || plan.Manifest.RunID != planned {
		t.Fatalf("plan %s, %v", plan.Manifest.RunID, err)
	}
	// A damaged file, then a missing one: the next older manifest is taken, and the plan says why.
	for i, damage := range []func(key string) error{
		func(key string) error {
			b, _, err := store.ReadAll(t.Context(), o.mem, key, 1<<20, store.GetOptions{})
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 1
			_, err = store.PutBytes(t.Context(), o.mem, key, b, store.PutOptions{})
			return err
		},
		func(key string) error { return o.mem.Delete(t.Context(), key) },
	} {
		if err := damage(plan.Manifest.Files[0].Key); err != nil {
			t.Fatal(err)
		}
		if plan, err = o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Reason: "the database is gone"}); err != nil {
			t.Fatal(err)
		}
		if plan.Manifest.RunID != published[2-i].RunID || len(plan.Passed) != i+1 {
			t.Errorf("plan %s, passed %v", plan.Manifest.RunID, plan.Passed)
		}
	}
}

func TestRecoverOverAnUnreadableCurrent(t *testing.T) {
	o, published, _ := lost(t)
	if _, err := store.PutBytes(t.Context(), o.mem, sink.CurrentKey, []byte(strings.Repeat("x", 5000)), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	plan, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Published: func(run string) bool { return run == published[1].RunID }})
	if err != nil {
		t.Fatal(err)
	}
	o.fault.Add(fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: sink.CurrentKey, Times: 1})
	h, err := o.s.Recover(t.Context(), owner(plan.MinEpoch, "n"), plan, sinktest.Hour(1))
	if err != nil || h.RunID != published[1].RunID {
		t.Errorf("%+v, %v", h.Current, err)
	}
}

// TestRecoverWhereTheLiveManifestIsLost: no run can go on from a CURRENT whose
// manifest is gone or damaged, so it is lost like one that is gone itself.
func TestRecoverWhereTheLiveManifestIsLost(t *testing.T) {
	for name, damage := range map[string]func(o *output, key string) error{
		"gone": func(o *output, key string) error { return o.mem.Delete(t.Context(), key) },
		"another but readable": func(o *output, key string) error {
			b, _, err := store.ReadAll(t.Context(), o.mem, key, 1<<20, store.GetOptions{})
			if err != nil {
				return err
			}
			_, err = store.PutBytes(t.Context(), o.mem, key, append(b, '\n'), store.PutOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, me := newOutput(t), owner(3, "n1")
			before := o.publish(me, o.claim(me), 1)
			live := o.publish(me, before, 2)
			if err := damage(o, live.Delta.Manifest); err != nil {
				t.Fatal(err)
			}
			published := func(string) bool { return true }
			plan, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Published: published})
			if err != nil || plan.Manifest.RunID != before.RunID || plan.MinEpoch != 4 || plan.Version <= live.Version {
				t.Fatalf("plan %s version %d epoch %d, %v", plan.Manifest.RunID, plan.Version, plan.MinEpoch, err)
			}
			h, err := o.s.Recover(t.Context(), owner(4, "n2"), plan, sinktest.Hour(3))
			if err != nil || h.RunID != before.RunID {
				t.Fatalf("%+v, %v", h.Current, err)
			}
			if _, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Published: published}); !errors.Is(err, sink.ErrExists) {
				t.Errorf("recovering what is there: %v", err)
			}
			o.publish(owner(4, "n2"), h, 4)
		})
	}
}

func TestRecoverRefusesANewerFormatAndNothing(t *testing.T) {
	o, _, _ := lost(t)
	if _, err := store.PutBytes(t.Context(), o.mem, sink.CurrentKey, []byte(`{"format":"deltad.current/2"}`), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Reason: "r"}); !errors.Is(err, sink.ErrFormat) {
		t.Errorf("got %v", err)
	}
	empty := newOutput(t)
	if _, err := empty.s.PlanRecovery(t.Context(), sink.RecoverOptions{Reason: "r"}); !errors.Is(err, sink.ErrNoPane) {
		t.Errorf("got %v", err)
	}
}

func TestWalkAndReset(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.claim(me)
	if _, _, err := o.s.ResetProgress(t.Context(), me, h, sink.ResetOptions{To: sinktest.Hour(1), RunID: o.runs()}); !errors.Is(err, sink.ErrNoPane) {
		t.Fatalf("reset of nothing: %v", err)
	}
	want := []string{}
	for i := 1; i <= 3; i++ {
		h = o.publish(me, h, i*2)
		want = append([]string{h.RunID}, want...)
	}
	pane := h
	h, m, err := o.s.ResetProgress(t.Context(), me, h, sink.ResetOptions{To: sinktest.Hour(1), RunID: o.runs(), Build: "b", Now: sinktest.Hour(8)})
	if err != nil {
		t.Fatal(err)
	}
	want = append([]string{m.RunID}, want...)
	if h.Reason != sink.Reset || !h.Progress.Equal(sinktest.Hour(1)) || !h.Watermark.Equal(sinktest.Hour(6)) || h.RunID == pane.RunID {
		t.Fatalf("reset: %+v", h.Current)
	}
	if ids := m.DataIDs(); len(ids) != 1 || ids[0] != pane.RunID {
		t.Errorf("a reset's pane is made of %v, want %s", ids, pane.RunID)
	}
	if got, err := sinktest.Documents(t.Context(), o.mem); err != nil || got["a"] != 6 {
		t.Errorf("%v, %v", got, err)
	}
	var got []string
	walk := func() error {
		got = nil
		return o.s.Walk(t.Context(), h, func(_ sink.Ref, m sink.Manifest) (bool, error) { got = append(got, m.RunID); return true, nil })
	}
	if err := walk(); err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("walked %v, want %v, %v", got, want, err)
	}
	// A record that was collected ends the history; the pane itself must be there.
	parent, err := o.s.ReadManifest(t.Context(), pane.Delta.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if err := o.mem.Delete(t.Context(), parent.Parent.Manifest); err != nil {
		t.Fatal(err)
	}
	if err := walk(); err != nil || len(got) != 2 {
		t.Errorf("walked %v, %v", got, err)
	}
	h = o.publish(me, h, 4) // newest lies behind the old watermark, ahead of the reset
	if !h.Watermark.Equal(sinktest.Hour(4)) {
		t.Errorf("watermark %s", h.Watermark)
	}
}

func TestResetForwardLiftsJumps(t *testing.T) {
	at := func(h int) sink.Time { return sink.At(sinktest.Hour(h)) }
	m := fullManifest()
	m.Jumps = []sink.Jump{{From: at(1), At: at(3)}, {From: at(2), At: at(9)}, {From: at(8), At: at(9)}}
	ref := sink.DeltaRef{Manifest: m.Key()}
	head := sink.Head{Current: sink.Current{Version: 5, Watermark: m.Watermark, Progress: sink.AtPtr(sinktest.Hour(3)), Delta: &ref}, Exists: true}
	forward := sink.ResetManifest(owner(1, "n"), head, m, sink.ResetOptions{To: sinktest.Hour(5), RunID: sinktest.ID(1, 4), Now: sinktest.Hour(9)})
	if want := []sink.Jump{{From: at(5), At: at(9)}, {From: at(8), At: at(9)}}; len(forward.Jumps) != 2 || forward.Jumps[0] != want[0] || forward.Jumps[1] != want[1] {
		t.Errorf("jumps %v", forward.Jumps)
	}
	back := sink.ResetManifest(owner(1, "n"), head, m, sink.ResetOptions{To: sinktest.Hour(2), RunID: sinktest.ID(1, 4), Now: sinktest.Hour(9)})
	if len(back.Jumps) != 3 || back.Jumps[0].From != at(1) {
		t.Errorf("jumps %v", back.Jumps)
	}
	if back.Version != 6 || back.Parent.Manifest != m.Key() || !back.ProgressOr().Equal(sinktest.Hour(2)) {
		t.Errorf("reset manifest %+v", back)
	}
}
