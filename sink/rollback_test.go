package sink_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store/fault"
)

// bases is an output with a pane without a base, two over base 1, and one over base 2, the live one.
type bases struct {
	*output
	me    sink.Owner
	head  sink.Head
	panes []sink.Head // as they were published
	base  [3]sink.Manifest
}

func withBases(t *testing.T) *bases {
	t.Helper()
	o := &bases{output: newOutput(t), me: owner(1, "n1")}
	o.head = o.claim(o.me)
	for i := 1; i <= 2; i++ {
		m, _, err := o.rebuild(uint64(i)).Write(t.Context(), o.s, owner(7, "full"))
		if err != nil {
			t.Fatal(err)
		}
		o.base[i] = m
	}
	o.pane(1, 0, sinktest.Pane{})
	o.pane(4, 1, sinktest.Pane{})
	o.pane(5, 0, sinktest.Pane{})
	o.pane(6, 2, sinktest.Pane{SupportUntil: sinktest.Hour(20)})
	return o
}

func (o *bases) rebuild(n uint64) sinktest.Base {
	return sinktest.Base{Generation: sinktest.ID(9, n), Cut: sinktest.Hour(int(n)), Documents: map[string]int64{"base": int64(n), "both": 0}}
}

// pane publishes over a base, or with 0 over the live one.
func (o *bases) pane(hour, base int, p sinktest.Pane) {
	o.t.Helper()
	p.RunID, p.Watermark, p.From = o.runs(), sinktest.Hour(hour), sinktest.Hour(0)
	p.Documents = map[string]int64{"both": int64(hour)}
	if base > 0 {
		b, err := o.base[base].Encode()
		if err != nil {
			o.t.Fatal(err)
		}
		p.Base, p.BaseSHA256 = &o.base[base], sink.Sum(b)
	}
	h, err := sinktest.Publish(o.t.Context(), o.s, o.me, o.head, p)
	if err != nil {
		o.t.Fatal(err)
	}
	o.head, o.panes = h, append(o.panes, h)
}

func (o *bases) manifest(h sink.Head) sink.Manifest {
	o.t.Helper()
	m, err := o.s.ReadManifest(o.t.Context(), h.Delta.Ref())
	if err != nil {
		o.t.Fatal(err)
	}
	return m
}

func (o *bases) options(target sink.Ref) sink.RollbackOptions {
	return sink.RollbackOptions{Target: target, RunID: o.runs(), ChangeID: sinktest.ID(19, 7), Build: "b", Now: sinktest.Hour(7), SupportUntil: sinktest.Hour(9)}
}

func TestRollbackToAFormerBase(t *testing.T) {
	o := withBases(t)
	live := o.manifest(o.head)
	if len(live.History) != 1 || live.History[0].Pane != o.panes[2].Delta.Ref() || live.History[0].Generation != o.base[1].RunID {
		t.Fatalf("history %+v", live.History)
	}
	opts := o.options(live.History[0].Pane)
	h, m, err := o.s.Rollback(t.Context(), o.me, o.head, opts)
	if err != nil {
		t.Fatal(err)
	}
	target := o.manifest(o.panes[2])
	if h.Reason != sink.Rollback || h.Base.Generation != o.base[1].RunID || h.RunID != opts.RunID || h.ChangeID != opts.ChangeID ||
		!h.Watermark.Equal(sinktest.Hour(5)) || !h.Progress.Equal(sinktest.Hour(5)) || h.Version != o.head.Version+1 {
		t.Errorf("%+v", h.Current)
	}
	if *m.Parent != o.head.Delta.Ref() || m.Files[0].Key != target.Files[0].Key || m.Progress != nil ||
		!m.PreviousWatermark.Equal(sinktest.Hour(6)) || !m.Coverage.To.Equal(sinktest.Hour(5)) {
		t.Errorf("%+v", m)
	}
	supports, history := names(m)
	if want := []string{o.base[2].RunID}; !slices.Equal(supports, want) || !slices.Equal(history, want) || m.History[0].Pane != o.head.Delta.Ref() || !m.Supports[0].Until.Equal(sinktest.Hour(9)) {
		t.Errorf("supports %+v, history %+v", m.Supports, m.History)
	}
	docs, err := sinktest.Documents(t.Context(), o.mem)
	if err != nil || docs["base"] != 1 || docs["both"] != 5 {
		t.Errorf("%v, %v", docs, err)
	}
	again, _, err := o.s.Rollback(t.Context(), o.me, h, opts)
	if err != nil || again.Version != h.Version {
		t.Errorf("once it is done: version %d, %v", again.Version, err)
	}
}

