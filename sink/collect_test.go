package sink_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
)

// evidence is a history of n panes, one a minute, the newest just written; pane i has run id n-i and data of its own.
func evidence(n int, retain sink.Retain) sink.Evidence {
	now := sinktest.Hour(100)
	ev := sink.Evidence{Now: now, Retain: retain}
	for i := 0; i < n; i++ {
		id, at := sinktest.ID(1, uint64(n-i)), now.Add(-time.Duration(i)*time.Minute)
		ev.Panes = append(ev.Panes, sink.Published{RunID: id, DataIDs: []string{id}, Written: at})
		ev.Manifests = append(ev.Manifests, sink.Object{Key: fmt.Sprintf("manifests/%020d-%s.json", n-i, id), Bytes: 1, Modified: at})
		ev.Data = append(ev.Data, sink.Object{Key: sink.DataKey(id, "part-00000.parquet"), Bytes: 10, Modified: at})
	}
	if n > 0 {
		ev.Head = sink.Head{Exists: true, Current: sink.Current{Version: int64(n), RunID: ev.Panes[0].RunID}}
	}
	return ev
}

func orphan(ev *sink.Evidence, n uint64, age time.Duration) string {
	id := sinktest.ID(2, n)
	ev.Data = append(ev.Data, sink.Object{Key: sink.DataKey(id, "part-00000.parquet"), Bytes: 10, Modified: ev.Now.Add(-age)})
	return id
}

