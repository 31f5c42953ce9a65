package reader_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
)

// TestLayersResolve: over random histories of panes, each a layer over the one before or whole by itself, with and without a base, every way
// to read a pane says what was published, as if each had been whole.
func TestLayersResolve(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(rt *rapid.T) {
		o := newOutput(t)
		lazy := rapid.Bool().Draw(rt, "lazy")
		r := reader.Open(o.mem, reader.Options{Lazy: lazy})
		base := map[string]int64{}
		hour := 1
		if rapid.Bool().Draw(rt, "over a base") {
			base = rapid.MapOf(rapid.SampledFrom(names), rapid.Int64Range(100, 101)).Draw(rt, "base")
			o.promote(1, hour, base, sinktest.Pane{})
		}
		for range rapid.IntRange(1, 12).Draw(rt, "panes") {
			hour++
			docs := rapid.MapOf(rapid.SampledFrom(names), rapid.Int64Range(0, 1)).Draw(rt, "documents")
			var dead []string
			for _, k := range names {
				if _, ok := docs[k]; !ok && rapid.Bool().Draw(rt, "dead") {
					dead = append(dead, k)
				}
			}
			pane := sinktest.Pane{Watermark: sinktest.Hour(hour), From: sinktest.Hour(0), Documents: docs, Tombstones: dead}
			if rapid.IntRange(0, 5).Draw(rt, "kind") > 0 {
				pane.Below = o.mem
			}
			o.publish(pane)
			if _, err := r.Poll(t.Context()); err != nil {
				rt.Fatal(err)
			}
			says(rt, o, r.Snapshot(), sinktest.Rows{Documents: docs, Tombstones: dead}, base, names)
			if rapid.Bool().Draw(rt, "reader starts again") {
				r = reader.Open(o.mem, reader.Options{Lazy: lazy})
			}
		}
	})
}

// says compares what a snapshot says with what is so.
func says(t *rapid.T, o *output, s *reader.Snapshot, pane sinktest.Rows, base map[string]int64, names []string) {
	rows, err := sinktest.RowsOf(o.t.Context(), o.mem, s.Manifest)
	if err != nil || !maps.Equal(rows.Documents, pane.Documents) || !slices.Equal(rows.Tombstones, pane.Tombstones) {
		t.Fatalf("pane of %d layers: %v, %v, want %v", s.Manifest.Top()+1, rows, err, pane)
	}
	index := maps.Clone(base)
	for _, k := range pane.Tombstones {
		delete(index, k)
	}
	maps.Copy(index, pane.Documents)
	all, err := sinktest.DocumentsOf(o.t.Context(), s)
	if err != nil || !maps.Equal(all, index) {
		t.Fatalf("index over a pane of %d layers: %v, %v, want %v", s.Manifest.Top()+1, all, err, index)
	}
	for _, k := range names {
		f, err := s.Find(o.t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		want := reader.Nowhere
		_, inDelta := pane.Documents[k]
		_, inBase := base[k]
		switch {
		case inDelta:
			want = reader.InDelta
		case slices.Contains(pane.Tombstones, k):
			want = reader.Tombstone
		case inBase:
			want = reader.InBase
		}
		n, there := index[k]
		if f.Layer != want || f.Found != there || there && f.Batch.Columns[1].Ints[f.Row] != n {
			t.Fatalf("find %s: %+v, want %d in %q", k, f, n, want)
		}
	}
}

// TestWhatLeftIsTheBasesAgain: a tombstone hides what the base has of a key, to have left does not.
func TestWhatLeftIsTheBasesAgain(t *testing.T) {
	o := newOutput(t)
	base := map[string]int64{"document": 1, "tombstone": 1, "kept": 1}
	o.promote(1, 2, base, sinktest.Pane{Documents: map[string]int64{"document": 2, "kept": 2}, Tombstones: []string{"tombstone"}})
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(3), From: sinktest.Hour(0), Documents: map[string]int64{"kept": 2}, Below: o.mem})
	r := reader.Open(o.mem, reader.Options{})
	poll(t, r, true)
	s := r.Snapshot()
	if want := map[string]int64{"document": 1, "tombstone": 1, "kept": 2}; s.Manifest.Top() != 1 || !maps.Equal(documents(t, s), want) {
		t.Errorf("%d layers: %v, want %v", s.Manifest.Top()+1, documents(t, s), want)
	}
	if len(s.Manifest.Files) != 1 || len(s.Manifest.Left) != 1 || s.Manifest.Left[0].Rows != 2 {
		t.Errorf("files %v, left %v, want one layer of two keys that left", s.Manifest.Files, s.Manifest.Left)
	}
}

