package watermark

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// RebuildState is where a rebuild of the full index stands.
type RebuildState string

const (
	// RebuildQueued waits for somebody with the full lease.
	RebuildQueued RebuildState = "queued"
	// RebuildRunning is being made; the holder of the next full lease takes it
	// over from one that died.
	RebuildRunning RebuildState = "running"
	// RebuildCandidate passed the gate, or was let past it, and waits for the
	// leader to promote it.
	RebuildCandidate RebuildState = "candidate"
	// RebuildHeld did not pass the gate.
	RebuildHeld RebuildState = "held"
	// RebuildPromoted was made the base by a run of the leader. It stays
	// promoted when another base follows, and after a rollback.
	RebuildPromoted RebuildState = "promoted"
	// RebuildFailed ended with an error. Final.
	RebuildFailed RebuildState = "failed"
	// RebuildCancelled was called off. Final.
	RebuildCancelled RebuildState = "cancelled"
	// RebuildSuperseded was a candidate or held one when a newer one was ready
	// or promoted. Final.
	RebuildSuperseded RebuildState = "superseded"
	// RebuildSkipped is a scheduled time that came while another rebuild was
	// open. Final.
	RebuildSkipped RebuildState = "skipped"
)

// Causes of a rebuild. The scheduled ones have a Due, the manual ones are a
// person's and audited.
const (
	RebuildSchedule = "schedule"
	RebuildManual   = "manual"
	RebuildGap      = "gap"
	RebuildStale    = "stale"
	RebuildTypes    = "types"
)

// Rebuild is one rebuild of the full index, from its queueing to its
// promotion.
type Rebuild struct {
	// ID is a ULID, chosen by the caller; it names the generation too.
	ID       string
	Pipeline string
	// Cause is one of the causes above.
	Cause string
	// Due is the scheduled instant, which is used up once; zero if the cause
	// is another.
	Due time.Time
	// Cut is the cut that was asked for; zero means the watermark of the live
	// pane.
	Cut time.Time
	// Actor is who asked, Reason why. Without an Actor it is deltad itself.
	Actor  string
	Reason string

	// The rest is set by the store.
	State RebuildState
	// Instance and Epoch are those of the full lease under which it runs or
	// ran.
	Instance string
	Epoch    int64
	// Phase, Done, Total and Rows are its progress, as last noted: of one that
	// failed or was called off, where it was then. One that was made is PhaseDone,
	// and Rows are all that it read.
	Phase string
	Done  int64
	Total int64
	Rows  int64
	// CancelRequested asks whoever runs it to end it.
	CancelRequested bool
	// Manifest, ActualCut, Documents and Checks are what a candidate or held
	// one was made of. Checks is a JSON array.
	Manifest  ManifestRef
	ActualCut time.Time
	Documents int64
	Checks    json.RawMessage
	// Approved lets the leader promote it: by a person, or because promotion
	// is automatic. Overrides are the checks that the person overrode.
	Approved  bool
	Overrides []string
	// PromotedBy is the run that promoted it last.
	PromotedBy string
	// Error says why it failed or was skipped, or what held it.
	Error      string
	CreatedAt  time.Time
	StartedAt  time.Time // by its present holder
	FinishedAt time.Time
}

// PhaseDone is the phase of a candidate or held rebuild, and stays: there is
// nothing left of it.
const PhaseDone = "done"

// RebuildProgress is how far a running rebuild is, for people.
type RebuildProgress struct {
	Phase string
	// Done of Total are in the phase's own unit; a Total of 0 is not known
	// yet.
	Done  int64
	Total int64
	Rows  int64
}

// RebuildResult is how a running rebuild ends.
type RebuildResult struct {
	// State is candidate, held, failed or cancelled.
	State RebuildState
	// Manifest, ActualCut, Documents and Rows, those read, belong to a candidate or
	// held one.
	Manifest  ManifestRef
	ActualCut time.Time
	Documents int64
	Rows      int64
	// Checks is a JSON array; nil means [].
	Checks json.RawMessage
	// Approved lets a candidate be promoted without being asked for.
	Approved bool
	// Error is text for people: of a failed one, or what holds a held one.
	Error string
}

// RebuildOpenError says that a rebuild is queued or running already; it is an
// [ErrConflict].
type RebuildOpenError struct {
	Pipeline string
	// ID is the open one.
	ID string
}

func (e *RebuildOpenError) Error() string {
	return fmt.Sprintf("rebuild %s of %s is open", e.ID, e.Pipeline)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *RebuildOpenError) Is(target error) bool { return target == ErrConflict }

