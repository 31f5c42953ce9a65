package microbatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// StepOptions are what one step is asked for beyond the usual.
type StepOptions struct {
	// AcceptLoss publishes although many inputs vanished at once.
	AcceptLoss bool
	// Retry makes an attempt even where failures would space it.
	Retry bool
	// Force makes a new pane even where nothing changed; it implies Retry.
	Force bool
	// KeepGarbage leaves garbage collection to another step, KeepBase the
	// promotion of a candidate.
	KeepGarbage, KeepBase bool
}

// step takes one step at now under a lease. It never panics; its error is in
// the report.
func (p *Pipeline) step(ctx context.Context, t term, now time.Time, o StepOptions) (r Report) {
	began, tenure := time.Now(), ctx
	defer p.set.Busy()()
	r = Report{Pipeline: p.set.Name, Outcome: Failed, Epoch: t.lease.Epoch}
	defer func() {
		if r.Err != nil {
			r.Outcome, r.Why = Failed, r.Err.Error()
		}
		p.fillIn(&r)
		r.Duration = time.Since(began)
		p.log(r)
		p.set.Observe(r)
	}()
	defer rescue.Into(&r.Err, "step")
	if p.set.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, p.set.Timeout, fmt.Errorf("longer than the run's timeout of %s: %w", p.set.Timeout, context.DeadlineExceeded))
		defer stop()
	}
	r.Err = p.settleAndRun(ctx, t, now, o, &r)
	p.shelve(tenure)
	if cause := context.Cause(ctx); r.Err != nil && cause != nil && !errors.Is(r.Err, cause) {
		r.Err = fmt.Errorf("%w: %w", cause, r.Err) // the run was cancelled: say why
	}
	return r
}

// settleAndRun settles what was left open, then runs unless paused.
func (p *Pipeline) settleAndRun(ctx context.Context, t term, now time.Time, o StepOptions, r *Report) error {
	if err := p.refresh(ctx); err != nil {
		return err
	}
	row, err := p.set.State.EnsurePipeline(ctx, p.set.Name)
	if err != nil {
		return err
	}
	if p.seen.live != nil && row.RunID != p.seen.live.RunID {
		p.seen.reconciled = false // the state store lags, or was set back under a live lease
	}
	if settled, err := p.settlePredecessor(ctx, t, row); err != nil {
		return err
	} else if settled {
		if row, err = p.set.State.EnsurePipeline(ctx, p.set.Name); err != nil {
			return err
		}
	}
	if p.seen.claimed && !p.seen.reconciled {
		if err := p.claim(ctx, t); err != nil {
			return err
		}
	}
	if err := p.intents(ctx, t, now, row); err != nil {
		return err
	}
	if row.Paused {
		r.Outcome, r.Why = WasHeld, fmt.Sprintf("paused by %s: %s", row.PausedBy, row.PauseReason)
		return nil
	}
	for attempt := 0; ; attempt++ {
		again, err := p.run(ctx, t, row, now, o, r)
		if !again || attempt == maxSkipRounds {
			return err
		}
	}
}

// maxSkipRounds bounds how often one step starts over after it has skipped
// objects: each round finds at least one more per partition.
const maxSkipRounds = 100

