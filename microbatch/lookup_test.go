package microbatch

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// anyObjects are objects of a few partitions, in any order; none is there
// twice unless twice is set.
func anyObjects(t *rapid.T, name string, twice bool) []partition.Object {
	out := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) partition.Object {
		start := rapid.IntRange(0, 5).Draw(t, "start")
		return partition.Object{
			Key: fmt.Sprint(start, "/", rapid.IntRange(0, 3).Draw(t, "key")), ETag: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "etag"),
			Size: rapid.Int64Range(0, 1).Draw(t, "size"), Partition: noon.Add(time.Duration(start) * time.Minute),
		}
	}), 0, 12).Draw(t, name)
	if rapid.Bool().Draw(t, name+" in order") {
		slices.SortStableFunc(out, func(a, b partition.Object) int { return strings.Compare(a.Key, b.Key) })
	}
	if !twice {
		seen := map[string]bool{}
		out = slices.DeleteFunc(out, func(o partition.Object) bool {
			known := seen[o.Key]
			seen[o.Key] = true
			return known
		})
	}
	return out
}

func inputsOf(objects []partition.Object) []sink.Input {
	out := make([]sink.Input, len(objects))
	for i, o := range objects {
		out[i] = sink.Input{Key: o.Key, ETag: o.ETag, Bytes: o.Size, Partition: sink.At(o.Partition)}
	}
	return out
}

func TestLookupIsThatOfAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := anyObjects(t, "objects", true)
		l, there := lookup{objects: objects}, map[string]bool{}
		for _, o := range objects {
			there[o.Key] = true
		}
		for _, o := range append(anyObjects(t, "asked", true), objects...) {
			if l.has(o.Key) != there[o.Key] {
				t.Fatalf("%s among %v: %t", o.Key, objects, !there[o.Key])
			}
		}
	})
}

// TestGroupingIsThatOfAMap holds the grouping of objects that mostly come in
// order to one that takes them as they come.
func TestGroupingIsThatOfAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := anyObjects(t, "objects", true)
		fast, slow := &grouping{}, map[group]*Input{}
		for i, o := range objects {
			to := group{start: o.Partition, read: rapid.IntRange(0, 3).Draw(t, "read") == 0}
			if rapid.IntRange(0, 5).Draw(t, "alone") == 0 {
				to.alone = fmt.Sprint(i)
			}
			fast.add(to, o)
			in := slow[to]
			if in == nil {
				in = &Input{Read: to.read}
				in.Start = o.Partition
				slow[to] = in
			}
			in.Objects = append(in.Objects, o)
		}
		if len(fast.inputs) != len(slow) {
			t.Fatalf("%d inputs, want %d", len(fast.inputs), len(slow))
		}
		for i, to := range fast.groups {
			if !reflect.DeepEqual(fast.inputs[i], *slow[to]) {
				t.Fatalf("%+v\nwant %+v", fast.inputs[i], *slow[to])
			}
		}
		// What is appended to one input is not written over another's.
		for i := range fast.inputs {
			_ = append(fast.inputs[i].Objects, partition.Object{Key: "other"})
		}
		for i, to := range fast.groups {
			if !reflect.DeepEqual(fast.inputs[i], *slow[to]) {
				t.Fatalf("after appending: %+v\nwant %+v", fast.inputs[i], *slow[to])
			}
		}
	})
}

// TestSameInputsAreNothingNew holds the comparison one by one to that of sets.
func TestSameInputsAreNothingNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := anyObjects(t, "objects", false)
		live := inputsOf(objects)
		if rapid.Bool().Draw(t, "other") {
			live = inputsOf(anyObjects(t, "live", false))
		}
		var p Plan
		groups := &grouping{}
		for _, o := range objects {
			p.Coverage.From, p.Coverage.To = noon.Add(-time.Hour), noon.Add(time.Hour)
			p.add(groups, o)
		}
		p.order(groups)
		before, fresh := map[ObjectID]bool{}, false
		for _, in := range live {
			before[ObjectID{in.Key, in.ETag, in.Bytes}] = true
		}
		for _, o := range objects {
			fresh = fresh || !before[idOf(o)]
		}
		now, why := newInput(p, live)
		if (why != "") != fresh || why == "" && now != len(objects) {
			t.Fatalf("%d, %q: objects %v, live %v", now, why, objects, live)
		}
	})
}

// TestChangedSinceIsThatOfFingerprints holds the walk over two lists to a map
// of fingerprints.
func TestChangedSinceIsThatOfFingerprints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, outside := anyObjects(t, "seen", true), anyObjects(t, "outside", true)
		if rapid.Bool().Draw(t, "alike") {
			outside = append(slices.Clone(seen), outside[:len(outside)/4]...)
		}
		sets := func(objects []partition.Object) map[time.Time][]partition.Object {
			m := map[time.Time][]partition.Object{}
			for _, o := range objects {
				m[o.Partition] = append(m[o.Partition], o)
			}
			return m
		}
		was := sets(seen)
		want := map[time.Time]bool{}
		var span partition.Range
		for start, objects := range sets(outside) {
			if old, ok := was[start]; ok && partition.FingerprintOf(old) == partition.FingerprintOf(objects) {
				continue
			}
			want[start] = true
			if span.To.Before(start) {
				span.To = start
			}
			if before := start.Add(-time.Second); span.From.IsZero() || before.Before(span.From) {
				span.From = before
			}
		}
		changed, got := changedSince(byPartition(seen, objectStart), byPartition(outside, objectStart))
		if got != span {
			t.Fatalf("span %s, want %s", got, span)
		}
		n := 0
		for start, objects := range sets(changed) {
			if !want[start] || !slices.Equal(objects, sets(outside)[start]) {
				t.Fatalf("%s: %v", start, objects)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("%d partitions, want %d", n, len(want))
		}
	})
}

