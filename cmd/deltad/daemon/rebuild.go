package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/watermark"
)

// ErrNoFull says that a pipeline has no full index.
var ErrNoFull = errors.New("there is no full section: the pipeline has no full index")

// rebuildSettings translates the full section for the engine; nil without one.
func (a *App) rebuildSettings(p *Pipe) (*full.Settings, error) {
	c, s := p.Config, p.settings
	if c.Full == nil {
		return nil, nil
	}
	set := &full.Settings{
		Name: s.Name, Calendar: s.Calendar, ConfigHash: s.ConfigHash, Program: s.Program, Since: s.Since,
		Tombstones: c.Full.Tombstones, Promote: c.Full.Promote == configs.PromoteAuto, Gate: full.DefaultGate(),
		SkipObjects: c.Errors.Object == configs.ErrorsSkip, MaxRejectShare: s.MaxRejectShare,
		Builder: slice.Builder{
			Program: s.Program, Format: s.Format, Row: s.Row, Limits: s.ScanLimits, Open: s.Open, Dir: s.TempDir, Memory: s.Memory, TableBytes: s.TableBytes,
			Reuse: &slice.Reuse{},
		},
		Workers: s.Workers, Lister: p.Source, Sink: p.Sink, State: a.State,
		Log: a.Log, Yield: a.gate.yield, Trace: a.options.Trace, NewID: a.NewID, Build: s.Build, Instance: s.Instance, LeaseTTL: s.LeaseTTL,
	}
	if c.Full.Schedule != "" {
		times, err := c.Full.Occurrences()
		if err != nil {
			return nil, fmt.Errorf("pipelines.%s.%w", c.Name, err)
		}
		set.Schedule = times
	}
	return set, nil
}

// Rebuilder returns a maker of full indexes, for one goroutine; ErrNoFull for a
// pipeline that has none. observe, if it is not nil, is told what the metrics
// are told.
func (p *Pipe) Rebuilder(observe func(full.Report)) (*full.Rebuilder, error) {
	return p.rebuilder(nil, observe)
}

func (p *Pipe) rebuilder(state full.State, observe func(full.Report)) (*full.Rebuilder, error) {
	if p.full == nil {
		return nil, fmt.Errorf("pipeline %s: %w", p.Config.Name, ErrNoFull)
	}
	set := *p.full
	if state != nil {
		set.State = state
	}
	set.Observe = func(r full.Report) {
		p.metrics.ObserveRebuild(r)
		if observe != nil {
			observe(r)
		}
	}
	return full.New(set), nil
}

// NextRebuild is the next scheduled time after now; zero where rebuilds are by
// hand.
func (p *Pipe) NextRebuild(now time.Time) time.Time {
	if p.full == nil || p.full.Schedule == nil {
		return time.Time{}
	}
	next, ok := p.full.Schedule.(interface{ Next(time.Time) time.Time })
	if !ok {
		return time.Time{}
	}
	return next.Next(now)
}

// rebuilds makes the rebuilds of a pipeline until ctx ends. One that does not
// end then is left after the grace of a stop: whoever gets the lease next begins
// it again.
func (a *App) rebuilds(ctx context.Context, p *Pipe, o *order) error {
	r, err := p.rebuilder(making{Store: a.State, makers: a.makers, order: o, metrics: a.Metrics}, nil)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx) }()
	select {
	case err = <-done:
		return err
	case <-ctx.Done():
	}
	t := time.NewTimer(a.options.Grace)
	defer t.Stop()
	select {
	case err = <-done:
		return err
	case <-t.C:
		a.Log.Warn("a rebuild does not end; it is left", zap.String("pipeline", p.Config.Name))
		return nil
	}
}

// makers counts the rebuilds that this process makes.
type makers struct {
	mu struct {
		sync.Mutex
		active  int
		retired bool
		idle    chan struct{} // closed when none is made any more; nil while none is
	}
}

// begin counts one more; it is false where none is to begin any more.
func (m *makers) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.retired {
		return false
	}
	if m.mu.active++; m.mu.active == 1 {
		m.mu.idle = make(chan struct{})
	}
	return true
}

func (m *makers) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.active--; m.mu.active == 0 {
		close(m.mu.idle)
		m.mu.idle = nil
	}
}

func (m *makers) retire() (idle <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.retired = true
	return m.mu.idle
}

// Retire begins no more rebuilds in this process and waits for the one under
// way, at most for longest and until ctx ends. Deltas go on meanwhile. It is what
// a planned restart does first: a rebuild takes hours, and one that each restart
// ended would never be made.
func (a *App) Retire(ctx context.Context, longest time.Duration) {
	idle := a.makers.retire()
	if idle == nil {
		return
	}
	a.Log.Info("planned restart waits for a rebuild under way", zap.Duration("at_most", longest))
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-idle:
	case <-t.C:
		a.Log.Warn("planned restart waits no longer: the rebuild begins again under the next holder of its lease")
	}
}

// making is a state store whose full leases are taken in the order of
// configurations and counted. Only rebuilds that are served have it.
type making struct {
	watermark.Store
	makers  *makers
	order   *order
	metrics *Metrics
}

// Acquire implements [watermark.Leases].
func (m making) Acquire(ctx context.Context, pipeline string, role watermark.Role, holder string,
	ttl time.Duration, minEpoch int64,
) (watermark.Lease, error) {
	last, err := m.LeaseStatus(ctx, pipeline, role)
	if errors.Is(err, watermark.ErrNotFound) {
		last.Role, err = role, nil
	}
	if err != nil {
		return watermark.Lease{}, err
	}
	took, err := m.order.may(ctx, holder, last, time.Now())
	if err != nil {
		return watermark.Lease{}, err
	}
	if !m.makers.begin() {
		return watermark.Lease{}, &watermark.HeldError{Pipeline: pipeline, Role: role, Holder: "nobody here: this process restarts"}
	}
	l, err := m.Store.Acquire(ctx, pipeline, role, holder, ttl, minEpoch)
	if err != nil {
		m.makers.end()
		return l, err
	}
	m.order.led(role, took)
	return l, nil
}

// Release implements [watermark.Leases]; every rebuild ends with it.
func (m making) Release(ctx context.Context, l watermark.Lease) error {
	defer m.makers.end()
	m.metrics.rebuildLeft(l.Pipeline)
	return m.Store.Release(ctx, l)
}

var _ full.State = making{}
