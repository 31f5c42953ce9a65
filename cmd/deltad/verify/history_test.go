package verify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/indextest"
	"github.com/deltad/deltad/cmd/deltad/verify"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
)

// TestNoHistoryIsTakenForDamage: whatever comes late, is replaced, vanishes,
// is rebuilt or restarted, a pane that a run has just looked after is proven.
func TestNoHistoryIsTakenForDamage(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 4))
			x := indextest.New(t, seed%4 != 0)
			now := indextest.At("06:00")
			for step := range 14 {
				now = now.Add(time.Duration(rnd.IntN(6)*rnd.IntN(6)) * time.Minute)
				for range rnd.IntN(4) {
					change(t, x, rnd, now)
				}
				clock := now.Format("15:04")
				x.Put(clock, "a.ndjson", indextest.Row(fmt.Sprint("k", rnd.IntN(6)), clock, rnd.IntN(9), clock))
				if rnd.IntN(5) == 0 {
					x.Restart()
				}
				if r := x.Once(now.Add(30 * time.Second)); r.Outcome == microbatch.Failed || r.Outcome == microbatch.WasHeld {
					t.Fatalf("step %d: %s: %s, %v", step, r.Outcome, r.Why, r.Err)
				}
				if x.Set.Full && rnd.IntN(4) == 0 {
					x.Rebuild()
					if r := x.Once(now.Add(40 * time.Second)); r.Outcome == microbatch.Failed {
						t.Fatalf("step %d: promoting: %v", step, r.Err)
					}
				}
				proven(t, x, step)
			}
		})
	}
}

// change does something to the source: an object comes, at most an hour late,
// is replaced, or goes.
func change(t *testing.T, x *indextest.Index, rnd *rand.Rand, now time.Time) {
	t.Helper()
	clock := now.Add(-time.Duration(rnd.IntN(10)*rnd.IntN(7)) * time.Minute).Format("15:04")
	name := []string{"a.ndjson", "b.ndjson"}[rnd.IntN(2)]
	item := fmt.Sprint("k", rnd.IntN(6))
	switch rnd.IntN(5) {
	case 0:
		if err := x.Raw.Delete(t.Context(), indextest.Key(clock, name)); err != nil {
			t.Fatal(err)
		}
	case 1:
		x.Put(clock, name, indextest.Del(item, clock))
	default:
		x.Put(clock, name, indextest.Row(item, clock, rnd.IntN(9), clock), indextest.Row("k0", clock, 1, name))
	}
}

// proven wants every check to pass, but for what a run cannot have seen.
func proven(t *testing.T, x *indextest.Index, step int) {
	t.Helper()
	all, _ := checks(t, x, verify.Options{Recompute: true})
	for _, c := range all {
		if c.Status == verify.Passed || c.Name == verify.CheckUnread && !slices.ContainsFunc(c.Findings, func(f string) bool {
			return !strings.Contains(f, "not in the ledger") && !strings.Contains(f, "a rebuild reads it")
		}) {
			continue
		}
		m := x.Live()
		t.Fatalf("step %d, %s at %s over %+v, coverage %s to %s, supports %d: %+v",
			step, m.Reason, m.Watermark, base(m), m.Coverage.From, m.Coverage.To, len(m.Supports), c)
	}
}

func base(m sink.Manifest) sink.ManifestBase {
	if m.Base == nil {
		return sink.ManifestBase{}
	}
	return *m.Base
}
