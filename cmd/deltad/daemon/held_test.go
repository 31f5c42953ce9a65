package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// logged is a process of one pipeline, p0, with what it logs.
func logged(t *testing.T) (*replicas, *App, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	r := newReplicas(t)
	a, err := Open(t.Context(), r.config, Options{Mem: r.stores, Only: "p0", Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return r, a, logs
}

// TestHeldIsSaidOnce: a pause is logged when it begins, when its reason
// changes, and when it comes again, by the engine's own steps.
func TestHeldIsSaidOnce(t *testing.T) {
	t.Parallel()
	_, a, logs := logged(t)
	p := a.Pipes[0].Pipeline()
	step := func(want microbatch.Outcome) {
		t.Helper()
		if got := p.Once(t.Context(), time.Now(), microbatch.StepOptions{}); got.Outcome != want {
			t.Fatalf("%s: %s, want %s", got.Outcome, got.Why, want)
		}
	}
	pause := func(why string) {
		t.Helper()
		if _, err := a.State.EnsurePipeline(t.Context(), "p0"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.State.Pause(t.Context(), "p0", watermark.Change{ID: a.NewID(), Actor: "ann", Reason: why}); err != nil {
			t.Fatal(err)
		}
	}
	pause("one")
	for range 3 {
		step(microbatch.WasHeld)
	}
	pause("two")
	step(microbatch.WasHeld)
	step(microbatch.WasHeld)
	if _, err := a.State.Resume(t.Context(), "p0", watermark.Change{ID: a.NewID(), Actor: "ann", Reason: "on"}); err != nil {
		t.Fatal(err)
	}
	step(microbatch.WasIdle)
	pause("two")
	step(microbatch.WasHeld)
	step(microbatch.WasHeld)
	var said []string
	for _, e := range logs.FilterMessage("held").All() {
		said = append(said, e.ContextMap()["why"].(string))
	}
	if want := []string{"paused by ann: one", "paused by ann: two", "paused by ann: two"}; !slices.Equal(said, want) {
		t.Errorf("the log says %q, want %q", said, want)
	}
}

// TestWrongClockIsSaidOnce: what a step says of a watermark in the future names
// the time, and is one reason all the same.
func TestWrongClockIsSaidOnce(t *testing.T) {
	t.Parallel()
	r, a, logs := logged(t)
	now := time.Date(2026, 11, 30, 3, 0, 30, 0, time.UTC)
	if _, err := r.stores["in-p0"].Put(t.Context(), "2026/11/30/05/00/a.ndjson", strings.NewReader(`{"k":"x"}`), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	p := a.Pipes[0].Pipeline()
	if got := p.Once(t.Context(), now.Add(2*time.Hour), microbatch.StepOptions{}); got.Outcome != microbatch.Advanced {
		t.Fatalf("%s: %s", got.Outcome, got.Why)
	}
	for n := range 4 {
		got := p.Once(t.Context(), now.Add(time.Duration(n)*time.Minute), microbatch.StepOptions{})
		if got.Outcome != microbatch.WasHeld || !strings.Contains(got.Why, fmt.Sprintf("of this clock (2026-11-30T03:0%d:30Z)", n)) {
			t.Fatalf("%s: %s", got.Outcome, got.Why)
		}
	}
	if got := logs.FilterMessage("held").Len(); got != 1 {
		t.Errorf("the log says it %d times, want once", got)
	}
}