// run surveys, plans and executes. again says that objects are skipped now
// and the step is to start over.
func (p *Pipeline) run(ctx context.Context, t term, row watermark.Pipeline, now time.Time, o StepOptions, r *Report) (again bool, _ error) {
	sv, err := p.survey(ctx, now, o)
	if err != nil {
		return false, err
	}
	plan, err := Decide(p.set.Rule, p.set.Calendar, sv.facts)
	if err != nil {
		return false, err
	}
	p.describe(r, sv, plan)
	switch plan.Kind {
	case Idle:
		r.Outcome = WasIdle
		p.backoff.reset()
		p.aheadOfClock(now, r)
		return false, p.findLate(ctx, row, plan, sv.facts.Listed.From, r)
	case Held:
		if plan.Promote && plan.Coverage.To.IsZero() {
			// window.on_gap forbids the candidate, and maybe not the live base.
			p.leaveAlone(sv.facts.Bases[0].ID, now.Add(setAside), errors.New(plan.Why))
			return true, nil
		}
		r.Outcome = WasHeld
		if plan.Future {
			p.holdForClock(plan.Watermark, now, r)
		}
		return false, p.findLate(ctx, row, plan, sv.facts.Listed.From, r)
	case Advance, Refine:
	}
	sign := func() string { return plan.signature(p.set.ConfigHash) }
	if !o.Force && !o.Retry && p.backoff.holds(sign) {
		return false, p.backoff.waiting()
	}
	planned := p.seen.head.Delta
	if err := p.claim(ctx, t); err != nil {
		return false, err
	}
	if now := p.seen.head.Delta; planned == nil != (now == nil) || planned != nil && *planned != *now {
		return true, nil // a predecessor's last change arrived meanwhile: the plan stands on another pane
	}
	if err := p.findLate(ctx, row, plan, sv.facts.Listed.From, r); err != nil {
		return false, err
	}
	p.findMissed(now, plan, sv.facts.Settle, r)
	run := p.journalEntry(t, plan)
	d, err := p.execute(ctx, t, plan, run)
	if err != nil {
		if due, err := p.doubts(ctx, run.ID, err); due {
			return false, err
		}
		if !blame.Outage(err) && !blame.Fenced(err) && ctx.Err() == nil {
			p.backoff.failed(sign(), err)
		}
		if p.unfitting(ctx, plan, err) || p.lose(plan, err) {
			return true, err
		}
		return p.objectFaults(ctx, t, run.ID, err)
	}
	p.backoff.reset()
	p.doubt = noDoubt
	p.published(d, plan, r)
	p.ripen(plan, r)
	p.forgive(ctx, t, sv.failing, plan)
	p.afterwards(ctx, plan)
	if !o.KeepGarbage {
		p.collect(ctx)
	}
	return false, nil
}

// describe reports what a step saw.
func (p *Pipeline) describe(r *Report, sv survey, plan Plan) {
	r.Prefixes, r.ListCalls, r.Quarantined = sv.listing.Prefixes, sv.calls, len(plan.Quarantined)
	r.Why, r.Clashes = plan.Why, sv.listing.Clashes
	r.Lagging = source.Lagging(sv.listing.Prefixes, p.set.Rule.Size/2)
	p.tellClashes(r.Clashes)
}

// tellClashes reports partitions that are spelled in several ways: once, until
// the listing has had none again.
func (p *Pipeline) tellClashes(clashes []source.Clash) {
	const about = "clashes of spellings"
	if len(clashes) == 0 {
		delete(p.told, about)
		return
	}
	if p.told[about] {
		return
	}
	if p.told == nil {
		p.told = map[string]bool{}
	}
	p.told[about] = true
	c := clashes[len(clashes)-1]
	p.set.Log.Warn("a partition is spelled in several ways, all of which are read", zap.String("pipeline", p.set.Name),
		zap.Time("partition", c.Partition), zap.Strings("spellings", c.Spellings), zap.Int("partitions", len(clashes)))
}

func (p *Pipeline) published(d done, plan Plan, r *Report) {
	r.Outcome = Refined
	if plan.Kind == Advance {
		r.Outcome = Advanced
	}
	r.RunID, r.Documents, r.Counts = d.manifest.RunID, d.manifest.Counts.Documents, d.manifest.Counts
	if d.stateErr != nil {
		r.StateErr = d.stateErr
		p.set.Log.Error("state store is behind the live pane", zap.String("pipeline", p.set.Name), zap.String("run", r.RunID), zap.Error(d.stateErr))
	}
}

