package oracle

import (
	"fmt"
	"math/rand/v2"

	"github.com/deltad/deltad/microbatch"
)

// In one of four histories the window is long: 20 partitions and more, most of
// them filled before the first step, fields over durations of every size in it,
// partitions that come one by one, and jumps that leave less than half of the
// window before.

// longest is the window of such a history.
func longest(rng *rand.Rand) int { return 20 + rng.IntN(21) }

// fill drops what was there before deltad.
func (h *history) fill() {
	h.count("long window")
	h.world.now += h.rig.config.window
	for back := h.rig.config.window; back > 0; back-- {
		if h.rng.IntN(5) > 0 {
			h.drop(h.world.now-back, "new object")
		}
	}
}

// ticks are partitions one after the other, each with its step: the window
// moves on by small parts, and what was best in it leaves.
func (h *history) ticks() {
	h.t.Helper()
	n := 3 + h.rng.IntN(14)
	h.happens("steady ticks", "%d", n)
	for range n {
		h.world.now++
		h.arrive(1)
		h.maybeStep()
	}
}

// duration is one of a field that a changed configuration brings.
func (h *history) duration() int {
	if h.long && h.rng.IntN(2) == 0 {
		return 1 + h.rng.IntN(h.rig.config.window+8)
	}
	return 1 + h.rng.IntN(12)
}

// twin computes a pane again with nothing that was kept: the same bytes. Every
// pane over a long window has a twin, and every sixth of the others.
func (h *history) twin(p *pane) {
	h.t.Helper()
	if !h.long && h.rng.IntN(6) > 0 {
		return
	}
	h.count("twin without caches")
	anew := h.rig.set
	anew.NoCache, anew.KeepSlices, anew.SliceDir = true, false, nil
	want, err := microbatch.New(anew).Recompute(h.t.Context(), p.m)
	if err != nil {
		h.fail("compute pane %s again: %v", p.m.RunID, err)
	}
	if got, want := fmt.Sprint(p.m.Files, p.m.Tombstones), fmt.Sprint(want.Files, want.Tombstones); got != want {
		h.fail("pane %s has other bytes than without what was kept:\n%s\n%s", p.m.RunID, got, want)
	}
}

// manyGone says that so many inputs of the live pane are gone that a step has
// to be told that this is meant.
func (h *history) manyGone() bool {
	if h.live == nil {
		return false
	}
	gone := 0
	for i := range h.live.inputs {
		if _, there := h.world.objects[i.key]; !there {
			gone++
		}
	}
	return gone > 20 && gone*10 > len(h.live.inputs)
}

// budgets chooses what the pipeline may keep in memory.
func (r *rig) budgets(rng *rand.Rand) {
	r.cacheBytes = []int64{1 << 20, 64 << 20, 1, 20 << 10}[rng.IntN(4)]
	r.windowBytes = []int64{64 << 20, 64 << 20, 100 << 10, 250 << 10}[rng.IntN(4)]
	r.configure(r.config)
}
