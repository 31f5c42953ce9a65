package microbatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// survey is what a step has looked at: the facts of its plan and what it
// reports beside them.
type survey struct {
	facts   Facts
	listing source.Listing
	calls   int
	// failing are the objects with failures that are not skipped.
	failing []watermark.ObjectRef
}

// survey lists what a plan needs. It writes nothing.
func (p *Pipeline) survey(ctx context.Context, now time.Time, o StepOptions) (survey, error) {
	s := survey{facts: Facts{Now: now, Live: p.seen.live, Progress: p.progress(), ConfigHash: p.set.ConfigHash, Settle: p.set.Lister.Eligibility().Settle}}
	s.facts.Place = p.set.Lister.Place
	s.facts.AcceptLoss, s.facts.Force, s.facts.Since, s.facts.Lost = o.AcceptLoss, o.Force, p.set.Since, p.lost
	if err := p.surveyBases(ctx, now, o, &s.facts); err != nil {
		return s, err
	}
	after, ok, err := p.listFrom(ctx, now, &s)
	if err != nil || !ok {
		return s, err
	}
	if s.listing, err = p.set.Lister.Scan(ctx, now, after); err != nil {
		return s, err
	}
	s.calls += s.listing.Calls
	s.facts.Listed = s.listing.Range
	s.facts.Objects = s.listing.Inputs(s.listing.Range)
	if newest := s.listing.Newest; newest != nil && !newest.Before(p.set.Since) {
		s.facts.Newest = *newest
	}
	if err := p.mayPromote(ctx, &s.facts); err != nil {
		return s, err
	}
	s.facts.Quarantined = nil // the listing reports again what finding the newest met
	for _, q := range s.listing.Quarantined {
		s.facts.Quarantined = append(s.facts.Quarantined, passed(q))
	}
	if err := p.skips(ctx, &s); err != nil {
		return s, err
	}
	return s, p.confirmGone(ctx, &s)
}

// listFrom decides where the listing starts: 2 W before the coverage that a
// run could have, so that late objects are seen. Where the newest partition
// may be far from the last progress it is found first, so that the cost grows
// with the window and not with the absence. ok is false where there is
// nothing to list.
func (p *Pipeline) listFrom(ctx context.Context, now time.Time, s *survey) (after time.Time, ok bool, err error) {
	// Where a candidate cannot be promoted yet, the bases of the live pane count.
	held, err := p.basesOf(ctx, p.seen.live)
	if err != nil {
		return after, false, err
	}
	rule, oldest := p.set.Rule, oldestCut(slices.Concat(s.facts.Bases, held), p.set.Rule.Longest)
	reach := max(rule.Size, rule.Longest)
	live := p.seen.live
	defer func() {
		if ok && after.Before(p.set.Since) {
			// The first partition is included. Starts are whole seconds; the state
			// store, whose ledger may begin here, takes nothing finer than it keeps.
			after = p.set.Since.Add(-time.Nanosecond).Truncate(time.Second)
		}
	}()
	if live != nil {
		// The live pane may have been made under another rule, and progress may
		// have been reset; nothing before window.max is ever covered.
		from := rule.Refine(pastOf(live, p.progress()), live.Watermark.Time, oldest).From
		for _, t := range []time.Time{live.Coverage.From.Time, p.progress()} {
			if t.Before(from) {
				from = t
			}
		}
		if limit := live.Watermark.Add(-max(rule.Max, reach)); oldest.IsZero() && from.Before(limit) {
			from = limit
		}
		// After a reset the next pane may lie anywhere before the live one, far
		// away if a wrong clock had led into the future.
		reset := p.progress().Before(live.Watermark.Time)
		if now.Sub(live.Watermark.Time) <= reach && !reset {
			return from.Add(-2 * rule.Size), true, nil
		}
	}
	found, err := p.set.Lister.Newest(ctx, now, nil)
	if err != nil {
		return after, false, err
	}
	s.calls += found.Calls
	s.listing.Prefixes, s.listing.Quarantined = found.Prefixes, found.Quarantined
	for _, q := range found.Quarantined {
		s.facts.Quarantined = append(s.facts.Quarantined, passed(q))
	}
	if found.Newest == nil && live == nil {
		return after, false, nil
	}
	s.facts.Quarantined = nil // the listing reports them
	if found.Newest != nil && found.Newest.Before(p.set.Since) {
		found.Newest = nil
		if live == nil {
			return after, false, nil
		}
	}
	if live == nil {
		return found.Newest.Add(-reach - 2*rule.Size), true, nil
	}
	n := live.Watermark.Time
	cover := rule.Refine(pastOf(live, p.progress()), n, oldest)
	if found.Newest != nil && found.Newest.After(p.progress()) {
		cover, err = rule.Advance(pastOf(live, p.progress()), *found.Newest, oldest, true)
		if errors.Is(err, window.ErrHeld) {
			err = nil // the plan says so from the newest partition alone
			cover.From = found.Newest.Add(-rule.Size)
		}
		if limit := rule.Refine(pastOf(live, p.progress()), n, oldest).From; !oldest.IsZero() && limit.Before(cover.From) {
			cover.From = limit // what an advance need not fit any more, its refinement does
		}
	}
	return cover.From.Add(-2 * rule.Size), true, err
}

