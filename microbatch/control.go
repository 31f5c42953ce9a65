package microbatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// Kinds of requests that a leader understands.
const (
	RequestTrigger = "trigger"
	RequestCollect = "gc"
)

// intents carries out the resets and rollbacks that were decided: each is one run of its
// own, under the intent's id, so that after a crash between its steps CURRENT
// and its ancestors tell whether it came about.
func (p *Pipeline) intents(ctx context.Context, t term, now time.Time, row watermark.Pipeline) error {
	pending, err := p.set.State.PendingIntents(ctx, p.set.Name)
	if err != nil {
		return fmt.Errorf("look for resets and rollbacks: %w", err)
	}
	for _, in := range pending {
		if err := p.move(ctx, t, now, row, in); err != nil {
			return fmt.Errorf("%s %s: %w", in.Kind, in.ID, err)
		}
	}
	return nil
}

// move carries out a reset or a rollback.
func (p *Pipeline) move(ctx context.Context, t term, now time.Time, row watermark.Pipeline, in watermark.Intent) error {
	// Claiming reconciles: a move whose CURRENT was changed before a crash is
	// found on the walk and becomes applied there.
	if err := p.claim(ctx, t); err != nil {
		return err
	}
	asked, err := p.set.State.IntentByID(ctx, in.ID)
	if err != nil || asked.State != watermark.IntentPending {
		return err
	}
	refuse := func(why string) error {
		p.set.Log.Warn(string(in.Kind)+" refused", zap.String("pipeline", p.set.Name), zap.String("run", in.ID), zap.String("why", why))
		return p.set.State.FinishIntent(ctx, t.lease, in.ID, watermark.IntentFailed, why)
	}
	if why := p.mayMove(row, in); why != "" {
		return refuse(why)
	}
	run, err := p.movingRun(ctx, t, in)
	if err != nil {
		return err
	}
	if err := p.set.State.PlanRun(ctx, t.lease, run); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	p.at(string(in.Kind) + " planned")
	parent := p.seen.live
	p.seen.reconciled, p.seen.unsettled = false, p.seen.head.Version // until its outcome is known and journalled
	head, m, err := p.change(ctx, t, now, in, run)
	if !errors.Is(err, sink.ErrUnsettled) {
		p.seen.unsettled = 0
	}
	if in.Kind == watermark.IntentRollback && (errors.Is(err, sink.ErrCondemned) || errors.Is(err, sink.ErrTransition) || errors.Is(err, sink.ErrCorrupt)) {
		// What it goes to is not there, and will not come back.
		p.giveUp(ctx, t, run, err)
		return refuse(err.Error())
	}
	if err != nil {
		return err
	}
	p.at(string(in.Kind) + " current")
	if err := p.take(ctx, head); err != nil {
		return err
	}
	if _, err := p.set.State.PublishRun(ctx, t.lease, p.publication(run, p.seen.ref, m, parent, head.Version)); err != nil {
		return fmt.Errorf("journal as applied (CURRENT has it; the next step tells the state store): %w", err)
	}
	p.seen.reconciled = true
	p.at(string(in.Kind) + " committed")
	p.set.Log.Info(string(in.Kind)+" done", zap.String("pipeline", p.set.Name), zap.String("run", in.ID), zap.Time("watermark", p.progress()))
	return nil
}

// mayMove says why a reset or rollback cannot be carried out, or nothing.
func (p *Pipeline) mayMove(row watermark.Pipeline, in watermark.Intent) string {
	switch {
	case p.seen.head.Delta == nil:
		return "there is no pane yet that could be moved"
	case in.Kind == watermark.IntentRollback:
		return ""
	case !row.Paused:
		return "the pipeline was resumed before the reset was carried out"
	case p.progress().Equal(in.Target):
		return "progress is there already"
	}
	return ""
}

// movingRun is the run that a reset or rollback is. One that an earlier leader
// had begun goes on under its change id.
func (p *Pipeline) movingRun(ctx context.Context, t term, in watermark.Intent) (watermark.Run, error) {
	live := p.seen.live
	run := watermark.Run{
		ID: in.ID, ChangeID: p.set.NewID(), Pipeline: p.set.Name, Kind: watermark.RunDelta, Reason: string(in.Kind), Epoch: t.lease.Epoch,
		Instance: p.set.Instance, Parent: watermark.ManifestRef{Key: p.seen.ref.Manifest, SHA256: p.seen.ref.SHA256},
		PreviousWatermark: p.progress(), Watermark: live.Watermark.Time, CoverageFrom: live.Coverage.From.Time,
		ConfigHash: live.ConfigHash,
	}
	if in.Kind == watermark.IntentRollback {
		if target, err := p.set.Sink.ReadManifest(ctx, refOf(in.Pane)); err == nil && target.Kind == sink.Delta {
			run.Watermark, run.CoverageFrom, run.ConfigHash = target.Watermark.Time, target.Coverage.From.Time, target.ConfigHash
		} // else the rollback says what is wrong with it
	}
	begun, err := p.set.State.RunByID(ctx, in.ID)
	switch {
	case err == nil:
		run.ChangeID = begun.ChangeID
	case !errors.Is(err, watermark.ErrNotFound):
		return run, fmt.Errorf("look for an earlier attempt: %w", err)
	}
	return run, nil
}

