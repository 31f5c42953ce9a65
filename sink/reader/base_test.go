package reader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
)

// base writes the nth generation, cut at its hour.
func (o *output) base(n uint64, documents map[string]int64) (*sink.Manifest, string) {
	o.t.Helper()
	m, hash, err := sinktest.WriteBase(o.t.Context(), o.mem, me, sinktest.ID(8, n), sinktest.Hour(int(n)), documents)
	if err != nil {
		o.t.Fatal(err)
	}
	return &m, hash
}

func (o *output) promote(n uint64, hour int, base map[string]int64, p sinktest.Pane) {
	o.t.Helper()
	p.Base, p.BaseSHA256 = o.base(n, base)
	p.Watermark, p.From = sinktest.Hour(hour), sinktest.Hour(0)
	o.publish(p)
}

func documents(t *testing.T, s *reader.Snapshot) map[string]int64 {
	t.Helper()
	docs, err := sinktest.DocumentsOf(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// A reader follows a promotion and a rollback to the base before, each as a whole; snapshots that it gave out stay as they were.
func TestPromotionAndRollback(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lazy %t", lazy), func(t *testing.T) {
			o := newOutput(t)
			r := reader.Open(o.mem, reader.Options{Lazy: lazy})
			o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"delta": 1}})
			poll(t, r, true)
			wants := []map[string]int64{{"delta": 1}}
			var snaps []*reader.Snapshot
			snaps = append(snaps, r.Snapshot())
			o.promote(2, 3, map[string]int64{"old": 2, "both": 2}, sinktest.Pane{Documents: map[string]int64{"delta": 3}, Tombstones: []string{"both"}})
			former := o.h
			poll(t, r, true)
			wants, snaps = append(wants, map[string]int64{"old": 2, "delta": 3}), append(snaps, r.Snapshot())
			o.promote(4, 5, map[string]int64{"new": 4, "both": 4}, sinktest.Pane{Documents: map[string]int64{"delta": 5}})
			poll(t, r, true)
			wants, snaps = append(wants, map[string]int64{"new": 4, "both": 4, "delta": 5}), append(snaps, r.Snapshot())
			h, _, err := o.s.Rollback(t.Context(), me, o.h, sink.RollbackOptions{Target: former.Delta.Ref(), RunID: o.runs(), Now: sinktest.Hour(6)})
			if err != nil {
				t.Fatal(err)
			}
			o.h = h
			poll(t, r, true)
			wants, snaps = append(wants, wants[1]), append(snaps, r.Snapshot())
			for i, s := range snaps {
				if got := documents(t, s); !maps.Equal(got, wants[i]) {
					t.Errorf("snapshot %d: %v, want %v", i, got, wants[i])
				}
			}
			if v := snaps[3].Current.Version; v <= snaps[2].Current.Version {
				t.Errorf("version %d after a rollback", v)
			}
			if get(t, snaps[3], "both") != "absent" || get(t, snaps[2], "both") == "absent" {
				t.Error("a tombstone of one pane hides the other's")
			}
		})
	}
}

// A base that is collected while it is loaded: the poll starts again and takes pane and base as the newest CURRENT has them.
func TestMissingBaseStartsAgain(t *testing.T) {
	for _, which := range []string{"part-", "manifest.json"} {
		t.Run(which, func(t *testing.T) {
			o := newOutput(t)
			o.promote(2, 3, map[string]int64{"old": 2}, sinktest.Pane{})
			gone := o.h.Base.Generation
			f := fault.New(o.mem, fault.Rule{Kind: fault.Delay, Op: "get", Key: sink.FullKey(gone, which), Times: 1, OnHit: func() {
				o.promote(4, 5, map[string]int64{"new": 4}, sinktest.Pane{})
				keys, err := sinktest.Keys(context.Background(), o.mem, "full/")
				for _, key := range keys {
					if strings.HasPrefix(key, gone) {
						err = errors.Join(err, o.mem.Delete(context.Background(), "full/"+key))
					}
				}
				if err != nil {
					t.Error(err)
				}
			}})
			r := reader.Open(f, reader.Options{Pause: time.Nanosecond})
			poll(t, r, true)
			if got := documents(t, r.Snapshot()); !maps.Equal(got, map[string]int64{"new": 4}) {
				t.Errorf("%v", got)
			}
			if err := o.mem.Delete(t.Context(), o.h.Base.Manifest); err != nil {
				t.Fatal(err)
			}
			if _, err := reader.Open(o.mem, reader.Options{Pause: time.Nanosecond}).Poll(t.Context()); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a base without its manifest: %v", err)
			}
		})
	}
}