func TestPlanCollection(t *testing.T) {
	id := func(n uint64) string { return sinktest.ID(1, n) }
	base := func(n uint64) string { return sinktest.ID(9, n) }
	few := sink.Retain{Panes: 3}
	for _, tc := range []struct {
		name string
		ev   func() sink.Evidence
		want func(t *testing.T, c sink.Collection)
	}{
		{"nothing published", func() sink.Evidence { return evidence(0, few) }, func(t *testing.T, c sink.Collection) {
			if !c.Empty() {
				t.Errorf("%+v", c)
			}
		}},
		{"newest panes stay", func() sink.Evidence { return evidence(5, few) }, func(t *testing.T, c sink.Collection) {
			if !slices.Equal(c.Condemn, []string{id(1), id(2)}) || !slices.Equal(c.Keep, []string{id(5), id(4), id(3)}) || len(c.Delete) != 0 {
				t.Errorf("%+v", c)
			}
		}},
		{"panes of the last two hours stay", func() sink.Evidence { return evidence(200, sink.DefaultRetain()) }, func(t *testing.T, c sink.Collection) {
			// The pane superseded 119 minutes ago is pane 120, run 80.
			if len(c.Keep) != 121 || c.Keep[120] != id(80) || len(c.Condemn) != sink.MaxCondemned || c.Waiting != 79-sink.MaxCondemned {
				t.Errorf("%d kept to %s, %d condemned, %d waiting", len(c.Keep), c.Keep[len(c.Keep)-1], len(c.Condemn), c.Waiting)
			}
		}},
		{"rejected rows go with the record of their run", func() sink.Evidence {
			ev := evidence(2, few)
			reject := func(id string, age time.Duration) {
				ev.Rejects = append(ev.Rejects, sink.Object{Key: sink.RejectsKey(id), Bytes: 1, Modified: ev.Now.Add(-age)})
			}
			reject(id(2), 100*24*time.Hour)             // the pane's own
			reject(sinktest.ID(3, 1), sink.RecordAge)   // of a run that published nothing
			reject(sinktest.ID(3, 2), sink.RecordAge-1) // the same, not old enough
			ev.Rejects = append(ev.Rejects, sink.Object{Key: "rejects/notes.txt", Modified: time.Unix(0, 0)})
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if !slices.Equal(c.Records, []string{sink.RejectsKey(sinktest.ID(3, 1))}) {
				t.Errorf("%+v", c)
			}
		}},
		{"pins stay", func() sink.Evidence { ev := evidence(5, few); ev.Pins = []string{id(1)}; return ev }, func(t *testing.T, c sink.Collection) {
			if !slices.Equal(c.Condemn, []string{id(2)}) {
				t.Errorf("%+v", c)
			}
		}},
		{"a kept reset keeps the run it copies", func() sink.Evidence {
			ev := evidence(5, few)
			ev.Panes[1].DataIDs = []string{id(1)}
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if slices.Contains(c.Condemn, id(1)) || !slices.Contains(c.Condemn, id(4)) || !slices.Contains(c.Condemn, id(2)) {
				t.Errorf("%+v", c.Condemn)
			}
		}},
		{"the last pane over each of three bases stays", func() sink.Evidence {
			ev := evidence(30, sink.Retain{Panes: 2, Bases: 3})
			for i := range ev.Panes {
				ev.Panes[i].Base = base(5 - uint64(i/6))
				if i > 0 && i%6 == 0 {
					ev.History = append(ev.History, ev.Panes[i])
				}
			}
			ev.Panes = ev.Panes[:3]
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if want := []string{id(30), id(29), id(24), id(18)}; !slices.Equal(c.Keep, want) {
				t.Errorf("kept %v, want %v", c.Keep, want)
			}
			if want := []string{base(5), base(4), base(3)}; !slices.Equal(c.Bases, want) {
				t.Errorf("kept bases %v, want %v", c.Bases, want)
			}
		}},
		{"condemned data is deleted, then dropped", func() sink.Evidence { ev := evidence(5, few); ev.Head.Condemned = []string{id(1)}; return ev }, func(t *testing.T, c sink.Collection) {
			if len(c.Delete) != 1 || c.Delete[0].ID != id(1) || c.Delete[0].Why != "superseded" || c.Bytes() != 10 || !slices.Equal(c.Drop, []string{id(1)}) || !slices.Equal(c.Condemn, []string{id(2)}) {
				t.Errorf("%+v", c)
			}
		}},
		{"condemned and gone is dropped", func() sink.Evidence {
			ev := evidence(5, few)
			ev.Head.Condemned = []string{sinktest.ID(7, 1)}
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if len(c.Delete) != 0 || !slices.Equal(c.Drop, []string{sinktest.ID(7, 1)}) {
				t.Errorf("%+v", c)
			}
		}},
		{"condemned but needed is held", func() sink.Evidence {
			ev := evidence(5, few)
			ev.Head.Condemned = []string{id(1)}
			ev.Panes[0].DataIDs = []string{id(1)}
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if len(c.Delete) != 0 || len(c.Drop) != 0 || !slices.Equal(c.Held, []string{id(1)}) {
				t.Errorf("%+v", c)
			}
		}},
		{"orphans wait a day after their newest object", func() sink.Evidence {
			ev := evidence(2, few)
			orphan(&ev, 1, 25*time.Hour)
			orphan(&ev, 2, 25*time.Hour)
			orphan(&ev, 2, 23*time.Hour)
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if !slices.Equal(c.Condemn, []string{sinktest.ID(2, 1)}) {
				t.Errorf("%+v", c)
			}
		}},
		{"live runs are no orphans", func() sink.Evidence {
			ev := evidence(2, few)
			ev.Live = []string{orphan(&ev, 1, 48*time.Hour)}
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if !c.Empty() {
				t.Errorf("%+v", c)
			}
		}},
		{"records outlive their data by a week", func() sink.Evidence {
			ev := evidence(5, few)
			ev.Data = ev.Data[:3]
			ev.Manifests[3].Modified = ev.Now.Add(-6 * 24 * time.Hour)
			ev.Manifests[4].Modified = ev.Now.Add(-8 * 24 * time.Hour)
			ev.Panes[3].Written = ev.Now.Add(-7 * 24 * time.Hour)
			side := ev.Manifests[4]
			side.Key = strings.TrimSuffix(side.Key, ".json") + ".inputs-ab.json"
			ev.Manifests = append(ev.Manifests, side)
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if len(c.Records) != 2 || !strings.Contains(c.Records[0], id(1)) || len(c.Condemn) != 0 {
				t.Errorf("%+v", c)
			}
		}},
		{"a record outlives by a week the pane that took its place", func() sink.Evidence {
			ev := evidence(5, few)
			ev.Data = ev.Data[:3]
			ev.Manifests[4].Modified = ev.Now.Add(-30 * 24 * time.Hour)
			ev.Panes[3].Written = ev.Now.Add(-6 * 24 * time.Hour)
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if !c.Empty() {
				t.Errorf("%+v", c)
			}
		}},
		{"records go although that cuts off a pinned pane, which keeps its own", func() sink.Evidence {
			ev := evidence(5, few)
			for i := range ev.Manifests {
				ev.Manifests[i].Modified = ev.Now.Add(-30 * 24 * time.Hour)
			}
			ev.Data = append(ev.Data[:3], ev.Data[4])
			ev.Panes, ev.Pinned = ev.Panes[:3], ev.Panes[4:]
			ev.Pins = []string{id(1)}
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if len(c.Records) != 1 || !strings.Contains(c.Records[0], id(2)) || len(c.Condemn) != 0 {
				t.Errorf("%+v", c)
			}
		}},
		{"foreign objects stay", func() sink.Evidence {
			ev := evidence(1, few)
			ev.Data = append(ev.Data, sink.Object{Key: "delta/notes.txt"}, sink.Object{Key: "delta/not-an-id/x"})
			ev.Manifests = append(ev.Manifests, sink.Object{Key: "manifests/README"})
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if !c.Empty() {
				t.Errorf("%+v", c)
			}
		}},
		{"no room beside what is condemned", func() sink.Evidence {
			ev := evidence(5, few)
			for i := uint64(0); i < sink.MaxCondemned-1; i++ {
				ev.Head.Condemned = append(ev.Head.Condemned, sinktest.ID(7, i))
			}
			return ev
		}, func(t *testing.T, c sink.Collection) {
			if len(c.Condemn) != 1 || c.Waiting != 1 {
				t.Errorf("%d condemned, %d waiting", len(c.Condemn), c.Waiting)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.want(t, sink.PlanCollection(tc.ev())) })
	}
}

func TestCollectionToTheEnd(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	clock := sinktest.Hour(0)
	o.mem = mem.NewAt("out", func() time.Time { return clock })
	o.watch = sinktest.Watch(o.mem)
	o.fault = fault.New(o.watch)
	o.s = sinktest.New(o.fault, 5)
	h := o.claim(me)
	for i := 1; i <= 6; i++ {
		clock = clock.Add(time.Minute)
		h = o.publish(me, h, i)
	}
	c := sink.NewCollector(o.s)
	opts := sink.CollectOptions{Retain: sink.Retain{Panes: 2}}
	step := func() sink.Collection {
		t.Helper()
		plan, err := c.Plan(t.Context(), h, opts)
		if err != nil {
			t.Fatal(err)
		}
		if h, err = c.Do(t.Context(), me, h, plan); err != nil {
			t.Fatal(err)
		}
		return plan
	}
	data := func() int {
		t.Helper()
		keys, err := sinktest.Keys(t.Context(), o.mem, "delta/")
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	if p := step(); len(p.Condemn) != 4 || data() != 6 || len(h.Condemned) != 4 || h.Reason != sink.Collect {
		t.Fatalf("first step %+v, %d files", p, data())
	}
	reads := o.fault.Count("get")
	if p := step(); len(p.Delete) != 4 || data() != 2 || len(h.Condemned) != 0 {
		t.Fatalf("second step %+v, %d files", p, data())
	}
	if n := o.fault.Count("get") - reads; n != 0 {
		t.Errorf("manifests were read again: %d gets", n)
	}
	version := h.Version
	if p := step(); !p.Empty() || h.Version != version {
		t.Fatalf("third step %+v", p)
	}
	clock = clock.Add(8 * 24 * time.Hour)
	h = o.publish(me, h, 7)
	if p := step(); len(p.Records) != 4 {
		t.Fatalf("records %+v", p)
	}
	if keys, err := sinktest.Keys(t.Context(), o.mem, "manifests/"); err != nil || len(keys) != 3 {
		t.Errorf("%v, %v", keys, err)
	}
	if _, err := sinktest.Documents(t.Context(), o.mem); err != nil {
		t.Error(err)
	}
}

func TestCollectorDeletesOnlyWhatIsCondemned(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.publish(me, o.claim(me), 1)
	h = o.publish(me, h, 2)
	c := sink.NewCollector(o.s)
	err := c.Delete(t.Context(), h, sink.Collection{Delete: []sink.Removal{{ID: sinktest.ID(20, 1), Keys: []string{"delta/x"}}}})
	if err == nil {
		t.Error("deleted what is not condemned")
	}
	if n := o.fault.Count("delete"); n != 0 {
		t.Errorf("%d deletes", n)
	}
}

// B37: a long upload with an old-looking run id is not touched while it lives or its last write is young, whatever was planned meanwhile.
func TestB37UploadInProgressIsNotCollected(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	clock := sinktest.Hour(0)
	o.mem = mem.NewAt("out", func() time.Time { return clock })
	o.fault = fault.New(o.mem)
	o.s = sinktest.New(o.fault, 5)
	run := sinktest.ID(0, 1)
	h := o.claim(me)
	put := func(name string) {
		if _, err := o.s.PutData(context.Background(), run, name, strings.NewReader(name), sink.Sum([]byte(name))); err != nil {
			t.Fatal(err)
		}
	}
	put("part-00000.parquet")
	clock = clock.Add(30 * time.Hour)
	h = o.publish(me, h, 1)
	c := sink.NewCollector(o.s)
	plan, err := c.Plan(t.Context(), h, sink.CollectOptions{Live: []string{run}, Retain: sink.DefaultRetain()})
	if err != nil || !plan.Empty() {
		t.Fatalf("live: %+v, %v", plan, err)
	}
	put("part-00001.parquet")
	if plan, err = c.Plan(t.Context(), h, sink.CollectOptions{Retain: sink.DefaultRetain()}); err != nil || !plan.Empty() {
		t.Fatalf("written lately: %+v, %v", plan, err)
	}
	clock = clock.Add(25 * time.Hour)
	h = o.publish(me, h, 2)
	if plan, err = c.Plan(t.Context(), h, sink.CollectOptions{Retain: sink.DefaultRetain()}); err != nil || !slices.Equal(plan.Condemn, []string{run}) {
		t.Fatalf("abandoned: %+v, %v", plan, err)
	}
}
