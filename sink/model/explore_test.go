package model

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// step is one thing that happened: kind names it, epoch is that of the leader who did it, or 0.
type step struct{ kind, epoch, arg uint8 }

// explorer visits every state that can be reached, breadth first, and stops at the first that breaks a property, so that its trace is
// one of the shortest.
type explorer struct {
	bounds
	mistakes
	*actual

	states  [][]state
	parents []uint32
	steps   []step
	table   []uint32 // open addressing: index + 1
	seed    maphash.Seed

	edges int
	taken [len(stepNames)]int // edges of each kind
	at    uint32              // the state being expanded
	last  step                // the step that broke bad
	bad   string              // the property that is broken
}

const chunk = 1 << 14

// maxStates bounds the memory of one scenario: about 200 bytes each.
const maxStates = 2_000_000

func newExplorer(b bounds, m mistakes) *explorer {
	return &explorer{bounds: b, mistakes: m, actual: newReal(), seed: maphash.MakeSeed(), table: make([]uint32, 1<<12)}
}

func (x *explorer) state(i uint32) *state { return &x.states[i/chunk][i%chunk] }

// run explores from an empty bucket.
func (x *explorer) run() {
	x.add(state{}, step{})
	for n := uint32(0); int(n) < len(x.parents) && x.bad == ""; n++ {
		if len(x.parents) > maxStates {
			x.fail("more than %d states: the bounds are too wide", maxStates)
		}
		x.at = n
		x.expand(x.state(n))
	}
}

// expand takes every step that is possible in s.
func (x *explorer) expand(s *state) {
	x.world(s)
	for i := range s.leaders {
		x.leader(s, i)
	}
}

// emit is one step to t.
func (x *explorer) emit(st step, t *state) {
	if x.bad == "" {
		x.edges++
		x.taken[st.kind]++
		x.canonical(t)
		x.check(t)
		if x.bad == "" && x.add(*t, st) {
			x.afterAll(t)
		}
	}
	if x.bad != "" && x.last == (step{}) {
		x.last = st
	}
}

func (x *explorer) fail(format string, args ...any) {
	if x.bad == "" {
		x.bad = fmt.Sprintf(format, args...)
	}
}

// canonical gives two leaders of one state store, and two requests, one order: nothing tells them apart.
func (x *explorer) canonical(t *state) {
	a, b := &t.leaders[0], &t.leaders[1]
	if !x.twoStores && (b.epoch < a.epoch || b.epoch == a.epoch && b.nonce < a.nonce) {
		*a, *b = *b, *a
	}
	p, q := &t.net[0], &t.net[1]
	if p.on < q.on || p.on == q.on && p.body.change < q.body.change {
		*p, *q = *q, *p
	}
}

// add says whether s is new.
func (x *explorer) add(s state, st step) bool {
	mask := uint64(len(x.table) - 1)
	h := maphash.Comparable(x.seed, s) & mask
	for ; x.table[h] != 0; h = (h + 1) & mask {
		if *x.state(x.table[h] - 1) == s {
			return false
		}
	}
	n := uint32(len(x.parents))
	if n%chunk == 0 {
		x.states = append(x.states, make([]state, chunk))
	}
	*x.state(n) = s
	x.parents, x.steps = append(x.parents, x.at), append(x.steps, st)
	x.table[h] = n + 1
	if len(x.parents)*4 > len(x.table)*3 {
		x.grow()
	}
	return true
}

func (x *explorer) grow() {
	x.table = make([]uint32, 2*len(x.table))
	mask := uint64(len(x.table) - 1)
	for i := range x.parents {
		h := maphash.Comparable(x.seed, *x.state(uint32(i))) & mask
		for x.table[h] != 0 {
			h = (h + 1) & mask
		}
		x.table[h] = uint32(i) + 1
	}
}

// trace is the way to the broken property.
func (x *explorer) trace() []string {
	out := []string{x.last.String()}
	for i := x.at; i != 0; i = x.parents[i] {
		out = append(out, x.steps[i].String())
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func (x *explorer) report() string {
	if x.bad == "" {
		return fmt.Sprintf("holds in %d states, %d steps", len(x.parents), x.edges)
	}
	return fmt.Sprintf("%s (after %d states)\n  %s", x.bad, len(x.parents), strings.Join(x.trace(), "\n  "))
}
