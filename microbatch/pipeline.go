// Package microbatch is deltad's one bounded, deterministic step: on each
// trigger look for the newest eligible partition, recompute the window that
// overlaps the ones before, publish the pane, advance the watermark.
//
// A run is planned apart from being done: Decide is a pure function of
// metadata, and what it returns is what `deltad plan` prints and what a run
// executes.
//
// What a Pipeline promises:
//
//  1. At most one partition advance per trigger, to the newest; what it skips
//     is inside the coverage of every pane for a window (package window).
//  2. Nothing of a run is visible before its conditional put of CURRENT, and
//     all of it after. A failed run changes nothing visible.
//  3. An idle run writes nothing anywhere, but for the journal where the
//     leader before died between its change of CURRENT and telling of it.
//  4. The bytes of a pane are a function of configuration, coverage and
//     inputs: not of order, workers, cache or clock.
//  5. One goroutine per pipeline makes every change of CURRENT, under a lease
//     and its fencing epoch; after losing it nothing more is written.
//  6. Nothing is a permanent stop: outages are tried again at every trigger,
//     other failures back off, and a panic fails that run alone. The one
//     exception is the canary, which pauses the pipeline when two folds of a
//     key do not agree for the second time in a row.
//
// It imports no driver: stores, state and clock come from the caller.
package microbatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/watermark"
)

// Lister finds partitions; *source.Source is one.
type Lister interface {
	Newest(ctx context.Context, now time.Time, after *time.Time) (source.Found, error)
	Scan(ctx context.Context, now, after time.Time) (source.Listing, error)
	ConfirmGone(ctx context.Context, keys []string) ([]string, error)
	// Place is the partition of an object as the source is configured; not ok
	// where the source has no such object.
	Place(key string, size int64) (start time.Time, ok bool)
	// Eligibility is the time rule that Newest and Scan keep to.
	Eligibility() partition.Eligibility
}

// State is what a pipeline needs of the state store.
type State interface {
	watermark.Leases
	watermark.Pipelines
	watermark.Journal
	watermark.Ledger
	watermark.Objects
	watermark.Intents
	watermark.Requests
	watermark.Audit
	watermark.Rebuilds
	watermark.Pins
	StateID(ctx context.Context) (string, error)
}

// What happens to an object that cannot be read.
const (
	ObjectFail = "fail" // the run fails; after SkipAfter of them the object is skipped
	ObjectSkip = "skip" // it is left out at once, and named
)

// Settings are what a Pipeline is made of. All are required unless it says
// otherwise.
type Settings struct {
	Name       string
	Rule       window.Rule
	Calendar   partition.Calendar
	ConfigHash string
	Program    *index.Program
	// Combiners are the combine fns there are: a base's index is compiled
	// again with them.
	Combiners map[string]combine.Builder
	// Since is the start of the first partition that exists for the pipeline;
	// zero is no bound.
	Since time.Time
	// Full says that the pipeline has a full index: candidates are looked for.
	Full bool
	// SupportPrevious is how long after a promotion panes still fit the base
	// before. RebuildOnStale asks for a rebuild where objects that the base
	// read are replaced or gone.
	SupportPrevious time.Duration
	RebuildOnStale  bool
	Format          scan.Format
	ScanLimits      scan.Limits
	// Row says what a bad row means; ObjectErrors is ObjectFail or ObjectSkip,
	// SkipAfter the failed runs after which ObjectFail skips (0: never).
	Row          scan.RowPolicy
	ObjectErrors string
	SkipAfter    int
	// MaxRejectShare bounds the bad rows of a run, as a share of its rows.
	MaxRejectShare float64
	Guards         Guards
	Retain         sink.Retain
	Layers         layers.Settings
	Timeout        time.Duration
	Workers        int
	// CacheBytes bounds the slices kept, in memory or on disk; 0 keeps only the
	// newest.
	CacheBytes int64
	// Memory is what slices and the like may hold in memory, shared by all
	// pipelines of a process; what is beyond goes to files in TempDir (empty:
	// the system's), as do large output files before their upload. Nil is no
	// bound.
	Memory  *spool.Budget
	TempDir string
	// TableBytes bounds the table of one slice being built, of which there are
	// up to Workers at a time; 0 is no bound.
	TableBytes int64
	// WindowBytes bounds what stays in memory between runs: the accumulators of
	// the window, where they need more it is folded anew by every run; its
	// documents, where there is room for them; and in frameShare of it the
	// compressed pages of the pane.
	WindowBytes int64
	// BuildBytes is what slices being built take of memory at most. Half of it
	// the window may have too, until they need it.
	BuildBytes int64
	// NoCache reads everything anew in every run, and keeps nothing.
	NoCache bool
	// KeepSlices keeps the slices of the live pane in the output, where the next
	// process finds them. SliceDir is where this machine keeps them; nil is
	// nowhere. ObserveSlices is told where slices came from and went; nil for
	// nobody.
	KeepSlices    bool
	SliceDir      *shelf.Scope
	ObserveSlices func(tier, outcome string, n int)

	Lister Lister
	Open   slice.Opener
	Sink   *sink.Sink
	State  State

	Log *zap.Logger
	// Documents reads the documents of a live pane back, in batches.
	Documents func(ctx context.Context, m sink.Manifest, emit func(*column.Batch) error) error
	// Probe is asked before the first claim of all creates CURRENT: whether the
	// output honours the conditions that publishing rests on. nil is yes.
	Probe func(ctx context.Context) error
	// Trace is told where a run stands, for tests; nil for nobody.
	Trace func(step string)
	// Observe is told every outcome; nil for nobody.
	Observe func(Report)
	// Busy is told that a step begins and, by calling done, that it has ended,
	// so that what is less urgent can wait; nil for nobody. It must not block.
	Busy func() (done func())
	// NewID returns a ULID never returned before. It is safe for concurrent use.
	NewID    func() string
	Build    string
	Instance string
	LeaseTTL time.Duration
	// Grace is how long a run in hand may go on after a stop was asked for.
	Grace time.Duration
}

