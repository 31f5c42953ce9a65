package microbatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// ResetFacts is everything a ResetPlan is a function of.
type ResetFacts struct {
	Now time.Time
	// Head is CURRENT and Live the manifest it names, with its inputs loaded.
	Head sink.Head
	Live sink.Manifest
	// To is the progress asked for, a partition start.
	To time.Time
	// Newest is the start of the newest visible eligible partition, zero if
	// there is none.
	Newest time.Time
	// Objects are the visible ones, at least those of the partitions between
	// the two progresses and those that the run after the reset would read.
	Objects    []partition.Object
	Listed     partition.Range
	Skip       map[ObjectID]string
	ConfigHash string
	// Bases, Expired, Promote, Breaking, Lost and Since are those of the Facts
	// of the run that would follow.
	Bases    []*Generation
	Expired  []*Generation
	Promote  bool
	Breaking []string
	Lost     map[ObjectID]bool
	Since    time.Time
}

// ResetPlan says what moving progress by hand would mean: what the next run
// then recomputes, what it jumps over, and what no run would read any more.
type ResetPlan struct {
	Pipeline string `json:"pipeline"`
	// From is progress before, To after; Watermark is that of the live pane,
	// which a reset does not touch.
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Watermark time.Time `json:"watermark"`
	// Next is the run that would follow once the pipeline is resumed.
	Next ResetNext `json:"next"`
	// Recomputed is what that run reads, Skipped the part of it that its
	// advance jumps over.
	Recomputed Tally `json:"recomputed"`
	Skipped    Tally `json:"skipped"`
	// Unread are the partitions between From and To with objects that neither
	// the live pane nor a base read. Lost are those of them that no later coverage holds.
	Unread Tally `json:"unread"`
	Lost   Tally `json:"lost"`
	// Gap is the part of (To, Next.Watermark] that window.max cuts off; null
	// if the coverage reaches To.
	Gap *partition.Range `json:"gap"`
	// GapPartitions is how many partitions the calendar has in it.
	GapPartitions int `json:"gap_partitions"`
	// NeedsAcceptance says that carrying it out takes accept_data_loss.
	NeedsAcceptance bool `json:"needs_accept_data_loss"`
	// Digest identifies what a caller agrees to: the move, the pane and
	// configuration it starts from, everything unread and the gap. It does not
	// cover what only grows while producers write: the sizes of what will be
	// recomputed.
	Digest string `json:"digest"`
}

// ResetNext is the run after a reset.
type ResetNext struct {
	Kind      Kind            `json:"kind"`
	Why       string          `json:"why"`
	Watermark time.Time       `json:"watermark"`
	Coverage  partition.Range `json:"coverage"`
}

// maxTold bounds the starts that a Tally lists one by one.
const maxTold = 1000

// Tally is a set of partitions, summed up.
type Tally struct {
	Partitions int   `json:"partitions"`
	Objects    int   `json:"objects"`
	Bytes      int64 `json:"bytes"`
	// First and Last are the oldest and the newest; null if there is none.
	First *time.Time `json:"first"`
	Last  *time.Time `json:"last"`
	// Starts are the oldest of them, at most a thousand.
	Starts []time.Time `json:"starts"`
}

// PlanReset plans a reset of progress to f.To. It is a pure function of its
// facts, and takes the run that follows from Decide.
func PlanReset(rule window.Rule, calendar partition.Calendar, f ResetFacts) (ResetPlan, error) {
	if !calendar.IsStart(f.To) {
		return ResetPlan{}, fmt.Errorf("reset to %s: no partition starts then; the nearest before is %s", text(f.To), text(calendar.Floor(f.To)))
	}
	p := ResetPlan{Pipeline: f.Live.Pipeline, From: f.Head.Progress.Time, To: f.To.UTC(), Watermark: f.Live.Watermark.Time}
	after := sink.ResetManifest(sink.Owner{}, f.Head, f.Live, sink.ResetOptions{To: f.To, Now: f.Now})
	next, err := Decide(rule, calendar, Facts{
		Now: f.Now, Live: &after, Progress: f.To, Newest: f.Newest, Objects: f.Objects, Listed: f.Listed, Skip: f.Skip,
		ConfigHash: f.ConfigHash, Bases: f.Bases, Expired: f.Expired, Promote: f.Promote, Breaking: f.Breaking, Lost: f.Lost, Since: f.Since,
	})
	if err != nil {
		return ResetPlan{}, fmt.Errorf("plan the run after a reset to %s: %w", text(f.To), err)
	}
	p.Next = ResetNext{Kind: next.Kind, Why: next.Why, Watermark: next.Watermark, Coverage: next.Coverage.Range}
	var reread []partition.Object
	if next.Kind != Idle {
		for _, in := range next.Inputs {
			reread = append(reread, in.Objects...)
		}
	}
	p.Recomputed = tally(reread)
	p.Skipped = tally(slices.DeleteFunc(slices.Clone(reread), func(o partition.Object) bool { return !slices.ContainsFunc(next.Skips, o.Partition.Equal) }))
	unread := unreadBetween(f, partition.Range{From: p.From, To: p.To})
	p.Unread = tally(unread)
	horizon := next.Coverage.Range
	if next.Kind != Advance && next.Kind != Held {
		// Nothing newer is there yet: the earliest advance is to the partition
		// after To, and every later one covers less.
		c, err := rule.Advance(pastOf(&after, f.To), calendar.Next(f.To), oldestCut(f.Bases, rule.Longest), false)
		if err == nil {
			horizon = c.Range
		}
	}
	p.Lost = tally(slices.DeleteFunc(slices.Clone(unread), func(o partition.Object) bool {
		return horizon.Contains(o.Partition) || len(f.Bases) > 0 && f.Bases[0].Unread(o) // what a base did not read stays an input
	}))
	if p.Gap = next.Coverage.Gap; p.Gap != nil {
		p.GapPartitions = calendar.Count(*p.Gap)
	}
	p.NeedsAcceptance = p.Unread.Partitions > 0 || p.Gap != nil
	p.Digest, err = p.digest(f, unread)
	return p, err
}

