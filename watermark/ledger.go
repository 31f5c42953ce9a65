package watermark

import "time"

// History is the Source and State of the lines of partitions that were there
// before the first coverage of a pipeline, which are no part of what became of
// the others: only a later object there is told by them.
const History = "(history)"

// LedgerEntry is what became of one partition.
type LedgerEntry struct {
	// Source is '' until a pipeline can have several, or History.
	Source    string
	Partition time.Time
	// Fingerprint is the partition's as last committed; '' if it never was.
	Fingerprint string
	// State is one of the ledger states of package partition.
	State string
	// RunID is the run that says so.
	RunID   string
	Objects int
	// Members are the digests of the objects behind the fingerprint, so that a
	// later run can name the one that it lacks; opaque text, '' if none.
	Members string
	Note    string
	// UpdatedAt is set by the store.
	UpdatedAt time.Time
}

// LateObject is an object found outside every rule of coverage. It is counted
// once for each (key, ETag), whoever finds it again.
type LateObject struct {
	Source    string
	Key       string
	ETag      string
	Partition time.Time
	// RunID and FoundAt are set by the store.
	RunID   string
	FoundAt time.Time
}

// ObjectState is what is remembered of an object that could not be read.
// It is about one ETag: a replaced object starts with a clean slate.
type ObjectState struct {
	Source string
	Key    string
	ETag   string
	// Failures is how many runs in a row failed on it.
	Failures  int
	LastRunID string
	LastError string
	FirstAt   time.Time
	LastAt    time.Time
	// SkippedAt is zero unless the object is skipped: it is due again when its
	// ETag changes or the skip is undone, never by time.
	SkippedAt  time.Time
	SkippedBy  string
	SkipReason string
}

// ObjectFailure is one object that made a run fail.
type ObjectFailure struct {
	Source string
	Key    string
	ETag   string
	Error  string
}

// ObjectRef names one version of one object.
type ObjectRef struct {
	Source string
	Key    string
	ETag   string
}
