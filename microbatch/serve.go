package microbatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/tenure"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// controlEvery is how often a leader looks for resets, rollbacks and requests
// between triggers.
const controlEvery = 2 * time.Second

// Once takes one step at now under a lease of its own and gives it back. The
// outcome is Standby where somebody else holds it.
func (p *Pipeline) Once(ctx context.Context, now time.Time, o StepOptions) Report {
	ctx, ten, t, err := p.enter(ctx, 0)
	if err != nil {
		r := Report{Pipeline: p.set.Name, Outcome: Failed, Why: err.Error(), Err: err}
		if errors.Is(err, watermark.ErrHeld) {
			r.Outcome, r.Err = Standby, nil
		}
		if rerr := p.refresh(ctx); rerr == nil {
			p.fillIn(&r)
		}
		p.heldWhy = ""
		p.set.Observe(r)
		return r
	}
	defer p.leave(ctx, ten)
	r := p.step(ctx, t, now, o)
	p.shelf.end(keepPatience)
	return r
}

// enter acquires the lease, above the epoch in CURRENT and above least, and
// starts holding it. CURRENT is read under the lease, and once: the first
// refresh takes what was read here.
func (p *Pipeline) enter(ctx context.Context, least int64) (context.Context, *tenure.Tenure, term, error) {
	for {
		began := time.Now()
		lease, err := p.acquire(ctx, least)
		if err != nil {
			return ctx, nil, term{}, err
		}
		held, ten := tenure.Hold(ctx, p.set.State, lease, began)
		seen, err := p.look(held)
		if err == nil && seen >= lease.Epoch {
			// A state store younger than CURRENT: its epochs go on from there.
			p.leave(ctx, ten)
			least = seen
			continue
		}
		var me sink.Owner
		if err == nil {
			me, err = p.ownerOf(held, lease)
		}
		if err != nil {
			p.leave(ctx, ten)
			return ctx, nil, term{}, err
		}
		p.seen.claimed, p.seen.reconciled, p.seen.inherited, p.seen.unsettled = false, false, false, 0
		p.shelf.begin(lease.Epoch)
		return held, ten, term{lease: lease, me: me}, nil
	}
}

// acquire gives up when the lease's time is over: one that takes longer gives
// nothing to trust in.
func (p *Pipeline) acquire(ctx context.Context, least int64) (watermark.Lease, error) {
	ctx, stop := context.WithTimeout(ctx, p.set.LeaseTTL)
	defer stop()
	return p.set.State.Acquire(ctx, p.set.Name, watermark.RoleDelta, p.set.Instance, p.set.LeaseTTL, least)
}

func (p *Pipeline) leave(ctx context.Context, ten *tenure.Tenure) {
	p.shelf.end(handOverPatience)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if err := ten.End(ctx); err != nil {
		p.set.Log.Warn("lease not released; it expires by itself", zap.String("pipeline", p.set.Name), zap.Error(err))
	}
}

// Serve leads the pipeline whenever it can get the lease, taking a step at
// once and then at every fire of the schedule, until ctx ends. A run in hand
// may go on for Grace after that. A fire during a run is not lost and not
// queued: one step follows at once.
func (p *Pipeline) Serve(ctx context.Context, schedule cron.Schedule) error {
	for ctx.Err() == nil {
		work, release := p.outliving(ctx)
		held, ten, t, err := p.enter(work, 0)
		if err != nil {
			release()
			p.standBy(ctx, err, schedule)
			continue
		}
		p.set.Log.Info("leading", zap.String("pipeline", p.set.Name), zap.Int64("epoch", t.lease.Epoch))
		p.lead(ctx, held, t, schedule)
		cause := context.Cause(held)
		p.leave(work, ten)
		release()
		p.set.Log.Info("no longer leading", zap.String("pipeline", p.set.Name), zap.Int64("epoch", t.lease.Epoch), zap.NamedError("cause", cause))
	}
	return nil
}

// outliving returns a context that ends Grace after ctx does.
func (p *Pipeline) outliving(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if tenure.Sleep(work, p.set.Grace) {
			cancel(fmt.Errorf("stopped %s after it was asked for: %w", p.set.Grace, context.Cause(ctx)))
		}
	})
	return work, func() { stop(); cancel(context.Canceled) }
}

// standBy waits before the next try for the lease: for the next fire at most,
// so that a lease that was given back costs no more than a trigger.
func (p *Pipeline) standBy(ctx context.Context, err error, schedule cron.Schedule) {
	r := Report{Pipeline: p.set.Name, Outcome: Standby, Why: err.Error()}
	wait := p.set.LeaseTTL / 3
	if next := schedule.Next(time.Now()); !next.IsZero() {
		wait = min(wait, time.Until(next))
	}
	var held *watermark.HeldError
	switch {
	case errors.As(err, &held):
		wait = min(wait, held.Remaining+100*time.Millisecond)
	case ctx.Err() != nil:
		return
	default:
		r.Outcome, r.Err = Failed, err
		p.set.Log.Error("cannot stand for the lease", zap.String("pipeline", p.set.Name), zap.Error(err))
	}
	if rerr := p.refresh(ctx); rerr == nil {
		p.fillIn(&r)
	}
	p.heldWhy = ""
	p.set.Observe(r)
	tenure.Sleep(ctx, wait)
}

// lead takes a step at once and then at every fire of the schedule, until
// stop ends or the lease is lost. work is the context of the steps.
func (p *Pipeline) lead(stop, work context.Context, t term, schedule cron.Schedule) {
	control := time.NewTicker(controlEvery)
	defer control.Stop()
	next := time.Now()
	for {
		// A clock that was set back must not make the schedule wait for it.
		if n := schedule.Next(time.Now()); !n.IsZero() && n.Before(next) {
			next = n
		}
		fire := newFire(next)
		var err error
		select {
		case <-stop.Done():
		case <-work.Done():
		case <-control.C:
			err = p.attend(stop, work, t)
		case <-p.poke:
			err = p.attend(stop, work, t)
		case <-fire.C:
			if stop.Err() == nil {
				err = p.step(work, t, time.Now(), StepOptions{}).Err
				next = following(schedule, next, time.Now())
			}
		}
		fire.Stop()
		if stop.Err() != nil || work.Err() != nil || blame.Fenced(err) {
			return
		}
	}
}

// newFire is a timer for an instant; the zero instant never comes.
func newFire(at time.Time) *time.Timer {
	if at.IsZero() {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTimer(time.Until(at))
}

// following is when to step after the step for due has ended at now: at the
// next fire, or at once where fires have passed meanwhile, which one step
// makes up for.
func following(schedule cron.Schedule, due, now time.Time) time.Time {
	next := schedule.Next(due)
	if !next.IsZero() && next.Before(now) {
		return now
	}
	return next
}

// attend carries out resets, rollbacks and requests between triggers. A failure is
// logged; the next look tries again.
func (p *Pipeline) attend(stop, ctx context.Context, t term) (err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			p.set.Log.Error("requests not attended to", zap.String("pipeline", p.set.Name), zap.Error(err))
		}
	}()
	defer rescue.Into(&err, "attend to requests")
	pending, err := p.set.State.PendingIntents(ctx, p.set.Name)
	if err == nil && len(pending) > 0 {
		err = Term{p, t}.Settle(ctx)
	}
	if err != nil {
		return err
	}
	return p.requests(stop, ctx, t)
}