func TestEmptySides(t *testing.T) {
	for _, tc := range []struct {
		name        string
		base, delta map[string]int64
		tombstones  []string
		want        map[string]int64
	}{
		{"nothing in either", nil, nil, nil, map[string]int64{}},
		{"nothing in the base", nil, map[string]int64{"a": 1}, []string{"b"}, map[string]int64{"a": 1}},
		{"nothing in the delta", map[string]int64{"a": 1}, nil, nil, map[string]int64{"a": 1}},
		{"tombstones alone", map[string]int64{"a": 1, "b": 2}, nil, []string{"a", "c"}, map[string]int64{"b": 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutput(t)
			o.promote(2, 3, tc.base, sinktest.Pane{Documents: tc.delta, Tombstones: tc.tombstones})
			r := reader.Open(o.mem, reader.Options{})
			poll(t, r, true)
			if got := documents(t, r.Snapshot()); !maps.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
			for _, key := range []string{"a", "b", "c"} {
				if _, there := tc.want[key]; there != (get(t, r.Snapshot(), key) != "absent") {
					t.Errorf("%s: there %t", key, !there)
				}
			}
			sql := r.Snapshot().SQL("/out")
			delta, dead, base := r.Snapshot().Files()
			for _, key := range slices.Concat(delta, dead, base) {
				if len(base) > 0 && !strings.Contains(sql, "'/out/"+key+"'") {
					t.Errorf("%s is not in %s", key, sql)
				}
			}
		})
	}
}

