package daemon

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestGate: a rebuild waits for the steps that go on, for a bounded time, and
// then goes on for as long; a step never waits, and what ends, ends.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		g := newGate(30 * time.Second)
		took := func(ctx context.Context) time.Duration {
			began := time.Now()
			g.yield(ctx)
			return time.Since(began)
		}
		if d := took(ctx); d != 0 {
			t.Errorf("without a step it waited %s", d)
		}
		first, second := g.enter(), g.enter()
		time.AfterFunc(2*time.Second, first)
		time.AfterFunc(5*time.Second, second)
		if d := took(ctx); d != 5*time.Second {
			t.Errorf("for two steps of 2 and 5 s it waited %s", d)
		}
		second() // twice: no change
		if d := took(ctx); d != 0 {
			t.Errorf("after them it waited %s", d)
		}

		leave := g.enter()
		if d := took(ctx); d != 30*time.Second {
			t.Errorf("for a step that does not end it waited %s", d)
		}
		if d := took(ctx); d != 0 {
			t.Errorf("right after a full wait it waited %s more", d)
		}
		time.Sleep(31 * time.Second)
		stopped, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if d := took(stopped); d != time.Second {
			t.Errorf("told to stop after 1 s it waited %s", d)
		}
		leave()

		// Steps without a pause between them take half of its time.
		var waited time.Duration
		end := time.Now().Add(10 * time.Minute)
		var stepping sync.WaitGroup
		stepping.Go(func() {
			for time.Now().Before(end) {
				done := g.enter()
				time.Sleep(7 * time.Second)
				done()
			}
		})
		synctest.Wait()
		for time.Now().Before(end) {
			waited += took(ctx)
			time.Sleep(time.Second) // an object
		}
		stepping.Wait()
		if waited > 6*time.Minute {
			t.Errorf("of ten minutes it waited %s", waited)
		}
	})
}
