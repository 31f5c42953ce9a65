package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/watermark"
)

// How the state store is kept bounded: what is to be forgotten, as
// watermark.KeepOf argues, is looked for every pruneEvery, beginning
// pruneFirst after the start, and goes pruneRows at a time. A pipeline with a
// trigger of 30 s makes at most 120 rows an hour of each kind.
const (
	pruneFirst  = 5 * time.Minute
	pruneEvery  = time.Hour
	pruneRows   = 500
	pruneRounds = 200
)

// pruning forgets, until ctx ends, what of a pipeline's state is not needed
// any more, while this process leads it. It is housekeeping: a failure is
// logged and tried again the next time.
func (a *App) pruning(ctx context.Context, p *Pipe, s *share) {
	for wait := pruneFirst; ; wait = pruneEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		l, leads := s.lease(p.Config.Name)
		if !leads {
			continue
		}
		gone, err := a.prune(ctx, p, l)
		log := a.Log.With(zap.String("pipeline", p.Config.Name))
		switch {
		case err != nil && ctx.Err() == nil && !errors.Is(err, watermark.ErrFenced):
			log.Warn("state store not pruned", zap.Error(err))
		case gone.Most() > 0:
			log.Info("state store pruned", zap.Any("rows", gone))
		}
	}
}

// prune forgets all there is to forget, in transactions of pruneRows rows of
// each table, and returns how much it was.
func (a *App) prune(ctx context.Context, p *Pipe, l watermark.Lease) (total watermark.Pruned, _ error) {
	row, err := a.State.Pipeline(ctx, p.Config.Name)
	if errors.Is(err, watermark.ErrNotFound) {
		return total, nil
	}
	if err != nil {
		return total, err
	}
	latest, err := a.State.LatestPublished(ctx, p.Config.Name)
	if err != nil && !errors.Is(err, watermark.ErrNotFound) {
		return total, err
	}
	keep := watermark.KeepOf(row, latest, max(p.Config.Window.Size, p.Config.LongestOver()))
	for range pruneRounds {
		gone, err := a.State.Prune(ctx, l, keep, pruneRows)
		if err != nil {
			return total, fmt.Errorf("forget what is not needed any more: %w", err)
		}
		total = total.Plus(gone)
		if gone.Most() < pruneRows {
			return total, nil
		}
	}
	return total, nil // the rest at the next time
}
