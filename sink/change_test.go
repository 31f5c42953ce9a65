package sink_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
)

func owner(epoch int64, nonce string) sink.Owner {
	return sink.Owner{Epoch: epoch, Nonce: nonce, State: "state-1", Instance: "deltad-a"}
}

// output is an output under test: a memory store, watched, with faults over it.
type output struct {
	t     testing.TB
	mem   *mem.Store
	watch *sinktest.Watcher
	fault *fault.Store
	s     *sink.Sink
	runs  func() string
}

func newOutput(t testing.TB) *output {
	t.Helper()
	o := &output{t: t, mem: mem.New("out")}
	o.watch = sinktest.Watch(o.mem)
	o.fault = fault.New(o.watch)
	o.s = sinktest.New(o.fault, 'C'-'A'+10)
	o.runs = sinktest.IDs(20)
	t.Cleanup(func() {
		for _, b := range o.watch.Broken() {
			t.Errorf("invariant broken: %s", b)
		}
	})
	return o
}

func (o *output) claim(me sink.Owner) sink.Head {
	o.t.Helper()
	h, err := o.s.Claim(o.t.Context(), me, sink.ClaimOptions{Now: sinktest.Hour(0)})
	if err != nil {
		o.t.Fatal(err)
	}
	return h
}

func (o *output) publish(me sink.Owner, h sink.Head, hour int) sink.Head {
	o.t.Helper()
	h, err := sinktest.Publish(o.t.Context(), o.s, me, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(hour), Documents: map[string]int64{"a": int64(hour), "b": 1}})
	if err != nil {
		o.t.Fatal(err)
	}
	return h
}

func (o *output) head() sink.Head {
	o.t.Helper()
	h, err := sink.ReadHead(o.t.Context(), o.mem, "")
	if err != nil {
		o.t.Fatal(err)
	}
	return h
}

func TestFirstClaimPublishAndRefine(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.claim(me)
	if !h.Exists || h.Version != 1 || h.Delta != nil || h.Base != nil || h.Watermark != nil || h.Progress != nil || h.Reason != sink.Claim {
		t.Fatalf("first claim: %+v", h.Current)
	}
	h = o.publish(me, h, 5)
	if h.Version != 2 || h.Reason != sink.Publish || !h.Watermark.Equal(sinktest.Hour(5)) || h.Delta.Documents != 2 {
		t.Fatalf("publish: %+v", h.Current)
	}
	first := h.RunID
	if h = o.publish(me, h, 5); h.Version != 3 || h.Reason != sink.Refine || h.RunID == first {
		t.Fatalf("refine: %+v", h.Current)
	}
	got, err := sinktest.Documents(t.Context(), o.mem)
	if err != nil || got["a"] != 5 || len(got) != 2 {
		t.Fatalf("documents %v, %v", got, err)
	}
	if again := o.claim(me); again.Version != 3 {
		t.Errorf("claiming what is mine wrote version %d", again.Version)
	}
}

