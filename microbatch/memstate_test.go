package microbatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// memState is a state store in memory whose clock is the time package's, so
// that it lives inside a bubble of testing/synctest. What it does not have
// (skips by hand, garbage of runs) panics through the nil State.
type memState struct {
	microbatch.State
	mu       sync.Mutex
	lease    watermark.Lease
	expires  time.Time
	row      watermark.Pipeline
	runs     map[string]watermark.Run
	ledger   map[ledgerKey]watermark.LedgerEntry
	intents  []watermark.Intent
	requests []watermark.Request
	writes   int // calls that changed something, leases apart
}

func newMemState() *memState {
	return &memState{row: watermark.Pipeline{Name: "ads", Version: 1}, runs: map[string]watermark.Run{}, ledger: map[ledgerKey]watermark.LedgerEntry{}}
}

func (s *memState) lock(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", watermark.ErrUnavailable, context.Cause(ctx))
	}
	s.mu.Lock()
	return s.mu.Unlock, nil
}

func (s *memState) fenced(l watermark.Lease) error {
	if l.Epoch != s.lease.Epoch || l.Nonce != s.lease.Nonce {
		return watermark.ErrFenced
	}
	return nil
}

func (s *memState) StateID(context.Context) (string, error) { return "state-1", nil }

func (s *memState) Acquire(ctx context.Context, pipeline string, role watermark.Role, holder string, ttl time.Duration, least int64) (watermark.Lease, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return watermark.Lease{}, err
	}
	defer unlock()
	if now := time.Now(); now.Before(s.expires) {
		return watermark.Lease{}, &watermark.HeldError{Pipeline: pipeline, Role: role, Holder: s.lease.Holder, Epoch: s.lease.Epoch, Remaining: s.expires.Sub(now)}
	}
	epoch := 1 + max(s.lease.Epoch, least)
	s.lease = watermark.Lease{Pipeline: pipeline, Role: role, Holder: holder, Epoch: epoch, Nonce: fmt.Sprintf("nonce-%d", epoch), TTL: ttl}
	s.expires = time.Now().Add(ttl)
	return s.lease, nil
}

func (s *memState) Renew(ctx context.Context, l watermark.Lease) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.fenced(l); err != nil {
		return err
	}
	s.expires = time.Now().Add(l.TTL)
	return nil
}

func (s *memState) Release(ctx context.Context, l watermark.Lease) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.fenced(l); err != nil {
		return err
	}
	s.expires, s.lease.Nonce = time.Time{}, ""
	return nil
}

func (s *memState) EnsurePipeline(ctx context.Context, _ string) (watermark.Pipeline, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return watermark.Pipeline{}, err
	}
	defer unlock()
	return s.row, nil
}

// write is a fenced change.
func (s *memState) write(ctx context.Context, l watermark.Lease, do func() error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.fenced(l); err != nil {
		return err
	}
	s.writes++
	return do()
}

func (s *memState) PlanRun(ctx context.Context, l watermark.Lease, r watermark.Run) error {
	return s.write(ctx, l, func() error {
		r.Status = watermark.RunPlanned
		s.runs[r.ID] = r
		return nil
	})
}

func (s *memState) PublishRun(ctx context.Context, l watermark.Lease, p watermark.Publication) (watermark.Published, error) {
	return watermark.Published{}, s.write(ctx, l, func() error {
		if p.Follows != "" && s.runs[p.Follows].Status != watermark.RunPublished {
			return watermark.ErrForgotten
		}
		r := p.Run
		r.Status, r.CurrentVersion, r.Manifest = watermark.RunPublished, p.CurrentVersion, p.Manifest
		s.runs[r.ID] = r
		if p.CurrentVersion > s.row.CurrentVersion {
			s.row.CurrentVersion, s.row.RunID, s.row.Watermark, s.row.Progress = p.CurrentVersion, r.ID, p.Watermark, p.Progress
			s.row.Version++
		}
		for _, e := range p.Ledger {
			s.ledger[ledgerKey{e.Source, e.Partition}] = e
		}
		for i := range s.intents {
			if s.intents[i].ID == p.Intent {
				s.intents[i].State = watermark.IntentApplied
			}
		}
		return nil
	})
}

func (s *memState) end(ctx context.Context, l watermark.Lease, id string, status watermark.RunStatus) error {
	return s.write(ctx, l, func() error {
		r, ok := s.runs[id]
		switch {
		case !ok:
			return watermark.ErrNotFound
		case r.Status == watermark.RunPublished:
			return watermark.ErrConflict
		}
		r.Status = status
		s.runs[id] = r
		return nil
	})
}

func (s *memState) AbandonRun(ctx context.Context, l watermark.Lease, id, _ string) error {
	return s.end(ctx, l, id, watermark.RunAbandoned)
}

func (s *memState) FailRun(ctx context.Context, l watermark.Lease, id, _ string) error {
	return s.end(ctx, l, id, watermark.RunFailed)
}