// change is the change of CURRENT that a reset or rollback makes. For a rollback,
// until when a base is supported counts from now, the clock of the step.
func (p *Pipeline) change(ctx context.Context, t term, now time.Time, in watermark.Intent, run watermark.Run) (sink.Head, sink.Manifest, error) {
	if in.Kind == watermark.IntentRollback {
		return p.set.Sink.Rollback(ctx, t.me, p.seen.head, sink.RollbackOptions{
			Target: refOf(in.Pane), RunID: in.ID, ChangeID: run.ChangeID, Build: p.set.Build, Now: now, SupportUntil: now.Add(p.set.SupportPrevious),
		})
	}
	return p.set.Sink.ResetProgress(ctx, t.me, p.seen.head, sink.ResetOptions{
		To: in.Target, RunID: in.ID, ChangeID: run.ChangeID, Build: p.set.Build, Now: now,
	})
}

func refOf(m watermark.ManifestRef) sink.Ref { return sink.Ref{Manifest: m.Key, SHA256: m.SHA256} }

// triggerArgs are the arguments of a RequestTrigger.
type triggerArgs struct {
	AcceptLoss bool `json:"accept_loss"`
}

// requests answers what was asked of the leader; each trigger is a step. After
// stop those not begun are left to the next leader.
func (p *Pipeline) requests(stop, ctx context.Context, t term) error {
	taken, err := p.set.State.TakeRequests(ctx, t.lease)
	if err != nil {
		return fmt.Errorf("take requests: %w", err)
	}
	for _, rq := range taken {
		select {
		case <-stop.Done():
			return nil
		default:
		}
		state, result := p.answer(ctx, t, rq)
		body, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("encode the answer to request %s: %w", rq.ID, err)
		}
		if err := p.set.State.FinishRequest(ctx, t.lease, rq.ID, state, body); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pipeline) answer(ctx context.Context, t term, rq watermark.Request) (watermark.RequestState, map[string]any) {
	switch rq.Kind {
	case RequestTrigger:
		var args triggerArgs
		if len(rq.Args) > 0 {
			if err := json.Unmarshal(rq.Args, &args); err != nil {
				return watermark.RequestFailed, map[string]any{"error": fmt.Sprintf("arguments: %v", err)}
			}
		}
		r := p.step(ctx, t, time.Now(), StepOptions{AcceptLoss: args.AcceptLoss, Retry: true})
		out := map[string]any{"outcome": r.Outcome, "why": r.Why, "run_id": r.RunID}
		if r.Err != nil {
			return watermark.RequestFailed, out
		}
		return watermark.RequestDone, out
	case RequestCollect:
		done, err := p.Collect(ctx, t, false)
		if err != nil {
			return watermark.RequestFailed, map[string]any{"error": err.Error()}
		}
		return watermark.RequestDone, map[string]any{"collection": done}
	}
	return watermark.RequestFailed, map[string]any{"error": fmt.Sprintf("unknown kind of request %q", rq.Kind)}
}

// collection is garbage collection on its way: planned after a publish,
// condemned by the next, deleted after it.
type collection struct {
	plan *sink.Collection
	head sink.Head           // that the plan was made for
	kept sink.CollectOptions // what was to be kept then
	last time.Time
	more bool // ids wait for a place in condemned
}

// collectEvery spaces the listings that collection needs.
const collectEvery = 5 * time.Minute

// condemn is the list of condemned ids for the next publish; nil keeps it. A
// plan serves one change of CURRENT: after a publish that carried it, or a
// rollback to what it condemns, it is about another CURRENT. It is dropped if
// something is to be kept now that was not when it was made.
func (p *Pipeline) condemn(ctx context.Context, reason sink.Reason) []string {
	was, is := p.garbage.head, p.seen.head
	if p.garbage.plan == nil || reason != sink.Publish && reason != sink.Refine || was.RunID != is.RunID || !slices.Equal(was.Condemned, is.Condemned) {
		return nil
	}
	if len(p.garbage.plan.Condemn) == 0 {
		return p.garbage.plan.Condemned(is, true)
	}
	now, err := p.keepers(ctx)
	kept := p.garbage.kept
	if err != nil || !slices.Equal(now.Pins, kept.Pins) || !slices.Equal(now.Candidates, kept.Candidates) || !slices.Equal(now.Held, kept.Held) {
		p.garbage.plan, p.garbage.more = nil, true
		return nil
	}
	return p.garbage.plan.Condemned(p.seen.head, true)
}

