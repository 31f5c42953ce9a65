package control

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// Plan is a planned reset and the version of the pipeline's row at which it
// was planned.
type Plan struct {
	microbatch.ResetPlan
	Version int64 `json:"version"`
	Paused  bool  `json:"paused"`
}

// PlanReset says what a reset to to would mean, and changes nothing. The
// pipeline need not be paused.
func (p Pipe) PlanReset(ctx context.Context, now, to time.Time) (Plan, error) {
	if err := p.target(to); err != nil {
		return Plan{}, err
	}
	// The row is read first: a change during the planning then shows as stale.
	row, err := p.Row(ctx)
	if err != nil {
		return Plan{}, err
	}
	plan, err := p.pipe.Pipeline().PlanReset(ctx, now, to)
	switch {
	case errors.Is(err, sink.ErrNoPane):
		return Plan{}, refuse(NoPane, "", "pipeline %s has published nothing yet: there is no progress to move", p.name)
	case err != nil:
		return Plan{}, err
	case plan.To.Equal(plan.From):
		return Plan{}, refuse(AlreadyThere, "to", "progress is %s already", text(to))
	case plan.To.After(plan.From) && plan.To.After(now.Add(p.pipe.Source.Layout().Calendar.Granularity())):
		return Plan{}, refuse(InTheFuture, "to", "%s lies in the future of this clock (%s): no partition would be newer until then", text(to), text(now))
	}
	return Plan{ResetPlan: plan, Version: row.Version, Paused: row.Paused}, nil
}

// target checks what can be checked of a target without looking anywhere.
func (p Pipe) target(to time.Time) error {
	if to.IsZero() {
		return refuse(InvalidField, "to", "required: the start of a partition, RFC 3339")
	}
	if c := p.pipe.Source.Layout().Calendar; !c.IsStart(to) {
		return refuse(NotAStart, "to", "no partition starts at %s; the nearest are %s and %s", text(to), text(c.Floor(to)), text(c.Next(to)))
	}
	return nil
}

// ResetRequest asks for a reset that was planned.
type ResetRequest struct {
	Change
	To time.Time
	// Digest is the plan's. Version is that of the pipeline's row as the caller
	// last saw it; nil means that none was given, which is refused.
	Digest  string
	Version *int64
	// AcceptDataLoss agrees to what the plan says is unread or cut off.
	AcceptDataLoss bool
	// Wait is how long to wait for it to be carried out.
	Wait time.Duration
}

// Reset decides a reset and has it carried out. It returns the intent as it
// stood when the wait ended: applied, or pending where no answer came in time.
// An intent that failed is a ResetFailed refusal. The pipeline stays paused.
func (p Pipe) Reset(ctx context.Context, now time.Time, r ResetRequest) (watermark.Intent, error) {
	row, err := p.Row(ctx)
	if err != nil {
		return watermark.Intent{}, err
	}
	ch, again, err := p.known(ctx, r.Change, r.Digest, func(in watermark.Intent) bool {
		return in.Kind == watermark.IntentReset && in.Target.Equal(r.To)
	})
	if err != nil {
		return watermark.Intent{}, err
	}
	if again == nil {
		plan, err := p.admit(ctx, now, row, ch, r)
		if err != nil {
			return watermark.Intent{}, err
		}
		in, err := p.intent(plan, ch, r)
		if err != nil {
			return watermark.Intent{}, err
		}
		if again, err = p.decide(ctx, in, *r.Version, fmt.Sprintf("reset of %s to %s", p.name, text(plan.To))); err != nil {
			return watermark.Intent{}, err
		}
	}
	in, err := p.carryOut(ctx, *again, r.Wait)
	if err == nil && in.State == watermark.IntentFailed {
		return in, refuse(ResetFailed, "", "reset %s was given up: %s", in.ID, in.Note)
	}
	return in, err
}

// carryOut waits until what was decided has come about, or does it.
func (p Pipe) carryOut(ctx context.Context, in watermark.Intent, wait time.Duration) (watermark.Intent, error) {
	err := p.await(ctx, wait, func(ctx context.Context) (bool, error) {
		now, err := p.app.State.IntentByID(ctx, in.ID)
		if err != nil {
			return false, fmt.Errorf("look for %s %s: %w", in.Kind, in.ID, err)
		}
		in = now
		return in.State != watermark.IntentPending, nil
	}, func(ctx context.Context, t microbatch.Term) error { return t.Settle(ctx) })
	if err != nil {
		return in, fmt.Errorf("%s %s of %s is decided and not carried out yet (the next leader goes on with it): %w", in.Kind, in.ID, p.name, err)
	}
	return in, nil
}

// known finds the intent that an earlier call of the same id has made; same
// says that it is what is asked for now.
func (p Pipe) known(ctx context.Context, c Change, digest string, same func(watermark.Intent) bool) (watermark.Change, *watermark.Intent, error) {
	ch, err := p.change(c)
	if err != nil || c.ID == "" {
		return ch, nil, err
	}
	in, err := p.app.State.IntentByID(ctx, ch.ID)
	switch {
	case errors.Is(err, watermark.ErrNotFound):
		return ch, nil, nil
	case err != nil:
		return ch, nil, err
	case in.Pipeline != p.name || in.Digest != digest || !same(in):
		return ch, nil, refuse(KeyReused, "idempotency_key", "%s is the id of another %s, of %s", ch.ID, in.Kind, in.Pipeline)
	}
	return ch, &in, nil
}

