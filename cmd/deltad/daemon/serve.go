package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// What a pipeline that does not run yet waits for.
const (
	StateStore = "state store" // to be reached and brought up to date
	Output     = "output"      // to show that it keeps the conditions publishing stands on
)

// Standing says why a pipeline does not run in this process.
type Standing struct {
	// Waiting is StateStore or Output.
	Waiting string
	// Err is why the last attempt failed; nil before the first has ended.
	Err error
	// Refused says that no further attempt is made: the output does not keep
	// the conditions that publishing stands on.
	Refused bool
}

// Standing returns why a pipeline does not run; ok is false where nothing
// stands in its way. It is safe to call at any time.
func (a *App) Standing(pipeline string) (s Standing, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok = a.mu.standing[pipeline]
	return s, ok
}

// stand notes why a pipeline does not run; nil for nothing.
func (a *App) stand(p *Pipe, s *Standing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s == nil {
		delete(a.mu.standing, p.Config.Name)
		return
	}
	if a.mu.standing == nil {
		a.mu.standing = map[string]Standing{}
	}
	a.mu.standing[p.Config.Name] = *s
}

// Serve runs every pipeline until ctx ends and lets runs in hand finish.
//
// A pipeline runs once the state store is up to date and its own output has
// shown that it keeps the conditions publishing stands on; until then it is
// waited for, with growing pauses, and holds no other pipeline up. An output
// that answers and does not keep them is refused, alone. What ends Serve is
// ctx, a state store that this build cannot use, and that there is no pipeline
// left that is not refused.
func (a *App) Serve(ctx context.Context) error {
	all := make([]waits, len(a.Pipes))
	for i, p := range a.Pipes {
		schedule, err := p.Schedule()
		if err != nil {
			return fmt.Errorf("pipelines.%s.%w", p.Config.Name, err)
		}
		all[i] = waits{schedule: schedule, every: period(schedule, time.Now())}
	}
	if err := a.awaitState(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop while waiting is no failure
		}
		return err
	}
	refused, share := make([]error, len(a.Pipes)), newShare(len(a.Pipes))
	g, ctx := errgroup.WithContext(ctx)
	for i, p := range a.Pipes {
		g.Go(func() error {
			refused[i] = a.awaitOutput(ctx, p)
			if idle := refused[i] != nil || ctx.Err() != nil; idle {
				return nil
			}
			return a.work(ctx, p, all[i], share)
		})
	}
	err := g.Wait()
	for _, r := range refused {
		if r == nil {
			return err
		}
	}
	return errors.Join(refused...)
}

// waits are the times between the steps of a pipeline.
type waits struct {
	schedule cron.Schedule
	every    time.Duration // between the next two fires
}

// work does with a pipeline what the process's role asks for, until ctx ends. A
// replica that ends for good gives up its place in the order of configurations;
// one that is restarted keeps it.
func (a *App) work(ctx context.Context, p *Pipe, w waits, s *share) error {
	o := a.newOrder(p, w.every)
	o.register(ctx)
	g, each := errgroup.WithContext(ctx)
	if !a.OnlyRebuilds() {
		g.Go(func() error { return a.deltas(each, p, w, s, o) })
	}
	if a.options.Role != RoleDelta && p.full != nil {
		g.Go(func() error { return a.rebuilds(each, p, o) })
	}
	if p.full != nil {
		g.Go(func() error { a.watchGate(each, p); return nil })
	}
	err := g.Wait()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrRestart) {
		o.unregister(ctx)
	}
	return err
}

// OnlyRebuilds says that this process leads no deltas.
func (a *App) OnlyRebuilds() bool { return a.options.Role == RoleFull }

// awaitState brings the state store up to date as soon as it can be reached.
func (a *App) awaitState(ctx context.Context) error {
	if a.served() {
		return nil // by Open
	}
	attempt := func() error {
		err := a.migrate(ctx)
		for _, p := range a.Pipes {
			if err != nil {
				a.stand(p, &Standing{Waiting: StateStore, Err: err})
			} else {
				a.stand(p, &Standing{Waiting: Output})
			}
		}
		return err
	}
	again := func(err error) bool { return errors.Is(err, watermark.ErrUnavailable) }
	return Patiently(ctx, a.Log.With(zap.String("doing", "prepare the state store")), again, attempt)
}

// served says whether the state store is known to be up to date.
func (a *App) served() bool {
	for _, p := range a.Pipes {
		if s, ok := a.Standing(p.Config.Name); ok && s.Waiting == StateStore {
			return false
		}
	}
	return true
}

// awaitOutput returns nil once the output may be published to, or when ctx
// ends; an error is a refusal. An outage ends by itself, and a denied access,
// a missing bucket and missing credentials are mended by somebody, while the
// other pipelines go on.
func (a *App) awaitOutput(ctx context.Context, p *Pipe) error {
	attempt := func() error {
		err := Probe(ctx, p)
		if err == nil {
			a.stand(p, nil)
			return nil
		}
		err = fmt.Errorf("pipelines.%s.output.url: %w", p.Config.Name, err)
		a.stand(p, &Standing{Waiting: Output, Err: err, Refused: errors.Is(err, store.ErrUnconditional)})
		return err
	}
	log := a.Log.With(zap.String("doing", "probe the output"), zap.String("pipeline", p.Config.Name))
	err := Patiently(ctx, log, func(err error) bool { return !errors.Is(err, store.ErrUnconditional) }, attempt)
	if err != nil && ctx.Err() != nil {
		return nil //nolint:nilerr // a stop while waiting is no failure
	}
	if err != nil {
		log.Error("the pipeline is refused", zap.Error(err))
	}
	return err
}

// patience is the longest pause between attempts to start.
const patience = 30 * time.Second

// Patiently repeats do while it fails with an error that again says another
// attempt may mend, until ctx ends. Each failure is logged.
func Patiently(ctx context.Context, log *zap.Logger, again func(error) bool, do func() error) error {
	for pause := time.Second; ; pause = min(2*pause, patience) {
		err := do()
		if err == nil || ctx.Err() != nil || !again(err) {
			return err
		}
		log.Error("cannot start yet", zap.Duration("again_in", pause), zap.Error(err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
