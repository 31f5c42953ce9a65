package sink_test

import (
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
)

// generations adds bases 1 to n to the evidence, each with a file, accumulators, a manifest and the side file of its inputs, base n a day
// and n hours old and the others older.
func generations(ev *sink.Evidence, n int) {
	for i := 1; i <= n; i++ {
		id, at := sinktest.ID(9, uint64(i)), ev.Now.Add(-sink.OrphanAge-time.Duration(2*n-i)*time.Hour)
		for _, name := range []string{"part-00000.parquet", "manifest.json", "manifest.inputs-ab.json"} {
			ev.Full = append(ev.Full, sink.Object{Key: sink.FullKey(id, name), Bytes: 10, Modified: at})
		}
		ev.State = append(ev.State, sink.Object{Key: sink.FullStateKey(id, "accumulators.run"), Bytes: 5, Modified: at})
	}
}

func TestPlanCollectionOfBases(t *testing.T) {
	base, run := func(n uint64) string { return sinktest.ID(9, n) }, func(n uint64) string { return sinktest.ID(1, n) }
	for _, tc := range []struct {
		name      string
		change    func(ev *sink.Evidence)
		kept      []string
		condemned []string
	}{
		{"the live one alone", func(*sink.Evidence) {}, []string{base(4)}, []string{base(1), base(2), base(3)}},
		{"a supported one", func(ev *sink.Evidence) { ev.Panes[0].Supports = []string{base(2)} }, []string{base(4), base(2)}, []string{base(1), base(3)}},
		{"what a pane further back supports", func(ev *sink.Evidence) { ev.Panes[1].Supports = []string{base(2)} }, []string{base(4)}, []string{base(1), base(2), base(3)}},
		{"that of a kept pane", func(ev *sink.Evidence) { ev.Panes[1].Base = base(3) }, []string{base(4), base(3)}, []string{base(1), base(2)}},
		{"that of a pinned pane in the history", func(ev *sink.Evidence) {
			ev.Pins = []string{run(9)}
			ev.Pinned = []sink.Published{{RunID: run(9), DataIDs: []string{run(8)}, Base: base(1)}}
		}, []string{base(4), base(1)}, []string{base(2), base(3)}},
		{"a pinned one", func(ev *sink.Evidence) { ev.Pins = []string{base(2)} }, []string{base(4)}, []string{base(1), base(3)}},
		{"former ones", func(ev *sink.Evidence) {
			ev.Retain.Bases = 2
			ev.History = []sink.Published{{RunID: run(9), Base: base(3)}, {RunID: run(8), Base: base(2)}}
		}, []string{base(4), base(3)}, []string{base(1), base(2)}},
		{"a pinned former one", func(ev *sink.Evidence) {
			ev.Pins = []string{base(2)}
			ev.History = []sink.Published{{RunID: run(9), Base: base(3)}, {RunID: run(8), Base: base(2)}}
		}, []string{base(4), base(2)}, []string{base(1), base(3)}},
		{"the newest candidate and the newest held one", func(ev *sink.Evidence) {
			ev.Candidates, ev.Held = []string{base(3), base(1)}, []string{base(1), base(2)}
		}, []string{base(4), base(3), base(2)}, []string{base(1)}},
		{"the newest candidate that is not condemned", func(ev *sink.Evidence) {
			ev.Candidates, ev.Head.Condemned = []string{base(2), base(3)}, []string{base(3)}
		}, []string{base(4), base(2)}, []string{base(1)}},
		{"one that is being rebuilt", func(ev *sink.Evidence) { ev.Live = []string{base(1)} }, []string{base(4)}, []string{base(2), base(3)}},
		{"a young one, published or not", func(ev *sink.Evidence) {
			ev.State[1].Modified = ev.Now.Add(-sink.OrphanAge + 1)
			ev.Panes[2].Base = base(2)
		}, []string{base(4), base(2)}, []string{base(1), base(3)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := evidence(3, sink.Retain{Panes: 2})
			for i := range ev.Panes {
				ev.Panes[i].Base = base(4)
			}
			ev.Head.Base = &sink.BaseRef{Generation: base(4)}
			ev.Data = ev.Data[:2]
			generations(&ev, 4)
			tc.change(&ev)
			c := sink.PlanCollection(ev)
			if !slices.Equal(c.Bases, tc.kept) || !slices.Equal(c.Condemn, tc.condemned) || len(c.Held) > 0 {
				t.Errorf("keeps %v, condemns %v, want %v and %v", c.Bases, c.Condemn, tc.kept, tc.condemned)
			}
			for _, id := range ev.Head.Condemned {
				if len(c.Delete) != 1 || c.Delete[0].ID != id || !slices.Equal(c.Delete[0].Keys, []string{sink.FullKey(id, "part-00000.parquet"), sink.FullStateKey(id, "accumulators.run")}) || c.Bytes() != 15 {
					t.Errorf("deletes %+v", c.Delete)
				}
			}
		})
	}
}

func TestRecordsOfBasesAndPinnedPanes(t *testing.T) {
	ev := evidence(1, sink.Retain{Panes: 1})
	generations(&ev, 2)
	ev.State = nil
	keep := ev.Full[1:3] // the records of base 1, 30 days old; base 2's are younger than a week
	for i := range keep {
		keep[i].Modified = ev.Now.Add(-30 * 24 * time.Hour)
	}
	ev.Full = append(append([]sink.Object(nil), keep...), ev.Full[4:6]...)
	if c := sink.PlanCollection(ev); !slices.Equal(c.Records, []string{keep[0].Key, keep[1].Key}) || len(c.Condemn) > 0 {
		t.Errorf("%+v", c)
	}
	ev.Pins = []string{sinktest.ID(9, 1)}
	if c := sink.PlanCollection(ev); !c.Empty() {
		t.Errorf("pinned: %+v", c)
	}
}

func TestSlicesAreCollected(t *testing.T) {
	key := func(n string) string { return sink.SliceKey(sink.Sum([]byte(n))) }
	ev := evidence(6, sink.Retain{Panes: 2, Bases: 2})
	for i, o := range []struct {
		name string
		age  int
	}{{"kept", 90}, {"condemned", 90}, {"gone", 90}, {"neither", 90}, {"former", 90}, {"pinned", 90}, {"stray", 24}, {"young", 23}} {
		ev.State = append(ev.State, sink.Object{Key: key(o.name), Modified: ev.Now.Add(time.Duration(-o.age) * time.Hour)})
		if i < 4 {
			ev.Panes[i+1].Slices = []string{key(o.name)}
		}
	}
	ev.Head.Condemned = []string{ev.Panes[2].RunID}
	ev.Data = append(ev.Data[:3], ev.Data[4:]...) // that of pane 3 is gone
	ev.History = []sink.Published{{RunID: sinktest.ID(3, 1), Base: sinktest.ID(9, 1), Slices: []string{key("former")}}}
	ev.Pinned = []sink.Published{{RunID: sinktest.ID(3, 2), Slices: []string{key("pinned")}}}
	c := sink.PlanCollection(ev)
	if want := []string{key("condemned"), key("gone"), key("stray")}; !slices.Equal(c.Slices, want) {
		t.Errorf("deletes %v, want %v", c.Slices, want)
	}
}
