package watermark

import (
	"encoding/json"
	"time"
)

// AuditEntry is one line of the append-only trail.
type AuditEntry struct {
	// Seq orders the trail and is set by the store, as is At.
	Seq int64
	At  time.Time
	// ID (a ULID) makes appending idempotent.
	ID     string
	Actor  string
	Action string
	// Pipeline is '' for what concerns the whole store.
	Pipeline string
	Reason   string
	// Details is a JSON object; nil means {}.
	Details json.RawMessage
}

// IntentState is where an intent stands.
type IntentState string

const (
	// IntentPending waits for a leader to carry it out.
	IntentPending IntentState = "pending"
	// IntentApplied is visible in CURRENT. Final.
	IntentApplied IntentState = "applied"
	// IntentFailed was given up, with a note. Final.
	IntentFailed IntentState = "failed"
)

// IntentKind is what an intent decides.
type IntentKind string

const (
	// IntentReset sets progress, and needs the pipeline paused.
	IntentReset IntentKind = "reset"
	// IntentRollback publishes a former pane again.
	IntentRollback IntentKind = "rollback"
)

// Intent is a manual reset or rollback that was decided and audited, and that
// a leader carries out.
type Intent struct {
	// ID (a ULID) makes creation idempotent.
	ID       string
	Pipeline string
	// Kind is reset if it is empty.
	Kind IntentKind
	// Target is the progress to set; zero means null, from nothing.
	Target time.Time
	// Pane is the manifest that a rollback copies.
	Pane ManifestRef
	// Bar is the generation that a rollback to another base leaves and that
	// must not be promoted again by itself. Pause stops the pipeline, for a
	// rollback to a pane. A rollback has at least one of the two.
	Bar   string
	Pause bool
	// Digest is that of the plan which was shown to the caller.
	Digest         string
	Actor          string
	Reason         string
	AcceptDataLoss bool
	// Details is a JSON object for the audit trail; nil means {}.
	Details json.RawMessage

	// The rest is set by the store.
	State      IntentState
	Note       string
	CreatedAt  time.Time
	FinishedAt time.Time
}

// RequestState is where a request stands.
type RequestState string

const (
	// RequestPending was not seen by a leader yet.
	RequestPending RequestState = "pending"
	// RequestTaken is being carried out; a later leader takes it again.
	RequestTaken RequestState = "taken"
	// RequestDone was carried out. Final.
	RequestDone RequestState = "done"
	// RequestFailed was given up, its result says why. Final.
	RequestFailed RequestState = "failed"
)

// Request asks the leader of a pipeline for something (trigger, gc).
type Request struct {
	// ID (a ULID) makes queueing idempotent.
	ID       string
	Pipeline string
	Kind     string
	Actor    string
	Reason   string
	// Args is a JSON object; nil means {}.
	Args json.RawMessage

	// The rest is set by the store.
	State      RequestState
	TakenEpoch int64
	Result     json.RawMessage
	CreatedAt  time.Time
	FinishedAt time.Time
}

// Instance is one process that shares this store, for status.
type Instance struct {
	ID    string
	Host  string
	PID   int
	Build string
	Role  string
	// Details is a JSON object; nil means {}.
	Details json.RawMessage

	// The rest is set by the store.
	StartedAt time.Time
	SeenAt    time.Time
}
