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
	var before map[time.Time][]partition.Object
	if parent != nil {
		before = objectsByPartition(parent.Inputs)
	}
	now := objectsByPartition(m.Inputs)
	var entries []watermark.LedgerEntry
	for start, objects := range now {
		mark := partition.FingerprintOf(objects)
		if old, ok := before[start]; ok && partition.FingerprintOf(old) == mark {
			continue
		}
		if !covers(m, start) {
			entries = append(entries, watermark.LedgerEntry{
				Partition: start, Fingerprint: mark.String(), State: partition.Late.String(), RunID: m.RunID, Objects: len(objects), Members: members(objects),
				Note: objects[0].Key + " came after its base was read; it stays an input until a base has read it",
			})
			continue
		}
		state := partition.Covered
		if jumpedOver(m.Jumps, start) {
			state = partition.SkippedThenCovered
		}
		entries = append(entries, watermark.LedgerEntry{
			Partition: start, Fingerprint: mark.String(), State: state.String(), RunID: m.RunID,
			Objects: len(objects), Members: members(objects),
		})
	}
	for start, objects := range before {
		// All objects of a partition inside the coverage are gone.
		switch _, ok := now[start]; {
		case ok:
		case !covers(m, start) && sameBase(m, *parent) && !covers(*parent, start):
			entries = append(entries, watermark.LedgerEntry{
				Partition: start, State: partition.Late.String(), RunID: m.RunID,
				Note: fmt.Sprintf("%s is gone before a base has read it", objects[0].Key),
			})
		case covers(m, start):
			entries = append(entries, watermark.LedgerEntry{
				Partition: start, State: partition.Covered.String(), RunID: m.RunID,
				Note: fmt.Sprintf("all %d objects are gone", len(objects)),
			})
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

// quarantined is a line for each partition that this pane is the first to
// leave aside, unless another prefix feeds it.
func quarantined(m sink.Manifest, parent *sink.Manifest, now map[time.Time][]partition.Object) []watermark.LedgerEntry {
	entered := map[time.Time]bool{}
	if parent != nil {
		for _, q := range parent.Quarantined {
			if q.Partition != nil {
				entered[q.Partition.Time] = true
			}
		}
	}
	var entries []watermark.LedgerEntry
	for _, q := range m.Quarantined {
		if q.Partition == nil || entered[q.Partition.Time] || len(now[q.Partition.Time]) > 0 {
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

func objectsByPartition(inputs []sink.Input) map[time.Time][]partition.Object {
	out := map[time.Time][]partition.Object{}
	for _, in := range inputs {
		start := in.Partition.Time
		out[start] = append(out[start], partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: start})
	}
	return out
}