// current refuses a version of the pipeline's row that is not the one now.
// where says where a caller finds it.
func (p Pipe) current(row watermark.Pipeline, version *int64, where string) error {
	switch {
	case version == nil:
		return refuse(VersionRequired, "If-Match", "say which version of the pipeline %s", where)
	case *version != row.Version:
		return refuse(StaleVersion, "If-Match", "pipeline %s is at version %d, which is not the one given: plan again", p.name, row.Version)
	}
	return nil
}

// agreed refuses a digest that is not the plan's.
func agreed(digest, plan string) error {
	switch {
	case digest == "":
		return refuse(InvalidField, "digest", "required: the digest of the plan that you agree to")
	case subtle.ConstantTimeCompare([]byte(digest), []byte(plan)) != 1:
		return refuse(DigestMismatch, "digest", "the plan is another one now: plan again and look at it")
	}
	return nil
}

// decide writes an intent; what says it in an error.
func (p Pipe) decide(ctx context.Context, in watermark.Intent, version int64, what string) (*watermark.Intent, error) {
	id := in.ID
	in, err := p.app.State.CreateIntent(ctx, in, version)
	switch {
	case errors.Is(err, watermark.ErrReused):
		return nil, unlessReused(id, err)
	case errors.Is(err, watermark.ErrNotPaused):
		return nil, refuse(NotPaused, "", "pipeline %s was resumed meanwhile: pause it first", p.name)
	case errors.Is(err, watermark.ErrStaleVersion):
		return nil, refuse(StaleVersion, "If-Match", "pipeline %s was changed meanwhile: plan again", p.name)
	case errors.Is(err, watermark.ErrConflict):
		return nil, refuse(ResetPending, "", "%v", err)
	case err != nil:
		return nil, fmt.Errorf("decide %s: %w", what, err)
	}
	return &in, nil
}

// admit holds a request to the rules, in an order that says first what the
// caller must do first.
func (p Pipe) admit(ctx context.Context, now time.Time, row watermark.Pipeline, ch watermark.Change, r ResetRequest) (Plan, error) {
	if !row.Paused {
		return Plan{}, refuse(NotPaused, "", "pipeline %s is not paused: pause it first", p.name)
	}
	if err := p.current(row, r.Version, "the reset was planned at: GET …/watermark has it as its ETag"); err != nil {
		return Plan{}, err
	}
	if err := Reasoned(ch.Reason); err != nil {
		return Plan{}, err
	}
	plan, err := p.PlanReset(ctx, now, r.To)
	if err == nil {
		err = agreed(r.Digest, plan.Digest)
	}
	switch {
	case err != nil:
		return Plan{}, err
	case plan.Next.Kind == microbatch.Held:
		return Plan{}, refuse(WouldHold, "to", "the next run would be held: %s", plan.Next.Why)
	case plan.NeedsAcceptance && !r.AcceptDataLoss:
		return Plan{}, refuse(DataLoss, "accept_data_loss", "%s; to do it all the same, say that data loss is accepted", losses(plan))
	}
	return plan, nil
}

func losses(p Plan) string {
	if p.Gap == nil {
		return fmt.Sprintf("the move from %s to %s passes over %d partitions that were never read (%s to %s), of which %d would stay unread",
			text(p.From), text(p.To), p.Unread.Partitions, text(*p.Unread.First), text(*p.Unread.Last), p.Lost.Partitions)
	}
	s := fmt.Sprintf("window.max keeps the next run from reaching back to %s: %d partitions in %s would not be covered", text(p.To), p.GapPartitions, p.Gap)
	if p.Unread.Partitions > 0 {
		s += fmt.Sprintf(", and %d partitions were never read", p.Unread.Partitions)
	}
	return s
}

// intent is what a planned reset decides.
func (p Pipe) intent(plan Plan, ch watermark.Change, r ResetRequest) (watermark.Intent, error) {
	details, err := json.Marshal(plan.told())
	if err != nil {
		return watermark.Intent{}, fmt.Errorf("encode the plan of reset %s: %w", ch.ID, err)
	}
	return watermark.Intent{
		ID: ch.ID, Pipeline: p.name, Target: plan.To, Digest: plan.Digest, Actor: ch.Actor, Reason: ch.Reason,
		AcceptDataLoss: r.AcceptDataLoss, Details: details,
	}, nil
}

// told is the plan as the audit trail keeps it: sums and bounds, without the
// partitions one by one.
func (p Plan) told() Plan {
	for _, t := range []*microbatch.Tally{&p.Recomputed, &p.Skipped, &p.Unread, &p.Lost} {
		t.Starts = []time.Time{}
	}
	return p
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