// What one put of CURRENT may meet, and what must come of it.
func TestUnclearAnswersAreSettledByReading(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule fault.Rule
		sent int // puts of CURRENT it takes
	}{
		{"no reply, applied", fault.Rule{Kind: fault.ErrorAfter}, 1},
		{"no reply, lost on the way", fault.Rule{Kind: fault.ErrorBefore}, 2},
		{"409, not applied", fault.Rule{Kind: fault.ErrorBefore, Err: store.ErrConflict}, 2},
		{"409, applied", fault.Rule{Kind: fault.ErrorAfter, Err: store.ErrConflict}, 1},
		{"412 of a proxy's own retry", fault.Rule{Kind: fault.ErrorAfter, Err: store.ErrPrecondition}, 1},
		{"412, not applied", fault.Rule{Kind: fault.ErrorBefore, Err: store.ErrPrecondition}, 2},
		{"broken connection, twice", fault.Rule{Kind: fault.ErrorBefore, Err: errors.New("connection reset by peer"), Times: 2}, 3},
		{"in the network, sent again, arrives later", fault.Rule{Kind: fault.Late}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, me := newOutput(t), owner(1, "n1")
			h := o.claim(me)
			before := o.fault.Count("put")
			tc.rule.Op, tc.rule.Key = "put", sink.CurrentKey
			if tc.rule.Times == 0 {
				tc.rule.Times = 1
			}
			o.fault.Add(tc.rule)
			h = o.publish(me, h, 3)
			if sent := o.fault.Count("put") - before - 2; sent != tc.sent { // a data file and a manifest
				t.Errorf("%d puts of CURRENT, want %d", sent, tc.sent)
			}
			if now := o.head(); now.Version != 2 || now.ETag != h.ETag || now.ChangeID != h.ChangeID {
				t.Errorf("version %d, returned %d", now.Version, h.Version)
			}
			for _, err := range o.fault.Deliver(t.Context()) {
				if !errors.Is(err, store.ErrPrecondition) {
					t.Errorf("the copy that arrived late was answered %v", err)
				}
			}
			if now := o.head(); now.Version != 2 {
				t.Errorf("version %d after the late copy", now.Version)
			}
		})
	}
}

func TestLateRequestOfAGivenUpChangeIsMovedNotLost(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.claim(me)
	o.fault.Add(fault.Rule{Kind: fault.Late, Op: "put", Key: sink.CurrentKey, Times: 1}, fault.Rule{Kind: fault.ErrorBefore, Op: "get", Key: sink.CurrentKey})
	run := o.runs()
	_, err := sinktest.Publish(t.Context(), o.s, me, h, sinktest.Pane{RunID: run, Watermark: sinktest.Hour(1)})
	if !errors.Is(err, sink.ErrUnsettled) {
		t.Fatalf("got %v", err)
	}
	o.fault.Heal()
	o.fault.Deliver(t.Context())
	// The next change was planned on the old head: it must notice, and the first one is the truth.
	_, err = sinktest.Publish(t.Context(), o.s, me, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(2)})
	if !errors.Is(err, sink.ErrMoved) {
		t.Fatalf("got %v", err)
	}
	if now := o.head(); now.RunID != run {
		t.Errorf("CURRENT names %s, want %s", now.RunID, run)
	}
}

func TestTwoLeaders(t *testing.T) {
	a, b := owner(1, "n1"), owner(2, "n2")
	t.Run("older is fenced", func(t *testing.T) {
		o := newOutput(t)
		h := o.claim(a)
		o.claim(b)
		if _, err := sinktest.Publish(t.Context(), o.s, a, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)}); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("publish: %v", err)
		}
		if _, err := o.s.Claim(t.Context(), a, sink.ClaimOptions{}); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("claim: %v", err)
		}
	})
	t.Run("older one's request arrives after the claim", func(t *testing.T) {
		o := newOutput(t)
		h := o.claim(a)
		o.fault.Add(fault.Rule{Kind: fault.Late, Op: "put", Key: sink.CurrentKey, Times: 1}, fault.Rule{Kind: fault.Crash, Op: "get", Key: sink.CurrentKey})
		if _, err := sinktest.Publish(t.Context(), o.s, a, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)}); err == nil {
			t.Fatal("published")
		}
		o.fault.Heal()
		o.claim(b)
		for _, err := range o.fault.Deliver(t.Context()) {
			if !errors.Is(err, store.ErrPrecondition) {
				t.Errorf("answered %v", err)
			}
		}
		if now := o.head(); now.Delta != nil {
			t.Error("a fenced leader published")
		}
	})
	t.Run("same epoch, another nonce", func(t *testing.T) {
		o := newOutput(t)
		h := o.claim(a)
		twin := owner(1, "n3")
		if _, err := o.s.Claim(t.Context(), twin, sink.ClaimOptions{}); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("claim: %v", err)
		}
		if _, err := sinktest.Publish(t.Context(), o.s, twin, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)}); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("publish: %v", err)
		}
	})
	t.Run("newer one has not claimed yet", func(t *testing.T) {
		o := newOutput(t)
		h := o.claim(a)
		if _, err := sinktest.Publish(t.Context(), o.s, b, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)}); !errors.Is(err, sink.ErrClaimAgain) {
			t.Errorf("publish: %v", err)
		}
	})
	t.Run("older one publishes between the newer one's read and claim", func(t *testing.T) {
		o := newOutput(t)
		h := o.claim(a)
		var run string
		o.fault.Add(fault.Rule{Kind: fault.Delay, Op: "put", Key: sink.CurrentKey, Times: 1, OnHit: func() {
			quiet := sinktest.New(o.watch, 30)
			run = o.runs()
			if _, err := sinktest.Publish(context.Background(), quiet, a, h, sinktest.Pane{RunID: run, Watermark: sinktest.Hour(1)}); err != nil {
				t.Error(err)
			}
		}})
		if now := o.claim(b); now.RunID != run || now.Version != 3 || !now.Owner.Same(b) {
			t.Errorf("claimed %+v", now.Current)
		}
	})
}

