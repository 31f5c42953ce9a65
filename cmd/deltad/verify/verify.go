// Package verify proves a live index against the buckets: that what CURRENT
// leads to is there byte for byte and says what its manifests say, and that
// delta and base together speak for every partition that can be seen.
//
// What it promises:
//
//  1. It writes nothing, anywhere.
//  2. A check that passes was made in full: a file is read to its end, an
//     object that a listing lacks is asked for by name. What could not be
//     looked at because an earlier check failed is said to be unproven.
//  3. An outage is an error, never a finding: a store that does not answer
//     proves nothing.
//  4. It can run beside a daemon. The source is listed before CURRENT is read,
//     so that what a run has published in between is not taken for missing.
//     What is newer than the watermark is the next run's and no finding.
//
// Memory stays within a file of documents and a block of each run.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// The checks, in the order in which they are made.
const (
	CheckCurrent       = "current"        // CURRENT is there and can be read
	CheckManifests     = "manifests"      // pane and bases belong together, and their manifests to CURRENT
	CheckJournal       = "journal"        // the state store has the live pane as published
	CheckCoverage      = "coverage"       // each visible partition is covered, or named as not
	CheckLedger        = "ledger"         // the ledger says of each partition what the manifest says
	CheckLost          = "lost"           // what the pane was made of is still there
	CheckUnread        = "unread"         // what is there was read
	CheckStale         = "stale"          // what the base read is there as it was, or named
	CheckFiles         = "files"          // each file has its size and hash
	CheckKeys          = "keys"           // its keys ascend, and are those that the manifest says
	CheckState         = "state"          // accumulators and kept slices are whole
	CheckRecompute     = "recompute"      // the pane's inputs make its files
	CheckRecomputeBase = "recompute_base" // the base's inputs make its files
)

// Status is how a check ended.
type Status string

// The statuses.
const (
	Passed   Status = "passed"
	Failed   Status = "failed"
	Unproven Status = "unproven" // it could not be made
)

// Check is one answer.
type Check struct {
	Name   string `json:"check"`
	Status Status `json:"status"`
	// Detail says what was looked at, or why nothing was.
	Detail string `json:"detail"`
	// Findings are what is wrong, the first MaxFindings of Found.
	Findings []string `json:"findings"`
	Found    int      `json:"found"`
}

// MaxFindings is the most that a check names.
const MaxFindings = 20

// Source lists the raw data; *source.Source is one.
type Source interface {
	Scan(ctx context.Context, now, after time.Time) (source.Listing, error)
	ConfirmGone(ctx context.Context, keys []string) ([]string, error)
}

// Engine computes again; *microbatch.Pipeline is one.
type Engine interface {
	Recompute(ctx context.Context, m sink.Manifest) (microbatch.Recomputed, error)
	RecomputeRows(ctx context.Context, m sink.Manifest, each func(docs, tombstones *column.Batch) error) (microbatch.Recomputed, error)
	RecomputeBase(ctx context.Context, m sink.Manifest, tombstones time.Duration) (sink.Manifest, error)
	RecomputeBaseRows(ctx context.Context, m sink.Manifest, tombstones time.Duration, each func(docs *column.Batch) error) (sink.Manifest, error)
}

// State is what is asked of the state store.
type State interface {
	watermark.Journal
	watermark.Ledger
}

// Subject is the pipeline that is verified. All is required but Since and
// Retention.
type Subject struct {
	Name string
	// Out is the output's store, Raw the source's.
	Out, Raw store.Store
	Source   Source
	State    State
	// Window is window.size; Since is the first partition that exists, zero for
	// no bound; Retention is how long the source keeps objects, 0 for ever.
	Window    time.Duration
	Since     time.Time
	Retention time.Duration
	// Tombstones is full.tombstones.
	Tombstones time.Duration
	Combiners  map[string]combine.Builder
	Engine     Engine
}

// Options say what is to be looked at.
type Options struct {
	Now time.Time
	// Fresh is how young an object may be that no run has read yet.
	Fresh time.Duration
	// All lists the source's whole history; else what a run lists.
	All bool
	// Recompute computes the pane again, RecomputeBase the base.
	Recompute, RecomputeBase bool
	// Progress is told how much is done; nil for nobody.
	Progress func(what string, done, total int64)
}

// verifier is one verification.
type verifier struct {
	Subject
	Options
	tell func(Check) error
	ok   bool
}

// Run makes all checks and tells each. ok says that none failed. The error is
// one of looking: then nothing is known of what was not told.
func Run(ctx context.Context, s Subject, o Options, tell func(Check) error) (ok bool, err error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	v := &verifier{Subject: s, Options: o, tell: tell, ok: true}
	if err := v.run(ctx); err != nil {
		return false, err
	}
	return v.ok, nil
}

func (v *verifier) run(ctx context.Context) error {
	ev, err := v.look(ctx)
	if err != nil {
		return err
	}
	if !ev.live {
		return nil // there is nothing to be proven, or nothing can be
	}
	for _, check := range []func(context.Context, *evidence) error{v.journal, v.bucket, v.data, v.again} {
		if err := check(ctx, ev); err != nil {
			return err
		}
	}
	return nil
}

// again computes what was asked for.
func (v *verifier) again(ctx context.Context, ev *evidence) error {
	if v.Recompute {
		if err := v.recompute(ctx, ev); err != nil {
			return err
		}
	}
	if v.RecomputeBase {
		return v.recomputeBase(ctx, ev)
	}
	return nil
}

// finder gathers the findings of one check.
type finder struct {
	name  string
	found []string
	n     int
}

func find(name string) *finder { return &finder{name: name} }

func (f *finder) add(format string, args ...any) {
	if f.n++; len(f.found) < MaxFindings {
		f.found = append(f.found, fmt.Sprintf(format, args...))
	}
}

// settle takes an error of looking: an outage is handed back, everything else
// is a finding.
func (f *finder) settle(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	// An object that changed is tried again by a run, and is a finding here.
	if ctx.Err() != nil || blame.Refused(err) || blame.Outage(err) && !errors.Is(err, source.ErrChanged) {
		return err
	}
	f.add("%v", err)
	return nil
}

// end tells how a check ended.
func (v *verifier) end(f *finder, detail string, args ...any) error {
	c := Check{Name: f.name, Status: Passed, Detail: fmt.Sprintf(detail, args...), Findings: slices.Clone(f.found), Found: f.n}
	if f.n > 0 {
		c.Status, v.ok = Failed, false
	}
	if c.Findings == nil {
		c.Findings = []string{}
	}
	return v.tell(c)
}

// unproven tells that checks were not made. They do not fail by themselves:
// what kept them from being made did.
func (v *verifier) unproven(why string, names ...string) error {
	for _, name := range names {
		if err := v.tell(Check{Name: name, Status: Unproven, Detail: why, Findings: []string{}}); err != nil {
			return err
		}
	}
	return nil
}

// rest are the checks from one on that were asked for.
func (v *verifier) rest(from string) []string {
	all := []string{
		CheckCurrent, CheckManifests, CheckJournal, CheckCoverage, CheckLedger, CheckLost, CheckUnread, CheckStale, CheckFiles, CheckKeys, CheckState,
	}
	if v.Recompute {
		all = append(all, CheckRecompute)
	}
	if v.RecomputeBase {
		all = append(all, CheckRecomputeBase)
	}
	return all[slices.Index(all, from):]
}
