package daemon

import (
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/deltad/deltad/microbatch"
)

// heldOnce lets the log say that a pipeline is held when it begins and when
// the reason changes, not at every trigger: a pause of a night would be a
// thousand warnings. What it remembers of a pipeline ends with the first step
// that is not held. Metrics and the page count each step.
type heldOnce struct {
	mu struct {
		sync.Mutex
		why map[string]string // by pipeline
	}
}

func newHeldOnce() *heldOnce {
	h := &heldOnce{}
	h.mu.why = map[string]string{}
	return h
}

// fresh notes that a pipeline is held and says whether that is news.
func (h *heldOnce) fresh(pipeline, why string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, held := h.mu.why[pipeline]; held && last == why {
		return false
	}
	h.mu.why[pipeline] = why
	return true
}

// observe is told of every step, after its line in the log.
func (h *heldOnce) observe(r microbatch.Report) {
	if r.Outcome == microbatch.WasHeld {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.why, r.Pipeline)
}

// wrap returns a logger without the repetitions.
func (h *heldOnce) wrap(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return heldCore{c, h} }))
}

type heldCore struct {
	zapcore.Core
	once *heldOnce
}

// With implements [zapcore.Core].
func (c heldCore) With(fields []zapcore.Field) zapcore.Core {
	return heldCore{c.Core.With(fields), c.once}
}

// Check implements [zapcore.Core].
func (c heldCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements [zapcore.Core].
func (c heldCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Message == "held" && e.Level == zapcore.WarnLevel {
		var pipeline, why string
		for _, f := range fields {
			switch f.Key {
			case "pipeline":
				pipeline = f.String
			case "why":
				why = f.String
			}
		}
		if !c.once.fresh(pipeline, why) {
			return nil
		}
	}
	return c.Core.Write(e, fields)
}
