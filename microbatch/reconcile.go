package microbatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// claim puts CURRENT under this leader and reconciles the state store with
// it, once per tenure and again after a doubtful end. It is the first write of
// a tenure and happens only before a writing run.
func (p *Pipeline) claim(ctx context.Context, t term) error {
	if !p.seen.claimed || p.seen.unsettled != 0 || !p.seen.head.Exists || !p.seen.head.Owner.Same(t.me) {
		committed := true
		if _, err := p.set.State.LatestPublished(ctx, p.set.Name); errors.Is(err, watermark.ErrNotFound) {
			committed = false
		} else if err != nil {
			return fmt.Errorf("look for committed runs: %w", err)
		}
		if !committed && !p.seen.head.Exists && p.set.Probe != nil {
			if err := p.set.Probe(ctx); err != nil {
				return err
			}
		}
		head, err := p.set.Sink.Claim(ctx, t.me, sink.ClaimOptions{Now: time.Now(), Committed: committed, Unsettled: p.seen.unsettled})
		if err != nil {
			return err
		}
		if err := p.take(ctx, head); err != nil {
			return err
		}
		p.seen.claimed, p.seen.reconciled, p.seen.unsettled = true, false, 0
		p.at("claimed")
	}
	if p.seen.reconciled {
		return nil
	}
	if err := p.reconcile(ctx, t); err != nil {
		return fmt.Errorf("reconcile the state store with CURRENT: %w", err)
	}
	p.seen.reconciled = true
	return nil
}

// settlePredecessor is for the first step of a tenure. A leader that died
// between CURRENT and step 9 left its run as planned, and where nothing is to
// be published nobody would claim and reconcile. What CURRENT names is
// published whoever else may still write, so this takes no claim; the planned
// runs that CURRENT does not reach are left to the reconciliation after one.
// Without such a run it reads at most once a tenure and never writes.
func (p *Pipeline) settlePredecessor(ctx context.Context, t term, row watermark.Pipeline) (settled bool, _ error) {
	live := p.seen.live
	if p.seen.claimed || p.seen.inherited || live == nil || row.RunID == live.RunID || p.seen.head.Owner.State != t.me.State {
		return false, nil
	}
	run, err := p.set.State.RunByID(ctx, live.RunID)
	if err != nil && !errors.Is(err, watermark.ErrNotFound) {
		return false, err
	}
	if err == nil && run.Status == watermark.RunPlanned {
		if _, err := p.publishReached(ctx, t, false); err != nil {
			return false, fmt.Errorf("settle the run of the leader before: %w", err)
		}
		settled = true
	}
	p.seen.inherited = true
	return settled, nil
}

// reconcile publishes in the journal what CURRENT reaches. Of the planned runs
// that it does not reach, those older than what it does are unknown, the others
// abandoned: after the claim no request of theirs can come about any more.
func (p *Pipeline) reconcile(ctx context.Context, t term) error {
	planned, err := p.set.State.PlannedRuns(ctx, p.set.Name)
	if err != nil {
		return err
	}
	empty := len(planned) == 0
	if empty {
		if empty, err = p.knowsNothing(ctx); err != nil {
			return err
		}
	}
	reached, err := p.publishReached(ctx, t, empty)
	if err != nil {
		return err
	}
	for _, run := range planned {
		if run.Kind != watermark.RunDelta || slices.Contains(reached, run.ID) {
			continue
		}
		settle, why := p.set.State.AbandonRun, "not reached from CURRENT after a new claim"
		if len(reached) > 0 && run.ID < reached[len(reached)-1] {
			settle, why = p.set.State.MarkUnknown, "older than the history that CURRENT still reaches"
		}
		if err := settle(ctx, t.lease, run.ID, why); err != nil {
			return err
		}
	}
	return nil
}

