package daemon

import (
	"context"
	"sync"
	"time"
)

// maxYield is how long a rebuild waits at a time for the steps of this process
// to end, and how long it then goes on whatever they do.
const maxYield = 30 * time.Second

// gate lets the rebuilds of a process wait while its deltas work, so that fresh
// data has the machine to itself.
//
// What it promises:
//
//  1. A step never waits: it says that it begins and that it has ended.
//  2. A rebuild waits while any step of the process goes on, at most maxYield;
//     then it goes on for as long before it waits again. Steps that follow one
//     another without a pause take half of its time and never all of it.
//  3. What waits ends with its context: there is no deadlock.
type gate struct {
	longest time.Duration

	mu struct {
		sync.Mutex
		steps int
		idle  chan struct{} // closed when the last step ends; nil without steps
		free  time.Time     // nobody waits before
	}
}

func newGate(longest time.Duration) *gate { return &gate{longest: longest} }

// enter says that a step begins, and what it returns that it has ended.
func (g *gate) enter() (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.steps++; g.mu.steps == 1 {
		g.mu.idle = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.mu.steps--; g.mu.steps == 0 {
			close(g.mu.idle)
			g.mu.idle = nil
		}
	})
}

// yield waits while steps go on, as far as the gate asks for it.
func (g *gate) yield(ctx context.Context) {
	began := time.Now()
	for {
		idle := g.busy(began)
		if idle == nil {
			return
		}
		t := time.NewTimer(g.longest - time.Since(began))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-idle:
		case <-t.C:
		}
		t.Stop()
	}
}

// busy is closed when the steps that go on have ended; nil where somebody who
// waits since began need not wait any more.
func (g *gate) busy(began time.Time) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.mu.idle != nil && now.Sub(began) >= g.longest && !now.Before(g.mu.free) {
		g.mu.free = now.Add(g.longest)
	}
	if now.Before(g.mu.free) {
		return nil
	}
	return g.mu.idle
}
