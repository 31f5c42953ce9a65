package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/sink"
)

// gcMeter measures the share of the process's CPU time that garbage
// collection takes.
type gcMeter struct {
	mu struct {
		sync.Mutex
		at        time.Time
		gc, total float64
		share     float64
		thrash    bool
	}
}

// meterEvery is the shortest time over which a share is measured: shorter
// ones would alarm at single collections.
const meterEvery = 10 * time.Second

// thrashing is the share from which collecting is too much where the memory
// limit is why. The share alone does not tell: the runtime holds it at about a
// half however small the limit is, allocating a lot may take nearly as much of
// it, and of a process that does little else a single collection is most.
const thrashing = 0.25

// look returns the share over the last full measurement, 0 before the first, and
// whether the memory limit made it too much.
func (g *gcMeter) look(now time.Time) (share float64, thrash bool) {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(samples)
	gc, total := samples[0].Value.Float64(), samples[1].Value.Float64()-samples[2].Value.Float64()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.at.IsZero() {
		g.mu.at, g.mu.gc, g.mu.total = now, gc, total
	}
	if now.Sub(g.mu.at) >= meterEvery {
		if busy := total - g.mu.total; busy > 0 {
			g.mu.share = (gc - g.mu.gc) / busy
			g.mu.thrash = g.mu.share > thrashing && cramped()
		}
		g.mu.at, g.mu.gc, g.mu.total = now, gc, total
	}
	return g.mu.share, g.mu.thrash
}

// cramped says that the memory limit makes collections come before the heap has
// grown by a quarter. Without a limit it grows by all of itself.
func cramped() bool {
	heap := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	goal, live := heap[0].Value.Uint64(), heap[1].Value.Uint64()
	return goal < live+live/4
}

// healthView is the answer of /healthz. It is 200 for as long as the process
// answers at all: no outage of a store is cured by a restart. Status says
// gc-thrash where more than a quarter of the CPU time goes into collecting
// garbage because the memory limit leaves the heap no room.
type healthView struct {
	Status      string  `json:"status"`
	Build       string  `json:"build"`
	Uptime      float64 `json:"uptime_seconds"`
	GCShare     float64 `json:"gc_cpu_share"`
	HeapBytes   uint64  `json:"heap_bytes"`
	MemoryLimit int64   `json:"memory_limit_bytes"`
}

// healthz answers whether the process is alive. It takes the lock that every
// step takes to report, so that a process wedged there does not answer.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	now := time.Now()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	share, thrash := s.gc.look(now)
	v := healthView{
		Status: "ok", Build: s.o.Build, Uptime: now.Sub(s.started).Seconds(), GCShare: share,
		HeapBytes: heap[0].Value.Uint64(), MemoryLimit: debug.SetMemoryLimit(-1),
	}
	for _, p := range s.o.App.Pipes {
		s.o.App.Metrics.Last(p.Config.Name)
	}
	if thrash {
		v.Status = "gc-thrash"
	}
	return answer(w, http.StatusOK, v)
}

// readyTime bounds each of the questions behind /readyz.
const readyTime = 3 * time.Second

// checkView is one question that /readyz asked.
type checkView struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
}

// readyz answers 200 where the state store and every pipeline's CURRENT can be
// read, what CURRENT names is of formats that this build knows, and no pipeline
// still waits to start, else 503. A standby is ready: it can answer and take
// over.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	checks := []checkView{s.ask(r.Context(), "state", func(ctx context.Context) error { return s.o.App.State.Check(ctx) })}
	for _, p := range s.o.App.Pipes {
		if st, ok := s.o.App.Standing(p.Config.Name); ok && (st.Waiting == daemon.Output || checks[0].Ready) { // the state store's check speaks for those that wait for it
			checks = append(checks, s.check("output/"+p.Config.Name, waiting(st)))
		}
		checks = append(checks, s.ask(r.Context(), "current/"+p.Config.Name, func(ctx context.Context) error {
			return s.formats.look(ctx, p.Config.Name, p.Sink)
		}))
	}
	status := http.StatusOK
	for _, c := range checks {
		if !c.Ready {
			status = http.StatusServiceUnavailable
		}
	}
	return answer(w, status, struct {
		Ready  bool        `json:"ready"`
		Checks []checkView `json:"checks"`
	}{status == http.StatusOK, checks})
}

// knownFormats are the manifests that are known to be of formats that this
// build can read, by pipeline: those that CURRENT named last.
type knownFormats struct {
	mu struct {
		sync.Mutex
		refs map[string][2]sink.Ref
	}
}

// look reads CURRENT and, if it names others than before, the heads of the
// manifests of pane and base. A newer deltad may have written them: this build
// then refuses them, and with them every step.
func (k *knownFormats) look(ctx context.Context, pipeline string, out *sink.Sink) error {
	head, err := out.Head(ctx)
	if err != nil {
		return err
	}
	var refs [2]sink.Ref
	if head.Delta != nil {
		refs[0] = head.Delta.Ref()
	}
	if head.Base != nil {
		refs[1] = head.Base.Ref()
	}
	k.mu.Lock()
	known := k.mu.refs[pipeline]
	k.mu.Unlock()
	for i, ref := range refs {
		if ref == known[i] || ref == (sink.Ref{}) {
			continue
		}
		if err := out.CheckFormat(ctx, ref); err != nil {
			if errors.Is(err, sink.ErrFormat) {
				return err
			}
			return nil // a manifest that is gone or cannot be read is for a step to tell
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.refs == nil {
		k.mu.refs = map[string][2]sink.Ref{}
	}
	k.mu.refs[pipeline] = refs
	return nil
}

func (s *Server) ask(ctx context.Context, name string, question func(context.Context) error) checkView {
	ctx, stop := context.WithTimeout(ctx, readyTime)
	defer stop()
	return s.check(name, question(ctx))
}

// errNotYet is why a pipeline waits whose stores were not asked yet.
var errNotYet = errors.New("has not answered yet")

// waiting is what a pipeline that does not run waits for.
func waiting(st daemon.Standing) error {
	if st.Err != nil {
		return st.Err
	}
	return fmt.Errorf("the %s %w", st.Waiting, errNotYet)
}

func (s *Server) check(name string, err error) checkView {
	c := checkView{Name: name, Ready: true}
	if err != nil {
		s.o.Log.Warn("not ready", zap.String("check", name), zap.Error(err))
		c.Ready, c.Error = false, string(slugOf(err))
		if s.o.Token == "" { // only this machine can read it
			c.Error = err.Error()
		}
	}
	return c
}