// collect deletes what CURRENT has condemned and plans what the next publish
// condemns. It is best effort: whatever fails, the next plan goes on from
// there.
func (p *Pipeline) collect(ctx context.Context) {
	p.garbage.plan = nil
	if !p.garbage.more && time.Since(p.garbage.last) < collectEvery {
		return
	}
	p.garbage.last = time.Now()
	plan, err := p.planCollection(ctx)
	if err == nil {
		p.at("condemn planned")
		err = p.collector.Delete(ctx, p.seen.head, plan)
		p.forgetCached(plan)
	}
	if err != nil {
		p.set.Log.Warn("garbage collection", zap.String("pipeline", p.set.Name), zap.Error(err))
		return
	}
	p.at("deleted")
	p.garbage.plan, p.garbage.head, p.garbage.more = &plan, p.seen.head, plan.Waiting > 0
}

func (p *Pipeline) planCollection(ctx context.Context) (sink.Collection, error) {
	o, err := p.keepers(ctx)
	if err != nil {
		return sink.Collection{}, err
	}
	p.garbage.kept = o
	return p.collector.Plan(ctx, p.seen.head, o)
}

// keepers is what the state store wants kept.
func (p *Pipeline) keepers(ctx context.Context) (sink.CollectOptions, error) {
	o := sink.CollectOptions{Retain: p.set.Retain, Cached: p.cachedRule()}
	planned, err := p.set.State.PlannedRuns(ctx, p.set.Name)
	if err != nil {
		return o, err
	}
	for _, r := range planned {
		o.Live = append(o.Live, r.ID)
	}
	pins, err := p.set.State.Pins(ctx, p.set.Name)
	if err != nil {
		return o, fmt.Errorf("look for pins: %w", err)
	}
	for _, pin := range pins {
		o.Pins = append(o.Pins, pin.ID)
	}
	intents, err := p.set.State.PendingIntents(ctx, p.set.Name)
	if err != nil {
		return o, fmt.Errorf("look for rollbacks: %w", err)
	}
	for _, in := range intents {
		if in.Kind == watermark.IntentRollback {
			o.Pins = append(o.Pins, sink.RunOf(in.Pane.Key)) // where it goes must still be there
		}
	}
	rebuilds, err := p.set.State.Rebuilds(ctx, p.set.Name, recentRebuilds, "")
	if err != nil {
		return o, fmt.Errorf("look for rebuilds: %w", err)
	}
	for _, r := range rebuilds {
		switch r.State {
		case watermark.RebuildQueued, watermark.RebuildRunning:
			o.Live = append(o.Live, r.ID)
		case watermark.RebuildCandidate:
			o.Candidates = append(o.Candidates, r.ID)
		case watermark.RebuildHeld:
			o.Held = append(o.Held, r.ID)
		default:
		}
	}
	return o, nil
}

// recentRebuilds are looked through for those that are not over: one may be
// open, and a newer candidate supersedes the older ones.
const recentRebuilds = 50

// PlanCollection says what garbage collection would do, without a lease.
func (p *Pipeline) PlanCollection(ctx context.Context) (sink.Collection, error) {
	return p.Collect(ctx, term{}, true)
}

// Collect collects garbage now, or with dry only says what it would do.
func (p *Pipeline) Collect(ctx context.Context, t term, dry bool) (sink.Collection, error) {
	if err := p.refresh(ctx); err != nil {
		return sink.Collection{}, err
	}
	if p.seen.head.Delta == nil {
		return sink.Collection{}, errors.New("collect garbage: nothing was published yet")
	}
	if !dry {
		row, err := p.set.State.EnsurePipeline(ctx, p.set.Name)
		if err == nil && row.Paused {
			err = fmt.Errorf("collect garbage: the pipeline is paused by %s: %s", row.PausedBy, row.PauseReason)
		}
		if err == nil {
			err = p.claim(ctx, t)
		}
		if err != nil {
			return sink.Collection{}, err
		}
	}
	plan, err := p.planCollection(ctx)
	if err != nil || dry || plan.Empty() {
		return plan, err
	}
	p.at("condemn planned")
	head, err := p.collector.Do(ctx, t.me, p.seen.head, plan)
	p.forgetCached(plan)
	if err != nil {
		return plan, err
	}
	p.at("condemned")
	return plan, p.take(ctx, head)
}
