package microbatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// surveyBases opens the bases that a plan is made over: those of the live
// pane, or a candidate that may be promoted and the base that it replaces.
func (p *Pipeline) surveyBases(ctx context.Context, now time.Time, o StepOptions, f *Facts) error {
	live, err := p.basesOf(ctx, p.seen.live)
	if err != nil {
		return err
	}
	f.Bases, f.Expired = live, nil
	if p.seen.live != nil {
		for i, s := range p.seen.live.Supports {
			if !s.Until.After(now) {
				f.Expired = append(f.Expired, live[i+1])
			}
		}
	}
	f.Breaking = breaking(p.set.Program, f.Bases)
	if p.seen.live == nil || !p.set.Full || o.KeepBase {
		return nil
	}
	candidate, err := p.candidate(ctx, now)
	if err != nil || candidate == nil {
		return err
	}
	if b := p.set.Program.Since(candidate.Bound).Breaking; len(b) > 0 {
		p.tellOnce(candidate.ID, "candidate was built with another configuration", strings.Join(b, "; "))
		return nil
	}
	f.Promote, f.Breaking, f.Expired = true, nil, nil
	f.Bases = []*Generation{candidate}
	if len(live) > 0 && p.set.SupportPrevious > 0 {
		f.Bases = append(f.Bases, live[0])
	}
	return nil
}

// breaking is how a program breaks with the base of a pane.
func breaking(program *index.Program, bases []*Generation) []string {
	if len(bases) == 0 {
		return nil
	}
	return program.Since(bases[0].Bound).Breaking
}

// candidate is the generation that is to be promoted, nil if there is none.
func (p *Pipeline) candidate(ctx context.Context, now time.Time) (*Generation, error) {
	r, err := p.set.State.ReadyRebuild(ctx, p.set.Name)
	if errors.Is(err, watermark.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a candidate base: %w", err)
	}
	if b := p.seen.head.Base; b != nil && b.Generation == r.ID {
		return nil, nil
	}
	if until, aside := p.unfit[r.ID]; aside && (until.IsZero() || now.Before(until)) {
		return nil, nil
	}
	if _, left := p.seen.live.FormerBase(r.ID); left && r.PromotedBy == "" {
		// A state store that was set back knows neither the promotion nor the
		// rollback that left it.
		p.tellOnce(r.ID, "candidate is a base that was left before", "the state store does not remember its promotion; a new rebuild takes its place")
		return nil, nil
	}
	g, err := p.generation(ctx, r.ID, sink.Ref{Manifest: r.Manifest.Key, SHA256: r.Manifest.SHA256})
	if err == nil || blame.Outage(err) || ctx.Err() != nil {
		return g, err
	}
	// A damaged candidate must not keep the deltas from going on.
	p.reject(r.ID, err)
	return nil, nil
}

// setAside is how long a candidate is left alone whose promotion failed for a
// reason that may pass.
const setAside = 10 * time.Minute

// reject leaves a candidate alone until the process ends or a newer one comes.
func (p *Pipeline) reject(id string, why error) { p.leaveAlone(id, time.Time{}, why) }

// leaveAlone keeps a candidate out of the plans until then; zero is for good.
func (p *Pipeline) leaveAlone(id string, until time.Time, why error) {
	if p.unfit == nil {
		p.unfit = map[string]time.Time{}
	}
	p.unfit[id] = until
	if until.IsZero() {
		p.tellOnce(id, "candidate cannot be promoted", why.Error())
		return
	}
	p.tellOnce(id, "candidate not promoted, tried again later", fmt.Sprintf("not before %s: %v", text(until), why))
}

// mayPromote takes a candidate out of the facts where no pane can be made over
// it yet: its cut lies beyond what is there, or progress was set back and no
// partition beyond it is there; or where it would hold deltas that can go on
// without it.
func (p *Pipeline) mayPromote(ctx context.Context, f *Facts) error {
	if !f.Promote {
		return nil
	}
	n, ahead, cut := f.Live.Watermark.Time, f.Newest.After(f.Progress), f.Bases[0].Cut
	if ahead {
		n = f.Newest
	}
	switch {
	case n.Before(cut):
		p.tellOnce(f.Bases[0].ID, "candidate waits for a partition", fmt.Sprintf("from its cut %s on: the newest that a pane could have is %s", text(cut), text(n)))
	case !ahead && !f.Progress.Equal(f.Live.Watermark.Time):
		p.tellOnce(f.Bases[0].ID, "candidate waits for a partition", fmt.Sprintf("newer than %s, where a reset has put progress", text(f.Progress)))
	case ahead && p.holds(*f, f.Bases[:1]):
		p.tellOnce(f.Bases[0].ID, "candidate left alone", "its cut is so old that window.on_gap would hold the deltas over it")
	default:
		if ahead && p.holds(*f, f.Bases) {
			// A promotion ends what on_gap forbids over the base that it replaces: that
			// one is not supported, or it would hold the promotion too.
			f.Bases = f.Bases[:1]
		}
		return nil
	}
	f.Promote = false
	return p.surveyBases(ctx, f.Now, StepOptions{KeepBase: true}, f)
}

// holds says that window.on_gap forbids the advance over these bases.
func (p *Pipeline) holds(f Facts, bases []*Generation) bool {
	skips := !f.Progress.IsZero() && p.set.Calendar.Next(f.Progress).Before(f.Newest)
	_, err := p.set.Rule.Advance(pastOf(f.Live, f.Progress), f.Newest, oldestCut(bases, p.set.Rule.Longest), skips)
	return errors.Is(err, window.ErrHeld)
}