// Keys of different types are refused although the delta has no rows that could show it; a base that has none has no keys.
func TestKeyTypesMustBeEqualEvenWithoutRows(t *testing.T) {
	for _, tc := range []struct {
		name string
		base map[string]int64
		want error
	}{{"rows in the base", map[string]int64{"a": 1}, reader.ErrPair}, {"rows in neither", nil, nil}} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutput(t)
			p := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(3), From: sinktest.Hour(0)}
			p.Base, p.BaseSHA256 = o.base(2, tc.base)
			m := p.Manifest(me, o.h)
			m.Schema = parquet.SchemaFields([]column.Field{{Name: "item", Type: column.Of(column.Int64), Key: true}, {Name: "n", Type: column.Of(column.Int64)}})
			ref, err := o.s.WriteManifest(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.s.Commit(t.Context(), me, o.h, ref, m, sink.CommitOptions{Now: sinktest.Hour(3)}); err != nil {
				t.Fatal(err)
			}
			r := reader.Open(o.mem, reader.Options{})
			if _, err := r.Poll(t.Context()); !errors.Is(err, tc.want) || (r.Snapshot() != nil) != (tc.want == nil) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnyKeptPaneCanBeOpened(t *testing.T) {
	o := newOutput(t)
	o.promote(2, 3, map[string]int64{"old": 2}, sinktest.Pane{Documents: map[string]int64{"a": 3}})
	first := o.h
	o.promote(4, 5, map[string]int64{"new": 4}, sinktest.Pane{})
	want := map[string]int64{"old": 2, "a": 3}
	byRef, err := reader.OpenPane(t.Context(), o.mem, first.Delta.Ref(), reader.Options{})
	if err != nil || !maps.Equal(documents(t, byRef), want) {
		t.Errorf("by manifest: %v", err)
	}
	byRun, err := reader.OpenRun(t.Context(), o.mem, first.RunID, reader.Options{Lazy: true})
	if err != nil || !maps.Equal(documents(t, byRun), want) || byRun.Current.Base.Generation != first.Base.Generation || byRun.Current.RunID != first.RunID {
		t.Errorf("by run: %v", err)
	}
	if _, err := reader.OpenRun(t.Context(), o.mem, sinktest.ID(3, 99), reader.Options{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a run without a manifest: %v", err)
	}
	if _, err := reader.OpenPane(t.Context(), o.mem, sink.Ref{Manifest: first.Delta.Manifest, SHA256: strings.Repeat("0", 64)}, reader.Options{}); !errors.Is(err, sink.ErrCorrupt) {
		t.Errorf("another hash: %v", err)
	}
	if _, err := reader.OpenPane(t.Context(), o.mem, o.h.Base.Ref(), reader.Options{}); !errors.Is(err, reader.ErrPair) {
		t.Errorf("a base: %v", err)
	}
	if err := o.mem.Delete(t.Context(), sink.DataKey(first.RunID, "part-00000.parquet")); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.OpenPane(t.Context(), o.mem, first.Delta.Ref(), reader.Options{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a collected pane: %v", err)
	}
}

// changes is a diff as text.
func changes(ctx context.Context, a, b *reader.Snapshot) (out []string, err error) {
	for c, err := range reader.Diff(ctx, a, b) {
		if err != nil {
			return out, err
		}
		n := func(d *reader.Document) string {
			if d == nil {
				return "none"
			}
			return fmt.Sprint(d.Batch.Columns[1].Ints[d.Row])
		}
		out = append(out, fmt.Sprintf("%s %s %s", c.Key[0], n(c.Before), n(c.After)))
	}
	return out, nil
}

// Diff of any two snapshots is what a comparison of their documents in memory says.
func TestDiff(t *testing.T) {
	docs := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.Int64Range(1, 2))
	dead := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"f", "g", "p", "q"}), rapid.ID)
	rapid.Check(t, func(rt *rapid.T) {
		o := newOutput(t)
		base := map[string]int64{"b": 1, "f": 2, "q": 3}
		var snaps []*reader.Snapshot
		for hour := 3; hour < 6; hour++ {
			p := sinktest.Pane{Documents: docs.Draw(rt, "documents"), Tombstones: dead.Draw(rt, "tombstones")}
			if hour < 5 {
				if hour == 4 {
					p.Watermark, p.From = sinktest.Hour(hour), sinktest.Hour(0)
					o.publish(p) // over the same base
				} else {
					o.promote(2, hour, base, p)
				}
			} else {
				o.promote(4, hour, docs.Draw(rt, "base"), p)
			}
			s, err := reader.OpenPane(t.Context(), o.mem, o.h.Delta.Ref(), reader.Options{Lazy: rapid.Bool().Draw(rt, "lazy")})
			if err != nil {
				rt.Fatal(err)
			}
			snaps = append(snaps, s)
		}
		for _, a := range snaps {
			for _, b := range snaps {
				was, is := documents(t, a), documents(t, b)
				var want []string
				for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "p", "q"} {
					m, before := was[key]
					n, after := is[key]
					switch {
					case before && !after:
						want = append(want, fmt.Sprintf("%s %d none", key, m))
					case after && !before:
						want = append(want, fmt.Sprintf("%s none %d", key, n))
					case m != n:
						want = append(want, fmt.Sprintf("%s %d %d", key, m, n))
					}
				}
				if got, err := changes(t.Context(), a, b); err != nil || !slices.Equal(got, want) {
					rt.Fatalf("%v, want %v, %v", got, want, err)
				}
			}
		}
	})
}

