package daemon

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/watermark"
)

// rebuildEnds are the states in which a process leaves a rebuild.
var rebuildEnds = [...]watermark.RebuildState{
	watermark.RebuildCandidate, watermark.RebuildHeld, watermark.RebuildFailed, watermark.RebuildCancelled,
}

// phase is what comes before a phase of a rebuild and its own share of the
// whole. Reading is the most of it.
func phase(name string) (before, share float64) {
	switch name {
	case "list":
		return 0, 0.02
	case "read":
		return 0.02, 0.73
	case "merge":
		return 0.75, 0.05
	case "documents":
		return 0.80, 0.15
	case "gate":
		return 0.95, 0.05
	case watermark.PhaseDone:
		return 1, 0
	}
	return 0, 0
}

// RebuildRatio is about how far a rebuild is, from 0 to 1.
func RebuildRatio(p watermark.RebuildProgress) float64 {
	before, share := phase(p.Phase)
	if p.Total <= 0 {
		return before
	}
	return before + share*min(1, float64(p.Done)/float64(p.Total))
}

// ObserveRebuild takes in how far a rebuild is, or how it ended.
func (m *Metrics) ObserveRebuild(r full.Report) {
	progress := m.rebuildProgress.WithLabelValues(r.Pipeline)
	if r.State == watermark.RebuildRunning {
		progress.Set(RebuildRatio(r.RebuildProgress))
		return
	}
	progress.Set(0)
	m.rebuilds.WithLabelValues(r.Pipeline, string(r.State)).Inc()
	m.rebuildTime.WithLabelValues(r.Pipeline).Observe(r.Duration.Seconds())
	if errors.Is(r.Err, microbatch.ErrPanic) {
		m.panics.WithLabelValues(r.Pipeline).Inc()
	}
	switch r.State {
	case watermark.RebuildHeld:
		m.GateHeld(r.Pipeline, true)
	case watermark.RebuildCandidate:
		m.GateHeld(r.Pipeline, false) // it supersedes what was held
	default:
	}
}

// rebuildLeft says that this process makes no rebuild of a pipeline now.
func (m *Metrics) rebuildLeft(pipeline string) { m.rebuildProgress.WithLabelValues(pipeline).Set(0) }

// GateHeld says whether a rebuild waits at the gate for a person.
func (m *Metrics) GateHeld(pipeline string, held bool) {
	v := 0.0
	if held {
		v = 1
	}
	m.gateHeld.WithLabelValues(pipeline).Set(v)
}

// gateEvery is how often it is looked for rebuilds that the gate holds: any
// replica may have made them, and a person lets them go in a process of its own.
const gateEvery = 15 * time.Second

// watchGate keeps the series of the gate true until ctx ends.
func (a *App) watchGate(ctx context.Context, p *Pipe) {
	for {
		if all, err := a.State.Rebuilds(ctx, p.Config.Name, recentRebuilds, ""); err == nil {
			held := false
			for _, r := range all {
				held = held || r.State == watermark.RebuildHeld
			}
			a.Metrics.GateHeld(p.Config.Name, held)
		} else if ctx.Err() == nil {
			a.Log.Debug("rebuilds not looked up", zap.String("pipeline", p.Config.Name), zap.Error(err))
		}
		if !wait(ctx, gateEvery) {
			return
		}
	}
}

// recentRebuilds are looked through for those that are not over.
const recentRebuilds = 50
