package microbatch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// hashes are the names and contents of files, as one comparable text.
func hashes(files ...[]sink.File) string {
	var out []string
	for _, list := range files {
		for _, f := range list {
			out = append(out, fmt.Sprintf("%s %d %s %v", f.Key, f.Rows, f.SHA256, f.MinKey))
		}
	}
	return strings.Join(out, "\n")
}

// recomputed wants the live pane's files to come out again.
func (b *bench) recomputed() microbatch.Recomputed {
	b.t.Helper()
	m := b.live()
	if ids := m.DataIDs(); len(ids) > 0 && m.Reason == sink.Rollback {
		var err error
		if _, m, err = sink.FindPane(b.t.Context(), b.out, ids[0]); err != nil {
			b.t.Fatal(err)
		}
	}
	keys, err := allKeys(b)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := microbatch.New(b.set).Recompute(b.t.Context(), m)
	if err != nil {
		b.t.Fatal(err)
	}
	files, tombstones := m.Files, m.Tombstones
	if len(m.DataIDs()) > 0 && (m.Top() > 0 || m.DataIDs()[0] != m.RunID) {
		files, tombstones = b.whole(m) // in layers, or what the pane before has
	}
	if got, want := hashes(r.Files, r.Tombstones), hashes(files, tombstones); got != want {
		b.t.Errorf("recomputed\n%s\nwant\n%s", got, want)
	}
	if r.Counts.Documents != m.Counts.Documents || r.Counts.Rows != m.Counts.Rows || r.Counts.Tombstones != m.Counts.Tombstones {
		b.t.Errorf("counts %+v, want %+v", r.Counts, m.Counts)
	}
	after, err := allKeys(b)
	if err != nil || !slices.Equal(keys, after) {
		b.t.Errorf("recomputing wrote: %v, %v, before %v", err, after, keys)
	}
	return r
}

func allKeys(b *bench) (keys []string, err error) {
	page, err := b.out.List(b.t.Context(), store.ListOptions{})
	for _, o := range page.Objects {
		keys = append(keys, o.Key+o.ETag)
	}
	return keys, err
}