// Pipeline takes steps for one pipeline. Step and Serve must not be called
// concurrently; Poke may be.
type Pipeline struct {
	set       Settings
	builder   slice.Builder
	cache     *slice.Cache
	rolling   *window.Rolling
	poke      chan struct{}
	backoff   backoff
	doubt     doubt
	collector *sink.Collector
	frames    *parquet.Frames // nil where nothing is kept
	waiting   *spool.Budget   // of files of panes on their way
	rows      rowLog
	types     []column.Type // those of the last run
	bound     *index.Bound  // at boundAt, which they were too unless it failed
	boundAt   []column.Type
	late      lateZone
	telling   slice.Window // whose rejected rows the run in hand has written
	garbage   collection
	shelf     shelved
	places    places // of slices on the shelf
	seen      memory
	bases     generations
	gone      map[string]bool   // objects known to be gone while no listing has them
	lost      map[ObjectID]bool // carried objects that are gone, slice and all
	spoiled   map[string]bool   // slices of the live pane that could not be read
	told      map[string]bool   // what was said, of bases and of spellings
	heldWhy   string            // why the last step was held; empty if it was not
	// unfit are candidates that cannot be promoted, until when; zero is for good.
	unfit map[string]time.Time
}

// New returns a pipeline; it does no I/O and starts nothing.
func New(set Settings) *Pipeline {
	if set.Observe == nil {
		set.Observe = func(Report) {}
	}
	if set.Busy == nil {
		set.Busy = func() func() { return func() {} }
	}
	hasher, frames := window.NewHasher(), set.WindowBytes/frameShare
	p := &Pipeline{
		set: set,
		builder: slice.Builder{
			Program: set.Program, Format: set.Format, Row: set.Row, Limits: set.ScanLimits, Open: set.Open,
			Dir: set.TempDir, Memory: set.Memory, TableBytes: set.TableBytes, Reuse: &slice.Reuse{},
		},
		rolling: window.NewRolling(window.RollingOptions{
			Budget: set.WindowBytes + set.BuildBytes/2 - frames, Granule: set.Calendar.Granularity(), Dir: set.TempDir, Memory: set.Memory, Hasher: hasher,
			Workers: set.Workers,
		}),
		rows:      rowLog{hasher: hasher},
		poke:      make(chan struct{}, 1),
		collector: sink.NewCollector(set.Sink),
		waiting:   spool.NewBudget(set.WindowBytes / waitingShare),
	}
	if !set.NoCache {
		p.frames = parquet.NewFrames(frames)
	}
	p.newShelf()
	return p
}

// frameShare is which part of the window's memory is for compressed pages, and
// waitingShare how much beside it is for files that wait for their upload.
const (
	frameShare   = 16
	waitingShare = 16
)

// Outcome is how a step ended.
type Outcome string