// forgive forgets the failures of objects that were read after all: failures
// count in a row. It is best effort, the next publication tries again.
func (p *Pipeline) forgive(ctx context.Context, t term, failing []watermark.ObjectRef, plan Plan) {
	if len(failing) == 0 {
		return
	}
	read := map[ObjectID]bool{}
	for _, in := range plan.Inputs {
		for _, o := range in.Objects {
			read[ObjectID{Key: o.Key, ETag: o.ETag}] = true
		}
	}
	failing = slices.DeleteFunc(failing, func(o watermark.ObjectRef) bool { return !read[ObjectID{Key: o.Key, ETag: o.ETag}] })
	if len(failing) == 0 {
		return
	}
	if err := p.set.State.ClearFailures(ctx, t.lease, failing); err != nil {
		p.set.Log.Warn("failures of objects not forgotten", zap.String("pipeline", p.set.Name), zap.Error(err))
	}
}

// aheadOfClock turns an idle step into a held one where the watermark lies in
// the future: nothing can be newer than it until the clock has come there.
func (p *Pipeline) aheadOfClock(now time.Time, r *Report) {
	progress := p.progress()
	if progress.IsZero() || !progress.After(now.Add(p.set.Calendar.Granularity())) {
		return
	}
	p.holdForClock(progress, now, r)
}

// holdForClock says what to do about a watermark in the future.
func (p *Pipeline) holdForClock(progress, now time.Time, r *Report) {
	r.Outcome, r.heldFor = WasHeld, text(progress)+" lies in the future of this clock"
	r.Why = fmt.Sprintf("%s (%s): no partition is newer until then; if a wrong clock caused it, run "+
		"`deltad pause --pipeline %[3]s --reason …` and `deltad watermark reset --pipeline %[3]s --to %[4]s --reason …`",
		r.heldFor, text(now), p.set.Name, text(p.set.Calendar.Prev(now)))
}

// findMissed reports the objects that source.settle did not wait for. They are
// inputs of this run; what is told is that the setting is too small.
func (p *Pipeline) findMissed(now time.Time, plan Plan, settle time.Duration, r *Report) {
	fresh := p.late.miss(plan.Missed)
	if len(fresh) == 0 {
		return
	}
	var behind time.Duration
	for _, o := range fresh {
		behind = max(behind, now.Sub(p.set.Calendar.Next(o.Partition)))
	}
	larger := behind.Truncate(15*time.Second) + 15*time.Second
	r.Late += int64(len(fresh))
	r.Why += fmt.Sprintf("; %d came late, %s among them, although source.settle waits %s: %s would have been enough", len(fresh), fresh[0].Key, settle, larger)
	for _, o := range fresh {
		p.set.Log.Warn("object came after its partition was settled", zap.String("pipeline", p.set.Name),
			zap.Time("partition", o.Partition), zap.String("object", o.Key), zap.Duration("settle", settle), zap.Duration("suggested", larger))
	}
}

// findLate looks for late objects among those outside the coverage. It asks
// the ledger, so it waits until the state store agrees with CURRENT.
func (p *Pipeline) findLate(ctx context.Context, row watermark.Pipeline, plan Plan, from time.Time, r *Report) error {
	if !p.seen.reconciled && row.RunID != p.seen.head.RunID || plan.Coverage.To.IsZero() {
		return nil
	}
	found, err := p.late.look(plan.Outside, from, func(span partition.Range) (Ledger, error) {
		return ReadLedger(ctx, p.set.State, p.set.Name, span)
	})
	if err != nil {
		return fmt.Errorf("look for late objects: %w", err)
	}
	r.Late += int64(len(found))
	if len(found) > 0 {
		r.Why += fmt.Sprintf("; %d came late, %s among them, when coverage had passed their partitions", len(found), found[0].Key)
	}
	for _, o := range found {
		p.set.Log.Warn("late object outside the coverage", zap.String("pipeline", p.set.Name),
			zap.Time("partition", o.Partition), zap.String("object", o.Key))
	}
	return nil
}

