package model

import (
	"sync"
	"testing"
)

// bounds are what a scenario allows to happen, and how often.
type bounds struct {
	leases, runs, crashes, faults, rollbacks, collections, adoptions, restores uint8

	window uint8 // W, in partitions
	pins   uint8 // a set of runs
	bases  uint8 // how many rebuilds end
	retain uint8 // how many bases a collection keeps for rollbacks

	resetAsked    bool // somebody asks for a reset, once, at any moment
	resuming      bool // the pipeline may be resumed before the reset, which refuses it then
	refining      bool // a pane may be published again at the same watermark
	expiring      bool // what is supported may be so no more
	carrying      bool // condemning may be left to the next publish
	layering      bool // a pane may be a layer over the one before
	reading       bool // there is a reader
	journalFaults bool // step 9 may not reach the state store
	twoStores     bool // the second leader has a state store of its own
}

func explore(t *testing.T, b bounds, m mistakes) *explorer {
	t.Helper()
	x := newExplorer(b, m)
	x.run()
	t.Logf("%s", x.report())
	return x
}

// all is a window longer than any history: the walk of an empty journal goes back to the first pane.
const all = lastMark

// scenario is what one exploration allows.
type scenario struct {
	name string
	bounds
}

// scenarios are all that are explored; together they take every step there is, the small ones too.
func scenarios() []scenario {
	small := []scenario{
		{"faults", bounds{leases: 2, runs: 2, faults: 2, journalFaults: true, crashes: 1, window: all}},
		{"refine", bounds{leases: 2, runs: 3, faults: 1, refining: true, window: all}},
		{"restore of much", bounds{leases: 2, runs: 4, restores: 1, window: 1}},
		{"reset refused", bounds{leases: 2, runs: 2, faults: 1, resetAsked: true, resuming: true, window: all}},
		{"reset and restore", bounds{leases: 2, runs: 3, resetAsked: true, restores: 1, window: 1}},
		{"collect by publishing", bounds{leases: 2, runs: 4, collections: 3, carrying: true, rollbacks: 1, pins: 2, window: all}},
		{"collect and restore", bounds{leases: 2, runs: 3, collections: 2, rollbacks: 1, restores: 1, window: all}},
		{"everything", bounds{leases: 2, runs: 2, rollbacks: 1, collections: 1, resetAsked: true, restores: 1, crashes: 1, window: all}},
		{"reader", bounds{leases: 2, runs: 3, collections: 2, rollbacks: 1, reading: true, window: all}},
		{"adopt", bounds{leases: 3, runs: 2, adoptions: 2, faults: 1, twoStores: true, window: all}},
		{"adopt much", bounds{leases: 3, runs: 4, adoptions: 2, twoStores: true, window: 1}},
		{"collect layers", bounds{leases: 2, runs: 4, collections: 2, layering: true, rollbacks: 1, window: all}},
		{"read layers", bounds{leases: 1, runs: 4, collections: 2, layering: true, rollbacks: 1, reading: true, window: all}},
		{"promote", bounds{leases: 2, runs: 3, faults: 1, bases: 2, rollbacks: 1, window: all}},
		{"promote and read", bounds{leases: 1, runs: 4, collections: 2, bases: 2, rollbacks: 1, retain: 1, reading: true, window: all}},
	}
	if raced {
		return small
	}
	return append(small, []scenario{
		{"publish", bounds{leases: 3, runs: 2, crashes: 1, faults: 1, window: all}},
		{"many leaders", bounds{leases: 4, runs: 2, faults: 1, window: all}},
		{"faults of claims", bounds{leases: 3, runs: 1, faults: 2, window: all}},
		{"restore", bounds{leases: 3, runs: 3, crashes: 1, restores: 1, window: all}},
		{"restore and faults", bounds{leases: 2, runs: 2, faults: 1, crashes: 1, restores: 1, window: all}},
		{"reset", bounds{leases: 3, runs: 1, faults: 1, crashes: 1, resetAsked: true, window: all}},
		{"rollback", bounds{leases: 3, runs: 3, faults: 1, rollbacks: 1, window: all}},
		{"collect", bounds{leases: 3, runs: 4, collections: 2, rollbacks: 2, window: all}},
		{"collect and faults", bounds{leases: 2, runs: 3, collections: 2, faults: 1, rollbacks: 1, crashes: 1, window: all}},
		{"promote and crash", bounds{leases: 2, runs: 4, crashes: 1, bases: 2, rollbacks: 2, window: all}},
		{"collect bases", bounds{leases: 2, runs: 4, collections: 2, bases: 2, rollbacks: 1, retain: 2, window: all}},
		{"collect bases by publishing", bounds{leases: 2, runs: 4, collections: 2, carrying: true, expiring: true, bases: 2, retain: 1, window: all}},
		{"collect layers by publishing", bounds{leases: 2, runs: 4, collections: 2, layering: true, carrying: true, rollbacks: 1, pins: 4, window: all}},
		{"collect and reset", bounds{leases: 2, runs: 4, collections: 2, resetAsked: true, rollbacks: 2, window: all}},
	}...)
}

// TestProtocol: every property holds in every state within the bounds of each scenario, and every step of the model is taken in one.
func TestProtocol(t *testing.T) { //nolint:tparallel // the subtests of "scenarios" are, which ends when they have
	t.Parallel()
	var mu sync.Mutex
	var states, edges int
	var taken [len(stepNames)]int
	t.Run("scenarios", func(t *testing.T) {
		for _, c := range scenarios() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				x := explore(t, c.bounds, mistakes{})
				if x.bad != "" {
					t.Error("a property is broken")
				}
				mu.Lock()
				defer mu.Unlock()
				states, edges = states+len(x.parents), edges+x.edges
				for kind, n := range x.taken {
					taken[kind] += n
				}
			})
		}
	})
	t.Logf("%d states, %d steps", states, edges)
	for kind, n := range taken {
		if n == 0 && stepNames[kind] != "" {
			t.Errorf("no scenario ever takes the step %q", stepNames[kind])
		}
	}
}
