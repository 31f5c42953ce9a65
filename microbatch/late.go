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
// partition without a line that lies after begin, the start of the first
// coverage of all (what was there before deltad began is history, not late).
func lateAmong(outside []partition.Object, ledger []watermark.LedgerEntry, begin time.Time) []partition.Object {
	lines := make(map[time.Time]watermark.LedgerEntry, len(ledger))
	for _, e := range ledger {
		lines[e.Partition] = e
	}
	var late []partition.Object
	for _, o := range outside {
		line, known := lines[o.Partition]
		switch {
		case known && line.State == partition.NeverCovered.String(): // reported as such, whole
		case known && isMember(line.Members, o), !known && !o.Partition.After(begin):
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
	prints  map[time.Time]partition.Fingerprint // as last looked at
	lines   map[time.Time]watermark.LedgerEntry
	counted map[ObjectID]time.Time // with their partitions
	found   []partition.Object     // not yet in the state store
	missed  []partition.Object     // the same, of objects inside the coverage
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

// look returns the late objects that no look found before. ledger reads the
// lines of a range, begin the partition of the oldest line of all.
func (z *lateZone) look(outside []partition.Object, ledger func(partition.Range) ([]watermark.LedgerEntry, error), begin func() (time.Time, error)) ([]partition.Object, error) {
	byStart := map[time.Time][]partition.Object{}
	for _, o := range outside {
		byStart[o.Partition] = append(byStart[o.Partition], o)
	}
	prints := make(map[time.Time]partition.Fingerprint, len(byStart))
	var changed []partition.Object
	var span partition.Range
	for start, objects := range byStart {
		prints[start] = partition.FingerprintOf(objects)
		if old, ok := z.prints[start]; ok && old == prints[start] {
			continue
		}
		changed = append(changed, objects...)
		if span.To.Before(start) {
			span.To = start
		}
		if before := start.Add(-time.Second); span.From.IsZero() || before.Before(span.From) {
			span.From = before
		}
	}
	if len(changed) == 0 {
		z.prints = prints
		return nil, nil
	}
	lines, err := ledger(span)
	if err != nil {
		return nil, err
	}
	since, err := begin()
	if err != nil {
		return nil, err
	}
	if z.lines == nil {
		z.lines, z.counted = map[time.Time]watermark.LedgerEntry{}, map[ObjectID]time.Time{}
	}
	for _, l := range lines {
		z.lines[l.Partition] = l
	}
	var fresh []partition.Object
	for _, o := range lateAmong(changed, lines, since) {
		if _, known := z.counted[idOf(o)]; !known {
			z.counted[idOf(o)] = o.Partition
			fresh = append(fresh, o)
		}
	}
	z.found = append(z.found, fresh...)
	z.prints = prints
	z.forget()
	return fresh, nil
}

// forget lets go of what is no longer listed.
func (z *lateZone) forget() {
	for start := range z.lines {
		if _, listed := z.prints[start]; !listed {
			delete(z.lines, start)
		}
	}
	for id, start := range z.counted {
		if _, listed := z.prints[start]; !listed {
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
			line.Partition, line.State, line.RunID = o.Partition, partition.Late.String(), run
		}
		line.Members += member(o)
		line.Note = o.Key + " came late"
		lines[o.Partition] = line
	}
	for _, line := range lines {
		ledger = append(ledger, line)
	}
	slices.SortFunc(ledger, func(a, b watermark.LedgerEntry) int { return a.Partition.Compare(b.Partition) })
	return late, ledger
}

// settle forgets what a publication has entered.
func (z *lateZone) settle() { z.found, z.missed = nil, nil }
