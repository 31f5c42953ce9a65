package microbatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// Under runs do under a lease of its own, for commands that change something
// where no leader lives. ErrHeld where one does.
func (p *Pipeline) Under(ctx context.Context, do func(ctx context.Context, t Term) error) error {
	ctx, ten, t, err := p.enter(ctx, 0)
	if err != nil {
		return err
	}
	defer p.leave(ctx, ten)
	return do(ctx, Term{p, t})
}

// Term is the right to write, for commands.
type Term struct {
	p *Pipeline
	t term
}

// Step takes one step.
func (t Term) Step(ctx context.Context, now time.Time, o StepOptions) Report {
	return t.p.step(ctx, t.t, now, o)
}

// Settle carries out pending resets and rollbacks, and nothing else.
func (t Term) Settle(ctx context.Context) error {
	if err := t.p.refresh(ctx); err != nil {
		return err
	}
	row, err := t.p.set.State.EnsurePipeline(ctx, t.p.set.Name)
	if err != nil {
		return err
	}
	return t.p.intents(ctx, t.t, time.Now(), row)
}

// Lease is the lease of the term.
func (t Term) Lease() watermark.Lease { return t.t.lease }

// Collect collects garbage, or with dry only says what it would do.
func (t Term) Collect(ctx context.Context, dry bool) (sink.Collection, error) {
	return t.p.Collect(ctx, t.t, dry)
}

// Adopt takes over an output whose CURRENT another state store's leader owns.
// It is audited before CURRENT is changed.
func (t Term) Adopt(ctx context.Context, actor, reason string) (sink.Head, error) {
	head, err := t.p.set.Sink.Head(ctx)
	if err != nil {
		return head, err
	}
	if err := t.p.audit(ctx, actor, "adopt", reason, map[string]any{"state": head.Owner.State, "epoch": head.Owner.Epoch, "version": head.Version}); err != nil {
		return head, err
	}
	if head, err = t.p.set.Sink.Adopt(ctx, t.t.me, sink.ClaimOptions{Now: time.Now()}); err != nil {
		return head, err
	}
	return head, t.p.copyCurrent(ctx, t.t, head, actor, reason)
}

// copyCurrent makes the pipeline's row follow a CURRENT that it did not lead
// to.
func (p *Pipeline) copyCurrent(ctx context.Context, t term, head sink.Head, actor, reason string) error {
	if head.Delta == nil {
		return nil
	}
	if err := p.take(ctx, head); err != nil {
		return err
	}
	cur := watermark.CurrentCopy{
		Version: head.Version, RunID: head.RunID, Watermark: head.Watermark.Time, Progress: head.Progress.Time,
		Manifest: watermark.ManifestRef{Key: head.Delta.Manifest, SHA256: head.Delta.SHA256}, ConfigHash: p.seen.live.ConfigHash,
	}
	if reason == "" {
		reason = "CURRENT names a pane that the state store has as published"
	}
	if _, err := p.set.State.EnsurePipeline(ctx, p.set.Name); err != nil {
		return err
	}
	if _, err := p.set.State.AdoptCurrent(ctx, t.lease, cur, watermark.Change{ID: p.set.NewID(), Actor: actor, Reason: reason}); err != nil {
		return fmt.Errorf("copy CURRENT (version %d, which is in place) to the state store: %w", head.Version, err)
	}
	return nil
}

// Recover writes a lost CURRENT again, under a lease of its own. reason may be
// empty where the state store knows what was published; with dry nothing is
// written.
func (p *Pipeline) Recover(ctx context.Context, actor, reason string, dry bool) (sink.Recovery, error) {
	o := sink.RecoverOptions{Reason: reason}
	latest, err := p.set.State.LatestPublished(ctx, p.set.Name)
	switch {
	case err == nil:
		o.MaxVersion = latest.CurrentVersion
		o.Published = func(id string) bool {
			run, err := p.set.State.RunByID(ctx, id)
			return err == nil && run.Status == watermark.RunPublished
		}
	case !errors.Is(err, watermark.ErrNotFound):
		return sink.Recovery{}, err
	}
	plan, err := p.set.Sink.PlanRecovery(ctx, o)
	if err != nil || dry {
		return plan, err
	}
	ctx, ten, t, err := p.enter(ctx, plan.MinEpoch-1)
	if err != nil {
		return plan, err
	}
	defer p.leave(ctx, ten)
	if err := p.audit(ctx, actor, "recover", reason, map[string]any{"manifest": plan.Ref.Manifest, "version": plan.Version, "proven": plan.Proven}); err != nil {
		return plan, err
	}
	head, err := p.set.Sink.Recover(ctx, t.me, plan, time.Now())
	if err != nil {
		return plan, err
	}
	return plan, p.copyCurrent(ctx, t, head, actor, reason)
}

func (p *Pipeline) audit(ctx context.Context, actor, action, reason string, details map[string]any) error {
	body, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode audit details: %w", err)
	}
	return p.set.State.AppendAudit(ctx, watermark.AuditEntry{
		ID: p.set.NewID(), Actor: actor, Action: action, Pipeline: p.set.Name, Reason: reason, Details: body,
	})
}