// publishReached walks from CURRENT along the parent links to the newest run
// that is journalled as published (with an empty store: W back), and gives the
// runs on the way their step 9. It returns the ids of all that it visited,
// newest first.
func (p *Pipeline) publishReached(ctx context.Context, t term, empty bool) (reached []string, _ error) {
	type step struct {
		ref sink.Ref
		m   sink.Manifest
		run *watermark.Run // nil if it is not journalled
	}
	var walked []step
	var parent *sink.Manifest // of the oldest walked
	err := p.set.Sink.Walk(ctx, p.seen.head, func(ref sink.Ref, m sink.Manifest) (bool, error) {
		s := step{ref: ref, m: m}
		run, err := p.set.State.RunByID(ctx, m.RunID)
		if err == nil {
			s.run = &run
		} else if !errors.Is(err, watermark.ErrNotFound) {
			return false, err
		}
		reached = append(reached, m.RunID)
		if s.run != nil && run.Status == watermark.RunPublished {
			parent = &m
			return false, nil
		}
		walked = append(walked, s)
		return !empty || m.Watermark.After(p.seen.live.Watermark.Add(-p.set.Rule.Size)), nil
	})
	if err != nil {
		return nil, err
	}
	if len(walked) > 0 && parent != nil {
		if err := p.set.Sink.LoadInputs(ctx, parent); err != nil {
			return nil, err
		}
	}
	for _, s := range slices.Backward(walked) {
		if err := p.set.Sink.LoadInputs(ctx, &s.m); err != nil {
			return nil, err
		}
		run := p.runOf(s.m)
		if s.run != nil {
			run = *s.run
		}
		pub := p.publication(run, s.ref, s.m, parent, s.m.Version)
		if pub.Intent != "" {
			// A store that was adopted or restored may not know of the reset.
			if _, err := p.set.State.IntentByID(ctx, pub.Intent); errors.Is(err, watermark.ErrNotFound) {
				pub.Intent = ""
			} else if err != nil {
				return nil, err
			}
		}
		if _, err := p.set.State.PublishRun(ctx, t.lease, pub); err != nil {
			return nil, err
		}
		parent = &s.m
	}
	return reached, nil
}

// runOf is what the journal would say of a run that it lost.
func (p *Pipeline) runOf(m sink.Manifest) watermark.Run {
	run := watermark.Run{
		ID: m.RunID, Pipeline: p.set.Name, Kind: watermark.RunDelta, Reason: string(m.Reason), Epoch: m.Writer.Epoch,
		Watermark: m.Watermark.Time, CoverageFrom: m.Coverage.From.Time, ConfigHash: m.ConfigHash, PlannedAt: m.CreatedAt.Time,
	}
	if m.Parent != nil {
		run.Parent = watermark.ManifestRef{Key: m.Parent.Manifest, SHA256: m.Parent.SHA256}
	}
	if m.PreviousWatermark != nil {
		run.PreviousWatermark = m.PreviousWatermark.Time
	}
	return run
}

// knowsNothing says of a state store without planned runs that it has no
// memory of this pipeline at all: nothing published, no reset on its way. One
// that was restored from an early copy knows something, and is told all it
// missed.
func (p *Pipeline) knowsNothing(ctx context.Context) (bool, error) {
	if _, err := p.set.State.LatestPublished(ctx, p.set.Name); !errors.Is(err, watermark.ErrNotFound) {
		return false, err
	}
	pending, err := p.set.State.PendingIntents(ctx, p.set.Name)
	return len(pending) == 0, err
}

// publication is step 9 of a run whose pane is live.
func (p *Pipeline) publication(run watermark.Run, ref sink.Ref, m sink.Manifest, parent *sink.Manifest, version int64) watermark.Publication {
	pub := watermark.Publication{
		Run: run, CurrentVersion: version, Watermark: m.Watermark.Time, Progress: m.ProgressOr().Time,
		Manifest: watermark.ManifestRef{Key: ref.Manifest, SHA256: ref.SHA256}, Documents: m.Counts.Documents,
		Ledger: ledgerOf(m, parent, p.set.Calendar),
	}
	if counts, err := json.Marshal(m.Counts); err == nil {
		pub.Counts = counts
	}
	if m.Reason == sink.Reset || m.Reason == sink.Rollback {
		pub.Intent = run.ID // such a run has the id of its intent
		pub.Ledger = nil
	}
	if m.Reason == sink.Promote {
		pub.Promoted = m.Base.Generation
	}
	return pub
}