func (s *memState) MarkUnknown(ctx context.Context, l watermark.Lease, id, _ string) error {
	return s.end(ctx, l, id, watermark.RunUnknown)
}

// runsWith are the runs of a status, oldest first.
func (s *memState) runsWith(status watermark.RunStatus) []watermark.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []watermark.Run
	for _, r := range s.runs {
		if r.Status == status {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b watermark.Run) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (s *memState) PlannedRuns(ctx context.Context, _ string) ([]watermark.Run, error) {
	return s.runsWith(watermark.RunPlanned), ctx.Err()
}

func (s *memState) LatestPublished(ctx context.Context, _ string) (watermark.Run, error) {
	all := s.runsWith(watermark.RunPublished)
	if len(all) == 0 {
		return watermark.Run{}, watermark.ErrNotFound
	}
	return slices.MaxFunc(all, func(a, b watermark.Run) int { return int(a.CurrentVersion - b.CurrentVersion) }), ctx.Err()
}

func (s *memState) RunByID(ctx context.Context, id string) (watermark.Run, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return watermark.Run{}, err
	}
	defer unlock()
	r, ok := s.runs[id]
	if !ok {
		return r, watermark.ErrNotFound
	}
	return r, nil
}

type ledgerKey struct {
	source    string
	partition time.Time
}

func (s *memState) LedgerRange(ctx context.Context, _, source string, after, through time.Time, limit int) ([]watermark.LedgerEntry, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var out []watermark.LedgerEntry
	for _, e := range s.ledger {
		if e.Source == source && e.Partition.After(after) && (through.IsZero() || !e.Partition.After(through)) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b watermark.LedgerEntry) int { return a.Partition.Compare(b.Partition) })
	return out[:min(limit, len(out))], nil
}

func (s *memState) ObjectStates(ctx context.Context, _ string) ([]watermark.ObjectState, error) {
	return nil, ctx.Err()
}

func (s *memState) RecordFailures(ctx context.Context, l watermark.Lease, _ string, f []watermark.ObjectFailure, _ int) ([]watermark.ObjectState, error) {
	return make([]watermark.ObjectState, len(f)), s.write(ctx, l, func() error { return nil })
}

func (s *memState) PendingIntents(ctx context.Context, _ string) ([]watermark.Intent, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var out []watermark.Intent
	for _, in := range s.intents {
		if in.State == watermark.IntentPending {
			out = append(out, in)
		}
	}
	return out, nil
}

func (s *memState) IntentByID(ctx context.Context, id string) (watermark.Intent, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return watermark.Intent{}, err
	}
	defer unlock()
	for _, in := range s.intents {
		if in.ID == id {
			return in, nil
		}
	}
	return watermark.Intent{}, watermark.ErrNotFound
}

func (s *memState) TakeRequests(ctx context.Context, l watermark.Lease) ([]watermark.Request, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.fenced(l); err != nil {
		return nil, err
	}
	var out []watermark.Request
	for _, r := range s.requests {
		if r.State == watermark.RequestPending {
			out = append(out, r)
		}
	}
	return out, nil
}

func (s *memState) FinishRequest(ctx context.Context, l watermark.Lease, id string, state watermark.RequestState, result json.RawMessage) error {
	return s.write(ctx, l, func() error {
		for i := range s.requests {
			if s.requests[i].ID == id {
				s.requests[i].State, s.requests[i].Result, s.requests[i].FinishedAt = state, result, time.Now()
			}
		}
		return nil
	})
}

// ask queues a trigger.
func (s *memState) ask(id, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, watermark.Request{ID: id, Pipeline: "ads", Kind: kind, State: watermark.RequestPending})
}

func (s *memState) request(id string) watermark.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.ID == id {
			return r
		}
	}
	return watermark.Request{}
}

// resetTo pauses the pipeline and asks for a reset.
func (s *memState) resetTo(id string, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row.Paused, s.row.PausedBy, s.row.PauseReason = true, "me", "looking at it"
	s.intents = append(s.intents, watermark.Intent{ID: id, Pipeline: "ads", Target: to, State: watermark.IntentPending})
}

// steal gives the lease to somebody else, as after an expiry that its holder
// did not notice.
func (s *memState) steal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease.Epoch++
	s.lease.Nonce, s.lease.Holder = "thief", "thief"
	s.expires = time.Now().Add(s.lease.TTL)
}

func (s *memState) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// dice are the chances of one process.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed, stream uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, stream))} }

// nap sleeps, once in n times, for up to three lives of a lease.
func (d *dice) nap(n int) bool {
	d.mu.Lock()
	yes, long := d.r.IntN(n) == 0, time.Duration(d.r.Int64N(int64(3*ttl)))
	d.mu.Unlock()
	if yes {
		time.Sleep(long)
	}
	return yes
}

// The tests that use it have no full index.
func (s *memState) Pins(context.Context, string) ([]watermark.Pin, error) { return nil, nil }
func (s *memState) Rebuilds(context.Context, string, int, string) ([]watermark.Rebuild, error) {
	return nil, nil
}
