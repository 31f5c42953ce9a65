package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/deltad/deltad/microbatch"
)

// deltas leads a pipeline whenever it may, until ctx ends.
func (a *App) deltas(ctx context.Context, p *Pipe, w waits, s *share, o *order) error {
	var steps steps
	pipeline := p.served(sharing{Store: a.State, share: s, longest: courtesy(w.every, a.options.LeaseTTL), order: o}, func() func() {
		leave, done := a.gate.enter(), steps.begin()
		return func() { done(); leave() }
	})
	a.serving(p.Config.Name, pipeline)
	var tidy sync.WaitGroup
	tidy.Go(func() { a.pruning(ctx, p, s) })
	defer tidy.Wait()
	for ctx.Err() == nil {
		if err := a.term(ctx, p, pipeline, w, s, o, &steps); err != nil {
			return err
		}
	}
	return nil
}

// term serves a pipeline until ctx ends or the lease is given up for a replica
// with a newer configuration.
func (a *App) term(ctx context.Context, p *Pipe, pipeline *microbatch.Pipeline, w waits, s *share, o *order, st *steps) error {
	turn, give := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer give()
	watch.Go(func() {
		for wait(turn, a.options.LeaseTTL/3) {
			if _, leads := s.lease(p.Config.Name); leads && o.giveUp(turn) {
				st.settle(turn)
				give()
			}
		}
	})
	return pipeline.Serve(turn, w.schedule)
}

// steps are those of one pipeline: at most one at a time.
type steps struct {
	mu struct {
		sync.Mutex
		done chan struct{} // of the step in hand; nil between steps
	}
}

func (s *steps) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	s.mu.done = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.done = nil
		close(done)
	}
}

// settle waits for the step in hand.
func (s *steps) settle(ctx context.Context) {
	s.mu.Lock()
	done := s.mu.done
	s.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-done:
	}
}

// wait waits for d and says whether ctx is still alive after it.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