func passed(q source.Quarantined) sink.Passed {
	out := sink.Passed{Key: q.Path + "/", Reason: q.Reason}
	if q.Partition != nil {
		out.Partition = sink.AtPtr(*q.Partition)
	}
	return out
}

// skips looks up the objects that are not to be read.
func (p *Pipeline) skips(ctx context.Context, s *survey) error {
	states, err := p.set.State.ObjectStates(ctx, p.set.Name)
	if err != nil {
		return fmt.Errorf("look up skipped objects: %w", err)
	}
	s.facts.Skip = map[ObjectID]string{}
	if len(states) == 0 {
		return nil
	}
	listed := make(map[string]partition.Object, len(s.facts.Objects))
	for _, o := range s.facts.Objects {
		listed[o.Key] = o
	}
	type version struct{ key, etag string }
	unlisted := map[version]string{}
	for _, st := range states {
		if st.SkippedAt.IsZero() {
			s.failing = append(s.failing, watermark.ObjectRef{Key: st.Key, ETag: st.ETag})
			continue
		}
		o, ok := listed[st.Key]
		switch {
		case !ok:
			unlisted[version{st.Key, st.ETag}] = st.SkipReason
		case o.ETag == st.ETag:
			s.facts.Skip[idOf(o)] = st.SkipReason
		}
	}
	if len(unlisted) == 0 {
		return nil
	}
	// What lies before the listing may be carried, and is skipped all the same.
	note := func(key, etag string, bytes int64) {
		if why, ok := unlisted[version{key, etag}]; ok {
			s.facts.Skip[ObjectID{key, etag, bytes}] = why
		}
	}
	if live := s.facts.Live; live != nil {
		for _, in := range live.Inputs {
			note(in.Key, in.ETag, in.Bytes)
		}
		for _, o := range live.Skipped {
			note(o.Key, o.ETag, o.Bytes)
		}
	}
	for _, g := range s.facts.Bases {
		for v := range unlisted {
			if in, ok := g.read[v.key]; ok {
				note(in.Key, in.ETag, in.Bytes)
			}
		}
	}
	return nil
}

// confirmBatch is how many inputs are asked for before it is looked whether
// the answers so far hold the pipeline anyway.
const confirmBatch = 200

// confirmGone asks by name for the inputs of the live pane, and for what its
// bases read, where the listing lacks them: one that is still there stays an
// input, because a listing may lag. One that the source as it is configured now
// has no place for is not asked for: however long the bucket keeps it, it is
// gone from the source. Once so many inputs are gone that the plan
// is held, the others need no asking. What was found to be gone is not asked
// for again before the listing has it.
func (p *Pipeline) confirmGone(ctx context.Context, s *survey) error {
	there := lookup{objects: s.facts.Objects}
	for key := range p.gone {
		if there.has(key) {
			delete(p.gone, key)
		}
	}
	inputs := s.facts.liveInputs()
	missing := map[string]sink.Input{}
	var keys []string
	note := func(in sink.Input) {
		if !s.facts.Listed.Contains(in.Partition.Time) || there.has(in.Key) || p.gone[in.Key] {
			return
		}
		start, ok := p.set.Lister.Place(in.Key, in.Bytes)
		if !ok || !s.facts.Listed.Contains(start) {
			return
		}
		in.Partition = sink.At(start)
		if _, known := missing[in.Key]; !known {
			missing[in.Key], keys = in, append(keys, in.Key)
		}
	}
	for _, in := range inputs {
		note(in)
	}
	asked := len(keys)
	for _, g := range s.facts.Bases {
		for _, in := range g.Within(s.facts.Listed) {
			note(in)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	gone := 0
	for at := 0; at < len(keys); at += confirmBatch {
		batch := keys[at:min(at+confirmBatch, len(keys))]
		confirmed, err := p.set.Lister.ConfirmGone(ctx, batch)
		if err != nil {
			return fmt.Errorf("look for %d objects that the listing lacks: %w", len(keys), err)
		}
		for _, key := range confirmed {
			delete(missing, key)
			if p.gone == nil {
				p.gone = map[string]bool{}
			}
			p.gone[key] = true
		}
		gone += len(confirmed)
		if at < asked && tooManyGone(gone, len(inputs)) && !s.facts.AcceptLoss {
			return nil
		}
	}
	for _, in := range missing {
		s.facts.Objects = append(s.facts.Objects, partition.Object{
			Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time,
		})
	}
	slices.SortFunc(s.facts.Objects, func(a, b partition.Object) int { return strings.Compare(a.Key, b.Key) })
	return nil
}

// uncovered counts the partitions in the gaps that the live pane names.
func uncovered(gaps []partition.Range, calendar partition.Calendar) int {
	n := 0
	for _, g := range partition.Union(gaps...) {
		n += calendar.Count(g)
	}
	return n
}

// Plan decides what a step at now would do, and writes nothing.
func (p *Pipeline) Plan(ctx context.Context, now time.Time) (Plan, error) {
	if err := p.refresh(ctx); err != nil {
		return Plan{}, err
	}
	s, err := p.survey(ctx, now, StepOptions{})
	if err != nil {
		return Plan{}, err
	}
	return Decide(p.set.Rule, p.set.Calendar, s.facts)
}
