package configs

import (
	"maps"
	"time"
)

// OutputFormat is the number of the format in which panes are written. It is
// part of every Hash: raising it makes each pipeline publish anew.
const OutputFormat = 2

// Config is a whole configuration file. A Config that Load returned has its
// defaults filled in; whether it obeys the rules is for Validate to say.
type Config struct {
	State   State   `yaml:"state"`
	Limits  Limits  `yaml:"limits"`
	Cache   Cache   `yaml:"cache"`
	Admin   Admin   `yaml:"admin"`
	Restart Restart `yaml:"restart"`
	// Pipelines are in the order of the file; their names are unique.
	Pipelines []*Pipeline `yaml:"pipelines"`
}

// Pipeline returns the pipeline of that name.
func (c *Config) Pipeline(name string) (*Pipeline, bool) {
	for _, p := range c.Pipelines {
		if p.Name == name {
			return p, true
		}
	}
	return nil, false
}

// State is where watermark, lease, runs and ledger are kept.
type State struct {
	// URL is postgres://user@host/db?… or sqlite:///absolute/path.
	URL string `yaml:"url"`
	// PasswordFile holds the database password; see State.Password.
	PasswordFile string `yaml:"password_file"`
}

// Limits bound the whole process, not each pipeline.
type Limits struct {
	// Memory is the budget in bytes; 0 is auto: what the cgroup allows.
	Memory Size `yaml:"memory,auto"`
	// Workers is how many goroutines may compute at once; 0 is auto: the
	// processors the cgroup allows.
	Workers int `yaml:"workers,auto"`
}

// Cache is the local copy of slices. It may be lost at any time.
type Cache struct {
	// Dir is an absolute path; empty means no local cache.
	Dir string `yaml:"dir"`
	// Size bounds the bytes kept in Dir.
	Size Size `yaml:"size"`
}

// Admin is the HTTP endpoint.
type Admin struct {
	// Listen is host:port; empty means no endpoint. Without a token only
	// loopback addresses are accepted.
	Listen string `yaml:"listen"`
	// TokenFile holds the bearer token; see Admin.Token.
	TokenFile string `yaml:"token_file"`
}

// Restart modes.
const (
	RestartAuto = "auto" // exit as PID 1 or in Kubernetes, else exec
	RestartExec = "exec" // run the binary now on disk in this process
	RestartExit = "exit" // exit and leave the restart to the supervisor
)

// Restart is the planned restart of a healthy process.
type Restart struct {
	// Every is the time between planned restarts; 0 turns them off.
	Every time.Duration `yaml:"every"`
	// Jitter is added to Every, evenly spread between 0 and itself.
	Jitter time.Duration `yaml:"jitter"`
	Mode   string        `yaml:"mode"`
}

// Pipeline is one stream of partitions and the index made of it.
type Pipeline struct {
	Name    string  `yaml:"-"`
	Source  Source  `yaml:"source"`
	Trigger Trigger `yaml:"trigger"`
	Window  Window  `yaml:"window"`
	Index   Index   `yaml:"index"`
	Errors  Errors  `yaml:"errors"`
	// Full is nil where the file has no such section: the pipeline then has
	// no base, and its deltas are all there is.
	Full   *Full  `yaml:"full"`
	Guards Guards `yaml:"guards"`
	Output Output `yaml:"output"`
}

// Formats of source objects.
const (
	FormatParquet = "parquet"
	FormatNDJSON  = "ndjson"
	FormatCSV     = "csv"
)

// Source is where partitions appear.
type Source struct {
	// URL is s3://bucket/path or file:///path; see ParseLocation.
	URL string `yaml:"url"`
	// Prefixes below URL, each with the same layout; empty means URL itself.
	Prefixes []string `yaml:"prefixes"`
	S3       S3       `yaml:"s3"`
	// Layout is the pattern below each prefix that maps partitions to paths.
	Layout string `yaml:"layout"`
	// Granularity is the length of a partition; 0 is inferred from Layout.
	// See Pipeline.Granule.
	Granularity time.Duration `yaml:"granularity"`
	// TimeZone is the IANA zone in which Layout is written.
	TimeZone string `yaml:"time_zone"`
	Format   string `yaml:"format"`
	// Retention is how long the producers keep objects; 0 is unknown. It is
	// used for checks alone.
	Retention time.Duration `yaml:"retention"`
	// MaxFutureSkew is how far ahead of the clock a partition may start; nil
	// is the smaller of one granule and one minute. See Pipeline.FutureSkew.
	MaxFutureSkew *time.Duration `yaml:"max_future_skew"`
	// Settle, unless 0, is how long after its end a partition becomes
	// eligible.
	Settle time.Duration `yaml:"settle"`
}

