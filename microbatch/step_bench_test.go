package microbatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/microbatch/window"
)

// BenchmarkSteadyStep is what a step costs in which one partition enters a window
// of so many and one leaves it, where nearly nothing is in any: the share that
// grows with the window's length is for what has not changed.
func BenchmarkSteadyStep(b *testing.B) {
	for _, slices := range []int{60, 1440} {
		b.Run(fmt.Sprint(slices), func(b *testing.B) { steadySteps(b, slices) })
	}
}

func steadySteps(b *testing.B, slices int) {
	b.Helper()
	size := time.Duration(slices) * time.Minute
	first := at("00:00").Add(-30 * 24 * time.Hour)
	bench := newBench(b, benchOptions{
		rule: window.Rule{Size: size, Longest: 5 * time.Minute, Max: 4 * size, OnGap: window.Skip},
		change: func(set *microbatch.Settings) {
			inLayers(set)
			set.Log, set.KeepSlices, set.SliceDir = zap.NewNop(), true, shelf.NewDir(b.TempDir(), 1<<30, zap.NewNop()).Scope("ads")
		},
	})
	next := 0
	add := func() (now time.Time) {
		start := first.Add(time.Duration(next) * time.Minute)
		next++
		bench.putKey(start.Format("2006/01/02/15/04/part-0.ndjson"), fmt.Sprintf(`{"item":"key %d","ts":%q,"clicks":1,"title":"text","op":"U"}`, next%100, start.Format(time.RFC3339)))
		return start.Add(time.Minute)
	}
	for range slices - 1 {
		add()
	}
	err := bench.p.Under(b.Context(), func(ctx context.Context, t microbatch.Term) error {
		step := func() error {
			r := t.Step(ctx, add(), microbatch.StepOptions{})
			if r.Err == nil && (r.Outcome != microbatch.Advanced || r.Slices != slices) {
				return fmt.Errorf("the step ended as %s with %d slices: %s", r.Outcome, r.Slices, r.Why)
			}
			return r.Err
		}
		for range 3 {
			if err := step(); err != nil {
				return err
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