func TestAmbiguousClaims(t *testing.T) {
	for _, kind := range []fault.Kind{fault.ErrorAfter, fault.ErrorBefore, fault.Late} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("kind %d, first %t", kind, first), func(t *testing.T) {
				o := newOutput(t)
				want := int64(1)
				if !first {
					o.claim(owner(1, "n1"))
					want = 2
				}
				o.fault.Add(fault.Rule{Kind: kind, Op: "put", Key: sink.CurrentKey, Times: 1})
				if h := o.claim(owner(2, "n2")); h.Version != want || !h.Owner.Same(owner(2, "n2")) {
					t.Errorf("claimed %+v", h.Current)
				}
				o.fault.Deliver(t.Context())
				if now := o.head(); now.Version != want {
					t.Errorf("version %d", now.Version)
				}
			})
		}
	}
}

func TestOtherStateStoreIsRefusedUntilAdopted(t *testing.T) {
	o, a := newOutput(t), owner(3, "n1")
	h := o.publish(a, o.claim(a), 4)
	b := owner(4, "n2")
	b.State = "state-2"
	if _, err := o.s.Claim(t.Context(), b, sink.ClaimOptions{}); !errors.Is(err, sink.ErrForeignState) {
		t.Fatalf("got %v", err)
	}
	low := b
	low.Epoch = 2
	if _, err := o.s.Adopt(t.Context(), low, sink.ClaimOptions{}); !errors.Is(err, sink.ErrFenced) {
		t.Fatalf("adopted with a lower epoch: %v", err)
	}
	now, err := o.s.Adopt(t.Context(), b, sink.ClaimOptions{Now: sinktest.Hour(9)})
	if err != nil || now.Reason != sink.Adopt || now.Owner != b || now.RunID != h.RunID || now.Version != h.Version+1 {
		t.Fatalf("%+v, %v", now.Current, err)
	}
	if !now.PublishedAt.Equal(h.PublishedAt.Time) {
		t.Error("adopting changed published_at")
	}
	if _, err := o.s.Claim(t.Context(), b, sink.ClaimOptions{}); err != nil {
		t.Error(err)
	}
}