// Checksum settings of an S3 client.
const (
	ChecksumWhenRequired  = "when_required"
	ChecksumWhenSupported = "when_supported"
)

// S3 are the options of an S3 client. Credentials come from the usual chain
// (environment, shared files, instance role), never from this file.
type S3 struct {
	Region        string `yaml:"region"`
	Endpoint      string `yaml:"endpoint"`
	PathStyle     bool   `yaml:"path_style"`
	Profile       string `yaml:"profile"`
	RoleARN       string `yaml:"role_arn"`
	ExternalID    string `yaml:"external_id"`
	RequesterPays bool   `yaml:"requester_pays"`
	ExpectedOwner string `yaml:"expected_owner"`
	CAFile        string `yaml:"ca_file"`
	// Checksum is when_required (understood by every store) or
	// when_supported.
	Checksum string `yaml:"checksum"`
}

// Trigger is the clock of a pipeline: Every or Cron, never both.
type Trigger struct {
	// Every is the interval; it is 0 if and only if Cron is set.
	Every time.Duration `yaml:"every"`
	// Cron has five fields, or six with seconds first. See ParseCron.
	Cron     string `yaml:"cron"`
	TimeZone string `yaml:"time_zone"`
	// Timeout ends a run.
	Timeout time.Duration `yaml:"timeout"`
}

// What a run does where the window would pass window.max.
const (
	GapRebuild = "rebuild" // with a base: publish all of it, alarm, start one full rebuild
	GapSkip    = "skip"    // without a base: leave a hole that manifest and ledger name
	GapFail    = "fail"    // hold the last pane
)

// Window is what a run recomputes.
type Window struct {
	Size time.Duration `yaml:"size"`
	// Max is 0 where the file does not set it; see Pipeline.WindowMax.
	Max time.Duration `yaml:"max"`
	// OnGap is empty where the file does not set it; see Pipeline.GapPolicy.
	OnGap string `yaml:"on_gap"`
}

// WindowingGlobal is the only windowing so far: one document a key.
const WindowingGlobal = "global"

// Index is what documents are made of.
type Index struct {
	// Key are the columns that make the index key, in order.
	Key       []string  `yaml:"key"`
	EventTime EventTime `yaml:"event_time"`
	// Where keeps the records for which it is true; empty keeps all.
	Where string `yaml:"where"`
	// DeleteWhen says of a record whether it deletes its key.
	DeleteWhen string `yaml:"delete_when"`
	Windowing  string `yaml:"windowing"`
	// Fields are in the order of the file, which is that of the document.
	Fields []Field `yaml:"fields"`
}

// Units of an integer event time.
const (
	UnitSeconds = "s"
	UnitMillis  = "ms"
	UnitMicros  = "us"
	UnitNanos   = "ns"
)

// EventTime is the column that orders records. An empty Column means that the
// start of the partition serves.
type EventTime struct {
	Column string
	// Unit is that of an integer column; empty means that the column holds
	// timestamps or RFC 3339 text.
	Unit string
}

// Names of combine fns that this package treats in their own way.
const (
	FnExpr    = "expr"
	FnCollect = "collect"
	FnCount   = "count"
)

// Field is one field of a document: a combine fn, what it reads, and its
// options.
type Field struct {
	Name string
	// Fn is the name of the combine fn; FnExpr for a field computed from
	// other fields of the document.
	Fn string
	// Columns are what Fn reads; none for Star, FnExpr and FnCollect.
	Columns []string
	// Star is true for "*": Fn reads whole records.
	Star bool
	// Expr is the expression of FnExpr.
	Expr string
	// By and Fields are of FnCollect: the column that names a sub-entity and
	// the fields of each, which have no Over. DeleteWhen says of a record
	// whether it deletes its sub-entity.
	By         []string
	Fields     []Field
	DeleteWhen string
	// Over is how far back the field reaches; 0 is all. OverSet tells
	// "over: all" from silence.
	Over    time.Duration
	OverSet bool
	// Where keeps the records for which it is true; empty keeps all.
	Where string
	// Optional allows the columns to be missing from an object.
	Optional bool
	// NullsKeep is "nulls: keep": a null value can win.
	NullsKeep bool
	// Params are every other key, for the combine fn to judge: bool, int64,
	// float64, string, or []any of these.
	Params map[string]any
}