// TestRecomputeIsWhatWasPublished follows a pipeline through its first base,
// unread and stale objects, a second base and a rollback: each pane comes out
// of its inputs again, byte for byte, with nothing written.
func TestRecomputeIsWhatWasPublished(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"), row("x", "02:00", 1, "first"), row("gone", "02:00", 1, "here"))
	b.put("02:58", "a.ndjson", row("seen", "02:58", 2, "two"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"), row("y", "03:00", 1, "why"))
	b.step("03:01", microbatch.Advanced)
	b.recomputed()
	base := b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	b.recomputed()
	b.put("03:20", "a.ndjson", row("x", "03:20", 5, "two"), del("gone", "03:20"))
	b.put("02:50", "late.ndjson", row("old", "02:50", 1, "less ancient"))
	b.step("03:21", microbatch.Advanced)
	b.recomputed()

	// What the base read in (cut − D, cut] is replaced: all keys of there are the delta's.
	b.put("02:58", "a.ndjson", row("other", "02:58", 2, "two"))
	b.step("03:22", microbatch.Refined)
	b.recomputed()
	if m := b.live(); m.Base.StaleCount != 1 {
		t.Errorf("stale: %+v", m.Base)
	}

	// Carried far beyond the coverage, its object gone: the kept slice serves.
	b.put("05:00", "a.ndjson", row("z", "05:00", 1, "zed"))
	b.step("05:01", microbatch.Advanced)
	b.recomputed()
	carried := false
	for _, in := range b.live().Inputs {
		carried = carried || strings.HasSuffix(in.Key, "late.ndjson")
	}
	if !carried {
		t.Fatalf("not carried: %+v", b.live().Inputs)
	}
	if err := b.raw.Delete(t.Context(), "2026/11/30/02/50/late.ndjson"); err != nil {
		t.Fatal(err)
	}
	b.put("05:01", "a.ndjson", row("z", "05:01", 1, "zed"))
	b.step("05:02", microbatch.Advanced)
	if r := b.recomputed(); len(r.Kept) != 0 && r.Kept[0] != "2026/11/30/02/50/late.ndjson" {
		t.Errorf("kept %v", r.Kept)
	}

	second := b.rebuild(watermark.RebuildCandidate)
	b.step("05:03", microbatch.Refined)
	if m := b.live(); m.Base.Generation != second.ID || len(m.Supports) != 1 || m.Supports[0].Generation != base.ID {
		t.Fatalf("over %+v, supports %+v", m.Base, m.Supports)
	}
	b.recomputed()
}

// TestRecomputeOverABaseOfLongerDurations: what the base saw in its own
// durations counts, not what the configuration has now.
func TestRecomputeOverABaseOfLongerDurations(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:56", "a.ndjson", row("seen", "02:56", 2, "two"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	spec := clicks()
	for i := range spec.Fields {
		spec.Fields[i].Over = min(spec.Fields[i].Over, 2*time.Minute)
	}
	program, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	b.set.Program, b.set.ConfigHash, b.set.Rule.Longest = program, "c2", 2*time.Minute
	b.restart()
	b.put("02:56", "a.ndjson", row("other", "02:56", 2, "two"))
	b.step("03:02", microbatch.Refined)
	if _, ok := b.docs()["seen"]; !ok || b.live().Base.StaleCount != 1 {
		t.Errorf("seen is there: %v, stale %d", ok, b.live().Base.StaleCount)
	}
	b.recomputed()
}

// TestRecomputeBase: the files of a generation come out again, and a changed
// object is named.
func TestRecomputeBase(t *testing.T) {
	b := newBaseBench(t, nil)
	for i := range 40 {
		clock := fmt.Sprintf("02:%02d", i)
		b.put(clock, "a.ndjson", row("x", clock, 1, clock), row(fmt.Sprint("k", i), clock, 1, "one"), del(fmt.Sprint("k", i/2), clock))
	}
	b.step("03:01", microbatch.Advanced)
	base := b.rebuild(watermark.RebuildCandidate)
	ref := sink.Ref{Manifest: base.Manifest.Key, SHA256: base.Manifest.SHA256}
	m, err := b.set.Sink.ReadManifest(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	again, err := microbatch.New(b.set).RecomputeBase(t.Context(), m, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hashes(again.Files), hashes(m.Files); got != want || want == "" {
		t.Errorf("documents\n%s\nwant\n%s", got, want)
	}
	if !slices.Equal(again.StateFiles(), m.StateFiles()) || len(m.StateFiles()) != 2 {
		t.Errorf("accumulators %+v, want %+v", again.StateFiles(), m.StateFiles())
	}
	b.put("02:07", "a.ndjson", row("x", "02:07", 1, "changed"))
	if _, err := microbatch.New(b.set).RecomputeBase(t.Context(), m, 0); err == nil || !strings.Contains(err.Error(), "02/07/a.ndjson") {
		t.Errorf("with a replaced object: %v", err)
	}
}

// TestRecomputeRefuses: another configuration, another kind, a lost input.
func TestRecomputeRefuses(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	m := b.live()
	other := b.set
	other.ConfigHash = "c2"
	if _, err := microbatch.New(other).Recompute(t.Context(), m); !errors.Is(err, microbatch.ErrOtherConfig) {
		t.Errorf("another configuration: %v", err)
	}
	full := m
	full.Kind = sink.Full
	if _, err := microbatch.New(b.set).Recompute(t.Context(), full); err == nil {
		t.Error("a manifest of a base was recomputed as a pane")
	}
	if err := b.raw.Delete(t.Context(), m.Inputs[0].Key); err != nil {
		t.Fatal(err)
	}
	if _, err := microbatch.New(b.set).Recompute(t.Context(), m); err == nil || !strings.Contains(err.Error(), m.Inputs[0].Key) {
		t.Errorf("a lost input: %v", err)
	}
}
