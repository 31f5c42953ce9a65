package microbatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// RollbackPlan says what publishing a former pane again would mean: what
// readers then have, and what the next run makes of it.
type RollbackPlan struct {
	Pipeline string       `json:"pipeline"`
	From     RollbackPane `json:"from"`
	To       RollbackPane `json:"to"`
	// Bar is the generation that is left and may not be promoted again by
	// itself; empty where the base stays. Pause says that the pipeline is
	// paused, because the next run would publish what is left here.
	Bar   string `json:"bar,omitempty"`
	Pause bool   `json:"pause"`
	// Back is how much older the data gets, in seconds of watermark.
	Back float64 `json:"back_seconds"`
	// Next is the run that follows, at once or when the pipeline is resumed,
	// Recomputed what it reads.
	Next       ResetNext `json:"next"`
	Recomputed Tally     `json:"recomputed"`
	// Digest identifies what a caller agrees to: the panes, the bar, the pause
	// and the configuration.
	Digest string `json:"digest"`
}

// RollbackPane is one side of a rollback. Generation and Cut are empty without
// a base.
type RollbackPane struct {
	RunID      string     `json:"run_id"`
	Manifest   sink.Ref   `json:"manifest"`
	Watermark  time.Time  `json:"watermark"`
	Documents  int64      `json:"documents"`
	CreatedAt  time.Time  `json:"created_at"`
	Generation string     `json:"generation,omitempty"`
	Cut        *time.Time `json:"cut"`
}

func rollbackPane(ref sink.Ref, m sink.Manifest) RollbackPane {
	out := RollbackPane{
		RunID: m.RunID, Manifest: ref, Watermark: m.Watermark.UTC(), Documents: m.Counts.Documents, CreatedAt: m.CreatedAt.UTC(),
	}
	if b := m.Base; b != nil {
		cut := b.Cut.UTC()
		out.Generation, out.Cut = b.Generation, &cut
	}
	return out
}

// Former finds the last pane over a base that was left, and returns the live
// pane, which knows of the last few; ok is false where it does not know the
// base. Before the first pane it is sink.ErrNoPane.
func (p *Pipeline) Former(ctx context.Context, generation string) (f sink.Former, live sink.Manifest, ok bool, err error) {
	if err := p.refresh(ctx); err != nil {
		return f, live, false, err
	}
	if p.seen.live == nil {
		return f, live, false, fmt.Errorf("look for former bases of %s: %w", p.set.Name, sink.ErrNoPane)
	}
	live = *p.seen.live
	f, ok = live.FormerBase(generation)
	return f, live, ok, nil
}

// PlanRollback looks at what going back to the pane of a manifest would mean,
// with its base and, where pause says so, with the pipeline paused. It writes
// nothing. What cannot be gone back to is sink.ErrTransition, what is not there
// any more sink.ErrCondemned, and before the first pane it is sink.ErrNoPane. It
// leaves the pipeline as it was, but must not be called while Step or Serve is.
func (p *Pipeline) PlanRollback(ctx context.Context, now time.Time, to sink.Ref, pause bool) (RollbackPlan, error) {
	what := fmt.Sprintf("plan rollback of %s to %s", p.set.Name, to.Manifest)
	if err := p.refresh(ctx); err != nil {
		return RollbackPlan{}, err
	}
	if p.seen.live == nil {
		return RollbackPlan{}, fmt.Errorf("%s: %w", what, sink.ErrNoPane)
	}
	head, live := p.seen.head, *p.seen.live
	target, err := p.set.Sink.RollbackTarget(ctx, head, to)
	if err != nil {
		return RollbackPlan{}, fmt.Errorf("%s: %w", what, err)
	}
	plan := RollbackPlan{
		Pipeline: p.set.Name, From: rollbackPane(p.seen.ref, live), To: rollbackPane(to, target), Pause: pause,
		Back: live.Watermark.Sub(target.Watermark.Time).Seconds(),
	}
	if live.Base != nil && target.Base.Generation != live.Base.Generation {
		plan.Bar = live.Base.Generation
	}
	m := sink.RollbackManifest(sink.Owner{}, head, live, target, sink.RollbackOptions{
		Target: to, Now: now, SupportUntil: now.Add(p.set.SupportPrevious),
	})
	after := New(p.set)
	after.seen = memory{head: head, live: &m, ref: to}
	pane := sink.Pane(to, m)
	after.seen.head.Watermark, after.seen.head.Progress, after.seen.head.Delta, after.seen.head.Base = pane.Watermark, pane.Progress, pane.Delta, pane.Base
	s, err := after.survey(ctx, now, StepOptions{})
	if err != nil {
		return RollbackPlan{}, fmt.Errorf("%s: %w", what, err)
	}
	next, err := Decide(p.set.Rule, p.set.Calendar, s.facts)
	if err != nil {
		return RollbackPlan{}, fmt.Errorf("%s: the run after it: %w", what, err)
	}
	plan.Next = ResetNext{Kind: next.Kind, Why: next.Why, Watermark: next.Watermark, Coverage: next.Coverage.Range}
	var reread []partition.Object
	if next.Kind != Idle {
		for _, in := range next.Inputs {
			reread = append(reread, in.Objects...)
		}
	}
	plan.Recomputed = tally(reread)
	plan.Digest, err = plan.digest(p.set.ConfigHash)
	return plan, err
}

// digest hashes what the caller agrees to, as canonical JSON.
func (p RollbackPlan) digest(config string) (string, error) {
	body, err := json.Marshal(struct {
		Format, Pipeline, Config string
		From, To                 sink.Ref
		Bar                      string
		Pause                    bool
	}{"deltad.rollback-plan/1", p.Pipeline, config, p.From.Manifest, p.To.Manifest, p.Bar, p.Pause})
	if err != nil {
		return "", fmt.Errorf("encode rollback plan: %w", err)
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}
