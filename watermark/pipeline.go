package watermark

import "time"

// ManifestRef names a manifest by key (relative to the output root) and the
// lower-case hex SHA-256 of its bytes. The zero value means none.
type ManifestRef struct {
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
}

// Pipeline is the row of one pipeline: the state store's copy of CURRENT and
// the switches that people set.
type Pipeline struct {
	Name string
	// Source is '' until a pipeline can have several co-grouped sources.
	Source string
	// Watermark is that of the pane CURRENT names, Progress what the next run
	// compares with; zero before the first pane.
	Watermark time.Time
	Progress  time.Time
	// Version rises by one with every change of this row: the ETag of
	// plan/apply. A pause, a resume, a publication and an intent change it.
	Version int64
	// CurrentVersion is the version of CURRENT that this row copies.
	CurrentVersion int64
	RunID          string
	Manifest       ManifestRef
	ConfigHash     string
	Paused         bool
	PauseReason    string
	PausedBy       string
	PausedAt       time.Time
	UpdatedAt      time.Time
}

// Change says who wants something and why; every audited method takes one.
type Change struct {
	// ID (a ULID) makes the call idempotent.
	ID     string
	Actor  string
	Reason string
}

// CurrentCopy is what CURRENT says, as far as the state store copies it.
type CurrentCopy struct {
	Version    int64
	RunID      string
	Watermark  time.Time
	Progress   time.Time
	Manifest   ManifestRef
	ConfigHash string
}
