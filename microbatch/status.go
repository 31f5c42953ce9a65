package microbatch

import (
	"context"
	"fmt"
	"time"

	"github.com/deltad/deltad/partition"
)

// LateWaiting looks for the objects that came late and that no publication has
// entered into the state store yet, of runID's pane as the store has it: what a
// step at now would count, by name. Where the live pane is another one nobody
// can tell, and there are none. It lists what a step lists and writes nothing.
// It must not be called while Step or Serve is.
func (p *Pipeline) LateWaiting(ctx context.Context, now time.Time, runID string) ([]partition.Object, error) {
	if err := p.refresh(ctx); err != nil {
		return nil, err
	}
	if p.seen.live == nil || p.seen.head.RunID != runID {
		return nil, nil
	}
	s, err := p.survey(ctx, now, StepOptions{KeepBase: true})
	if err != nil {
		return nil, err
	}
	plan, err := Decide(p.set.Rule, p.set.Calendar, s.facts)
	if err != nil || plan.Coverage.To.IsZero() {
		return nil, err
	}
	var z lateZone // remembers nothing: the ledger tells what is new
	late, err := z.look(plan.Outside, s.facts.Listed.From, func(span partition.Range) (Ledger, error) {
		return ReadLedger(ctx, p.set.State, p.set.Name, span)
	})
	if err != nil {
		return nil, fmt.Errorf("look for late objects: %w", err)
	}
	return append(late, plan.Missed...), nil
}