func TestDiffStopsAndRefuses(t *testing.T) {
	o := newOutput(t)
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1, "b": 2}})
	first := o.h
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(2), Documents: map[string]int64{"a": 2, "c": 3}})
	open := func(h sink.Head) *reader.Snapshot {
		s, err := reader.OpenPane(t.Context(), o.mem, h.Delta.Ref(), reader.Options{Lazy: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := open(first), open(o.h)
	seen := 0
	for _, err := range reader.Diff(t.Context(), a, b) {
		if seen++; err != nil {
			t.Error(err)
		}
		break
	}
	if seen != 1 {
		t.Errorf("%d changes", seen)
	}
	if err := o.mem.Delete(t.Context(), sink.DataKey(first.RunID, "part-00000.parquet")); err != nil {
		t.Fatal(err)
	}
	if got, err := changes(t.Context(), a, b); !errors.Is(err, store.ErrNotFound) || len(got) != 0 {
		t.Errorf("a collected side: %v, %v", got, err)
	}
	m := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(3)}.Manifest(me, o.h)
	m.Schema = parquet.SchemaFields([]column.Field{{Name: "item", Type: column.Of(column.Int64), Key: true}})
	ref, err := o.s.WriteManifest(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	ints, err := reader.OpenPane(t.Context(), o.mem, ref, reader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := changes(t.Context(), ints, b); err != nil || len(got) != 2 {
		t.Errorf("from a pane without rows: %v, %v", got, err)
	}
}

// Find tells what says it: a document of the delta, a tombstone, a document of the base, or nothing.
func TestFindTellsWhere(t *testing.T) {
	o := newOutput(t)
	o.promote(2, 3, map[string]int64{"a": 1, "b": 2, "c": 3}, sinktest.Pane{Documents: map[string]int64{"a": 9}, Tombstones: []string{"b"}})
	r := reader.Open(o.mem, reader.Options{Lazy: true})
	poll(t, r, true)
	delta, dead, base := r.Snapshot().Files()
	for _, tc := range []struct {
		key   string
		layer reader.Layer
		file  string
		found bool
	}{{"a", reader.InDelta, delta[0], true}, {"b", reader.Tombstone, dead[0], false}, {"c", reader.InBase, base[0], true}, {"d", reader.Nowhere, "", false}} {
		f, err := r.Snapshot().Find(t.Context(), tc.key)
		if err != nil || f.Layer != tc.layer || f.File != tc.file || f.Found != tc.found || f.Found != (f.Batch != nil) {
			t.Errorf("%s: %+v, %v", tc.key, f, err)
		}
	}
}

// A generation can be looked at by itself, and compared with another.
func TestOpenBase(t *testing.T) {
	o := newOutput(t)
	o.promote(2, 3, map[string]int64{"a": 1, "b": 2}, sinktest.Pane{Documents: map[string]int64{"delta": 9}, Tombstones: []string{"b"}})
	first := o.h.Base.Generation
	o.promote(4, 5, map[string]int64{"a": 4, "c": 3}, sinktest.Pane{})
	var snaps []*reader.Snapshot
	for i, id := range []string{first, o.h.Base.Generation} {
		s, err := reader.OpenBase(t.Context(), o.mem, id, reader.Options{Lazy: i == 0})
		if err != nil {
			t.Fatal(err)
		}
		snaps = append(snaps, s)
	}
	if got := documents(t, snaps[0]); !maps.Equal(got, map[string]int64{"a": 1, "b": 2}) {
		t.Errorf("documents %v", got)
	}
	if got, err := changes(t.Context(), snaps[0], snaps[1]); err != nil || !slices.Equal(got, []string{"a 1 4", "b 2 none", "c none 3"}) {
		t.Errorf("changes %v, %v", got, err)
	}
	if _, err := reader.OpenBase(t.Context(), o.mem, sinktest.ID(8, 99), reader.Options{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such base: %v", err)
	}
}
