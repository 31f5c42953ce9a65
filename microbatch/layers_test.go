package microbatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/datafile"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/watermark"
)

// inLayers lets every pane be a layer over the one before, as far as it may.
func inLayers(set *microbatch.Settings) { set.Layers = layers.Settings{Above: 1, Most: sink.MaxLayer} }

// whole are the files that the rows of a pane, its layers resolved, would be in as a snapshot of the run.
func (b *bench) whole(m sink.Manifest) (files, tombstones []sink.File) {
	b.t.Helper()
	fields, err := parquet.Fields(m.Schema)
	if err != nil {
		b.t.Fatal(err)
	}
	files, tombstones, err = datafile.Whole(b.t.Context(), m.RunID, fields, "", nil, 1, func(emit func(docs, tombstones *column.Batch) error) error {
		return reader.Rows(b.t.Context(), b.out, m, emit)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return files, tombstones
}

// bulk are rows of many keys with titles that do not compress, so that a layer is small beside them.
func bulk(clock string) (rows []string) {
	for i := range 3000 {
		rows = append(rows, row(fmt.Sprintf("stays %04d", i), clock, i, sink.Sum([]byte(fmt.Sprint(i)))))
	}
	return rows
}

// layered wants the live pane to have so many layers over its snapshot, and its rows to be those that its inputs make from nothing.
func (b *bench) layered(want int) sink.Manifest {
	b.t.Helper()
	m := b.live()
	if m.Top() != want {
		b.t.Errorf("run %s, a %s, has %d layers over its snapshot, want %d", m.RunID, m.Reason, m.Top(), want)
	}
	b.recomputed()
	return m
}

// TestALargePaneIsWrittenInLayers: new, changed, deleted and returning keys, and such that leave the window, are each a row of a layer.
func TestALargePaneIsWrittenInLayers(t *testing.T) {
	b := newBench(t, benchOptions{rule: window.Rule{Size: 10 * time.Minute, Longest: 5 * time.Minute, Max: time.Hour, OnGap: window.Skip}, change: inLayers})
	b.put("03:00", "a.ndjson", row("leaves", "03:00", 1, "old"), row("changes", "03:00", 1, "old"))
	b.put("03:06", "a.ndjson", append(bulk("03:06"), row("dies", "03:06", 1, "old"), del("returns", "03:06"), del("stone", "03:06"))...)
	b.step("03:06", microbatch.Advanced)
	b.layered(0) // the first
	b.put("03:07", "a.ndjson", row("changes", "03:07", 1, "old"))
	b.step("03:07", microbatch.Advanced)
	b.layered(0) // the first whose rows are kept
	b.put("03:10", "a.ndjson", row("changes", "03:10", 1, "new"), row("new", "03:10", 1, "new"), del("dies", "03:10"), row("returns", "03:10", 1, "back"))
	b.step("03:10", microbatch.Advanced)
	m := b.layered(1)
	if n := m.Files[len(m.Files)-1].Rows; n != 3 {
		t.Errorf("%d documents in the layer, want changes, new and returns", n)
	}
	if n := m.Tombstones[len(m.Tombstones)-1].Rows; n != 1 || len(m.Tombstones) != 2 {
		t.Errorf("%d tombstones in the layer, in %d files, want dies alone", n, len(m.Tombstones))
	}
	if len(m.Left) != 1 || m.Left[0].Rows != 1 || m.Left[0].MinKey[0] != "leaves" {
		t.Errorf("left are %+v, want leaves alone", m.Left)
	}
	if c := m.Counts; c.Documents != 3003 || c.Tombstones != 2 || c.New != 2 || c.Changed != 1 || c.Left != 2 {
		t.Errorf("counts are %+v, want those of all layers together", c)
	}
	docs := b.docs()
	if _, left := docs["leaves"]; left || len(docs) != 3003 || !strings.Contains(docs["changes"], `"clicks":2`) {
		t.Errorf("%d documents, changes is %s", len(docs), docs["changes"])
	}
	for _, id := range m.DataIDs() {
		if id == m.RunID {
			continue
		}
		if _, below, err := sink.FindPane(t.Context(), b.out, id); err != nil || below.Top() != 0 {
			t.Errorf("%s, below, has %d layers, %v", id, below.Top(), err)
		}
	}
}

// TestAPaneInWhichNothingDiffersHasTheLayersBefore and no file of its own.
func TestAPaneInWhichNothingDiffersHasTheLayersBefore(t *testing.T) {
	b := newBench(t, benchOptions{change: inLayers})
	b.put("03:00", "a.ndjson", bulk("03:00")...)
	b.step("03:00", microbatch.Advanced)
	for n := range 2 {
		b.put("03:00", fmt.Sprint(n, ".ndjson"), row("stays 0007", "03:00", 1, "x"))
		b.step("03:00", microbatch.Refined)
	}
	before := b.layered(1)
	b.put("03:00", "c.ndjson") // without a row
	b.step("03:00", microbatch.Refined)
	m := b.layered(1)
	if hashes(m.Files) != hashes(before.Files) || m.RunID == before.RunID {
		t.Errorf("run %s has %v, run %s before had %v", m.RunID, m.Files, before.RunID, before.Files)
	}
	if c := m.Counts; c.Documents != 3000 || c.New+c.Changed+c.Left != 0 {
		t.Errorf("counts are %+v", c)
	}
}

// TestWhatComesAfterIsASnapshot: a start, another configuration, a reset, and a leader of whose panes this one knows no rows.
func TestWhatComesAfterIsASnapshot(t *testing.T) {
	minute := 0
	for _, tc := range []struct {
		name string
		do   func(b *bench)
	}{
		{"nothing", nil},
		{"a start", func(b *bench) { b.restart() }},
		{"another configuration", func(b *bench) { b.set.ConfigHash = "c2"; b.restart() }},
		{"a run without caches", func(b *bench) {
			set := b.set
			set.NoCache = true
			b.put(fmt.Sprintf("03:%02d", minute), "nocache.ndjson", row("x", "03:00", 1, "x"))
			r := microbatch.New(set).Once(b.t.Context(), at(fmt.Sprintf("03:%02d", minute)), microbatch.StepOptions{})
			if r.Outcome != microbatch.Refined {
				b.t.Fatal(r)
			}
			b.layered(0)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, benchOptions{change: inLayers})
			run := func(want int) {
				t.Helper()
				minute++
				clock := fmt.Sprintf("03:%02d", minute)
				rows := []string{row("moves", clock, 1, clock)}
				if minute == 1 {
					rows = append(rows, bulk(clock)...)
				}
				b.put(clock, "a.ndjson", rows...)
				b.step(clock, microbatch.Advanced)
				b.layered(want)
			}
			minute = 0
			run(0)
			run(0)
			run(1)
			run(2)
			if tc.do == nil {
				run(3)
				return
			}
			tc.do(b)
			run(0)
			run(1)
		})
	}
}

// TestAtMostAsManyLayersAsAreSet, then a snapshot.
func TestAtMostAsManyLayersAsAreSet(t *testing.T) {
	b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.Layers = layers.Settings{Above: 1, Most: 2} }})
	var tops []int
	for minute := range 9 {
		clock := fmt.Sprintf("03:%02d", minute)
		rows := []string{row("moves", clock, 1, clock)}
		if minute == 0 {
			rows = append(rows, bulk(clock)...)
		}
		b.put(clock, "a.ndjson", rows...)
		b.step(clock, microbatch.Advanced)
		tops = append(tops, b.live().Top())
	}
	// At 03:05 all change, as the first minute leaves their last five: the layer is as large as the snapshot.
	if want := []int{0, 0, 1, 2, 0, 1, 0, 1, 2}; !slices.Equal(tops, want) {
		t.Errorf("layers %v, want %v", tops, want)
	}
}