// What happens to bad objects and bad rows.
const (
	ErrorsFail   = "fail"
	ErrorsSkip   = "skip"   // objects
	ErrorsReject = "reject" // rows
)

// Errors is what happens to bad input.
type Errors struct {
	// Object is fail or skip.
	Object string `yaml:"object"`
	// SkipAfter is after how many failed runs an object is skipped although
	// Object is fail; 0 is never.
	SkipAfter int `yaml:"skip_after"`
	// Row is fail or reject.
	Row string `yaml:"row"`
	// RejectLimit is the share of a run's rows that may be rejected before
	// the run fails.
	RejectLimit Share `yaml:"reject_limit"`
}

// Promotions and answers to a stale base.
const (
	PromoteAuto   = "auto"
	PromoteManual = "manual"
	StaleRebuild  = "rebuild"
	StaleAlarm    = "alarm"
)

// Full is the full index, the base of the deltas.
type Full struct {
	// Schedule is a cron expression; empty means rebuilds by hand.
	Schedule string `yaml:"schedule"`
	TimeZone string `yaml:"time_zone"`
	// Since is the first instant of which partitions exist for the pipeline,
	// inclusive; zero is the beginning.
	Since time.Time `yaml:"since"`
	// Promote is auto or manual.
	Promote string `yaml:"promote"`
	// SupportPreviousFor is how long after a promotion deltas still fit the
	// base before.
	SupportPreviousFor time.Duration `yaml:"support_previous_for"`
	// OnStale is rebuild or alarm.
	OnStale string `yaml:"on_stale"`
	// Tombstones is how long a base remembers deleted keys; 0 is for ever,
	// written "forever".
	Tombstones time.Duration `yaml:"tombstones,forever"`
}

// Guards are limits that a delta must keep to be published; 0 is no limit.
type Guards struct {
	MinDocuments int64 `yaml:"min_documents"`
	MaxDocuments int64 `yaml:"max_documents"`
	// MaxShrink and MaxGrowth are shares of the previous pane's documents.
	MaxShrink Share `yaml:"max_shrink"`
	MaxGrowth Share `yaml:"max_growth"`
}

// ModeAccumulating is the only output mode so far: a pane replaces the one
// before it.
const ModeAccumulating = "accumulating"

// Output is where panes are published.
type Output struct {
	URL    string   `yaml:"url"`
	S3     OutputS3 `yaml:"s3"`
	Retain Retain   `yaml:"retain"`
	Layers Layers   `yaml:"layers"`
	Mode   string   `yaml:"mode"`
}

// OutputS3 are the client options, and what is set on each object written.
type OutputS3 struct {
	S3          `yaml:",inline"`
	SSEKMSKeyID string            `yaml:"sse_kms_key_id"`
	ACL         string            `yaml:"acl"`
	Tags        map[string]string `yaml:"tags"`
}

// Retain is what garbage collection keeps beyond what is in use.
type Retain struct {
	For   time.Duration `yaml:"for"`
	Panes int           `yaml:"panes"`
	Bases int           `yaml:"bases"`
}

// Layers say when a pane is written as what differs from the one before.
type Layers struct {
	// Above is how large a whole pane is from which on that is so.
	Above Size `yaml:"above"`
	// Max is how many such layers lie over a whole pane at most; 0 is none.
	Max int `yaml:"max"`
}

// Options are the settings of the combine fn: Params, and nulls: keep where
// NullsKeep is set. The map is the caller's.
func (f Field) Options() map[string]any {
	options := make(map[string]any, len(f.Params)+1)
	maps.Copy(options, f.Params)
	if f.NullsKeep {
		options["nulls"] = "keep"
	}
	return options
}

// Args is what the combine fn reads as a list: "*" for Star, By for
// FnCollect, else Columns. It is empty for FnExpr.
func (f Field) Args() []string {
	switch {
	case f.Star:
		return []string{"*"}
	case f.Fn == FnCollect:
		return f.By
	}
	return f.Columns
}
