package microbatch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// The canary (package window) folds sampled keys of every pane a second time,
// another way, before the pane is published. What follows a difference:
//
//  1. The run fails, naming key, field and both results. What earlier runs have
//     kept is thrown away: slices, the accumulators of the window and of bases,
//     the log of the live pane's rows.
//  2. The next trigger tries again, without waiting longer, and reads everything
//     anew. A pane that it publishes ends the doubt: what was kept was at fault.
//  3. Another difference cannot come of what was kept. The pipeline is paused
//     in the state store, as `deltad pause` would: a combine fn does not obey
//     the laws, or the machine does not compute, and each trigger could publish
//     what is wrong. It is the one failure that does not mend itself.
//
// Accumulators that were kept and cannot be read any more fail a run too, and
// are thrown away likewise, without step 3.
//
// Doubt is of this process: another one begins at 1, and so does this one after
// a person has resumed the pipeline.

// ErrCanary is a run whose canary came to another result.
var ErrCanary = errors.New("canary")

// doubt is what the last attempt to publish says about what earlier runs have
// kept.
type doubt uint8

const (
	noDoubt    doubt = iota
	unreadable       // something kept could not be read
	differed         // the canary found a difference
)

// canaryShort is of how many slices fields are folded again in every run. What a
// key's lookup costs grows with them, and what a run costs does not: in larger
// windows the fields that need more have their turn in one of several runs.
const canaryShort = 128

// canary folds the sampled keys again, and notes in the manifest that it did.
// Where there is doubt, no field waits for its turn.
func (p *Pipeline) canary(bound *index.Bound, sources []window.Source, base *window.Base, n time.Time, sampler *window.Sampler, m *sink.Manifest) error {
	samples, most := sampler.Samples(), len(sources)
	detail := fmt.Sprintf("%d keys folded in two ways", len(samples))
	if turns := uint64((most + canaryShort - 1) / canaryShort); turns > 1 && p.doubt == noDoubt && draw(m.RunID)%turns != 0 {
		most = canaryShort
		detail += fmt.Sprintf(", those of fields that more than %d slices feed in one of %d runs", most, turns)
	}
	err := window.CanaryShort(bound, sources, base, n, samples, most)
	var d *window.Difference
	if errors.As(err, &d) {
		return fmt.Errorf("%w: %w", ErrCanary, err)
	}
	if err == nil {
		m.Checks = append(m.Checks, sink.CheckResult{Name: full.CheckCanary, Passed: true, Detail: detail})
	}
	return err
}

// draw is a number for a run.
func draw(runID string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(runID))
	return h.Sum64()
}

// window is the slices of a plan: those kept where there is no doubt, else read
// from their objects. Of an object that a pane carries and that is gone nothing
// but the kept slice is left.
func (p *Pipeline) window(ctx context.Context, plan Plan, inputs []slice.Input, cache *slice.Cache) (slice.Window, error) {
	if p.doubt == noDoubt {
		p.recall(ctx, plan, cache)
	}
	builder := p.builder
	builder.Room = p.makeRoom
	read := func() (slice.Window, error) {
		return builder.Window(ctx, inputs, plan.floor(p.set.Program), p.types, cache, p.set.Workers)
	}
	built, err := read()
	if p.doubt != noDoubt && p.seen.live != nil {
		if gone := goneOutside(plan, err); len(gone) > 0 {
			p.recallThese(ctx, p.seen.live.UnreadSlices, gone, cache)
			return read()
		}
	}
	return built, err
}

// doubts decides what a failed run says about what was kept. due says that the
// next trigger is to try again.
func (p *Pipeline) doubts(ctx context.Context, runID string, err error) (due bool, _ error) {
	was := p.doubt
	switch {
	case errors.Is(err, ErrCanary) && was != differed:
		p.distrust(differed)
		err = fmt.Errorf("%w; the next run ignores what earlier ones have kept", err)
	case errors.Is(err, ErrCanary):
		err = p.stop(ctx, runID, err)
	case errors.Is(err, window.ErrUnreadable) && was == noDoubt:
		p.distrust(unreadable)
		err = fmt.Errorf("%w; the next run ignores what earlier ones have kept", err)
	default:
		return false, err
	}
	p.backoff.reset()
	return true, err
}

// distrust throws away what runs have kept.
func (p *Pipeline) distrust(d doubt) {
	p.doubt = d
	p.distrustSlices()
	if p.shelf.Shelf != nil {
		p.cache = slice.NewCacheOver(wary{p.shelf.Shelf, &p.doubt}, p.set.CacheBytes)
	}
	p.bases = nil
	p.frames.Forget()
	p.rows.forget()
	p.rolling.Drop()
}

// wary is a shelf that has nothing while there is doubt. What is built then
// takes the place of what is there.
type wary struct {
	slice.Shelf
	doubt *doubt // it changes between runs, and loads are within one
}

// Load implements slice.Shelf.
func (w wary) Load(ctx context.Context, at slice.ID) *slice.Slice {
	if *w.doubt != noDoubt {
		return nil
	}
	return w.Shelf.Load(ctx, at)
}

// stop pauses the pipeline after a second difference. Where the state store
// cannot be told, the next run ignores what is kept and may try to.
func (p *Pipeline) stop(ctx context.Context, runID string, err error) error {
	p.distrust(differed)
	reason := fmt.Sprintf("%v; run %s is the second in a row and had read everything anew: publishing goes on after `deltad resume`", err, runID)
	_, perr := p.set.State.Pause(ctx, p.set.Name, watermark.Change{ID: p.set.NewID(), Actor: "canary of " + p.set.Instance, Reason: reason})
	if perr != nil {
		return fmt.Errorf("%w; pause the pipeline, which differs for the second time: %w", err, perr)
	}
	p.doubt = noDoubt
	p.set.Log.Error("paused by the canary", zap.String("pipeline", p.set.Name), zap.String("run", runID), zap.Error(err))
	return fmt.Errorf("%w; it is the second in a row, and nothing kept was used: the pipeline is paused", err)
}
