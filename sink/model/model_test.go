package model

import "testing"

// bounds are what a scenario allows to happen, and how often.
type bounds struct {
	leases, runs, crashes, faults, rollbacks, collections, adoptions, restores uint8
	window                                                                     uint8 // W; lastMark is longer than any history
	pins                                                                       uint8 // runs
	resetAsked                                                                 bool
	refining                                                                   bool
	carrying                                                                   bool // condemning may be left to a publish
	reading                                                                    bool
	journalFaults                                                              bool
	twoStores                                                                  bool // the second leader has a state store of its own
}

// mistakes are ways to get the protocol wrong.
type mistakes struct {
	plainPut             bool // CURRENT is put without If-Match
	bodyWithoutIdentity  bool // CURRENT's body has neither version, owner nor change id, so an ETag comes back
	constantChangeID     bool // every change has the same change id
	noClaim              bool // a new leader publishes without a claim
	journalFirst         bool // the journal says published before CURRENT is put
	dataLast             bool // data is uploaded after CURRENT is put
	refusalBelieved      bool // a 412 or no answer is taken as not published
	noNonce              bool // the epoch alone fences
	ignoreParents        bool // reconciliation looks at CURRENT and not at its ancestors
	ignoreCurrent        bool // reconciliation abandons what is planned
	condemnInJournal     bool // what is condemned stands in the state store
	deleteUncondemned    bool // data is deleted without being condemned
	ignorePins           bool // a collection does not know of pins
	ignoreBorrowedData   bool // a collection takes a pane for made of its own run's data
	settleBeforeClaim    bool // reconciliation comes before the claim
	freshResend          bool // a request sent again has another change id
	shortWalk            bool // the walk ends W back although the journal knows more
	emptyTooSoon         bool // a journal without a published run is taken for empty whatever it has planned
	adoptKeepsEpoch      bool // an adoption does not go above CURRENT's epoch
	rollbackForgets      bool // a rollback does not copy condemned
	rollbackNamesOldPane bool // a rollback names an old manifest again
	resetReusesRun       bool // a reset has the id of the run whose pane it copies
	resetTakesFreshRun   bool // a reset has another id each time it is tried
	unsettledAssumed     bool // an own change with an open outcome is taken as lost
	journalUnasked       bool // a leader believes that the journal still has what it told it
	newestFirst          bool // reconciliation journals the newest run first
	replanKeepsStatus    bool // a reset that is planned again stays abandoned
	readerSkipsMissing   bool // a reader takes what it finds for the pane
}

func (x *explorer) expand(s *state) {
	x.world(s)
	for i := range s.leaders {
		x.leader(s, i)
	}
}

func explore(t *testing.T, b bounds, m mistakes) *explorer {
	t.Helper()
	x := newExplorer(b, m)
	if x.run(); x.capped {
		t.Fatalf("more than %d states", maxStates)
	}
	t.Logf("%s", x.report())
	return x
}

func TestProtocol(t *testing.T) {
	all := uint8(lastMark)
	for _, c := range []struct {
		name string
		bounds
	}{
		{"publish", bounds{leases: 3, runs: 2, crashes: 1, faults: 1, window: all}},
		{"faults", bounds{leases: 2, runs: 2, faults: 2, journalFaults: true, crashes: 1, window: all}},
		{"refine", bounds{leases: 2, runs: 3, faults: 1, refining: true, window: all}},
		{"restore", bounds{leases: 3, runs: 3, crashes: 1, restores: 1, window: all}},
		{"restore faults", bounds{leases: 2, runs: 2, faults: 1, restores: 1, window: all}},
		{"restore much", bounds{leases: 2, runs: 4, restores: 1, window: 1}},
		{"reset", bounds{leases: 3, runs: 1, faults: 1, crashes: 1, resetAsked: true, window: all}},
		{"reset restore", bounds{leases: 2, runs: 3, resetAsked: true, restores: 1, window: 1}},
		{"rollback", bounds{leases: 3, runs: 3, faults: 1, rollbacks: 1, window: all}},
		{"collect", bounds{leases: 3, runs: 4, collections: 2, rollbacks: 2, window: all}},
		{"collect faults", bounds{leases: 2, runs: 3, collections: 2, faults: 1, rollbacks: 1, crashes: 1, window: all}},
		{"collect carried", bounds{leases: 2, runs: 4, collections: 3, carrying: true, rollbacks: 1, pins: 2, window: all}},
		{"collect reset", bounds{leases: 2, runs: 4, collections: 2, resetAsked: true, rollbacks: 2, window: all}},
		{"collect restore", bounds{leases: 2, runs: 3, collections: 2, rollbacks: 1, restores: 1, window: all}},
		{"reader", bounds{leases: 2, runs: 3, collections: 2, rollbacks: 1, reading: true, window: all}},
		{"adopt", bounds{leases: 3, runs: 2, adoptions: 2, faults: 1, twoStores: true, window: all}},
		{"adopt much", bounds{leases: 3, runs: 4, adoptions: 2, twoStores: true, window: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if x := explore(t, c.bounds, mistakes{}); x.bad != "" {
				t.Error("a property is broken")
			}
		})
	}
}

