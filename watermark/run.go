package watermark

import (
	"encoding/json"
	"time"
)

// RunStatus is where a run of the journal stands.
type RunStatus string

const (
	// RunPlanned is journalled before the run's first byte.
	RunPlanned RunStatus = "planned"
	// RunPublished is reachable from CURRENT. Final.
	RunPublished RunStatus = "published"
	// RunAbandoned left nothing that readers can reach.
	RunAbandoned RunStatus = "abandoned"
	// RunFailed ended with an error before its commit point.
	RunFailed RunStatus = "failed"
	// RunUnknown is older than everything the walk from CURRENT reached.
	RunUnknown RunStatus = "unknown"
)

// RunKind is what a run makes.
type RunKind string

const (
	// RunDelta makes or moves a pane: every change of CURRENT is one.
	RunDelta RunKind = "delta"
	// RunFull makes a candidate base.
	RunFull RunKind = "full"
)

// Run is one entry of the journal.
type Run struct {
	// ID is a ULID, chosen by the caller; it names the run for ever.
	ID       string
	Pipeline string
	Kind     RunKind
	// ChangeID is the change_id the run writes into CURRENT, Reason one of the
	// manifest's reasons (publish, refine, reset, …).
	ChangeID string
	Reason   string
	// Parent is the manifest CURRENT named when the run was planned.
	Parent ManifestRef
	// Epoch is that of the writer, which need not be the one who journals it.
	Epoch    int64
	Instance string
	// PreviousWatermark is progress before, Watermark what the run is for,
	// (CoverageFrom, Watermark] what it covers.
	PreviousWatermark time.Time
	Watermark         time.Time
	CoverageFrom      time.Time
	ConfigHash        string
	// PlannedAt is the caller's clock; the zero time means the database's.
	PlannedAt time.Time

	// The rest is set by the store and ignored in PlanRun.
	Status         RunStatus
	FinishedAt     time.Time
	Error          string
	Manifest       ManifestRef
	CurrentVersion int64
	Documents      int64
	// Late is how many late objects this run was the first to see.
	Late   int64
	Counts json.RawMessage
}

// Publication is step 9 of a run: what CURRENT now says, and what the run did.
type Publication struct {
	// Run is the run as planned. If the journal has no such run (a store that
	// lost it, a reconciliation) it is entered from here.
	Run Run
	// Follows, if set, is the id of the run that CURRENT named before this one.
	// Where the journal does not have it as published the publication is
	// ErrForgotten and changes nothing. A publication that was entered before is
	// no change all the same.
	Follows string
	// CurrentVersion is the version of CURRENT that the run wrote; 0 for a
	// full run, which writes none and moves no watermark.
	CurrentVersion int64
	Watermark      time.Time
	Progress       time.Time
	Manifest       ManifestRef
	Documents      int64
	// Counts is a JSON object for people (rows, new, changed, timings, …);
	// nil means {}.
	Counts json.RawMessage
	Ledger []LedgerEntry
	Late   []LateObject
	// Intent, if set, is the reset or rollback that this publication fulfils:
	// it becomes applied in the same transaction.
	Intent string
	// Promoted, if set, is the generation that this publication made the base:
	// its rebuild becomes promoted in the same transaction, and older
	// candidates and held ones superseded. A rebuild that the store does not
	// know (it was lost) is no error.
	Promoted string
}

// Published is the answer of [Journal.PublishRun].
type Published struct {
	Run Run
	// Already says that an earlier call had done it and this one changed
	// nothing.
	Already bool
}