// unreadBetween are the objects of a range that the live pane neither read nor
// skipped, and that no base has.
func unreadBetween(f ResetFacts, r partition.Range) []partition.Object {
	known := map[ObjectID]bool{}
	for _, in := range f.Live.Inputs {
		known[ObjectID{in.Key, in.ETag, in.Bytes}] = true
	}
	for _, s := range f.Live.Skipped {
		known[ObjectID{s.Key, s.ETag, s.Bytes}] = true
	}
	read := func(o partition.Object) bool {
		return slices.ContainsFunc(f.Bases, func(g *Generation) bool { return g.Read(o) })
	}
	var out []partition.Object
	for _, o := range f.Objects {
		if r.Contains(o.Partition) && !o.Partition.Before(f.Since) && !known[idOf(o)] && !read(o) {
			out = append(out, o)
		}
	}
	return out
}

func tally(objects []partition.Object) Tally {
	t := Tally{Objects: len(objects), Starts: []time.Time{}}
	var starts []time.Time
	for _, o := range objects {
		t.Bytes += o.Size
		starts = append(starts, o.Partition.UTC())
	}
	slices.SortFunc(starts, time.Time.Compare)
	starts = slices.CompactFunc(starts, time.Time.Equal)
	if t.Partitions = len(starts); t.Partitions > 0 {
		t.First, t.Last = &starts[0], &starts[len(starts)-1]
		t.Starts = starts[:min(len(starts), maxTold)]
	}
	return t
}

// digest hashes what the caller agrees to, as canonical JSON.
func (p ResetPlan) digest(f ResetFacts, unread []partition.Object) (string, error) {
	keys := make([]string, len(unread))
	for i, o := range unread {
		keys[i] = o.Key
	}
	slices.Sort(keys)
	body, err := json.Marshal(struct {
		Format, Pipeline, Pane, Config string
		From, To, Watermark            time.Time
		Held                           bool
		Unread                         []string
		Gap                            *partition.Range
	}{"deltad.reset-plan/1", p.Pipeline, f.Live.RunID, f.ConfigHash, p.From.UTC(), p.To, p.Watermark.UTC(), p.Next.Kind == Held, keys, p.Gap})
	if err != nil {
		return "", fmt.Errorf("encode reset plan: %w", err)
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}

// PlanReset looks at what a reset of progress to to would mean and writes
// nothing. Before the first pane it is sink.ErrNoPane. It leaves the pipeline
// as it was, but must not be called while Step or Serve is.
func (p *Pipeline) PlanReset(ctx context.Context, now, to time.Time) (ResetPlan, error) {
	if err := p.refresh(ctx); err != nil {
		return ResetPlan{}, err
	}
	if p.seen.live == nil {
		return ResetPlan{}, fmt.Errorf("plan reset of %s to %s: %w", p.set.Name, text(to), sink.ErrNoPane)
	}
	f := ResetFacts{Now: now, Head: p.seen.head, Live: *p.seen.live, To: to.UTC(), ConfigHash: p.set.ConfigHash}
	// A pipeline that has seen the reset already knows what to list.
	after := New(p.set)
	m := sink.ResetManifest(sink.Owner{}, f.Head, f.Live, sink.ResetOptions{To: f.To, Now: now})
	after.seen = memory{head: f.Head, live: &m, ref: p.seen.ref}
	after.seen.head.Progress = sink.AtPtr(f.To)
	s, err := after.survey(ctx, now, StepOptions{})
	if err != nil {
		return ResetPlan{}, fmt.Errorf("plan reset of %s to %s: %w", p.set.Name, text(to), err)
	}
	f.Newest, f.Objects, f.Listed, f.Skip = s.facts.Newest, s.facts.Objects, s.facts.Listed, s.facts.Skip
	f.Bases, f.Expired, f.Promote, f.Breaking = s.facts.Bases, s.facts.Expired, s.facts.Promote, s.facts.Breaking
	f.Lost, f.Since = s.facts.Lost, s.facts.Since
	if from := f.Head.Progress.Time; from.Before(f.To) && from.Before(f.Listed.From) {
		// The jump forward passes over more than the next run would look at.
		l, err := p.set.Lister.Scan(ctx, now, from)
		if err != nil {
			return ResetPlan{}, fmt.Errorf("list what a reset of %s to %s passes over: %w", p.set.Name, text(to), err)
		}
		f.Objects, f.Listed = l.Inputs(l.Range), l.Range
	}
	return PlanReset(p.set.Rule, p.set.Calendar, f)
}