func TestRollbackOverTheSameBaseAndWithoutOne(t *testing.T) {
	o := withBases(t)
	o.pane(8, 0, sinktest.Pane{})
	h, m, err := o.s.Rollback(t.Context(), o.me, o.head, o.options(o.panes[3].Delta.Ref()))
	if err != nil || h.Base.Generation != o.base[2].RunID || !h.Watermark.Equal(sinktest.Hour(6)) {
		t.Fatalf("%+v, %v", h.Current, err)
	}
	if supports, history := names(m); len(supports) != 1 || len(history) != 1 || m.History[0].Pane != o.panes[2].Delta.Ref() {
		t.Errorf("supports %v, history %+v", supports, m.History)
	}
	p := newOutput(t)
	first := p.publish(o.me, p.claim(o.me), 1)
	second := p.publish(o.me, first, 2)
	h, m, err = p.s.Rollback(t.Context(), o.me, second, o.options(first.Delta.Ref()))
	if err != nil || h.Base != nil || !h.Watermark.Equal(sinktest.Hour(1)) || len(m.History)+len(m.Supports) != 0 {
		t.Errorf("%+v, %v", h.Current, err)
	}
}

// A forward reset put progress beyond the watermark of the pane that is gone back to: what lies between is to be read again.
func TestRollbackDropsProgressBeyondTheWatermark(t *testing.T) {
	for _, tc := range []struct {
		name     string
		to, want int
	}{{"forward", 9, 6}, {"back", 3, 3}} {
		t.Run(tc.name, func(t *testing.T) {
			o := withBases(t)
			reset, _, err := o.s.ResetProgress(t.Context(), o.me, o.head, sink.ResetOptions{To: sinktest.Hour(tc.to), RunID: o.runs(), Now: sinktest.Hour(7)})
			if err != nil {
				t.Fatal(err)
			}
			o.head = reset
			o.pane(10, 0, sinktest.Pane{})
			h, _, err := o.s.Rollback(t.Context(), o.me, o.head, o.options(reset.Delta.Ref()))
			if err != nil || !h.Progress.Equal(sinktest.Hour(tc.want)) || !h.Watermark.Equal(sinktest.Hour(6)) {
				t.Errorf("progress %s, watermark %s, %v", h.Progress, h.Watermark, err)
			}
		})
	}
}

func TestRollbackThatIsRefused(t *testing.T) {
	condemn := func(id string) func(o *bases) {
		return func(o *bases) {
			h, err := o.s.Change(o.t.Context(), o.me, o.head, func(h sink.Head) (sink.Current, error) {
				c := h.Current
				c.Reason, c.Condemned, c.ChangeID = sink.Collect, []string{id}, ""
				return c, nil
			})
			if err != nil {
				o.t.Fatal(err)
			}
			o.head = h
		}
	}
	remove := func(key func(o *bases) string) func(o *bases) {
		return func(o *bases) {
			if err := o.mem.Delete(o.t.Context(), key(o)); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		target int
		spoil  func(o *bases)
		want   error
	}{
		{"to no base", 0, func(*bases) {}, sink.ErrTransition},
		{"to the live pane", 3, func(*bases) {}, sink.ErrTransition},
		{"condemned pane", 2, func(o *bases) { condemn(o.panes[2].RunID)(o) }, sink.ErrCondemned},
		{"condemned base", 2, func(o *bases) { condemn(o.base[1].RunID)(o) }, sink.ErrCondemned},
		{"pane without its data", 2, remove(func(o *bases) string { return sink.DataKey(o.panes[2].RunID, "part-00000.parquet") }), sink.ErrCondemned},
		{"pane without its manifest", 2, remove(func(o *bases) string { return o.panes[2].Delta.Manifest }), sink.ErrCondemned},
		{"base without its data", 2, remove(func(o *bases) string { return o.base[1].Files[0].Key }), sink.ErrCondemned},
		{"base without its accumulators", 2, remove(func(o *bases) string { return o.base[1].Full.Accumulators[0].Key }), sink.ErrCondemned},
		{"base without its manifest", 2, remove(func(o *bases) string { return o.base[1].Key() }), sink.ErrCondemned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := withBases(t)
			tc.spoil(o)
			before := o.head
			if _, _, err := o.s.Rollback(t.Context(), o.me, o.head, o.options(o.panes[tc.target].Delta.Ref())); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if now := o.head; now.Version != before.Version {
				t.Errorf("version %d after %d", now.Version, before.Version)
			}
		})
	}
	o := newOutput(t)
	if _, _, err := o.s.Rollback(t.Context(), owner(1, "n1"), o.claim(owner(1, "n1")), sink.RollbackOptions{}); !errors.Is(err, sink.ErrNoPane) {
		t.Errorf("before the first pane: %v", err)
	}
}

