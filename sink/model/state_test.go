package model

// Everything in a state is a small number in one byte, so that a state is comparable, has no padding and is its own key.
const (
	maxRuns  = 4           // ids of runs that are planned: 1 to maxRuns
	resetRun = maxRuns + 1 // the id of the one reset, chosen when it was asked for
	maxBases = 2           // generations, numbered in the order they were rebuilt; 0 is no base
	maxIDs   = resetRun + maxBases
	maxPanes = 6               // manifests, numbered in the order they were written; 0 is no pane
	maxCur   = 30              // versions of CURRENT; 0 is an absent one
	mark0    = 1               // the partition before the first: where a reset goes to
	lastMark = mark0 + maxRuns // of all
	absent   = 0

	// resetChange is the change id of the reset: it is journalled with the run and stays the same however often it is tried.
	resetChange = 31
)

// current is what CURRENT says. Run, watermark, progress and hashes follow from the pane's manifest. change tells its body from every
// other, and is its change id but for a reset's, see resetChange.
type current struct {
	version, change, reason, epoch, nonce, state, pane, base, condemned uint8
}

// manifest is one file under manifests/, with its parent link. data is a set of runs: of one that wrote the pane whole, and of those that
// wrote layers over it. supports is a set of bases, former the last pane over the base before; with two bases there is but one.
type manifest struct {
	run, version, parent, reason, mark, progress, data, base, supports, former, written uint8
}

// generation is the id of a base among those of runs.
func generation(base uint8) uint8 { return resetRun + base }

// Reasons of manifests, and of changes that keep the pane.
const (
	publish uint8 = iota
	refine
	reset
	rollback
	claim
	adopt
	collect
	promote
)

// request is a put of CURRENT that is somewhere in the network.
type request struct {
	on, ifMatch uint8
	body        current
}

// What the journal says of a run.
const (
	unplanned uint8 = iota
	planned
	published
	failed
	abandoned
	unknown
)

// What became of the one reset that may be asked for.
const (
	notAsked uint8 = iota
	pending
	applied
	refused
)

// journal is a state store.
type journal struct {
	epoch, nonce uint8 // the lease row
	status       [resetRun + 1]uint8
	intent       uint8
	candidates   uint8 // bases that passed the gate
	barred       uint8 // bases that a rollback left
	condemned    uint8 // only under the mistake condemnInJournal
}

// leader is one process: all of it is lost in a crash.
type leader struct {
	pc, epoch, nonce  uint8
	store             uint8 // its state store
	purpose           uint8 // of the change on its way: claim, adopt, collect or a pane's reason
	run, pane, target uint8 // of the run in hand
	walked            walk  // what reconciliation found
	unsettled         uint8 // version that a change with an open outcome was planned on
	condemn, drop     uint8 // of a planned collection: runs whose data
	del               uint8 // data still to delete
	seen, want        current
}

// walk is what the parent links from CURRENT tell of the journal: the panes to journal as published, the runs seen, the oldest of them.
type walk struct{ open, reached, oldest uint8 }

// Where a leader stands: before which request.
const (
	idle       uint8 = iota
	toClaim          // read CURRENT, decide about a claim
	toSend           // put CURRENT
	toRead           // read CURRENT again after a doubtful answer
	toWalk           // find what the journal lacks
	toSettle         // reconcile the journal with CURRENT, one transaction each
	ready            // between runs
	toData           // upload data
	toManifest       // upload the manifest
	toJournal        // journal the run as published
	toFail           // journal the run as failed
	toDelete         // delete condemned data
	toCondemn        // change condemned
	toDataLate       // only under the mistake dataLast
)

// reader is a process that follows CURRENT.
type reader struct {
	pc, version, pane, base uint8
	served                  uint8 // version it answers from
}

// budget counts what happened of what scenarios bound.
type budget struct {
	leases, runs, crashes, faults, rollbacks, collections, adoptions, backups uint8
}

// state is the world: the bucket, the network, the state stores, the processes. The last fields are known to nobody in it; they are what
// the properties speak of.
type state struct {
	cur       current
	panes     [maxPanes + 1]manifest
	data      uint8 // runs and generations whose data exists
	net       [2]request
	db        [2]journal
	backup    journal
	leaders   [2]leader
	reader    reader
	spent     budget
	everRuns  uint8 // runs that CURRENT named once
	everPanes uint8
	left      uint8 // bases that a rollback left
	resets    uint8 // how often the reset came about
}

func bit(n uint8) uint8 { return 1 << n }

func has(set, n uint8) bool { return set&bit(n) != 0 }

// within says whether all of a set is in another.
func within(part, set uint8) bool { return part&^set == 0 }

// lowest is the smallest number in a set that is not empty.
func lowest(set uint8) uint8 {
	for n := uint8(0); ; n++ {
		if has(set, n) {
			return n
		}
	}
}

// chain calls visit with the panes from pane back along the parent links until it returns false.
func (s *state) chain(pane uint8, visit func(pane uint8, m manifest) bool) {
	for pane != 0 {
		m := s.panes[pane]
		if m.written == 0 || !visit(pane, m) {
			return
		}
		pane = m.parent
	}
}

// freshChange is a change id that nothing in the world holds, so that nobody can tell it from one that was never used: used ids come
// back, and states that differ only in the names of ids are one.
func (s *state) freshChange() uint8 {
	used := uint32(1) | 1<<s.cur.change
	for i := range s.net {
		if s.net[i].on != 0 {
			used |= 1<<s.net[i].body.change | 1<<(s.net[i].ifMatch&31)
		}
	}
	for i := range s.leaders {
		used |= 1<<s.leaders[i].seen.change | 1<<s.leaders[i].want.change
	}
	for id := uint8(1); ; id++ {
		if used&(1<<id) == 0 {
			return id
		}
	}
}

// freshNonce is the same for nonces.
func (s *state) freshNonce() uint8 {
	used := uint32(1) | 1<<s.cur.nonce | 1<<s.backup.nonce
	for i := range s.net {
		used |= 1 << s.net[i].body.nonce
	}
	for i := range s.leaders {
		l := &s.leaders[i]
		used |= 1<<l.nonce | 1<<l.seen.nonce | 1<<l.want.nonce | 1<<s.db[i].nonce
	}
	for n := uint8(1); ; n++ {
		if used&(1<<n) == 0 {
			return n
		}
	}
}
