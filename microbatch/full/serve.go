package full

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/tenure"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// lookEvery is how often Serve looks for scheduled times and for what was
// asked for; progress is noted as often.
const lookEvery = 2 * time.Second

// afterOutage is how long Serve waits before it begins again what an outage
// has interrupted.
const afterOutage = time.Minute

// ErrCancelled ends a rebuild that somebody called off.
var ErrCancelled = errors.New("the rebuild was cancelled")

// Serve makes the rebuilds that are scheduled or asked for until ctx ends. Any
// number of replicas may serve one pipeline. What is going on when ctx ends is
// left running in the journal: the next to get the lease begins it again.
func (r *Rebuilder) Serve(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := lookEvery
		if err := r.turn(ctx); err != nil && ctx.Err() == nil {
			r.set.Log.Error("rebuilds not attended to", zap.String("pipeline", r.set.Name), zap.Error(err))
			if blame.Outage(err) || errors.Is(err, sink.ErrLostCurrent) {
				wait = afterOutage
			}
		}
		tenure.Sleep(ctx, wait)
	}
	return nil
}

// turn queues what is scheduled, and makes what is open. A panic fails this
// turn alone.
func (r *Rebuilder) turn(ctx context.Context) (err error) {
	defer rescue.Into(&err, "rebuild")
	if err := r.due(ctx, time.Now()); err != nil {
		return err
	}
	rb, err := r.set.State.OpenRebuild(ctx, r.set.Name)
	if errors.Is(err, watermark.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for rebuilds: %w", err)
	}
	end, err := r.Run(ctx, rb)
	if errors.Is(err, watermark.ErrHeld) || end.State != watermark.RebuildRunning {
		return nil // another replica makes it, or how it ended is journalled and logged
	}
	return err
}

// due queues the latest scheduled time that was not used yet. Earlier ones that
// were missed are made up for by it.
func (r *Rebuilder) due(ctx context.Context, now time.Time) error {
	if r.set.Schedule == nil {
		return nil
	}
	last, since, err := r.set.State.ScheduleState(ctx, r.set.Name, r.set.Schedule.String())
	if err != nil {
		return fmt.Errorf("look up the schedule: %w", err)
	}
	if since.After(last) {
		last = since
	}
	at, ok := r.set.Schedule.Latest(last, now)
	if !ok {
		return nil
	}
	// Before the first pane there is nothing to cut at: the time is not used up.
	if head, err := r.set.Sink.Head(ctx); err != nil || head.Delta == nil {
		return err
	}
	rb, err := r.set.State.CreateRebuild(ctx, watermark.Rebuild{
		ID: r.set.NewID(), Pipeline: r.set.Name, Cause: watermark.RebuildSchedule, Due: at, Reason: "scheduled for " + at.UTC().Format(time.RFC3339),
	})
	var open *watermark.RebuildOpenError
	if errors.As(err, &open) {
		r.set.Log.Warn("scheduled rebuild skipped", zap.String("pipeline", r.set.Name), zap.Time("due", at), zap.String("open", open.ID))
		return nil
	}
	if err == nil {
		r.set.Log.Info("rebuild scheduled", zap.String("pipeline", r.set.Name), zap.Time("due", at), zap.String("run", rb.ID))
	}
	return err
}

// Run makes one rebuild that is queued, or takes over one whose maker died,
// under a lease of its own. ErrHeld of package watermark says that somebody
// else is making one. The report says how it ended; the error is nil where the
// rebuild became a candidate or was held by the gate.
func (r *Rebuilder) Run(ctx context.Context, rb watermark.Rebuild) (Report, error) {
	began := time.Now()
	p := &progress{report: Report{Pipeline: r.set.Name, ID: rb.ID, State: watermark.RebuildRunning}, began: began, observe: r.set.Observe}
	l, err := r.set.State.Acquire(ctx, r.set.Name, watermark.RoleFull, r.set.Instance, r.set.LeaseTTL, 0)
	if err != nil {
		return p.now(), fmt.Errorf("acquire the lease of rebuilds: %w", err)
	}
	work, ten := tenure.Hold(ctx, r.set.State, l, began)
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		if err := ten.End(end); err != nil {
			r.set.Log.Warn("lease of rebuilds not released; it expires by itself", zap.String("pipeline", r.set.Name), zap.Error(err))
		}
	}()
	if rb, err = r.set.State.StartRebuild(work, l, rb.ID); err != nil {
		return p.now(), fmt.Errorf("start rebuild %s: %w", rb.ID, err)
	}
	r.at("started")
	r.set.Log.Info("rebuild begun", zap.String("pipeline", r.set.Name), zap.String("run", rb.ID), zap.String("cause", rb.Cause))
	m, err := r.attended(work, l, rb, p)
	return r.finish(ctx, work, l, rb, p, m, err)
}

