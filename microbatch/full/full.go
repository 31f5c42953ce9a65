// Package full rebuilds the full index beside the deltas: it reads everything
// up to a cut, writes documents and accumulators as a new generation, asks the
// gate, and leaves a candidate for the leader to promote. It never touches
// CURRENT.
//
// What a Rebuilder promises:
//
//  1. The cut is the watermark of a pane that was live when the rebuild began
//     (or an earlier partition that was asked for), so a delta over the new
//     base can always be made. That pane and its base are pinned meanwhile.
//  2. The objects are frozen when they are listed; each is read in the version
//     that was listed, or left out by name, or the rebuild fails. The manifest
//     lists exactly what was read.
//  3. The documents and accumulators are a function of the configuration, the
//     cut, the objects and the types of columns, which objects beyond the cut may
//     widen and the manifest tells: not of order, workers, memory or when it ran. They
//     are folded by the code that folds panes, over the accumulators that are
//     kept, so base and delta cannot disagree about a value.
//  4. Nothing of a generation is named anywhere before all of it is written,
//     its manifest last. A rebuild that ends early leaves files that garbage
//     collection removes.
//  5. One rebuild of a pipeline at a time, under a lease of its own; after
//     losing it nothing more is written. One that died is begun again, under
//     the same id, by whoever gets the lease next, or taken as it is if it had
//     come as far as its manifest. What it left never stands in the way.
//  6. A scheduled time is used once: not by two replicas, not again after a
//     restart, not twice or never where the clock changes (see Schedule).
//  7. A candidate that does not pass the gate is held: the live base stays.
//
// Memory stays within the budget of the spools and of the tables being built;
// what is beyond goes to files. A rebuild waits while a run of the delta in
// the same process is going on (Settings.Yield).
package full

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// Lister lists the source; *source.Source is one.
type Lister interface {
	Scan(ctx context.Context, now, after time.Time) (source.Listing, error)
}

// State is what a rebuild needs of the state store.
type State interface {
	watermark.Leases
	watermark.Objects
	watermark.Rebuilds
	watermark.Pins
}

// Schedule tells the scheduled times. Each is one wall-clock time, and exists
// once whatever the clock does.
type Schedule interface {
	// Latest is the last scheduled instant in (after, until]; ok is false where
	// there is none.
	Latest(after, until time.Time) (at time.Time, ok bool)
	// String is the schedule as configured, with its zone: another text is
	// another schedule.
	String() string
}

// Settings are what a Rebuilder is made of. All are required unless it says
// otherwise.
type Settings struct {
	Name       string
	Calendar   partition.Calendar
	ConfigHash string
	Program    *index.Program
	// Since is the start of the first partition that exists; zero is no bound.
	Since time.Time
	// Tombstones is how long before the cut a deleted key's last record may lie
	// for its accumulators to be kept; 0 keeps them for ever.
	Tombstones time.Duration
	// Promote lets the leader promote a candidate that passed the gate without
	// being asked.
	Promote bool
	// Schedule is nil for rebuilds by hand.
	Schedule Schedule
	Gate     Gate
	// SkipObjects leaves an unreadable object out, named, instead of failing.
	// MaxRejectShare bounds the bad rows, as a share of all.
	SkipObjects    bool
	MaxRejectShare float64
	Builder        slice.Builder
	Workers        int

	Lister Lister
	Sink   *sink.Sink
	State  State

	Log *zap.Logger
	// Yield blocks while something more urgent goes on in this process; nil
	// for never.
	Yield func(ctx context.Context)
	// Documents is handed the documents as they are computed, in key order; nil
	// for nobody. It must not keep them.
	Documents func(*column.Batch) error
	// Observe is told how far a rebuild is and how it ended; nil for nobody.
	Observe func(Report)
	// Trace is told where a rebuild stands, for tests; nil for nobody.
	Trace    func(step string)
	NewID    func() string
	Build    string
	Instance string
	LeaseTTL time.Duration
}

// Report is how far a rebuild is, or how it ended.
type Report struct {
	Pipeline string
	ID       string
	// State is running until it ended, then what it ended as.
	State watermark.RebuildState
	watermark.RebuildProgress
	Documents int64
	Checks    []sink.CheckResult
	Duration  time.Duration
	Err       error
}

// Rebuilder makes generations of one pipeline, one at a time. It is for one
// goroutine.
type Rebuilder struct{ set Settings }

// New returns a rebuilder; it does no I/O and starts nothing.
func New(set Settings) *Rebuilder {
	if set.Yield == nil {
		set.Yield = func(context.Context) {}
	}
	if set.Observe == nil {
		set.Observe = func(Report) {}
	}
	return &Rebuilder{set: set}
}

// at tells the trace where a rebuild stands.
func (r *Rebuilder) at(step string) {
	if r.set.Trace != nil {
		r.set.Trace("rebuild " + step)
	}
}