// TestLedgerIsThatOfSets holds the ledger's lines to ones that are found
// partition by partition, whatever the order of inputs.
func TestLedgerIsThatOfSets(t *testing.T) {
	calendar, err := partition.NewCalendar(time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		manifest := func(name string) sink.Manifest {
			m := sink.Manifest{RunID: name, Inputs: inputsOf(anyObjects(t, name, false))}
			m.Coverage = &sink.Range{From: sink.At(noon.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, name+" from")) * time.Minute)), To: sink.At(noon.Add(4 * time.Minute))}
			if rapid.Bool().Draw(t, name+" jump") {
				m.Jumps = []sink.Jump{{From: sink.At(noon), At: sink.At(noon.Add(3 * time.Minute))}}
			}
			if rapid.Bool().Draw(t, name+" quarantined") {
				m.Quarantined = []sink.Passed{{Key: "q/", Reason: "of no use", Partition: sink.AtPtr(noon.Add(time.Minute))}}
			}
			return m
		}
		m, parent := manifest("run"), manifest("parent")
		if rapid.Bool().Draw(t, "alike") {
			m.Inputs = append(slices.Clone(parent.Inputs), m.Inputs[:len(m.Inputs)/4]...)
		}
		p := &parent
		if rapid.IntRange(0, 4).Draw(t, "first") == 0 {
			p = nil
		}
		got, want := ledgerOf(m, p, calendar), slowLedger(m, p)
		byPartition := func(a, b watermark.LedgerEntry) int {
			if c := a.Partition.Compare(b.Partition); c != 0 {
				return c
			}
			return strings.Compare(a.State, b.State)
		}
		slices.SortFunc(got, byPartition)
		slices.SortFunc(want, byPartition)
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\nwant %+v", got, want)
		}
	})
}

func slowLedger(m sink.Manifest, parent *sink.Manifest) (entries []watermark.LedgerEntry) {
	sets := func(inputs []sink.Input) map[time.Time][]partition.Object {
		out := map[time.Time][]partition.Object{}
		for _, o := range objectsOf(inputs) {
			out[o.Partition] = append(out[o.Partition], o)
		}
		return out
	}
	now, before := sets(m.Inputs), map[time.Time][]partition.Object{}
	if parent != nil {
		before = sets(parent.Inputs)
	}
	for start, objects := range now {
		mark := partition.FingerprintOf(objects)
		if old, ok := before[start]; ok && partition.FingerprintOf(old) == mark {
			continue
		}
		e := watermark.LedgerEntry{
			Partition: start, Fingerprint: mark.String(), State: partition.Covered.String(), RunID: m.RunID, Objects: len(objects), Members: members(objects),
		}
		if !covers(m, start) {
			e.State, e.Note = partition.Late.String(), objects[0].Key+" came after its base was read; it stays an input until a base has read it"
		} else if jumpedOver(m.Jumps, start) {
			e.State = partition.SkippedThenCovered.String()
		}
		entries = append(entries, e)
	}
	for start, objects := range before {
		switch _, ok := now[start]; {
		case ok:
		case !covers(m, start) && !covers(*parent, start):
			entries = append(entries, watermark.LedgerEntry{Partition: start, State: partition.Late.String(), RunID: m.RunID, Note: objects[0].Key + " is gone before a base has read it"})
		case covers(m, start):
			entries = append(entries, watermark.LedgerEntry{Partition: start, State: partition.Covered.String(), RunID: m.RunID, Note: fmt.Sprintf("all %d objects are gone", len(objects))})
		}
	}
	for _, q := range m.Quarantined {
		if (parent == nil || len(parent.Quarantined) == 0) && len(now[q.Partition.Time]) == 0 {
			entries = append(entries, watermark.LedgerEntry{Partition: q.Partition.Time, State: partition.Quarantined.String(), RunID: m.RunID, Note: q.Key + " " + q.Reason})
		}
	}
	return entries
}

// TestPlacesAreThoseOfTheirNames holds addresses that are remembered to ones made
// anew, over panes some slices of which left, came, changed places or are twice.
func TestPlacesAreThoseOfTheirNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p places
		for pane := range rapid.IntRange(1, 6).Draw(t, "panes") {
			var ids []slice.ID
			for _, n := range rapid.SliceOfN(rapid.ByteRange(0, 9), 0, 12).Draw(t, "slices") {
				ids = append(ids, slice.ID{n})
			}
			if rapid.Bool().Draw(t, "in order") {
				slices.SortFunc(ids, func(a, b slice.ID) int { return int(a[0]) - int(b[0]) })
			}
			at := p.of(ids, "recipe")
			if len(at) != len(ids) {
				t.Fatalf("pane %d: %d addresses of %d", pane, len(at), len(ids))
			}
			for i, id := range ids {
				if at[i] != id.Address("recipe") {
					t.Fatalf("pane %d: %s has another's address", pane, id)
				}
			}
		}
	})
}
