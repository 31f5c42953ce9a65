package microbatch_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
)

// TestCountsComeOfWhatChanged: new, changed and left are those of the panes
// that a reader sees, be they told by the window, whose live pane is then not
// read back, or counted against it, after a start, a jump that folds the
// window anew, or where the window keeps nothing.
func TestCountsComeOfWhatChanged(t *testing.T) {
	for _, tc := range []struct {
		name   string
		layers bool
		window int64
		told   int // of the steps that are small beside the window
		back   int // panes read back when the window is folded anew
	}{{"whole panes", false, 64 << 20, 3, 1}, {"layers", true, 64 << 20, 2, 0}, {"no window in memory", false, 0, 0, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			seen, logs := observer.New(zap.DebugLevel)
			var readBack int
			b := newBench(t, benchOptions{rule: window.Rule{Size: 10 * time.Minute, Longest: 5 * time.Minute, Max: time.Hour, OnGap: window.Skip}, change: func(set *microbatch.Settings) {
				if tc.layers {
					inLayers(set)
				}
				set.WindowBytes = tc.window
				documents := set.Documents
				set.Documents = func(ctx context.Context, m sink.Manifest, emit func(*column.Batch) error) error {
					readBack++
					return documents(ctx, m, emit)
				}
				set.Log = set.Log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, seen) }))
			}})
			was := map[string]string{}
			step := func(clock string, back int) {
				t.Helper()
				readBack = 0
				b.step(clock, microbatch.Advanced)
				is, want := b.docs(), sink.Counts{}
				for key, doc := range is {
					if old, there := was[key]; !there {
						want.New++
					} else if old != doc {
						want.Changed++
					}
				}
				for key := range was {
					if _, there := is[key]; !there {
						want.Left++
					}
				}
				m := b.live()
				if c := m.Counts; c.New != want.New || c.Changed != want.Changed || c.Left != want.Left || c.Documents != int64(len(is)) {
					t.Errorf("%s: counts are %+v, want %+v of %d documents", clock, c, want, len(is))
				}
				if readBack != back {
					t.Errorf("%s: live panes were read back %d times, want %d", clock, readBack, back)
				}
				b.recomputed()
				was = is
			}
			b.put("03:00", "a.ndjson", row("leaves", "03:00", 1, "old"), row("changes", "03:00", 1, "old"))
			step("03:00", 0)
			b.put("03:06", "a.ndjson", append(bulk("03:06"), row("dies", "03:06", 1, "old"), del("returns", "03:06"), del("stone", "03:06"))...)
			step("03:06", 0)
			b.put("03:07", "a.ndjson", row("changes", "03:07", 1, "new"), del("dies", "03:07"))
			step("03:07", 0)
			b.put("03:08", "a.ndjson", row("returns", "03:08", 1, "back"))
			step("03:08", 0)
			b.put("03:10", "a.ndjson", row("new", "03:10", 1, "new")) // the first partition has left
			step("03:10", 0)
			b.put("03:11", "a.ndjson", row("changes", "03:11", 1, "newer")) // most rows leave a field of five minutes: the window is folded anew
			step("03:11", tc.back)
			b.put("03:30", "a.ndjson", bulk("03:30")[:40]...) // nothing of the window is left
			step("03:30", 0)
			b.restart()
			b.put("03:31", "a.ndjson", row("stays 0001", "03:31", 1, "newer"))
			step("03:31", 1)

			told := 0
			for _, e := range logs.FilterMessage("window folded").All() {
				if e.ContextMap()["told"] == true {
					told++
				}
			}
			if told != tc.told {
				t.Errorf("the window told of %d panes, want %d", told, tc.told)
			}
		})
	}
}
