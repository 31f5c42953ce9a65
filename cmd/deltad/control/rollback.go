package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// Target is where a rollback goes. Without either it is the newest former base
// that is not barred.
type Target struct {
	// Generation is a former base: the last pane over it is published again.
	Generation string
	// Run is that of a former pane, of whatever base. The pipeline is paused, as
	// the next run would publish what is left.
	Run string
}

// RollbackPlan is a planned rollback and the version of the pipeline's row at
// which it was planned.
type RollbackPlan struct {
	microbatch.RollbackPlan
	Version int64 `json:"version"`
	Paused  bool  `json:"paused"`
}

// PlanRollback says what a rollback would mean, and changes nothing.
func (p Pipe) PlanRollback(ctx context.Context, now time.Time, t Target) (RollbackPlan, error) {
	row, err := p.Row(ctx)
	if err != nil {
		return RollbackPlan{}, err
	}
	pipeline := p.pipe.Pipeline()
	ref, field, err := p.paneOf(ctx, pipeline, t)
	if err != nil {
		return RollbackPlan{}, err
	}
	plan, err := pipeline.PlanRollback(ctx, now, ref, t.Run != "")
	switch {
	case errors.Is(err, sink.ErrNoPane):
		return RollbackPlan{}, refuse(NoPane, "", "pipeline %s has published nothing yet: there is nothing to roll back", p.name)
	case errors.Is(err, sink.ErrCondemned):
		return RollbackPlan{}, refuse(NotThere, field, "what it would go back to is not there any more: %v", err)
	case errors.Is(err, sink.ErrTransition):
		return RollbackPlan{}, refuse(InvalidField, field, "%v", err)
	case err != nil:
		return RollbackPlan{}, err
	}
	return RollbackPlan{RollbackPlan: plan, Version: row.Version, Paused: row.Paused}, nil
}

// paneOf is the manifest that a target means, and the argument that named it.
func (p Pipe) paneOf(ctx context.Context, pipeline *microbatch.Pipeline, t Target) (ref sink.Ref, field string, _ error) {
	if t.Run != "" {
		if t.Generation != "" {
			return ref, "pane", refuse(InvalidField, "pane", "a rollback goes to a base or to a pane, not to both")
		}
		run, err := p.app.State.RunByID(ctx, t.Run)
		if errors.Is(err, watermark.ErrNotFound) || err == nil && (run.Pipeline != p.name || run.Status != watermark.RunPublished) {
			return ref, "pane", refuse(NotFound, "pane", "pipeline %s has published no run %q", p.name, clip(t.Run))
		}
		return sink.Ref{Manifest: run.Manifest.Key, SHA256: run.Manifest.SHA256}, "pane", err
	}
	former, live, ok, err := pipeline.Former(ctx, t.Generation)
	if err == nil && t.Generation == "" {
		former, ok, err = p.unbarred(ctx, live)
	}
	switch {
	case errors.Is(err, sink.ErrNoPane):
		return ref, "", refuse(NoPane, "", "pipeline %s has published nothing yet: there is nothing to roll back", p.name)
	case err != nil:
		return ref, "", err
	case ok:
		return former.Pane, "generation", nil
	case live.Base == nil:
		return ref, "", refuse(NoFormerBase, "", "pipeline %s has no base yet", p.name)
	case t.Generation == live.Base.Generation:
		return ref, "", refuse(AlreadyThere, "generation", "base %s is live already", t.Generation)
	case len(live.History) == 0:
		return ref, "", refuse(NoFormerBase, "generation", "base %s is the first: there is none before it", live.Base.Generation)
	case t.Generation == "":
		return ref, "", refuse(NoFormerBase, "generation", "all former bases are barred: name the one that is meant")
	}
	var known []string
	for _, f := range live.History {
		known = append(known, f.Generation)
	}
	return ref, "", refuse(NotFound, "generation", "%q is no former base; there are %s", clip(t.Generation), strings.Join(known, ", "))
}

