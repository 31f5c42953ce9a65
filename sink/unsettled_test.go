package sink_test

import (
	"errors"
	"testing"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store/fault"
)

// hold makes the next put of CURRENT arrive later and its author give up.
func (o *output) hold() {
	o.fault.Add(fault.Rule{Kind: fault.Late, Op: "put", Key: sink.CurrentKey, Times: 1}, fault.Rule{Kind: fault.ErrorBefore, Op: "get", Key: sink.CurrentKey})
}

// TestUnsettledChangeIsHistoryAfterAClaim: a change that its leader stopped waiting for cannot come about once the leader has claimed
// again; if it had come about before, the claim finds it and writes nothing.
func TestUnsettledChangeIsHistoryAfterAClaim(t *testing.T) {
	for _, c := range []struct {
		name      string
		landed    bool // before the claim
		unsettled bool // the claim knows of the change
		version   int64
		live      bool // the run is the pane in the end
	}{
		{"still on its way", false, true, 3, false},
		{"landed before", true, true, 3, true},
		{"still on its way and not told", false, false, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, me := newOutput(t), owner(1, "n1")
			h := o.publish(me, o.claim(me), 1)
			o.hold()
			run := o.runs()
			_, err := sinktest.Publish(t.Context(), o.s, me, h, sinktest.Pane{RunID: run, Watermark: sinktest.Hour(2)})
			if !errors.Is(err, sink.ErrUnsettled) {
				t.Fatalf("got %v", err)
			}
			o.fault.Heal()
			if c.landed {
				o.fault.Deliver(t.Context())
			}
			claim := sink.ClaimOptions{Now: sinktest.Hour(2)}
			if c.unsettled {
				claim.Unsettled = h.Version
			}
			if _, err := o.s.Claim(t.Context(), me, claim); err != nil {
				t.Fatal(err)
			}
			o.fault.Deliver(t.Context())
			if now := o.head(); (now.RunID == run) != c.live || now.Version != c.version {
				t.Errorf("version %d names %s, the unsettled run was %s", now.Version, now.RunID, run)
			}
		})
	}
}

// TestResetIsTriedAgain: a reset that got as far as its manifest goes on from it, at any later time.
func TestResetIsTriedAgain(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.publish(me, o.claim(me), 3)
	reset := sink.ResetOptions{To: sinktest.Hour(1), RunID: o.runs(), Now: sinktest.Hour(4)}
	o.fault.Add(fault.Rule{Kind: fault.ErrorBefore, Op: "put", Key: sink.CurrentKey})
	if _, _, err := o.s.ResetProgress(t.Context(), me, h, reset); !errors.Is(err, sink.ErrUnsettled) {
		t.Fatalf("got %v", err)
	}
	o.fault.Heal()
	other := reset
	other.To = sinktest.Hour(2)
	if _, _, err := o.s.ResetProgress(t.Context(), me, h, other); !errors.Is(err, sink.ErrExists) {
		t.Errorf("another reset under the same id: %v", err)
	}
	reset.Now = sinktest.Hour(5)
	now, m, err := o.s.ResetProgress(t.Context(), me, h, reset)
	if err != nil || now.RunID != reset.RunID || !now.Progress.Equal(sinktest.Hour(1)) || !m.CreatedAt.Equal(sinktest.Hour(4)) {
		t.Errorf("%+v, created at %s, %v", now.Current, m.CreatedAt, err)
	}
	if got, err := o.s.ReadManifest(t.Context(), now.Delta.Ref()); err != nil || got.RunID != reset.RunID {
		t.Errorf("%s, %v", got.RunID, err)
	}
}
