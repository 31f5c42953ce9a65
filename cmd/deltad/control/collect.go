package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// CollectRequest asks for garbage to be collected now.
type CollectRequest struct {
	Change
	// Wait is how long to wait for the leader.
	Wait time.Duration
}

// Collect collects garbage: here, under a lease of its own, where no leader
// lives, else by the leader, who is asked and waited for. It returns what was
// done. Where no answer comes in time that is an error, and the leader does it all
// the same.
func (p Pipe) Collect(ctx context.Context, r CollectRequest) (done sink.Collection, _ error) {
	ch, err := p.change(r.Change)
	if err != nil {
		return done, err
	}
	err = p.pipe.Pipeline().Under(ctx, func(ctx context.Context, t microbatch.Term) (err error) {
		done, err = t.Collect(ctx, false)
		return err
	})
	if !errors.Is(err, watermark.ErrHeld) {
		return done, err
	}
	rq := watermark.Request{ID: ch.ID, Pipeline: p.name, Kind: microbatch.RequestCollect, Actor: ch.Actor, Reason: ch.Reason}
	if err := unlessReused(ch.ID, p.app.State.Enqueue(ctx, rq)); err != nil {
		return done, fmt.Errorf("queue a collection of %s: %w", p.name, err)
	}
	rq.State = watermark.RequestPending
	err = p.await(ctx, r.Wait, func(ctx context.Context) (bool, error) {
		now, err := p.app.State.RequestByID(ctx, ch.ID)
		if err != nil {
			return false, fmt.Errorf("look for request %s: %w", ch.ID, err)
		}
		rq = now
		return rq.State == watermark.RequestDone || rq.State == watermark.RequestFailed, nil
	}, func(ctx context.Context, t microbatch.Term) error { return t.Attend(ctx) })
	if err != nil {
		return done, err
	}
	return collected(rq, r.Wait)
}

// collected is the answer to a request.
func collected(rq watermark.Request, wait time.Duration) (sink.Collection, error) {
	var result struct {
		Collection sink.Collection `json:"collection"`
		Error      string          `json:"error"`
	}
	switch rq.State {
	case watermark.RequestDone, watermark.RequestFailed:
		if err := json.Unmarshal(rq.Result, &result); err != nil {
			return sink.Collection{}, fmt.Errorf("decode the answer to request %s: %w", rq.ID, err)
		}
	default:
		return sink.Collection{}, fmt.Errorf("request %s is %s: the leader has not answered within %s", rq.ID, rq.State, wait)
	}
	if rq.State == watermark.RequestFailed {
		return sink.Collection{}, fmt.Errorf("request %s: %s", rq.ID, result.Error)
	}
	return result.Collection, nil
}