func TestLostCurrentIsNotCreatedAnew(t *testing.T) {
	t.Run("manifests exist", func(t *testing.T) {
		o, me := newOutput(t), owner(1, "n1")
		o.publish(me, o.claim(me), 1)
		if err := o.mem.Delete(t.Context(), sink.CurrentKey); err != nil {
			t.Fatal(err)
		}
		if _, err := o.s.Claim(t.Context(), owner(2, "n2"), sink.ClaimOptions{}); !errors.Is(err, sink.ErrLostCurrent) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("committed runs exist", func(t *testing.T) {
		o := newOutput(t)
		if _, err := o.s.Claim(t.Context(), owner(2, "n2"), sink.ClaimOptions{Committed: true}); !errors.Is(err, sink.ErrLostCurrent) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		o := newOutput(t)
		if _, err := store.PutBytes(t.Context(), o.mem, sink.CurrentKey, []byte("{}x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := o.s.Claim(t.Context(), owner(2, "n2"), sink.ClaimOptions{}); !errors.Is(err, sink.ErrLostCurrent) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("gone during a change", func(t *testing.T) {
		o, me := newOutput(t), owner(1, "n1")
		h := o.claim(me)
		o.fault.Add(fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: sink.CurrentKey, Times: 1, OnHit: func() {
			if err := o.mem.Delete(context.Background(), sink.CurrentKey); err != nil {
				t.Error(err)
			}
		}})
		_, err := sinktest.Publish(t.Context(), o.s, me, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)})
		if !errors.Is(err, sink.ErrLostCurrent) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAttemptsEndUnsettled(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.claim(me)
	denied := fmt.Errorf("403: %w", store.ErrDenied)
	o.fault.Add(fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: sink.CurrentKey, Err: denied})
	_, err := sinktest.Publish(t.Context(), o.s, me, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)})
	if !errors.Is(err, sink.ErrUnsettled) || !errors.Is(err, store.ErrDenied) {
		t.Errorf("got %v", err)
	}
	o.fault.Heal()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("lease lost")
	o.fault.Add(fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: sink.CurrentKey, OnHit: func() { cancel(stop) }})
	_, err = sinktest.Publish(ctx, o.s, me, h, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)})
	if !errors.Is(err, sink.ErrUnsettled) || !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func TestTransitions(t *testing.T) {
	at := func(h int) *sink.Time { return sink.AtPtr(sinktest.Hour(h)) }
	pane := func(run uint64, reason sink.Reason, watermark, progress int) sink.Current {
		id := sinktest.ID(1, run)
		return sink.Current{Version: 2, Reason: reason, RunID: id, Watermark: at(watermark), Progress: at(progress), PublishedAt: sink.At(sinktest.Hour(1)),
			Delta: &sink.DeltaRef{Manifest: "manifests/" + id}}
	}
	same := func(reason sink.Reason, c sink.Current) sink.Current { c.Reason = reason; return c }
	later := func(c sink.Current) sink.Current { c.PublishedAt = sink.At(sinktest.Hour(2)); return c }
	condemning := func(c sink.Current, id string) sink.Current { c.Condemned = []string{id}; return c }
	over := func(c sink.Current, generation uint64) sink.Current {
		id := sinktest.ID(9, generation)
		c.Base = &sink.BaseRef{Generation: id, Manifest: sink.FullKey(id, "manifest.json"), SHA256: id, Cut: sink.At(sinktest.Hour(1))}
		return c
	}
	otherBytes := func(c sink.Current) sink.Current { c.Base.SHA256 = "other"; return c }
	live := pane(1, sink.Publish, 5, 5)
	based := over(live, 1)
	reset := pane(1, sink.Reset, 5, 2)
	for _, tc := range []struct {
		name     string
		from, to sink.Current
		want     error
	}{
		{"first pane", sink.Current{}, pane(1, sink.Publish, 5, 5), nil},
		{"advance", live, pane(2, sink.Publish, 6, 6), nil},
		{"advance to the same", live, pane(2, sink.Publish, 5, 5), sink.ErrTransition},
		{"advance back", live, pane(2, sink.Publish, 4, 4), sink.ErrTransition},
		{"advance back after a reset", reset, pane(2, sink.Publish, 4, 4), nil},
		{"publish with another progress", live, pane(2, sink.Publish, 6, 7), sink.ErrTransition},
		{"refine", live, pane(2, sink.Refine, 5, 5), nil},
		{"refine of a reset pane", pane(1, sink.Reset, 5, 9), pane(2, sink.Refine, 5, 9), nil},
		{"refine moves the watermark", live, pane(2, sink.Refine, 6, 5), sink.ErrTransition},
		{"refine moves progress", live, pane(2, sink.Refine, 5, 6), sink.ErrTransition},
		{"refine of nothing", sink.Current{}, pane(2, sink.Refine, 5, 5), sink.ErrTransition},
		{"same run again", live, same(sink.Rollback, live), sink.ErrTransition},
		{"claim", live, same(sink.Claim, live), nil},
		{"claim moves targets", live, pane(2, sink.Claim, 5, 5), sink.ErrTransition},
		{"collect moves progress", live, same(sink.Collect, pane(1, "", 5, 4)), sink.ErrTransition},
		{"claim moves published_at", live, later(same(sink.Claim, live)), sink.ErrTransition},
		{"reset back", live, pane(2, sink.Reset, 5, 1), nil},
		{"reset moves the watermark", live, pane(2, sink.Reset, 4, 1), sink.ErrTransition},
		{"rollback", live, pane(2, sink.Rollback, 3, 3), nil},
		{"promote at the same", live, over(pane(2, sink.Promote, 5, 5), 1), nil},
		{"promote back", live, over(pane(2, sink.Promote, 4, 4), 1), sink.ErrTransition},
		{"promote and advance", based, over(pane(2, sink.Promote, 6, 6), 2), nil},
		{"promote first of all", sink.Current{}, over(pane(2, sink.Promote, 5, 5), 1), nil},
		{"promote without a base", live, pane(2, sink.Promote, 5, 5), sink.ErrTransition},
		{"promote the same base", based, over(pane(2, sink.Promote, 6, 6), 1), sink.ErrTransition},
		{"promote back to none", based, pane(2, sink.Promote, 6, 6), sink.ErrTransition},
		{"promote what is condemned", condemning(based, sinktest.ID(9, 2)), over(pane(2, sink.Promote, 6, 6), 2), sink.ErrCondemned},
		{"advance over the base", based, over(pane(2, sink.Publish, 6, 6), 1), nil},
		{"advance to a first base", live, over(pane(2, sink.Publish, 6, 6), 1), sink.ErrTransition},
		{"advance to another base", based, over(pane(2, sink.Publish, 6, 6), 2), sink.ErrTransition},
		{"advance without the base", based, pane(2, sink.Publish, 6, 6), sink.ErrTransition},
		{"advance over other bytes of the base", based, otherBytes(over(pane(2, sink.Publish, 6, 6), 1)), sink.ErrTransition},
		{"refine to another base", based, over(pane(2, sink.Refine, 5, 5), 2), sink.ErrTransition},
		{"reset to another base", based, over(pane(2, sink.Reset, 5, 2), 2), sink.ErrTransition},
		{"claim to another base", based, over(same(sink.Claim, live), 2), sink.ErrTransition},
		{"rollback over the base", based, over(pane(2, sink.Rollback, 3, 3), 1), nil},
		{"rollback to another base", based, over(pane(2, sink.Rollback, 3, 3), 2), nil},
		{"rollback to no base", based, pane(2, sink.Rollback, 3, 3), sink.ErrTransition},
		{"rollback to a condemned base", condemning(based, sinktest.ID(9, 2)), over(pane(2, sink.Rollback, 3, 3), 2), sink.ErrCondemned},
		{"rollback of nothing", sink.Current{}, pane(2, sink.Rollback, 3, 3), sink.ErrTransition},
		{"publish without a pane", live, sink.Current{Reason: sink.Publish}, sink.ErrTransition},
		{"to what is condemned", condemning(live, sinktest.ID(1, 2)), pane(2, sink.Rollback, 3, 3), sink.ErrCondemned},
		{"no reason", live, pane(2, "why not", 6, 6), sink.ErrTransition},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := sink.Transition(tc.from, tc.to); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestCommitRefusesTheWrongParentAndCondemnedData(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h1 := o.publish(me, o.claim(me), 1)
	ref, m, err := sinktest.Write(t.Context(), o.s, me, h1, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(2), Documents: map[string]int64{"a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	h2 := o.publish(me, h1, 3)
	if _, err := o.s.Commit(t.Context(), me, h2, ref, m, sink.CommitOptions{Now: sinktest.Hour(4)}); !errors.Is(err, sink.ErrTransition) {
		t.Errorf("parent of another version: %v", err)
	}
	ref, m, err = sinktest.Write(t.Context(), o.s, me, h2, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(4), Documents: map[string]int64{"a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.s.Commit(t.Context(), me, h2, ref, m, sink.CommitOptions{Now: sinktest.Hour(4), Condemn: []string{m.RunID}}); !errors.Is(err, sink.ErrCondemned) {
		t.Errorf("condemned data: %v", err)
	}
	now, err := o.s.Commit(t.Context(), me, h2, ref, m, sink.CommitOptions{Now: sinktest.Hour(4), Condemn: []string{h1.RunID}})
	if err != nil || !now.Condemns(h1.RunID) {
		t.Errorf("condemning along with a publish: %v, %v", now.Condemned, err)
	}
	ref, m, err = sinktest.Write(t.Context(), o.s, me, now, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(5), Documents: map[string]int64{"a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, chosen string
		kept         bool
	}{{"that of the version before", now.ChangeID, false}, {"one of the run's own", o.runs(), true}} {
		got, err := o.s.Commit(t.Context(), me, now, ref, m, sink.CommitOptions{Now: sinktest.Hour(4), ChangeID: c.chosen})
		if !c.kept && err == nil {
			if got.ChangeID == now.ChangeID {
				t.Errorf("%s was used again", c.name)
			}
			ref, m, err = sinktest.Write(t.Context(), o.s, me, got, sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(6), Documents: map[string]int64{"a": 1}})
			now = got
		}
		if err != nil || c.kept && got.ChangeID != c.chosen {
			t.Errorf("%s: change id %s, %v", c.name, got.ChangeID, err)
		}
	}
}

func TestRequestsOfACommit(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.publish(me, o.claim(me), 1)
	before := len(o.fault.Calls())
	o.publish(me, h, 2)
	var ops []string
	for _, c := range o.fault.Calls()[before:] {
		ops = append(ops, c.Op)
	}
	if fmt.Sprint(ops) != "[put put put]" {
		t.Errorf("a quiet commit takes %v", ops)
	}
}

// A run that crashes before or after any of its requests leaves the pane of before or the new one, and the next leader goes on either way
// and finds in the walk which it was.
func TestCrashAtEachStep(t *testing.T) {
	steps := []string{"data file", "tombstones", "manifest", "CURRENT"}
	for step := range steps {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, applied %t", steps[step], after), func(t *testing.T) {
				o, a, b := newOutput(t), owner(1, "n1"), owner(2, "n2")
				h := o.publish(a, o.claim(a), 1)
				if after {
					o.fault.Add(fault.Rule{Kind: fault.ErrorAfter, Op: "put", Skip: step, Times: 1})
					o.fault.Add(fault.Rule{Kind: fault.Crash, Skip: step})
				} else {
					o.fault.Add(fault.Rule{Kind: fault.Crash, Op: "put", Skip: step})
				}
				run := o.runs()
				pane := sinktest.Pane{RunID: run, Watermark: sinktest.Hour(2), Documents: map[string]int64{"a": 2}, Tombstones: []string{"b"}}
				if _, err := sinktest.Publish(t.Context(), o.s, a, h, pane); err == nil {
					t.Fatal("published by a process that is gone")
				}
				o.fault.Heal()
				h = o.claim(b)
				found := false
				err := o.s.Walk(t.Context(), h, func(_ sink.Ref, m sink.Manifest) (bool, error) {
					found = found || m.RunID == run
					return true, nil
				})
				if want := after && steps[step] == "CURRENT"; err != nil || found != want {
					t.Errorf("the walk finds the run: %t, want %t, %v", found, want, err)
				}
				if docs, err := sinktest.Documents(t.Context(), o.mem); err != nil || (docs["a"] == 2) != found {
					t.Errorf("readers see %v, %v", docs, err)
				}
				o.publish(b, h, 3)
			})
		}
	}
}
