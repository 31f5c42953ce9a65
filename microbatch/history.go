package microbatch

import (
	"context"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/watermark"
)

// What was at the source when deltad began, before its first coverage, is
// history and not late; what comes there afterwards is late. To tell them apart
// the first publication remembers what it saw there, in lines of the ledger
// that are [watermark.History] and stand for nothing else.

// maxHistory bounds these lines, which are written in one transaction; those
// nearest the coverage are kept.
const maxHistory = 4096

// history is what there was before the first coverage, in a listing that began
// at from.
type history struct {
	objects []partition.Object // by partition
	from    time.Time
}

// lines are the ledger's, one for each partition. If all have room, one without
// members at from says where what is known begins; else the oldest does.
func (h history) lines(run string) (lines []watermark.LedgerEntry) {
	if h.from.IsZero() {
		return nil
	}
	line := func(start time.Time, members string) {
		lines = append(lines, watermark.LedgerEntry{Source: watermark.History, Partition: start, State: watermark.History, RunID: run, Members: members})
	}
	line(h.from, "")
	for rest := h.objects; len(rest) > 0; rest = rest[headLen(rest, objectStart):] {
		line(rest[0].Partition, members(rest[:headLen(rest, objectStart)]))
	}
	return lines[max(0, len(lines)-maxHistory):]
}

// Ledger is what the ledger says of the partitions of a range: their lines, and
// Begin, up to which it knows nothing of those without one.
type Ledger struct {
	Lines []watermark.LedgerEntry
	Begin time.Time
}

// ReadLedger reads the lines of a range, history among them where a partition
// has no other. Begin is zero before the first publication.
func ReadLedger(ctx context.Context, state watermark.Ledger, pipeline string, span partition.Range) (Ledger, error) {
	const all = 10_000_000 // more than a ledger keeps
	var l Ledger
	known := map[time.Time]bool{}
	for _, source := range []string{"", watermark.History} {
		lines, err := state.LedgerRange(ctx, pipeline, source, span.From, span.To, all)
		if err != nil {
			return Ledger{}, err
		}
		for _, e := range lines {
			if source == "" || e.Members != "" && !known[e.Partition] {
				l.Lines, known[e.Partition] = append(l.Lines, e), true
			}
		}
		oldest, err := state.LedgerRange(ctx, pipeline, source, time.Time{}, time.Time{}, 1)
		if err != nil {
			return Ledger{}, err
		}
		if len(oldest) > 0 {
			l.Begin = oldest[0].Partition
		}
	}
	return l, nil
}
