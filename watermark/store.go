package watermark

import (
	"context"
	"encoding/json"
	"time"
)

// Store is one open state store. It is safe for concurrent use, by several
// goroutines and by several processes on the same database. Consumers ask for
// the part they need.
type Store interface {
	Schema
	Leases
	Pipelines
	Journal
	Ledger
	Objects
	Audit
	Intents
	Requests
	Instances
	Rebuilds
	Bars
	Pins
	ConfigOrder
	Prunes
	// Close lets go of the database. Calls under way may fail with
	// ErrUnavailable.
	Close() error
}

// Schema is the shape and the identity of the database.
type Schema interface {
	// Migrate applies the pending migrations, all in one transaction under a
	// lock, and gives the store its identity if it has none. Any number of
	// processes may call it at once. It returns the names it applied; with
	// nothing pending it only reads. ErrSchemaTooNew if a newer binary was
	// here.
	Migrate(ctx context.Context) ([]string, error)
	// Check changes nothing: ErrSchemaPending, ErrSchemaTooNew, or nil.
	Check(ctx context.Context) error
	// SchemaVersion is the number of the newest migration applied, 0 for an
	// empty database.
	SchemaVersion(ctx context.Context) (int, error)
	// StateID is the random id that Migrate made for this database and that
	// CURRENT carries in owner.state: another id there means another database
	// wrote it.
	StateID(ctx context.Context) (string, error)
}

// Leases says who may write. There is one row for each pipeline and role.
type Leases interface {
	// Acquire takes the lease if it is free or expired by the database's
	// clock, at epoch 1 + max(row, minEpoch) with a fresh nonce, for ttl.
	// minEpoch is the owner epoch in CURRENT (0 if there is none). A live
	// lease is a *HeldError, whoever holds it: a holder string is not a proof.
	Acquire(ctx context.Context, pipeline string, role Role, holder string, ttl time.Duration, minEpoch int64) (Lease, error)
	// Renew lets the lease live TTL longer from now by the database's clock.
	// It also revives one that expired and that nobody took. ErrFenced if
	// somebody did, or if it was released.
	Renew(ctx context.Context, l Lease) error
	// Release frees the lease at once; its epoch is never used again. A second
	// release is no error; ErrFenced if somebody took it since.
	Release(ctx context.Context, l Lease) error
	// RaiseEpoch moves a held lease to epoch 1 + max(row, minEpoch) with a
	// fresh nonce and renews it: for a leader that finds CURRENT ahead of its
	// own row. The old value is fenced from then on.
	RaiseEpoch(ctx context.Context, l Lease, minEpoch int64) (Lease, error)
	// LeaseStatus is the row as it is; ErrNotFound if it was never acquired.
	LeaseStatus(ctx context.Context, pipeline string, role Role) (LeaseStatus, error)
}

// Pipelines is the row of each pipeline.
type Pipelines interface {
	// EnsurePipeline returns the row, made empty if there is none. A row that
	// cannot be read is ErrCorrupt, never replaced.
	EnsurePipeline(ctx context.Context, name string) (Pipeline, error)
	// Pipeline returns the row; ErrNotFound if there is none.
	Pipeline(ctx context.Context, name string) (Pipeline, error)
	// Pipelines returns all rows by name.
	Pipelines(ctx context.Context) ([]Pipeline, error)
	// Pause stops runs until Resume; both are audited in the same transaction
	// and idempotent by c.ID. Pausing what is paused records the newer reason.
	Pause(ctx context.Context, name string, c Change) (Pipeline, error)
	// Resume ends a pause.
	Resume(ctx context.Context, name string, c Change) (Pipeline, error)
	// AdoptCurrent makes the row copy a CURRENT that it did not follow, of any
	// version, for recover, adopt and a new output: the only way back. Fenced
	// by the delta lease, audited, idempotent by c.ID.
	AdoptCurrent(ctx context.Context, l Lease, cur CurrentCopy, c Change) (Pipeline, error)
}

// Journal is the history of runs. Writes are fenced by the lease.
type Journal interface {
	// PlanRun enters r as planned, before its first byte is written. The same
	// run again is no change, or planned once more if it was given up: a reset
	// is carried out under one id however often it is tried. Another one under
	// the same id is ErrConflict.
	PlanRun(ctx context.Context, l Lease, r Run) error
	// PublishRun is step 9, in one transaction: the run becomes published, the
	// pipeline row copies CURRENT, ledger entries and late objects are
	// entered, the intent it fulfils is applied, the rebuild it promotes is
	// promoted. A second call is no change and no error. A run in any other
	// state may become published, because CURRENT is the truth. ErrForgotten
	// where the run that p follows is not published. A publication at or below
	// the row's CurrentVersion moves nothing but its own run, older ledger
	// entries and the rebuild it promoted.
	PublishRun(ctx context.Context, l Lease, p Publication) (Published, error)
	// AbandonRun, FailRun and MarkUnknown end a run that readers do not see.
	// Repeated they change nothing; ErrConflict if the run is published,
	// ErrNotFound if it is not there.
	AbandonRun(ctx context.Context, l Lease, id, why string) error
	// FailRun ends a run with its error text.
	FailRun(ctx context.Context, l Lease, id, why string) error
	// MarkUnknown ends a run about which nothing can be said any more.
	MarkUnknown(ctx context.Context, l Lease, id, why string) error
	// PlannedRuns are the runs still planned, oldest first.
	PlannedRuns(ctx context.Context, pipeline string) ([]Run, error)
	// RunByID finds a run; ErrNotFound if it is not journalled.
	RunByID(ctx context.Context, id string) (Run, error)
	// Runs are the newest runs first, at most limit, with an id below before
	// ('' for the newest).
	Runs(ctx context.Context, pipeline string, limit int, before string) ([]Run, error)
	// LatestPublished is the published run with the highest version of
	// CURRENT; ErrNotFound if there is none.
	LatestPublished(ctx context.Context, pipeline string) (Run, error)
}