// A crash after the manifest was written, at another time of day: the same ids bring the rollback about, once.
func TestRollbackAfterACrash(t *testing.T) {
	o := withBases(t)
	opts := o.options(o.panes[2].Delta.Ref())
	broken := sinktest.New(fault.New(o.watch, fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: sink.CurrentKey}), 11)
	if _, _, err := broken.Rollback(t.Context(), o.me, o.head, opts); err == nil {
		t.Fatal("the fault had no effect")
	}
	opts.Now, opts.SupportUntil = opts.Now.Add(90*time.Minute), opts.SupportUntil.Add(90*time.Minute)
	h, m, err := o.s.Rollback(t.Context(), o.me, o.head, opts)
	if err != nil || h.RunID != opts.RunID || !m.Supports[0].Until.Equal(sinktest.Hour(9)) {
		t.Fatalf("%+v, %v", m.Supports, err)
	}
	// The next leader's claim made another version: the same run has another manifest then.
	p := withBases(t)
	opts = p.options(p.panes[2].Delta.Ref())
	broken = sinktest.New(fault.New(p.watch, fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: sink.CurrentKey}), 12)
	if _, _, err := broken.Rollback(t.Context(), p.me, p.head, opts); err == nil {
		t.Fatal("the fault had no effect")
	}
	next := owner(2, "n2")
	if h, _, err = p.s.Rollback(t.Context(), next, p.claim(next), opts); err != nil || h.RunID != opts.RunID {
		t.Fatalf("the next leader: %v", err)
	}
	keys, err := sinktest.Keys(t.Context(), p.mem, "manifests/")
	if n := len(slices.DeleteFunc(keys, func(k string) bool { return !strings.Contains(k, opts.RunID) })); err != nil || n != 2 {
		t.Errorf("%d manifests of the rollback, %v", n, err)
	}
}

func TestRecoveryNeedsTheBase(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(o *bases) string
		want int // the pane recovered
	}{
		{"all is there", func(*bases) string { return sink.CurrentKey }, 3},
		{"manifest of the base", func(o *bases) string { return o.base[2].Key() }, 2},
		{"accumulators of the base", func(o *bases) string { return o.base[2].Full.Accumulators[0].Key }, 2},
		{"documents of the base", func(o *bases) string { return o.base[2].Files[0].Key }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := withBases(t)
			for _, key := range []string{sink.CurrentKey, tc.lose(o)} {
				if err := o.mem.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			for _, opts := range []sink.RecoverOptions{{Published: func(string) bool { return true }}, {Reason: "lost, and the database too"}} {
				r, err := o.s.PlanRecovery(t.Context(), opts)
				if err != nil || r.Manifest.RunID != o.panes[tc.want].RunID {
					t.Errorf("recovers %s, %v", r.Manifest.RunID, err)
				}
			}
		})
	}
	o := withBases(t)
	if err := o.mem.Delete(t.Context(), o.base[2].Key()); err != nil {
		t.Fatal(err)
	}
	if r, err := o.s.PlanRecovery(t.Context(), sink.RecoverOptions{Reason: "its base is gone"}); err != nil || r.Manifest.RunID != o.panes[2].RunID {
		t.Errorf("a CURRENT without its base's manifest: %s, %v", r.Manifest.RunID, err)
	}
}

func TestBasesOfManyInputsHaveASideFile(t *testing.T) {
	o := newOutput(t)
	b := sinktest.Base{Generation: sinktest.ID(9, 1), Cut: sinktest.Hour(1)}
	for i := range sink.MaxInlineInputs + 1 {
		b.Inputs = append(b.Inputs, sink.Input{Key: fmt.Sprintf("p/%05d", i), Partition: sink.At(sinktest.Hour(1)), ETag: "e"})
	}
	m, hash, err := b.Write(t.Context(), o.s, owner(1, "n1"))
	if err != nil {
		t.Fatal(err)
	}
	back, err := o.s.ReadManifest(t.Context(), sink.Ref{Manifest: m.Key(), SHA256: hash})
	if err != nil || back.InputsFile == nil || !strings.HasPrefix(back.InputsFile.Key, sink.FullKey(b.Generation, "manifest.inputs-")) {
		t.Fatalf("%+v, %v", back.InputsFile, err)
	}
	if err := o.s.LoadInputs(t.Context(), &back); err != nil || len(back.Inputs) != len(b.Inputs) {
		t.Errorf("%d inputs, %v", len(back.Inputs), err)
	}
}
