package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/deltad/deltad/watermark"
)

// Replicas share pipelines by their leases: any of them may take any free one,
// and the first to ask has it. Replicas that start together would thus be one
// that leads everything and others that stand by. So a replica lets a while
// pass before it asks for a lease that is free, in proportion to the number it
// holds already: whoever holds fewer asks first.
//
// What it promises:
//
//  1. It is courtesy and no rule of safety: the lease still decides. Whatever
//     the pauses are, there is one leader, and a replica that never waits
//     harms nothing but the spread.
//  2. A replica that holds nothing does not wait, so neither does a single
//     pipeline, nor a replica that has just come.
//  3. Nobody waits for a lease that it was the last to hold: a process that
//     runs its binary anew goes on where it was.
//  4. A pause is at most a quarter of the trigger, a sixth of the lease and
//     maxCourtesy: a replica that is alone has every lease within that time,
//     and misses no trigger.
//  5. A process asks for one lease at a time, so that the count it waits by is
//     true. Replicas of which each asks for its next lease after h pauses,
//     holding h, differ by one lease at most, as long as an answer of the state
//     store takes less than one step of the pause.
//
// Leases that are held are never given up for balance: a hand-over costs a
// claim and a look at everything. A replica that comes late takes what becomes
// free, by restarts above all.

// maxCourtesy is the longest pause, whatever trigger and lease are.
const maxCourtesy = 5 * time.Second

// courtesy is the longest pause for a pipeline with a trigger of every and
// leases of ttl.
func courtesy(every, ttl time.Duration) time.Duration {
	return max(0, min(every/4, ttl/6, maxCourtesy))
}

// pause is how long a replica lets a free lease be, holding held of as many as
// there are pipelines.
func pause(held, pipelines int, longest time.Duration) time.Duration {
	return longest * time.Duration(min(held, pipelines)) / time.Duration(max(1, pipelines))
}

// period is the time between two fires of a schedule from now on; 0 where
// there are no two.
func period(s cron.Schedule, now time.Time) time.Duration {
	first := s.Next(now)
	second := s.Next(first)
	if first.IsZero() || second.IsZero() {
		return 0
	}
	return second.Sub(first)
}

// share is what the pipelines of a process know of each other's leases.
type share struct {
	pipelines int
	// turn is had by the one that asks for a lease.
	turn chan struct{}

	mu struct {
		sync.Mutex
		held map[string]watermark.Lease
	}
}

func newShare(pipelines int) *share {
	s := &share{pipelines: pipelines, turn: make(chan struct{}, 1)}
	s.mu.held = map[string]watermark.Lease{}
	return s
}

func (s *share) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.held)
}

func (s *share) took(l watermark.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held[l.Pipeline] = l
}

func (s *share) gave(pipeline string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.held, pipeline)
}

// lease is the one that is held of a pipeline.
func (s *share) lease(pipeline string) (l watermark.Lease, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok = s.mu.held[pipeline]
	return l, ok
}

// sharing is a state store whose free leases are taken with courtesy. Only a
// pipeline that is served has it: what somebody asks for by hand does not wait.
type sharing struct {
	watermark.Store
	share   *share
	longest time.Duration
	order   *order
}

// Acquire implements [watermark.Leases]. What it waits counts against the
// lease's trust, which is counted from before the call: it errs safely.
func (s sharing) Acquire(ctx context.Context, pipeline string, role watermark.Role, holder string,
	ttl time.Duration, minEpoch int64,
) (watermark.Lease, error) {
	if role != watermark.RoleDelta {
		return s.Store.Acquire(ctx, pipeline, role, holder, ttl, minEpoch)
	}
	longest := s.longest
	last, err := s.LeaseStatus(ctx, pipeline, role)
	switch {
	case errors.Is(err, watermark.ErrNotFound):
		last.Role = role
	case err != nil:
		return watermark.Lease{}, err
	case last.Live, last.Holder == holder:
		longest = 0 // it is not free, or was this replica's
	}
	took, err := s.order.may(ctx, holder, last, time.Now())
	if err != nil {
		return watermark.Lease{}, err
	}
	if err := s.share.await(ctx, longest); err != nil {
		return watermark.Lease{}, err
	}
	defer func() { <-s.share.turn }()
	l, err := s.Store.Acquire(ctx, pipeline, role, holder, ttl, minEpoch)
	if err == nil {
		s.share.took(l)
		s.order.led(role, took)
	}
	return l, err
}

// await waits for the pause to be over and for the turn, which it then has.
func (s *share) await(ctx context.Context, longest time.Duration) error {
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s.turn <- struct{}{}:
		}
		// Counted with the turn, as it may have grown in the meantime.
		left := pause(s.held(), s.pipelines, longest) - time.Since(began)
		if left <= 0 {
			return nil
		}
		<-s.turn
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(left):
		}
	}
}

// Release implements [watermark.Leases]. Every tenure ends with it, one that
// lost its lease too.
func (s sharing) Release(ctx context.Context, l watermark.Lease) error {
	if l.Role == watermark.RoleDelta {
		s.share.gave(l.Pipeline)
	}
	return s.Store.Release(ctx, l)
}