// Ledger is what became of each partition.
type Ledger interface {
	// UpsertLedger enters or replaces entries outside a publication
	// (quarantined, never covered). Fenced. They count as being of the row's
	// CurrentVersion.
	UpsertLedger(ctx context.Context, l Lease, entries []LedgerEntry) error
	// LedgerRange is the entries of partitions in (after, through], oldest
	// first, at most limit. The zero after is no lower bound, the zero through
	// no upper one.
	LedgerRange(ctx context.Context, pipeline, source string, after, through time.Time, limit int) ([]LedgerEntry, error)
	// LedgerCounts is the number of partitions in each state, over all
	// sources but History.
	LedgerCounts(ctx context.Context, pipeline string) (map[string]int64, error)
	// LateObjects are the newest found first, at most limit.
	LateObjects(ctx context.Context, pipeline string, limit int) ([]LateObject, error)
	// CountLate is how many there are.
	CountLate(ctx context.Context, pipeline string) (int64, error)
}

// Objects remembers the objects that cannot be read.
type Objects interface {
	// RecordFailures adds one failure of run runID to each object and returns
	// their states, in the order given. The same run counts once. An object
	// that reaches skipAfter failures (0: never) becomes skipped, audited.
	// Fenced.
	RecordFailures(ctx context.Context, l Lease, runID string, failed []ObjectFailure, skipAfter int) ([]ObjectState, error)
	// ClearFailures forgets the failures of objects that were read. Skips
	// stay. Fenced.
	ClearFailures(ctx context.Context, l Lease, read []ObjectRef) error
	// SkipObject skips one version of an object by hand, audited.
	SkipObject(ctx context.Context, pipeline string, o ObjectRef, c Change) error
	// UnskipObject undoes it, and forgets the failures. ErrNotFound if it is
	// not skipped.
	UnskipObject(ctx context.Context, pipeline string, o ObjectRef, c Change) error
	// ObjectStates are all objects with failures or a skip, by key.
	ObjectStates(ctx context.Context, pipeline string) ([]ObjectState, error)
}

// Audit is the append-only trail.
type Audit interface {
	// AppendAudit adds an entry; the same id again is no change, and ErrReused where
	// that is the id of another action. So are the ids of all calls that audit.
	AppendAudit(ctx context.Context, e AuditEntry) error
	// AuditTrail is the newest entries first, at most limit, with a Seq below
	// before (0 for the newest). An empty pipeline means all.
	AuditTrail(ctx context.Context, pipeline string, limit int, before int64) ([]AuditEntry, error)
}

// Intents are resets and rollbacks on their way into CURRENT.
type Intents interface {
	// CreateIntent writes the intent and its audit entry in one transaction;
	// that of a rollback also bars the generation and pauses the pipeline, as
	// the intent says, so that nothing undoes what it is about to do.
	// ErrNotPaused if a reset finds the pipeline running, ErrStaleVersion
	// unless its row is at expectedVersion, ErrConflict while another intent
	// is pending. It raises the row's version. Idempotent by the intent's id.
	CreateIntent(ctx context.Context, in Intent, expectedVersion int64) (Intent, error)
	// PendingIntents are those to be carried out, oldest first.
	PendingIntents(ctx context.Context, pipeline string) ([]Intent, error)
	// FinishIntent makes a pending intent applied or failed, audited. Fenced.
	// A rollback that failed lifts the bar it raised; a pause stays. The same
	// state again is no change, the other one ErrConflict.
	FinishIntent(ctx context.Context, l Lease, id string, state IntentState, note string) error
	// IntentByID finds one; ErrNotFound.
	IntentByID(ctx context.Context, id string) (Intent, error)
}

// Requests is the queue to the leader of a pipeline.
type Requests interface {
	// Enqueue adds a request, idempotent by its id; ErrReused where that is the id
	// of one that asks for something else.
	Enqueue(ctx context.Context, r Request) error
	// TakeRequests are all requests that are not finished, oldest first, now
	// taken by this lease. A request may be seen twice: by two calls, and by
	// the next leader when one dies.
	TakeRequests(ctx context.Context, l Lease) ([]Request, error)
	// FinishRequest ends one as done or failed, with a JSON result. Fenced.
	FinishRequest(ctx context.Context, l Lease, id string, state RequestState, result json.RawMessage) error
	// RequestByID finds one; ErrNotFound.
	RequestByID(ctx context.Context, id string) (Request, error)
}

// Instances are the processes that share the store, for status only.
type Instances interface {
	// Heartbeat enters the instance as seen now.
	Heartbeat(ctx context.Context, i Instance) error
	// Instances are those seen within the given time, by id.
	Instances(ctx context.Context, within time.Duration) ([]Instance, error)
	// ForgetInstance removes one that ends.
	ForgetInstance(ctx context.Context, id string) error
}