// tellOnce logs something about a base, and not again before the process ends.
func (p *Pipeline) tellOnce(id, what, why string) {
	if p.told == nil {
		p.told = map[string]bool{}
	}
	if p.told[id+what] {
		return
	}
	p.told[id+what] = true
	p.set.Log.Warn(what, zap.String("pipeline", p.set.Name), zap.String("base", id), zap.String("why", why))
}

// sinceRebuild is how long after a rebuild ended another one is asked for by
// deltad itself, if it made no base or objects were replaced again.
const sinceRebuild = time.Hour

// askRebuild asks for a full rebuild, unless one is going on, waits to be
// promoted or has just failed. It is best effort: the next pane asks again.
func (p *Pipeline) askRebuild(ctx context.Context, cause, why string) {
	if !p.set.Full {
		return
	}
	newest, err := p.set.State.Rebuilds(ctx, p.set.Name, 1, "")
	if err == nil && len(newest) > 0 {
		switch r := newest[0]; r.State {
		case watermark.RebuildQueued, watermark.RebuildRunning, watermark.RebuildHeld:
			return
		case watermark.RebuildCandidate:
			// One that never becomes the base lets another take its place, but not
			// one after another where that does not help.
			until, unfit := p.unfit[r.ID]
			if !unfit || !until.IsZero() || r.Cause == cause && time.Since(r.FinishedAt) < sinceRebuild {
				return
			}
		default:
			// One that became the base answers what was asked before it, and
			// objects that are replaced all the time must not rebuild all the time.
			live := p.seen.live != nil && p.seen.live.Base != nil && p.seen.live.Base.Generation == r.ID
			if time.Since(r.FinishedAt) < sinceRebuild && (!live || cause == watermark.RebuildStale) {
				return
			}
		}
	}
	if err == nil {
		_, err = p.set.State.CreateRebuild(ctx, watermark.Rebuild{ID: p.set.NewID(), Pipeline: p.set.Name, Cause: cause, Reason: why})
	}
	var open *watermark.RebuildOpenError
	switch {
	case errors.As(err, &open):
	case err != nil:
		p.set.Log.Warn("rebuild not asked for", zap.String("pipeline", p.set.Name), zap.String("cause", cause), zap.Error(err))
	default:
		p.set.Log.Error("full rebuild asked for", zap.String("pipeline", p.set.Name), zap.String("cause", cause), zap.String("why", why))
	}
}

// unfitting says that a candidate cannot be promoted now, and that the step is
// to start over without it: a promotion that fails must not keep the deltas over
// the live base from going on. What is wrong with the candidate itself is so for
// good, anything else is tried again later; outages and the faults of objects
// would meet the deltas too. Where the accumulators of the live base cannot be
// joined, a rebuild is asked for: until it is promoted the last pane stays.
func (p *Pipeline) unfitting(ctx context.Context, plan Plan, err error) (again bool) {
	var retyped *index.RetypedError
	switch {
	case plan.Promote && (errors.As(err, &retyped) || errors.Is(err, sink.ErrCondemned) || errors.Is(err, sink.ErrCorrupt)):
		p.backoff.reset()
		p.reject(plan.bases[0].ID, err)
		return true
	case plan.Promote && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		p.leaveAlone(plan.bases[0].ID, plan.now.Add(setAside), err) // the next step has its own time
	case plan.Promote && ctx.Err() == nil && !blame.Outage(err) && !blame.Fenced(err) && !blame.Refused(err) && len(blame.Named(err)) == 0:
		p.leaveAlone(plan.bases[0].ID, plan.now.Add(setAside), err)
		return !errors.Is(err, rescue.ErrPanic) // which fails its run
	case errors.As(err, &retyped):
		p.askRebuild(ctx, watermark.RebuildTypes, retyped.Error())
	}
	return false
}

// afterwards asks for the rebuilds that a published pane shows to be due, and
// lets go of the bases that no pane is computed over any more.
func (p *Pipeline) afterwards(ctx context.Context, plan Plan) {
	p.bases.keep(plan.bases)
	switch {
	case plan.Coverage.Beyond && p.set.Rule.OnGap == window.Rebuild && plan.rebuildHelps(p.set.Rule):
		p.askRebuild(ctx, watermark.RebuildGap, fmt.Sprintf("coverage %s is longer than window.max %s", plan.Coverage.Range, p.set.Rule.Max))
	case len(plan.Stale) > 0 && p.set.RebuildOnStale:
		p.askRebuild(ctx, watermark.RebuildStale, fmt.Sprintf("%d objects that base %s read were replaced or are gone, %s among them",
			len(plan.Stale), plan.bases[0].ID, plan.Stale[0]))
	}
}

// rebuildHelps says of a coverage beyond window.max whether another base would
// end it sooner: not where the base is newer than the jump, or where it is only
// the one before, still supported, that makes the coverage long.
func (p Plan) rebuildHelps(rule window.Rule) bool {
	limit, cut := p.Coverage.To.Add(-rule.Max), p.bases[0].Cut
	return cut.Add(-rule.Longest).Before(limit) ||
		slices.ContainsFunc(p.Coverage.Jumps, func(j window.Jump) bool { return j.From.Before(limit) && cut.Before(j.At) })
}