// The outcomes.
const (
	Advanced Outcome = "advanced"
	Refined  Outcome = "refined"
	WasIdle  Outcome = "idle"
	Standby  Outcome = "standby"
	WasHeld  Outcome = "held"
	Failed   Outcome = "failed"
)

// Report is what one step did.
type Report struct {
	Pipeline string
	Outcome  Outcome
	// Why says it to people.
	Why string
	// heldFor is Why without what changes from trigger to trigger; empty where
	// Why is so itself.
	heldFor string
	// Watermark and Progress are those after the step; zero before the first
	// pane. PublishedAt is when the live pane became live.
	Watermark, Progress, PublishedAt time.Time
	Manifest                         string
	// Base is the generation of the live base, Cut its cut and Stale the
	// objects of it that were replaced or are gone; empty without a base.
	Base  string
	Cut   time.Time
	Stale int64
	// RunID and the rest are set where a pane was published.
	RunID     string
	Documents int64
	Counts    sink.Counts
	// Slices are the window's, Reused those that no object was read for.
	Slices, Reused int
	Duration       time.Duration
	// Listing facts.
	Uncovered   int
	Quarantined int
	Skipped     int   // objects that the live pane leaves out
	Late        int64 // found by this step: outside the coverage, or after settle had passed
	// LateWaiting are those of this step and of steps before that the state store
	// does not have yet: the next publication enters them.
	LateWaiting int64
	Prefixes    []source.PrefixState
	// Lagging are the prefixes more than half a window behind the newest
	// partition, Clashes the partitions that are spelled in several ways.
	Lagging   []string
	Clashes   []source.Clash
	ListCalls int
	Epoch     int64
	Err       error
	// StateErr says that the pane is live and the state store could not be
	// told; the next step tells it.
	StateErr error
}

// memory is what a leader remembers of CURRENT between steps.
type memory struct {
	head sink.Head
	live *sink.Manifest
	ref  sink.Ref
	// fresh is CURRENT as read under the lease and not yet looked at.
	fresh *sink.Head
	// claimed says that CURRENT is this tenure's; reconciled that the state
	// store is known to agree with it.
	claimed, reconciled bool
	// inherited says that this tenure knows what CURRENT names to be
	// journalled, or that it is not for settlePredecessor to say so.
	inherited bool
	// unsettled is the version of CURRENT on which a change was planned whose
	// outcome is not known; while CURRENT has it, the change may still come
	// about, and only another claim rules that out. 0 is none.
	unsettled int64
}

// term is one step's right to write.
type term struct {
	lease watermark.Lease
	me    sink.Owner
}

// refresh reads CURRENT and, if it names another pane than before, its
// manifest.
func (p *Pipeline) refresh(ctx context.Context) error {
	if head := p.seen.fresh; head != nil {
		p.seen.fresh = nil
		return p.take(ctx, *head)
	}
	head, err := p.set.Sink.Head(ctx)
	if err != nil {
		return err
	}
	return p.take(ctx, head)
}

// take remembers a CURRENT.
func (p *Pipeline) take(ctx context.Context, head sink.Head) error {
	p.seen.fresh = nil
	if head.Delta == nil {
		p.seen.head, p.seen.live, p.seen.ref = head, nil, sink.Ref{}
		return nil
	}
	ref := head.Delta.Ref()
	if p.seen.live == nil || p.seen.ref != ref {
		m, err := p.set.Sink.ReadManifest(ctx, ref)
		if err == nil {
			err = p.set.Sink.LoadInputs(ctx, &m)
		}
		if err != nil {
			return fmt.Errorf("read the live pane: %w", err)
		}
		p.seen.live, p.seen.ref = &m, ref
	}
	p.seen.head = head
	return nil
}

func (p *Pipeline) progress() time.Time {
	if p.seen.head.Progress == nil {
		return time.Time{}
	}
	return p.seen.head.Progress.Time
}

// look reads CURRENT for the first refresh of a tenure and returns its epoch.
func (p *Pipeline) look(ctx context.Context) (epoch int64, err error) {
	p.seen.fresh = nil
	head, err := p.set.Sink.Head(ctx)
	if errors.Is(err, sink.ErrLostCurrent) {
		return 0, nil // claiming will refuse, with guidance
	}
	if err != nil {
		return 0, err
	}
	p.seen.fresh = &head
	return head.Owner.Epoch, nil
}

// Poke asks for a step as soon as possible.
func (p *Pipeline) Poke() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}
