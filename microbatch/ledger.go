package microbatch

import (
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// maxGapEntries bounds the ledger lines of one gap, which are written in one
// transaction that must not run into its deadline on a busy machine. A longer
// gap has its newest partitions listed one by one, and one line that counts
// the rest.
const maxGapEntries = 1000

// ledgerOf is what a published manifest adds to the ledger, given its parent
// (nil if there is none or it is not at hand): a line for each partition of
// the coverage that is new there or whose objects changed, one for each
// partition of a gap that this pane opened, and one for each that is newly
// quarantined. It is a pure function.
func ledgerOf(m sink.Manifest, parent *sink.Manifest, calendar partition.Calendar) []watermark.LedgerEntry {
	var before []sink.Input
	if parent != nil {
		before = byPartition(parent.Inputs, inputStart)
	}
	now := byPartition(m.Inputs, inputStart)
	var entries []watermark.LedgerEntry
	for a, b := before, now; len(a) > 0 || len(b) > 0; {
		if n := alike(a, b); n > 0 {
			a, b = a[n:], b[n:]
			continue
		}
		// What both have of the older of their first partitions.
		var was, is []sink.Input
		order := 0
		if len(a) > 0 && len(b) > 0 {
			order = a[0].Partition.Compare(b[0].Partition.Time)
		}
		if len(a) > 0 && (order <= 0 || len(b) == 0) {
			was, a = a[:headLen(a, inputStart)], a[headLen(a, inputStart):]
		}
		if len(b) > 0 && (order >= 0 || len(was) == 0) {
			is, b = b[:headLen(b, inputStart)], b[headLen(b, inputStart):]
		}
		if len(is) == 0 {
			entries = append(entries, vanishedFrom(m, parent, was)...)
		} else if !slices.EqualFunc(was, is, sameInput) {
			entries = append(entries, enteredInto(m, was, is)...)
		}
	}
	for _, g := range m.Gap {
		if parent == nil || !slices.ContainsFunc(parent.Gap, func(o sink.Range) bool { return o.From.Equal(g.From.Time) && o.To.Equal(g.To.Time) }) {
			entries = append(entries, neverCovered(partition.Range{From: g.From.Time, To: g.To.Time}, m.RunID, calendar)...)
		}
	}
	entries = append(entries, quarantined(m, parent, now)...)
	slices.SortFunc(entries, func(a, b watermark.LedgerEntry) int { return a.Partition.Compare(b.Partition) })
	return entries
}

// alike is how many inputs at the head of two lists are the same, partition by
// partition: of a long window nearly all.
func alike(a, b []sink.Input) int {
	n, most := 0, min(len(a), len(b))
	for n < most && sameInput(a[n], b[n]) && a[n].Partition.Equal(b[n].Partition.Time) {
		n++
	}
	for _, list := range [][]sink.Input{a, b} {
		if n == 0 || n == len(list) {
			continue
		}
		for next := list[n].Partition.Time; n > 0 && a[n-1].Partition.Equal(next); {
			n-- // of its partition one list has more, or others
		}
	}
	return n
}

func sameInput(a, b sink.Input) bool { return a.Key == b.Key && a.ETag == b.ETag && a.Bytes == b.Bytes }

// enteredInto is the line of a partition with inputs, unless they are the
// objects that were there before.
func enteredInto(m sink.Manifest, was, is []sink.Input) []watermark.LedgerEntry {
	objects := objectsOf(is)
	mark := partition.FingerprintOf(objects)
	if len(was) > 0 && partition.FingerprintOf(objectsOf(was)) == mark {
		return nil
	}
	e := watermark.LedgerEntry{
		Partition: objects[0].Partition, Fingerprint: mark.String(), State: partition.Covered.String(), RunID: m.RunID, Objects: len(objects), Members: members(objects),
	}
	switch {
	case !covers(m, e.Partition):
		e.State = partition.Late.String()
		e.Note = objects[0].Key + " came after its base was read; it stays an input until a base has read it"
	case jumpedOver(m.Jumps, e.Partition):
		e.State = partition.SkippedThenCovered.String()
	}
	return []watermark.LedgerEntry{e}
}

// vanishedFrom is the line of a partition of which no object is an input any
// more.
func vanishedFrom(m sink.Manifest, parent *sink.Manifest, was []sink.Input) []watermark.LedgerEntry {
	start := was[0].Partition.Time
	switch {
	case !covers(m, start) && sameBase(m, *parent) && !covers(*parent, start):
		return []watermark.LedgerEntry{{
			Partition: start, State: partition.Late.String(), RunID: m.RunID, Note: was[0].Key + " is gone before a base has read it",
		}}
	case covers(m, start):
		return []watermark.LedgerEntry{{
			Partition: start, State: partition.Covered.String(), RunID: m.RunID, Note: fmt.Sprintf("all %d objects are gone", len(was)),
		}}
	}
	return nil
}

// quarantined is a line for each partition that this pane is the first to
// leave aside, unless another prefix feeds it.
func quarantined(m sink.Manifest, parent *sink.Manifest, now []sink.Input) []watermark.LedgerEntry {
	entered := map[time.Time]bool{}
	if parent != nil {
		for _, q := range parent.Quarantined {
			if q.Partition != nil {
				entered[q.Partition.Time] = true
			}
		}
	}
	fed := func(start time.Time) bool {
		_, ok := slices.BinarySearchFunc(now, start, func(in sink.Input, start time.Time) int { return in.Partition.Compare(start) })
		return ok
	}
	var entries []watermark.LedgerEntry
	for _, q := range m.Quarantined {
		if q.Partition == nil || entered[q.Partition.Time] || fed(q.Partition.Time) {
			continue
		}
		entered[q.Partition.Time] = true
		entries = append(entries, watermark.LedgerEntry{
			Partition: q.Partition.Time, State: partition.Quarantined.String(), RunID: m.RunID, Note: q.Key + " " + q.Reason,
		})
	}
	return entries
}

func neverCovered(gap partition.Range, run string, calendar partition.Calendar) []watermark.LedgerEntry {
	listed := gap
	if from := calendar.Floor(gap.To.Add(-maxGapEntries * calendar.Granularity())); from.After(gap.From) {
		listed.From = from
	}
	var entries []watermark.LedgerEntry
	for start := range calendar.Starts(listed) {
		entries = append(entries, watermark.LedgerEntry{Partition: start, State: partition.NeverCovered.String(), RunID: run})
	}
	if rest := calendar.Count(gap) - len(entries); rest > 0 && len(entries) > 0 {
		entries[0].Note = fmt.Sprintf("and all %d partitions before it in %s", rest, gap)
	}
	return entries
}

func covers(m sink.Manifest, start time.Time) bool {
	return m.Coverage != nil && start.After(m.Coverage.From.Time) && !start.After(m.Coverage.To.Time)
}

// sameBase says whether two panes fit the same bases.
func sameBase(a, b sink.Manifest) bool {
	ids := func(m sink.Manifest) (ids []string) {
		if m.Base != nil {
			ids = append(ids, m.Base.Generation)
		}
		for _, s := range m.Supports {
			ids = append(ids, s.Generation)
		}
		return ids
	}
	return slices.Equal(ids(a), ids(b))
}

func jumpedOver(jumps []sink.Jump, start time.Time) bool {
	for _, j := range jumps {
		if start.After(j.From.Time) && start.Before(j.At.Time) {
			return true
		}
	}
	return false
}

func objectsOf(inputs []sink.Input) []partition.Object {
	out := make([]partition.Object, len(inputs))
	for i, in := range inputs {
		out[i] = partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time}
	}
	return out
}
