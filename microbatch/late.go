package microbatch

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/watermark"
)

// memberSize is the length of one object's digest in LedgerEntry.Members, 8
// bytes in hexadecimal: enough that two objects of one partition never share
// one in practice.
const memberSize = 16

// members is the sorted set of the objects' digests: what lets a later run
// name the object that a partition's fingerprint lacks.
func members(objects []partition.Object) string {
	digests := make([]string, len(objects))
	for i, o := range objects {
		digests[i] = member(o)
	}
	slices.Sort(digests)
	return strings.Join(digests, "")
}

func member(o partition.Object) string {
	h := sha256.Sum256([]byte(strconv.Quote(o.Key) + strconv.Quote(o.ETag) + strconv.FormatInt(o.Size, 10)))
	return hex.EncodeToString(h[:memberSize/2])
}

func isMember(set string, o partition.Object) bool {
	m := member(o)
	for i := 0; i+memberSize <= len(set); i += memberSize {
		if set[i:i+memberSize] == m {
			return true
		}
	}
	return false
}

// lateAmong returns the objects that came after every rule of coverage had
// passed their partition: those that its ledger line lacks, and those of a
// partition without a line that the ledger would have if they had been there.
func lateAmong(outside []partition.Object, ledger Ledger) []partition.Object {
	lines := make(map[time.Time]watermark.LedgerEntry, len(ledger.Lines))
	for _, e := range ledger.Lines {
		lines[e.Partition] = e
	}
	var late []partition.Object
	for _, o := range outside {
		line, known := lines[o.Partition]
		switch {
		case known && line.State == partition.NeverCovered.String(): // reported as such, whole
		case known && isMember(line.Members, o), !known && !o.Partition.After(ledger.Begin):
		default:
			late = append(late, o)
		}
	}
	return late
}

// lateZone finds late objects among those outside the coverage, and remembers
// them until a publication has entered them into the state store. What it
// remembers may be lost at any time: the ledger tells what is new.
type lateZone struct {
	seen    []partition.Object // as last looked at, by partition
	lines   map[time.Time]watermark.LedgerEntry
	counted map[ObjectID]time.Time // with their partitions
	found   []partition.Object     // not yet in the state store
	missed  []partition.Object     // the same, of objects inside the coverage
	begun   bool                   // the ledger has a publication
	before  history                // until then: what the first one is to remember
}

// miss notes objects that came after their partition was settled, and returns
// those that were not noted before.
func (z *lateZone) miss(objects []partition.Object) []partition.Object {
	var fresh []partition.Object
	for _, o := range objects {
		if !slices.ContainsFunc(z.missed, func(m partition.Object) bool { return idOf(m) == idOf(o) }) {
			fresh = append(fresh, o)
		}
	}
	z.missed = append(z.missed, fresh...)
	return fresh
}

// look returns the late objects that no look found before, among those outside
// the coverage of a listing that began at from. ledger reads a range.
func (z *lateZone) look(outside []partition.Object, from time.Time, ledger func(partition.Range) (Ledger, error)) ([]partition.Object, error) {
	outside = byPartition(outside, objectStart)
	changed, span := changedSince(z.seen, outside)
	if len(changed) == 0 {
		if z.seen = outside; z.begun {
			return nil, nil
		}
		span = partition.Range{From: from, To: from} // only where the ledger begins
	}
	known, err := ledger(span)
	if err != nil {
		return nil, err
	}
	if z.begun = z.begun || !known.Begin.IsZero(); !z.begun {
		z.seen, z.before = outside, history{outside, from}
		return nil, nil
	}
	if z.lines == nil {
		z.lines, z.counted = map[time.Time]watermark.LedgerEntry{}, map[ObjectID]time.Time{}
	}
	for _, l := range known.Lines {
		z.lines[l.Partition] = l
	}
	var fresh []partition.Object
	for _, o := range lateAmong(changed, known) {
		if _, known := z.counted[idOf(o)]; !known {
			z.counted[idOf(o)] = o.Partition
			fresh = append(fresh, o)
		}
	}
	z.found = append(z.found, fresh...)
	z.seen = outside
	z.forget()
	return fresh, nil
}

// changedSince are the objects of the partitions whose objects are not those
// that were seen before, and the range that these partitions lie in. Both lists
// are by partition.
func changedSince(seen, outside []partition.Object) (changed []partition.Object, span partition.Range) {
	for len(outside) > 0 {
		start := outside[0].Partition
		now := outside[:headLen(outside, objectStart)]
		outside = outside[len(now):]
		for len(seen) > 0 && seen[0].Partition.Before(start) {
			seen = seen[headLen(seen, objectStart):]
		}
		if len(seen) > 0 && seen[0].Partition.Equal(start) && sameObjects(seen[:headLen(seen, objectStart)], now) {
			continue
		}
		if changed = append(changed, now...); span.To.IsZero() {
			span.From = start.Add(-time.Second)
		}
		span.To = start
	}
	return changed, span
}

// forget lets go of what is no longer listed.
func (z *lateZone) forget() {
	listed := func(start time.Time) bool {
		_, ok := slices.BinarySearchFunc(z.seen, start, func(o partition.Object, start time.Time) int { return o.Partition.Compare(start) })
		return ok
	}
	for start := range z.lines {
		if !listed(start) {
			delete(z.lines, start)
		}
	}
	for id, start := range z.counted {
		if !listed(start) {
			delete(z.counted, id)
		}
	}
}

// publish returns what a publication says of the late objects: the objects,
// and for each partition outside the coverage a line that has them as members.
func (z *lateZone) publish(ledger []watermark.LedgerEntry, run string) ([]watermark.LateObject, []watermark.LedgerEntry) {
	var late []watermark.LateObject
	lines, covered := map[time.Time]watermark.LedgerEntry{}, map[time.Time]int{}
	for i, e := range ledger {
		covered[e.Partition] = i
	}
	for _, o := range z.missed {
		late = append(late, watermark.LateObject{Key: o.Key, ETag: o.ETag, Partition: o.Partition})
		if i, ok := covered[o.Partition]; ok {
			ledger[i].Note = o.Key + " came after it was settled"
		}
	}
	for _, o := range z.found {
		late = append(late, watermark.LateObject{Key: o.Key, ETag: o.ETag, Partition: o.Partition})
		if _, ok := covered[o.Partition]; ok {
			continue // coverage reaches further back now, and its line has the object
		}
		line, ok := lines[o.Partition]
		if !ok {
			line = z.lines[o.Partition]
			line.Source, line.Partition, line.State, line.RunID = "", o.Partition, partition.Late.String(), run
		}
		line.Members += member(o)
		line.Note = o.Key + " came late"
		lines[o.Partition] = line
	}
	for _, line := range lines {
		ledger = append(ledger, line)
	}
	ledger = append(ledger, z.before.lines(run)...)
	slices.SortFunc(ledger, func(a, b watermark.LedgerEntry) int { return a.Partition.Compare(b.Partition) })
	return late, ledger
}

// settle forgets what a publication has entered.
func (z *lateZone) settle() { z.found, z.missed, z.before = nil, nil, history{} }