// objectFaults decides what the objects that a run could not read mean: again
// says that they are skipped now and the step is to start over.
func (p *Pipeline) objectFaults(ctx context.Context, t term, runID string, err error) (again bool, _ error) {
	faults := blame.Objects(err)
	if len(faults) == 0 {
		return false, err
	}
	after := p.set.SkipAfter
	if p.set.ObjectErrors == ObjectSkip {
		after = 1
	}
	failures := make([]watermark.ObjectFailure, len(faults))
	for i, f := range faults {
		failures[i] = watermark.ObjectFailure{Key: f.Object.Key, ETag: f.Object.ETag, Error: f.Err.Error()}
	}
	states, rerr := p.set.State.RecordFailures(ctx, t.lease, runID, failures, after)
	if rerr != nil {
		return false, errors.Join(err, fmt.Errorf("record failed objects: %w", rerr))
	}
	for _, st := range states {
		if !st.SkippedAt.IsZero() {
			again = true
			p.set.Log.Error("object skipped", zap.String("pipeline", p.set.Name), zap.String("object", st.Key),
				zap.Int("failures", st.Failures), zap.String("err", st.LastError))
		}
	}
	return again, err
}

// fillIn adds what is known of CURRENT to a report.
func (p *Pipeline) fillIn(r *Report) {
	h := p.seen.head
	r.LateWaiting = int64(len(p.late.found) + len(p.late.missed))
	if h.Watermark != nil {
		r.Watermark, r.Progress, r.PublishedAt = h.Watermark.Time, h.Progress.Time, h.PublishedAt.Time
		r.Manifest = h.Delta.Manifest
	}
	if h.Base != nil {
		r.Base, r.Cut = h.Base.Generation, h.Base.Cut.Time
	}
	if p.seen.live != nil {
		if b := p.seen.live.Base; b != nil {
			r.Stale = b.StaleCount
		}
		r.Skipped = len(p.seen.live.Skipped)
		r.Uncovered = uncovered(pastOf(p.seen.live, r.Progress).Gaps, p.set.Calendar)
		if r.Documents == 0 {
			r.Documents = h.Delta.Documents
		}
	}
}

// log writes one line per committed pane, per failure, and per reason to be
// held: a pause of a night would be a thousand warnings.
func (p *Pipeline) log(r Report) {
	held, reason := p.heldWhy, cmp.Or(r.heldFor, r.Why)
	if p.heldWhy = ""; r.Outcome == WasHeld {
		p.heldWhy = reason
	}
	fields := []zap.Field{
		zap.String("pipeline", r.Pipeline), zap.String("outcome", string(r.Outcome)),
		zap.Int64("epoch", r.Epoch), zap.Duration("took", r.Duration), zap.String("why", r.Why),
	}
	if !r.Watermark.IsZero() {
		fields = append(fields, zap.Time("watermark", r.Watermark))
	}
	switch r.Outcome {
	case Advanced, Refined:
		p.set.Log.Info("pane published", append(fields, zap.String("run", r.RunID), zap.Int64("documents", r.Documents),
			zap.Int64("new", r.Counts.New), zap.Int64("changed", r.Counts.Changed), zap.Int64("left", r.Counts.Left),
			zap.Int("slices", r.Slices), zap.Int("reused", r.Reused))...)
	case Failed:
		p.set.Log.Error("run failed", append(fields, zap.Error(r.Err))...)
	case WasHeld:
		if reason != held {
			p.set.Log.Warn("held", fields...)
		}
	default:
		p.set.Log.Debug("step", fields...)
	}
}

// at tells the trace where a run stands; tests stop the process there.
func (p *Pipeline) at(step string) {
	if p.set.Trace != nil {
		p.set.Trace(step)
	}
}

// ownerOf is the writer that CURRENT names for a lease.
func (p *Pipeline) ownerOf(ctx context.Context, l watermark.Lease) (sink.Owner, error) {
	id, err := p.set.State.StateID(ctx)
	if err != nil {
		return sink.Owner{}, fmt.Errorf("read the state store's id: %w", err)
	}
	return sink.Owner{Epoch: l.Epoch, Nonce: l.Nonce, State: id, Instance: p.set.Instance}, nil
}
