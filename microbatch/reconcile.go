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

// reconcile walks from CURRENT along the parent links to the newest run that
// is journalled as published (with an empty store: W back). The runs on the
// way are published and get their step 9; of the planned runs that the walk
// does not reach, those older than it are unknown, the others abandoned: after
// the claim no request of theirs can come about any more.
func (p *Pipeline) reconcile(ctx context.Context, t term) error {
	type step struct {
		ref sink.Ref
		m   sink.Manifest
	}
	var walked []step
	var parent *sink.Manifest // of the oldest walked
	reached := map[string]bool{}
	oldest := ""
	empty, err := p.knowsNothing(ctx)
	if err != nil {
		return err
	}
	err = p.set.Sink.Walk(ctx, p.seen.head, func(ref sink.Ref, m sink.Manifest) (bool, error) {
		run, err := p.set.State.RunByID(ctx, m.RunID)
		if err != nil && !errors.Is(err, watermark.ErrNotFound) {
			return false, err
		}
		reached[m.RunID], oldest = true, m.RunID
		if err == nil && run.Status == watermark.RunPublished {
			parent = &m
			return false, nil
		}
		walked = append(walked, step{ref, m})
		return !empty || m.Watermark.After(p.seen.live.Watermark.Add(-p.set.Rule.Size)), nil
	})
	if err != nil {
		return err
	}
	if len(walked) > 0 && parent != nil {
		if err := p.set.Sink.LoadInputs(ctx, parent); err != nil {
			return err
		}
	}
	for _, s := range slices.Backward(walked) {
		if err := p.set.Sink.LoadInputs(ctx, &s.m); err != nil {
			return err
		}
		run := watermark.Run{
			ID: s.m.RunID, Pipeline: p.set.Name, Kind: watermark.RunDelta, Reason: string(s.m.Reason), Epoch: s.m.Writer.Epoch,
			Watermark: s.m.Watermark.Time, CoverageFrom: s.m.Coverage.From.Time, ConfigHash: s.m.ConfigHash, PlannedAt: s.m.CreatedAt.Time,
		}
		if s.m.Parent != nil {
			run.Parent = watermark.ManifestRef{Key: s.m.Parent.Manifest, SHA256: s.m.Parent.SHA256}
		}
		if s.m.PreviousWatermark != nil {
			run.PreviousWatermark = s.m.PreviousWatermark.Time
		}
		if journalled, err := p.set.State.RunByID(ctx, run.ID); err == nil {
			run = journalled
		}
		pub := p.publication(run, s.ref, s.m, parent, s.m.Version)
		if _, err := p.set.State.PublishRun(ctx, t.lease, pub); err != nil {
			return err
		}
		parent = &s.m
	}
	planned, err := p.set.State.PlannedRuns(ctx, p.set.Name)
	if err != nil {
		return err
	}
	for _, run := range planned {
		if run.Kind != watermark.RunDelta || reached[run.ID] {
			continue
		}
		settle, why := p.set.State.AbandonRun, "not reached from CURRENT after a new claim"
		if oldest != "" && run.ID < oldest {
			settle, why = p.set.State.MarkUnknown, "older than the history that CURRENT still reaches"
		}
		if err := settle(ctx, t.lease, run.ID, why); err != nil {
			return err
		}
	}
	return nil
}

// knowsNothing says that the state store has no memory of this pipeline at
// all: nothing published, nothing planned, no reset on its way. One that was
// restored from an early copy knows something, and is told all it missed.
func (p *Pipeline) knowsNothing(ctx context.Context) (bool, error) {
	if _, err := p.set.State.LatestPublished(ctx, p.set.Name); !errors.Is(err, watermark.ErrNotFound) {
		return false, err
	}
	planned, err := p.set.State.PlannedRuns(ctx, p.set.Name)
	if err != nil || len(planned) > 0 {
		return false, err
	}
	pending, err := p.set.State.PendingIntents(ctx, p.set.Name)
	return len(pending) == 0, err
}

// forgetful says that the state store no longer knows the live pane as
// published: it was restored, or failed over to a copy that lagged. What it
// says is then not to be built on before it was reconciled.
func (p *Pipeline) forgetful(ctx context.Context) (bool, error) {
	if p.seen.live == nil {
		return false, nil
	}
	run, err := p.set.State.RunByID(ctx, p.seen.live.RunID)
	if errors.Is(err, watermark.ErrNotFound) {
		return true, nil
	}
	return err == nil && run.Status != watermark.RunPublished, err
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
	if m.Reason == sink.Reset {
		pub.Intent = run.ID // a reset's run has the id of its intent
		pub.Ledger = nil
	}
	return pub
}