// attended makes the generation while its progress is noted, and ends it when
// a cancel is asked for.
func (r *Rebuilder) attended(ctx context.Context, l watermark.Lease, rb watermark.Rebuild, p *progress) (m made, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			asked, err := r.set.State.ProgressRebuild(ctx, l, rb.ID, p.now().RebuildProgress)
			switch {
			case err == nil && asked:
				cancel(ErrCancelled)
			case err != nil && blame.Fenced(err):
				cancel(fmt.Errorf("%w: %w", tenure.ErrFenced, err))
			case err != nil && ctx.Err() == nil:
				r.set.Log.Warn("progress of the rebuild not noted", zap.String("pipeline", r.set.Name), zap.Error(err))
			}
			if !tenure.Sleep(ctx, lookEvery) {
				return
			}
			p.tell()
		}
	})
	defer wg.Wait()
	defer cancel(context.Canceled)
	defer rescue.Into(&err, "rebuild "+rb.ID)
	m, err = r.make(ctx, l, rb, p)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return m, err
}

// finish journals how a rebuild ended. One whose process is stopping, or whose
// lease is lost, is left as it is.
func (r *Rebuilder) finish(ctx, work context.Context, l watermark.Lease, rb watermark.Rebuild, p *progress, m made, err error) (Report, error) {
	res := watermark.RebuildResult{State: watermark.RebuildCandidate, Approved: r.set.Promote}
	switch {
	case err != nil && blame.Outage(err) && !errors.Is(err, ErrCancelled):
		// It is left running: whoever gets the lease next begins it again.
		r.set.Log.Error("rebuild interrupted by an outage; it is begun again", zap.String("pipeline", r.set.Name), zap.String("run", rb.ID), zap.Error(err))
		return p.now(), err
	case err != nil && (blame.Fenced(err) || blame.Fenced(context.Cause(work)) || ctx.Err() != nil && !errors.Is(err, ErrCancelled)):
		return p.now(), err
	case errors.Is(err, ErrCancelled):
		res = watermark.RebuildResult{State: watermark.RebuildCancelled, Error: err.Error()}
	case err != nil:
		res = watermark.RebuildResult{State: watermark.RebuildFailed, Error: err.Error()}
	default:
		res.Manifest = watermark.ManifestRef{Key: m.ref.Manifest, SHA256: m.ref.SHA256}
		res.ActualCut, res.Documents, res.Rows = m.manifest.Cut.Time, m.manifest.Counts.Documents, m.manifest.Counts.Rows
		checks, jerr := json.Marshal(m.manifest.Checks)
		if jerr != nil {
			return p.now(), fmt.Errorf("encode the checks: %w", jerr)
		}
		if res.Checks = checks; !m.passed {
			res.State, res.Approved = watermark.RebuildHeld, false
			res.Error = "the gate: " + strings.Join(failed(m.manifest.Checks), ", ")
		}
	}
	ferr := r.set.State.FinishRebuild(work, l, rb.ID, res)
	if ferr != nil {
		return p.now(), errors.Join(err, fmt.Errorf("journal the end of rebuild %s: %w", rb.ID, ferr))
	}
	r.at("finished")
	p.end(res.State, m.manifest, err)
	fields := []zap.Field{
		zap.String("pipeline", r.set.Name), zap.String("run", rb.ID), zap.String("state", string(res.State)), zap.Duration("took", time.Since(p.began)),
		zap.Int64("documents", res.Documents), zap.Error(err),
	}
	switch res.State {
	case watermark.RebuildCandidate:
		r.set.Log.Info("rebuild done", append(fields, zap.Time("cut", res.ActualCut))...)
	case watermark.RebuildHeld:
		r.set.Log.Error("rebuild held by the gate; the live base stays", append(fields, zap.String("why", why(m.manifest.Checks)))...)
	default:
		r.set.Log.Error("rebuild ended without a base", fields...)
	}
	return p.now(), err
}

// why says what did not pass.
func why(checks []sink.CheckResult) string {
	var parts []string
	for _, c := range checks {
		if !c.Passed {
			parts = append(parts, c.Name+": "+c.Detail)
		}
	}
	return strings.Join(parts, "; ")
}

// progress is how far a rebuild is, for the goroutine that notes it.
type progress struct {
	began   time.Time
	observe func(Report)
	mu      sync.Mutex
	report  Report // guarded by mu
}

func (p *progress) now() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.report
	r.Duration = time.Since(p.began)
	return r
}

func (p *progress) phase(name string, total int64) {
	p.mu.Lock()
	p.report.Phase, p.report.Done, p.report.Total = name, 0, total
	p.mu.Unlock()
	p.tell()
}

// add counts done work of the phase; rows are all so far.
func (p *progress) add(done, rows int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Done += done
	p.report.Rows = rows
}

func (p *progress) end(state watermark.RebuildState, m sink.Manifest, err error) {
	p.mu.Lock()
	p.report.State, p.report.Documents, p.report.Checks, p.report.Err = state, m.Counts.Documents, m.Checks, err
	p.mu.Unlock()
	p.tell()
}

func (p *progress) tell() { p.observe(p.now()) }