func TestMistakesAreCaught(t *testing.T) {
	all := uint8(lastMark)
	for _, c := range []struct {
		name string
		mistakes
		bounds
		want string // what breaks
	}{
		{"plain put", mistakes{plainPut: true}, bounds{leases: 2, runs: 1, window: all}, ""},
		{"body without identity", mistakes{bodyWithoutIdentity: true}, bounds{leases: 2, runs: 1, faults: 1, window: all}, ""},
		{"constant change id", mistakes{constantChangeID: true}, bounds{leases: 1, runs: 1, faults: 1, window: all}, ""},
		{"no claim", mistakes{noClaim: true}, bounds{leases: 2, runs: 2, window: all}, ""},
		{"journal first", mistakes{journalFirst: true}, bounds{leases: 1, runs: 1, window: all}, ""},
		{"data last", mistakes{dataLast: true}, bounds{leases: 1, runs: 1, window: all}, ""},
		{"refusal believed", mistakes{refusalBelieved: true}, bounds{leases: 1, runs: 1, faults: 1, window: all}, ""},
		{"no nonce", mistakes{noNonce: true}, bounds{leases: 3, runs: 2, restores: 1, window: all}, ""},
		{"ignore parents", mistakes{ignoreParents: true}, bounds{leases: 2, runs: 2, restores: 1, window: all}, ""},
		{"ignore current", mistakes{ignoreCurrent: true}, bounds{leases: 2, runs: 1, crashes: 1, window: all}, ""},
		{"condemn in journal", mistakes{condemnInJournal: true}, bounds{leases: 2, runs: 3, collections: 1, rollbacks: 1, restores: 1, window: all}, ""},
		{"delete uncondemned", mistakes{deleteUncondemned: true}, bounds{leases: 2, runs: 3, collections: 1, rollbacks: 1, window: all}, ""},
		{"ignore pins", mistakes{ignorePins: true}, bounds{leases: 1, runs: 2, collections: 2, pins: 2, window: all}, ""},
		{"ignore borrowed data", mistakes{ignoreBorrowedData: true}, bounds{leases: 1, runs: 1, collections: 2, resetAsked: true, window: all}, ""},
		{"settle before claim", mistakes{settleBeforeClaim: true}, bounds{leases: 2, runs: 1, window: all}, ""},
		{"fresh resend", mistakes{freshResend: true}, bounds{leases: 1, runs: 1, faults: 1, window: all}, ""},
		{"short walk", mistakes{shortWalk: true}, bounds{leases: 2, runs: 4, restores: 1, window: 1}, ""},
		{"empty too soon", mistakes{emptyTooSoon: true}, bounds{leases: 1, runs: 3, restores: 1, window: 1}, ""},
		{"adopt keeps epoch", mistakes{adoptKeepsEpoch: true}, bounds{leases: 3, runs: 1, adoptions: 1, twoStores: true, window: 1}, ""},
		{"rollback forgets", mistakes{rollbackForgets: true}, bounds{leases: 2, runs: 4, collections: 2, rollbacks: 2, resetAsked: true, window: all}, ""},
		{"rollback names old pane", mistakes{rollbackNamesOldPane: true}, bounds{leases: 1, runs: 3, rollbacks: 1, window: all}, ""},
		{"reset reuses run", mistakes{resetReusesRun: true}, bounds{leases: 2, runs: 1, crashes: 1, resetAsked: true, window: all}, ""},
		{"reset takes fresh run", mistakes{resetTakesFreshRun: true}, bounds{leases: 2, runs: 1, crashes: 1, resetAsked: true, window: all}, ""},
		{"unsettled assumed", mistakes{unsettledAssumed: true}, bounds{leases: 1, runs: 2, faults: 1, window: all}, ""},
		{"journal unasked", mistakes{journalUnasked: true}, bounds{leases: 1, runs: 2, restores: 1, window: all}, ""},
		{"newest first", mistakes{newestFirst: true}, bounds{leases: 2, runs: 2, restores: 1, window: all, crashes: 1}, ""},
		{"replan keeps status", mistakes{replanKeepsStatus: true}, bounds{leases: 2, runs: 1, resetAsked: true, window: all}, ""},
		{"reader skips missing", mistakes{readerSkipsMissing: true}, bounds{leases: 1, runs: 2, collections: 2, reading: true, window: all}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := explore(t, c.bounds, c.mistakes)
			if x.bad == "" {
				t.Error("nobody notices")
			}
		})
	}
}