// TestALayerMoreIsReadAlone: a reader that follows downloads what is new.
func TestALayerMoreIsReadAlone(t *testing.T) {
	o := newOutput(t)
	counted := &counting{Store: o.mem, gets: map[string]int{}}
	r := reader.Open(counted, reader.Options{})
	docs := map[string]int64{}
	for n := range 5 {
		docs[fmt.Sprint("k", n)] = 1
		o.publish(sinktest.Pane{Watermark: sinktest.Hour(n + 1), Documents: docs, Below: o.mem})
		poll(t, r, true)
		if got := documents(t, r.Snapshot()); !maps.Equal(got, docs) {
			t.Fatalf("%v, want %v", got, docs)
		}
	}
	m := r.Snapshot().Manifest
	if len(m.Files) != 5 {
		t.Fatalf("%d files, want one of each layer", len(m.Files))
	}
	for _, f := range m.Files {
		if counted.gets[f.Key] != 1 {
			t.Errorf("%s was read %d times", f.Key, counted.gets[f.Key])
		}
	}
}

// TestRowsComeInBlocks, documents and tombstones of one block together, whatever the layers.
func TestRowsComeInBlocks(t *testing.T) {
	o := newOutput(t)
	docs, dead := map[string]int64{}, []string{}
	for n := range 10_000 {
		if key := fmt.Sprintf("%05d", n); n%3 == 0 {
			dead = append(dead, key)
		} else {
			docs[key] = int64(n)
		}
	}
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: docs, Tombstones: dead})
	docs["00001"], docs["99999"] = -1, -1
	delete(docs, "00002")
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(2), Documents: docs, Tombstones: dead, Below: o.mem})
	m, err := sink.ReadManifest(t.Context(), o.mem, o.h.Delta.Ref())
	if err != nil {
		t.Fatal(err)
	}
	last, calls, keys := "", 0, 0
	err = reader.Rows(t.Context(), o.mem, m, func(docs, tombstones *column.Batch) error {
		calls++
		most := last
		for _, b := range []*column.Batch{docs, tombstones} {
			for _, k := range b.Columns[0].Strings {
				if keys++; k <= last {
					t.Errorf("call %d has %s after %s", calls, k, last)
				}
				most = max(most, k)
			}
		}
		last = most
		return nil
	})
	if err != nil || keys != len(docs)+len(dead) || calls < 3 {
		t.Errorf("%d keys in %d calls, %v, want %d", keys, calls, err, len(docs)+len(dead))
	}
	n := 0
	if err := reader.Pane(t.Context(), o.mem, m, func(b *column.Batch) error { n += b.Len; return nil }); err != nil || n != len(docs) {
		t.Errorf("%d documents, %v, want %d", n, err, len(docs))
	}
	if hash := parquet.SchemaHash(sinktest.Fields()); m.Schema.Hash != hash {
		t.Errorf("schema %s, want %s", m.Schema.Hash, hash)
	}
}

// TestReaderFollowsRollbacksAcrossLayers to a pane whose layers the live one has in part, and to a whole one.
func TestReaderFollowsRollbacksAcrossLayers(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		o := newOutput(t)
		r := reader.Open(o.mem, reader.Options{Lazy: lazy})
		var refs []sink.Ref
		var wants []map[string]int64
		for n := range 4 {
			docs := map[string]int64{"same": 1, "other": int64(n)}
			p := sinktest.Pane{Watermark: sinktest.Hour(n + 1), Documents: docs}
			if n != 2 {
				p.Below = o.mem
			}
			o.publish(p)
			refs, wants = append(refs, o.h.Delta.Ref()), append(wants, docs)
			poll(t, r, true)
		}
		for _, n := range []int{2, 1, 0} {
			h, m, err := o.s.Rollback(t.Context(), me, o.h, sink.RollbackOptions{Target: refs[n], RunID: o.runs(), Now: sinktest.Hour(9)})
			if err != nil {
				t.Fatal(err)
			}
			o.h = h
			poll(t, r, true)
			if got := documents(t, r.Snapshot()); !maps.Equal(got, wants[n]) {
				t.Errorf("lazy %t, rolled back to pane %d of %d layers: %v, want %v", lazy, n, m.Top()+1, got, wants[n])
			}
		}
	}
}

// counting counts reads by key.
type counting struct {
	store.Store
	gets map[string]int
}

func (c *counting) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	c.gets[key]++
	return c.Store.Get(ctx, key, o)
}
