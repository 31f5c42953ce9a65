package model

import (
	"strings"
	"testing"
)

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
	baseFirst            bool // a promotion flips the base, then the delta
	deltaFirst           bool // a promotion flips the delta, then the base
	ignoreBars           bool // a promotion does not ask for bars
	barLast              bool // a rollback bars what it left when it is journalled as published
	ignoreSupports       bool // a collection does not know of supported bases
	ignoreHistory        bool // a collection does not know of former bases
	readerMixesVersions  bool // a reader takes the base from another CURRENT than the pane
}

// wrong is one mistake within bounds that suffice to see it, and what it breaks.
type wrong struct {
	name string
	mistakes
	bounds
	want string
}

func wrongs() []wrong {
	return []wrong{
		{"plain put", mistakes{plainPut: true}, bounds{leases: 2, runs: 1, window: all},
			"version 1 followed version 1"},
		{"body without identity", mistakes{bodyWithoutIdentity: true}, bounds{leases: 2, runs: 1, faults: 1, window: all},
			"a fenced writer"},
		{"constant change id", mistakes{constantChangeID: true}, bounds{leases: 1, runs: 1, faults: 1, window: all},
			"published of run 1, which no reader could ever see"},
		{"no claim", mistakes{noClaim: true}, bounds{leases: 2, runs: 2, window: all},
			"abandoned of run 1, which was published"},
		{"journal first", mistakes{journalFirst: true}, bounds{leases: 1, runs: 1, window: all},
			"published of run 1, which no reader could ever see"},
		{"data last", mistakes{dataLast: true}, bounds{leases: 1, runs: 1, window: all},
			"CURRENT names data that does not exist"},
		{"refusal believed", mistakes{refusalBelieved: true}, bounds{leases: 1, runs: 1, faults: 1, window: all},
			"failed of run 1, which was published"},
		{"no nonce", mistakes{noNonce: true}, bounds{leases: 3, runs: 2, restores: 1, window: all},
			"abandoned of run 1, which was published"},
		{"ignore parents", mistakes{ignoreParents: true}, bounds{leases: 2, runs: 2, restores: 1, window: all},
			"left run 1, an ancestor of CURRENT, as nothing"},
		{"ignore current", mistakes{ignoreCurrent: true}, bounds{leases: 2, runs: 1, crashes: 1, window: all},
			"abandoned of run 1, which was published"},
		{"condemn in journal", mistakes{condemnInJournal: true},
			bounds{leases: 2, runs: 3, collections: 1, rollbacks: 1, restores: 1, window: all},
			"CURRENT names data that does not exist"},
		{"delete uncondemned", mistakes{deleteUncondemned: true}, bounds{leases: 2, runs: 3, collections: 1, rollbacks: 1, window: all},
			"CURRENT names data that does not exist"},
		{"ignore pins", mistakes{ignorePins: true}, bounds{leases: 1, runs: 2, collections: 2, pins: 2, window: all},
			"the data of run 1, which is pinned, was deleted"},
		{"ignore borrowed data", mistakes{ignoreBorrowedData: true},
			bounds{leases: 1, runs: 1, collections: 2, resetAsked: true, window: all},
			"CURRENT names data that is condemned"},
		{"ignore layers below", mistakes{ignoreBorrowedData: true},
			bounds{leases: 1, runs: 2, collections: 2, layering: true, window: all},
			"CURRENT names data that is condemned"},
		{"settle before claim", mistakes{settleBeforeClaim: true}, bounds{leases: 2, runs: 1, window: all},
			"abandoned of run 1, which was published"},
		{"fresh resend", mistakes{freshResend: true}, bounds{leases: 1, runs: 1, faults: 1, window: all},
			"failed of run 1, which was published"},
		{"short walk", mistakes{shortWalk: true}, bounds{leases: 2, runs: 4, restores: 1, window: 1},
			"unknown of run 1, which was published"},
		{"empty too soon", mistakes{emptyTooSoon: true}, bounds{leases: 1, runs: 3, restores: 1, window: 1},
			"unknown of run 1, which was published"},
		{"adopt keeps epoch", mistakes{adoptKeepsEpoch: true}, bounds{leases: 3, runs: 1, adoptions: 1, twoStores: true, window: 1},
			"a fenced writer"},
		{"rollback forgets", mistakes{rollbackForgets: true},
			bounds{leases: 2, runs: 4, collections: 2, rollbacks: 2, resetAsked: true, window: all},
			"CURRENT names data that does not exist"},
		{"rollback names old pane", mistakes{rollbackNamesOldPane: true}, bounds{leases: 1, runs: 3, rollbacks: 1, window: all},
			"run 1 became current again"},
		{"reset reuses run", mistakes{resetReusesRun: true}, bounds{leases: 2, runs: 1, crashes: 1, resetAsked: true, window: all},
			"carry out the reset a second time"},
		{"reset takes fresh run", mistakes{resetTakesFreshRun: true}, bounds{leases: 2, runs: 1, crashes: 1, resetAsked: true, window: all},
			"carry out the reset a second time"},
		{"unsettled assumed", mistakes{unsettledAssumed: true}, bounds{leases: 1, runs: 2, faults: 1, window: all},
			"abandoned of run 1, which was published"},
		{"journal unasked", mistakes{journalUnasked: true}, bounds{leases: 1, runs: 2, restores: 1, window: all},
			"left run 1, an ancestor of CURRENT, as nothing"},
		{"newest first", mistakes{newestFirst: true}, bounds{leases: 2, runs: 2, restores: 1, window: all, crashes: 1},
			"left run 1, an ancestor of CURRENT, as nothing"},
		{"replan keeps status", mistakes{replanKeepsStatus: true}, bounds{leases: 2, runs: 1, resetAsked: true, window: all},
			"abandoned of run 5, which was published"},
		{"reader skips missing", mistakes{readerSkipsMissing: true}, bounds{leases: 1, runs: 2, collections: 2, reading: true, window: all},
			"the reader serves a pane that is not whole"},
		{"base first", mistakes{baseFirst: true}, bounds{leases: 1, runs: 2, bases: 1, window: all},
			"CURRENT names base 1, its pane was computed for base 0"},
		{"delta first", mistakes{deltaFirst: true}, bounds{leases: 1, runs: 2, bases: 2, window: all},
			"its pane was computed for base"},
		{"ignore bars", mistakes{ignoreBars: true}, bounds{leases: 1, runs: 4, bases: 2, rollbacks: 1, window: all},
			"which a rollback had left"},
		{"bar last", mistakes{barLast: true}, bounds{leases: 2, runs: 4, bases: 2, rollbacks: 1, crashes: 1, window: all},
			"which a rollback had left"},
		{"ignore supports", mistakes{ignoreSupports: true}, bounds{leases: 1, runs: 2, bases: 2, collections: 2, retain: 1, window: all},
			"which the pane supports, was deleted"},
		{"ignore history", mistakes{ignoreHistory: true}, bounds{leases: 1, runs: 2, bases: 2, collections: 2, retain: 2, window: all},
			"where a rollback would go to, was deleted"},
		{"reader mixes versions", mistakes{readerMixesVersions: true}, bounds{leases: 1, runs: 2, bases: 2, reading: true, window: all},
			"the reader serves a pane over base"},
	}
}

// TestMistakesAreCaught: each way to get the protocol wrong breaks a property within small bounds, by a trace a person can read.
func TestMistakesAreCaught(t *testing.T) {
	t.Parallel()
	for _, c := range wrongs() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := explore(t, c.bounds, c.mistakes)
			if !strings.Contains(x.bad, c.want) {
				t.Errorf("broken is %q, want %q", x.bad, c.want)
			}
			if n := len(x.trace()); x.bad != "" && n > 40 {
				t.Errorf("a trace of %d steps", n)
			}
		})
	}
}
