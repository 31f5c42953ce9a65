package watermark

import (
	"context"
	"time"
)

// AuditKept is the least time for which the audit trail is kept. The database
// itself refuses to forget an entry sooner.
const AuditKept = 400 * 24 * time.Hour

// PromotedKept is how many promoted rebuilds are remembered whatever their age:
// more than there are bases that a rollback could go back to.
const PromotedKept = 20

// Prunes bounds the store: without it every partition, run and request of a
// pipeline would be remembered for ever.
type Prunes interface {
	// Prune forgets what k no longer keeps of the lease's pipeline, at most
	// limit rows of each table, and returns how many of each: less than limit
	// of all is the end. Fenced. Another call forgets as many again, which are
	// as old.
	//
	// Whatever k says, these stay: a run that is planned, the latest published
	// one, an intent or a request that is not finished; a rebuild that is open or
	// may be promoted, the PromotedKept newest that were, one that a pin or a bar
	// names, and the newest scheduled time, which says what the schedule owes.
	Prune(ctx context.Context, l Lease, k Keep, limit int) (Pruned, error)
}

// Keep says what of a pipeline is still needed. Ages are by the database's
// clock, so that a leader whose clock is ahead forgets nothing before its time.
// A zero field forgets nothing of its kind.
type Keep struct {
	// Partitions: lines of the ledger and late objects of partitions that start
	// after it are needed, and what is remembered of objects that failed or
	// were skipped after it. Others go once they are also older than Ended.
	Partitions time.Time
	// Ended is the least age of what is over: runs, rebuilds and requests by
	// their end, partitions by their start.
	Ended time.Duration
	// Decided is the least age of what people decided: intents by their end,
	// the audit trail. At least AuditKept.
	Decided time.Duration
}

// Pruned is how many rows were forgotten.
type Pruned struct {
	Runs, Rebuilds, Ledger, Late, Objects, Requests, Intents, Audit int64
}

// Most is the largest of the counts.
func (p Pruned) Most() int64 {
	return max(p.Runs, p.Rebuilds, p.Ledger, p.Late, p.Objects, p.Requests, p.Intents, p.Audit)
}

// Plus is both counts together.
func (p Pruned) Plus(o Pruned) Pruned {
	return Pruned{
		Runs: p.Runs + o.Runs, Rebuilds: p.Rebuilds + o.Rebuilds, Ledger: p.Ledger + o.Ledger, Late: p.Late + o.Late, Objects: p.Objects + o.Objects,
		Requests: p.Requests + o.Requests, Intents: p.Intents + o.Intents, Audit: p.Audit + o.Audit,
	}
}

// Ages of what is kept, see [KeepOf].
const (
	endedKept   = 35 * 24 * time.Hour
	decidedKept = AuditKept
)

// KeepOf is what a pipeline needs, given its row, the latest published run and
// the longest reach of its configuration: the larger of the window and the
// longest `over`.
//
// A run lists (c − 2W, N], where c is where its coverage begins, and asks the
// ledger about the partitions it lists: which objects were there when they
// were covered, and which of those it lacks are late. It asks what is
// remembered of objects about the objects it lists. So what is about
// partitions at or before c − 3 · reach is asked for by nobody: c is the live
// pane's, or progress where a reset has set that back and the next coverage
// will begin there. Coverage only moves forward otherwise.
//
// The ledger is cut from its oldest end and in all its states. Its oldest line
// is the start of the first coverage of all, before which what is found is
// history and not late: a line that stayed behind would turn every partition
// forgotten after it into one that was never seen.
//
// An object that failed or was skipped was listed then, and so lies in a
// partition that had started: one whose last failure and skip are before the
// same bound is in none that is listed again.
func KeepOf(row Pipeline, latest Run, reach time.Duration) Keep {
	k := Keep{Ended: endedKept, Decided: decidedKept}
	if latest.CoverageFrom.IsZero() || row.Progress.IsZero() || reach <= 0 {
		return k
	}
	from := latest.CoverageFrom
	if row.Progress.Before(from) {
		from = row.Progress
	}
	k.Partitions = from.Add(-3 * reach)
	return k
}