// unbarred is the newest former base that no rollback has left.
func (p Pipe) unbarred(ctx context.Context, live sink.Manifest) (f sink.Former, ok bool, _ error) {
	bars, err := p.app.State.Bars(ctx, p.name)
	if err != nil {
		return f, false, fmt.Errorf("look for barred bases: %w", err)
	}
	for _, f := range live.History {
		if !slices.ContainsFunc(bars, func(b watermark.Bar) bool { return b.Generation == f.Generation }) {
			return f, true, nil
		}
	}
	return f, false, nil
}

// RollbackRequest asks for a rollback that was planned.
type RollbackRequest struct {
	Change
	Target
	// Digest is the plan's. Version is that of the pipeline's row as the caller
	// last saw it; nil means that none was given, which is refused.
	Digest  string
	Version *int64
	// Wait is how long to wait for it to be carried out.
	Wait time.Duration
}

// Rollback decides a rollback and has it carried out. What keeps it from being
// undone, the bar of the base that is left or the pause, is stored with the
// decision. It returns the intent as it stood when the wait ended: applied, or
// pending where no answer came in time. One that failed is a RollbackFailed
// refusal.
func (p Pipe) Rollback(ctx context.Context, now time.Time, r RollbackRequest) (watermark.Intent, error) {
	row, err := p.Row(ctx)
	if err != nil {
		return watermark.Intent{}, err
	}
	ch, in, err := p.known(ctx, r.Change, r.Digest, func(in watermark.Intent) bool { return in.Kind == watermark.IntentRollback })
	if err != nil {
		return watermark.Intent{}, err
	}
	if in == nil {
		plan, err := p.admitRollback(ctx, now, row, ch, r)
		if err != nil {
			return watermark.Intent{}, err
		}
		decision, err := p.rollbackIntent(plan, ch)
		if err != nil {
			return watermark.Intent{}, err
		}
		if in, err = p.decide(ctx, decision, *r.Version, fmt.Sprintf("rollback of %s to %s", p.name, plan.To.Manifest.Manifest)); err != nil {
			return watermark.Intent{}, err
		}
	}
	done, err := p.carryOut(ctx, *in, r.Wait)
	if err == nil && done.State == watermark.IntentFailed {
		return done, refuse(RollbackFailed, "", "rollback %s was given up: %s", done.ID, done.Note)
	}
	return done, err
}

// admitRollback holds a request to the rules.
func (p Pipe) admitRollback(ctx context.Context, now time.Time, row watermark.Pipeline, ch watermark.Change, r RollbackRequest) (RollbackPlan, error) {
	if err := p.current(row, r.Version, "the rollback was planned at: the plan has it as its ETag"); err != nil {
		return RollbackPlan{}, err
	}
	if err := Reasoned(ch.Reason); err != nil {
		return RollbackPlan{}, err
	}
	plan, err := p.PlanRollback(ctx, now, r.Target)
	if err == nil {
		err = agreed(r.Digest, plan.Digest)
	}
	if err != nil {
		return RollbackPlan{}, err
	}
	return plan, nil
}

// rollbackIntent is what a planned rollback decides.
func (p Pipe) rollbackIntent(plan RollbackPlan, ch watermark.Change) (watermark.Intent, error) {
	plan.Recomputed.Starts = []time.Time{}
	details, err := json.Marshal(plan)
	if err != nil {
		return watermark.Intent{}, fmt.Errorf("encode the plan of rollback %s: %w", ch.ID, err)
	}
	return watermark.Intent{
		ID: ch.ID, Pipeline: p.name, Kind: watermark.IntentRollback,
		Pane: watermark.ManifestRef{Key: plan.To.Manifest.Manifest, SHA256: plan.To.Manifest.SHA256}, Bar: plan.Bar, Pause: plan.Pause,
		Digest: plan.Digest, Actor: ch.Actor, Reason: ch.Reason, Details: details,
	}, nil
}