// Rebuilds is the life of each rebuild. At most one of a pipeline is queued or
// running. What the holder of the full lease writes is fenced by that lease.
type Rebuilds interface {
	// CreateRebuild queues r. While one is queued or running it is a
	// [*RebuildOpenError] that names it, and a scheduled time is entered as
	// skipped, so that it is used up. A scheduled time that is known already,
	// skipped or not, returns its row and no error: among any number of
	// callers it runs once. Idempotent by r.ID; ErrConflict if the id is that
	// of another rebuild. A manual one is audited ("rebuild").
	CreateRebuild(ctx context.Context, r Rebuild) (Rebuild, error)
	// OpenRebuild is the queued or running one; ErrNotFound if there is none.
	OpenRebuild(ctx context.Context, pipeline string) (Rebuild, error)
	// StartRebuild makes a queued one running under l, and takes a running one
	// over from a holder that died, with its progress back at nothing; whether
	// a cancel was asked for stays. The same lease again changes nothing.
	// ErrConflict if it has ended.
	StartRebuild(ctx context.Context, l Lease, id string) (Rebuild, error)
	// ProgressRebuild notes progress and says whether a cancel was asked for.
	// ErrConflict unless it runs under l.
	ProgressRebuild(ctx context.Context, l Lease, id string, p RebuildProgress) (cancel bool, err error)
	// FinishRebuild ends one that runs under l, and lets go of the pins whose
	// owner it is ([RebuildOwner]). A new candidate supersedes all candidates
	// and held ones that are there. The same end again changes nothing,
	// whatever became of the rebuild since; another end is ErrConflict.
	FinishRebuild(ctx context.Context, l Lease, id string, r RebuildResult) error
	// CancelRebuild ends a queued one and asks whoever runs a running one to
	// end it. Audited ("rebuild-cancel"), idempotent by c.ID; ErrConflict if
	// it has ended.
	CancelRebuild(ctx context.Context, id string, c Change) (Rebuild, error)
	// ApproveRebuild lets one be promoted, audited ("promote"), in one
	// transaction: a candidate, a held one, which becomes a candidate with
	// overrides, or a promoted one that a rollback barred, which becomes a
	// candidate again. A bar is lifted, unless the rollback that raised it is
	// still pending. Only a plain candidate may be approved without a reason.
	// Idempotent by c.ID; ErrConflict, saying why, in every other state.
	ApproveRebuild(ctx context.Context, pipeline, id string, overrides []string, c Change) (Rebuild, error)
	// RebuildByID finds one; ErrNotFound.
	RebuildByID(ctx context.Context, id string) (Rebuild, error)
	// Rebuilds are the newest first, at most limit, with an id below before
	// ('' for the newest).
	Rebuilds(ctx context.Context, pipeline string, limit int, before string) ([]Rebuild, error)
	// ReadyRebuild is the newest approved candidate that is not barred;
	// ErrNotFound if there is none.
	ReadyRebuild(ctx context.Context, pipeline string) (Rebuild, error)
	// ScheduleState is the newest scheduled time that was used up, zero if
	// none was, and since when, by the database's clock, this text is the
	// schedule of the pipeline: another text than the one known before starts
	// anew. Times before since are not owed.
	ScheduleState(ctx context.Context, pipeline, schedule string) (lastDue, since time.Time, err error)
}

// RebuildOwner is the owner of the pins that a rebuild holds.
func RebuildOwner(id string) string { return rebuildOwner + id }

const rebuildOwner = "rebuild "

// Bar says that a generation must not be promoted: a rollback left it.
type Bar struct {
	Pipeline   string
	Generation string
	// Intent is the rollback's. Actor and Reason are those of the rollback.
	Intent string
	Actor  string
	Reason string
	At     time.Time
}

// Bars are the generations that must not be promoted. An [IntentRollback]
// raises one, [Rebuilds.ApproveRebuild] lifts it.
type Bars interface {
	// Bars are those of a pipeline, by generation.
	Bars(ctx context.Context, pipeline string) ([]Bar, error)
}

// Kinds of pins.
const (
	// PinPane keeps a pane; its id is the run's.
	PinPane = "pane"
	// PinBase keeps a base; its id is the generation.
	PinBase = "base"
)

// Pin keeps a pane or a base from being collected.
type Pin struct {
	Pipeline string
	// Kind is pane or base.
	Kind string
	ID   string
	// Owner is [RebuildOwner] of a rebuild, or a person.
	Owner  string
	Reason string
	// At is set by the store.
	At time.Time
}

// Pins are what collection must keep. Those of a person are audited ("pin",
// "unpin"); those of a rebuild end with it.
type Pins interface {
	// Pin adds one. Idempotent by pipeline, kind, id and owner: again it
	// changes nothing.
	Pin(ctx context.Context, p Pin) error
	// Unpin removes one. One that is not there is no error.
	Unpin(ctx context.Context, pipeline, kind, id, owner string) error
	// Pins are those of a pipeline, by kind, id and owner.
	Pins(ctx context.Context, pipeline string) ([]Pin, error)
}

// ConfigRegistration says that a replica runs a configuration.
type ConfigRegistration struct {
	// Seq orders the registrations of a pipeline; the highest is the newest.
	Seq     int64
	Replica string
	Hash    string
	At      time.Time
}

// ConfigOrder tells which configuration is the newest, where replicas run
// different ones: the one that a replica was last given, and not the one of
// the replica that was last restarted.
type ConfigOrder interface {
	// RegisterConfig says that replica, a name that is stable over restarts,
	// runs hash from now on: called at start and when the file changed, not
	// at every turn. A replica that says the same again keeps its place; with
	// another hash it becomes the newest, and what it ran before is
	// forgotten, so that going back to an older file is a new decision too.
	RegisterConfig(ctx context.Context, pipeline, replica, hash string) (mine, newest ConfigRegistration, err error)
	// NewestConfig is the newest registration; ErrNotFound if there is none.
	NewestConfig(ctx context.Context, pipeline string) (ConfigRegistration, error)
	// UnregisterConfig forgets a replica that ends for good, if it still runs
	// hash. Nothing to forget is no error.
	UnregisterConfig(ctx context.Context, pipeline, replica, hash string) error
}