// TestPromotionAndRollbackAreSnapshots, and a rollback goes back to all layers of its pane.
func TestPromotionAndRollbackAreSnapshots(t *testing.T) {
	b := newBaseBench(t, inLayers)
	b.put("03:00", "a.ndjson", bulk("03:00")...)
	b.step("03:00", microbatch.Advanced)
	base := b.rebuild(watermark.RebuildCandidate)
	b.step("03:00", microbatch.Refined)
	if m := b.layered(0); m.Reason != sink.Promote || m.Base.Generation != base.ID {
		t.Fatalf("a %s over %+v", m.Reason, m.Base)
	}
	b.put("03:01", "a.ndjson", row("stays 0007", "03:01", 1, "new"))
	b.step("03:01", microbatch.Advanced)
	b.layered(1)
	b.put("03:01", "b.ndjson", del("stays 0008", "03:01"))
	b.step("03:01", microbatch.Refined)
	b.layered(2)
	if n := len(b.docs()); n != 2999 {
		t.Errorf("%d documents, want 2999", n)
	}
}

// TestACrashWhileALayerIsWritten, at each step of its run, in a process that goes on and in one that starts again: the pane that is live then,
// and those after it, are what their inputs make.
func TestACrashWhileALayerIsWritten(t *testing.T) {
	for _, step := range []string{"planned", "slices", "data", "manifest", "current", "committed"} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, starts again %t", step, again), func(t *testing.T) {
				armed := false
				b := newBench(t, benchOptions{change: func(s *microbatch.Settings) {
					inLayers(s)
					s.Trace = func(at string) {
						if armed && at == step {
							armed = false
							panic("the process is gone")
						}
					}
				}})
				b.put("03:00", "a.ndjson", bulk("03:00")...)
				b.step("03:00", microbatch.Advanced)
				for minute := 1; minute < 3; minute++ {
					clock := fmt.Sprintf("03:%02d", minute)
					b.put(clock, "a.ndjson", row("moves", clock, 1, clock))
					b.step(clock, microbatch.Advanced)
				}
				before := b.layered(1)
				b.put("03:03", "a.ndjson", row("moves", "03:03", 1, "03:03"), del("stays 0007", "03:03"))
				armed = true
				if r := b.p.Once(t.Context(), at("03:03"), microbatch.StepOptions{}); r.Outcome == microbatch.Advanced {
					t.Fatalf("the step ended %s", r.Outcome)
				}
				m := b.live()
				live := step == "current" || step == "committed"
				if live != (m.RunID != before.RunID) || live && m.Top() != 2 {
					t.Fatalf("run %s of %d layers is live after run %s", m.RunID, m.Top()+1, before.RunID)
				}
				b.recomputed()
				if again {
					b.restart()
				}
				b.put("03:04", "a.ndjson", row("moves", "03:04", 1, "03:04"))
				b.step("03:04", microbatch.Advanced)
				want := 2 // what was live is known still
				if again || step == "current" {
					want = 0
				}
				if live && want > 0 {
					want++
				}
				b.layered(want)
				b.put("03:05", "a.ndjson", row("moves", "03:05", 1, "03:05"))
				b.step("03:05", microbatch.Advanced)
				b.recomputed()
				if docs := b.docs(); len(docs) != 3000 || docs["stays 0007"] != "" {
					t.Errorf("%d documents, one of them %s", len(docs), docs["stays 0007"])
				}
			})
		}
	}
}

// TestLayersComeToTheSamePane lives the histories of TestWhatIsKeptMakesTheSamePane with panes in layers, and writes what each comes to as a
// snapshot: byte for byte the one that its objects make from nothing.
func TestLayersComeToTheSamePane(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{3, 11, 29, 40} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newKept(t, seed)
			h.bulky = true
			inLayers(&h.set)
			h.restart()
			for range 60 {
				h.event()
				h.step()
			}
			if h.failed == 0 || h.compared < 20 || h.layers < 2 {
				t.Errorf("%d writes failed, %d panes were compared, with up to %d layers: the test is too tame", h.failed, h.compared, h.layers)
			}
		})
	}
}
