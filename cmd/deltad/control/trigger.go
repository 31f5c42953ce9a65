package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// TriggerRequest asks for one run now.
type TriggerRequest struct {
	Change
	// AcceptLoss publishes although many inputs vanished at once; it takes a
	// reason.
	AcceptLoss bool
	// Wait is how long to wait for the run.
	Wait time.Duration
}

// Triggered is what became of a TriggerRequest. Outcome, Why and RunID are
// empty while State is pending or taken.
type Triggered struct {
	ID      string                 `json:"request_id"`
	State   watermark.RequestState `json:"state"`
	Outcome microbatch.Outcome     `json:"outcome,omitempty"`
	Why     string                 `json:"why,omitempty"`
	RunID   string                 `json:"run_id,omitempty"`
}

// Finished says that the run is over, one way or another.
func (t Triggered) Finished() bool {
	return t.State == watermark.RequestDone || t.State == watermark.RequestFailed
}

// Trigger queues a run with the leader and waits for it. Accepting a loss is
// audited before it is asked for.
func (p Pipe) Trigger(ctx context.Context, r TriggerRequest) (Triggered, error) {
	ch, err := p.change(r.Change)
	if err != nil {
		return Triggered{}, err
	}
	args, err := json.Marshal(map[string]bool{"accept_loss": r.AcceptLoss})
	if err != nil {
		return Triggered{}, fmt.Errorf("encode a trigger of %s: %w", p.name, err)
	}
	if r.AcceptLoss {
		if err := p.auditLoss(ctx, ch, args); err != nil {
			return Triggered{}, err
		}
	}
	err = p.app.State.Enqueue(ctx, watermark.Request{
		ID: ch.ID, Pipeline: p.name, Kind: microbatch.RequestTrigger, Actor: ch.Actor, Reason: ch.Reason, Args: args,
	})
	if err := unlessReused(ch.ID, err); err != nil {
		return Triggered{}, fmt.Errorf("queue a trigger of %s: %w", p.name, err)
	}
	out := Triggered{ID: ch.ID, State: watermark.RequestPending}
	err = p.await(ctx, r.Wait, func(ctx context.Context) (bool, error) {
		rq, err := p.app.State.RequestByID(ctx, ch.ID)
		if err != nil {
			return false, fmt.Errorf("look for request %s: %w", ch.ID, err)
		}
		out, err = triggered(rq)
		return out.Finished(), err
	}, func(ctx context.Context, t microbatch.Term) error { return t.Attend(ctx) })
	return out, err
}

// auditLoss audits that a loss is accepted, unless the id is that of a trigger
// that accepts none: what is refused was never asked for.
func (p Pipe) auditLoss(ctx context.Context, ch watermark.Change, args []byte) error {
	if err := Reasoned(ch.Reason); err != nil {
		return err
	}
	switch old, err := p.app.State.RequestByID(ctx, ch.ID); {
	case err == nil && !bytes.Equal(bytes.ReplaceAll(old.Args, []byte(" "), nil), args):
		return refuse(KeyReused, "idempotency_key", "%s is the id of another request", ch.ID)
	case err != nil && !errors.Is(err, watermark.ErrNotFound):
		return fmt.Errorf("look for request %s: %w", ch.ID, err)
	}
	err := p.app.State.AppendAudit(ctx, watermark.AuditEntry{
		ID: ch.ID, Actor: ch.Actor, Action: "trigger-accept-loss", Pipeline: p.name, Reason: ch.Reason,
	})
	if err := unlessReused(ch.ID, err); err != nil {
		return fmt.Errorf("audit a trigger of %s: %w", p.name, err)
	}
	return nil
}

func triggered(rq watermark.Request) (Triggered, error) {
	out := Triggered{ID: rq.ID, State: rq.State}
	if !out.Finished() {
		return out, nil
	}
	var result struct {
		Outcome microbatch.Outcome `json:"outcome"`
		Why     string             `json:"why"`
		RunID   string             `json:"run_id"`
		Error   string             `json:"error"`
	}
	if err := json.Unmarshal(rq.Result, &result); err != nil {
		return out, fmt.Errorf("decode the answer to request %s: %w", rq.ID, err)
	}
	out.Outcome, out.Why, out.RunID = result.Outcome, result.Why+result.Error, result.RunID
	if rq.State == watermark.RequestFailed {
		out.Outcome = microbatch.Failed
	}
	return out, nil
}
