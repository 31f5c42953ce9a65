package model

import "github.com/deltad/deltad/sink"

// leader is what one process may do next. Every case is one request or one transaction; what it remembers between them is lost in a crash.
func (x *explorer) leader(s *state, i int) {
	l := &s.leaders[i]
	if l.pc == idle {
		x.takeLease(s, i)
		return
	}
	if s.spent.crashes < x.crashes {
		t := *s
		t.spent.crashes++
		t.leaders[i] = leader{}
		x.emit(step{kind: crashes, epoch: l.epoch}, &t)
	}
	switch l.pc {
	case toClaim:
		x.claim(s, i)
	case toSend:
		x.send(s, i)
	case toRead:
		x.reread(s, i)
	case toWalk:
		t := *s
		t.leaders[i].walked, t.leaders[i].pc = x.walkOf(s, &t.db[l.store], l.seen), toSettle
		x.emit(step{kind: walks, epoch: l.epoch}, &t)
	case ready:
		x.ready(s, i)
	case toDelete:
		t := *s
		run := lowest(l.del)
		t.data &^= bit(run)
		if t.leaders[i].del &^= bit(run); t.leaders[i].del == 0 {
			t.leaders[i].pc = toCondemn
		}
		x.emit(step{kind: deletesData, epoch: l.epoch, arg: run}, &t)
	case toCondemn:
		x.condemn(s, i)
	case toManifest:
		x.writeManifest(s, i)
	case toData, toDataLate:
		t := *s
		t.data |= bit(l.run)
		t.leaders[i].pc = toManifest
		if l.pc == toDataLate {
			t.leaders[i].pc = toJournal
		}
		x.emit(step{kind: writesData, epoch: l.epoch, arg: l.run}, &t)
	default:
		x.transact(s, i)
	}
}

// takeLease: any process may hold the lease at any moment, whoever holds it and believes so: no clock is trusted.
func (x *explorer) takeLease(s *state, i int) {
	if s.spent.leases == x.leases {
		return
	}
	t := *s
	l := &t.leaders[i]
	if x.twoStores {
		l.store = uint8(i)
	}
	d := &t.db[l.store]
	t.spent.leases++
	d.epoch = 1 + max(d.epoch, s.cur.epoch)
	if x.adoptKeepsEpoch && s.cur.state != l.store {
		d.epoch = 1 + s.db[l.store].epoch
	}
	d.nonce = s.freshNonce()
	if x.noNonce {
		d.nonce = 1
	}
	l.epoch, l.nonce, l.pc = d.epoch, d.nonce, toClaim
	if x.settleBeforeClaim && s.cur.version != absent {
		l.seen, l.pc = s.cur, toWalk
	}
	x.emit(step{kind: takesLease, epoch: l.epoch}, &t)
}

// claim reads CURRENT and decides as Sink.Claim does. Where an own change is unsettled, a claim is written although CURRENT is the own
// one: what was planned on the same version can no longer come about then.
func (x *explorer) claim(s *state, i int) {
	t := *s
	l := &t.leaders[i]
	me, owner := x.owner(l.epoch, l.nonce, l.store), x.ownerOf(s.cur)
	st := step{kind: readsToClaim, epoch: l.epoch}
	l.purpose = claim
	foreign := s.cur.version != absent && s.cur.state != l.store
	fences := s.cur.version != absent && owner.Fences(me)
	switch {
	case fences && !(x.adoptKeepsEpoch && foreign):
		t.leaders[i], st.kind = leader{}, isFenced
	case foreign && s.spent.adoptions == x.adoptions:
		t.leaders[i], st.kind = leader{}, seesForeignStore
	case s.cur.version != absent && owner.Same(me) && (x.unsettledAssumed || l.unsettled == 0 || s.cur.version > l.unsettled):
		l.seen, l.unsettled, l.purpose, l.pc = s.cur, 0, 0, toWalk
	case x.noClaim && s.cur.version != absent:
		l.seen, l.unsettled, l.purpose, l.pc = s.cur, 0, 0, toWalk
	default:
		if foreign {
			l.purpose = adopt
			t.spent.adoptions++
		}
		l.seen, l.want, l.pc = s.cur, s.cur, toSend
		x.stamp(&t, l)
	}
	x.emit(st, &t)
}

// stamp makes the change that l wants one of its own.
func (x *explorer) stamp(t *state, l *leader) {
	l.want.version, l.want.epoch, l.want.nonce, l.want.state = l.seen.version+1, l.epoch, l.nonce, l.store
	l.want.reason, l.want.change = l.purpose, t.freshChange()
}

// send puts CURRENT. The answer may be lost, the request too, or it arrives later; the leader may give up before it knows.
func (x *explorer) send(s *state, i int) {
	l := &s.leaders[i]
	q := request{on: 1, ifMatch: x.etag(l.seen), body: l.want}
	t := *s
	a := x.attempt(s, l)
	st := step{kind: putRefused, epoch: l.epoch, arg: l.purpose}
	err := errRefused
	if x.put(&t, q) {
		err, st.kind = nil, putApplied
	}
	a.Sent(x.words[q.body.change], err)
	x.decided(&t, i, a, st)
	if s.spent.faults == x.faults {
		return
	}
	t = *s
	if x.put(&t, q) {
		t.spent.faults++
		a = x.attempt(s, l)
		a.Sent("", errNoAnswer)
		x.decided(&t, i, a, step{kind: putAnswerLost, epoch: l.epoch, arg: l.purpose})
	}
	if s.net[1].on != 0 {
		return
	}
	t = *s
	t.spent.faults++
	t.net[1] = q
	a = x.attempt(s, l)
	a.Sent("", errNoAnswer)
	u := t
	x.decided(&t, i, a, step{kind: putStillOnItsWay, epoch: l.epoch, arg: l.purpose})
	u.leaders[i].unsettled, u.leaders[i].pc = l.seen.version, toClaim
	u.leaders[i].forgetRun()
	x.emit(step{kind: givesUpWaiting, epoch: l.epoch, arg: l.purpose}, &u)
}

// reread reads CURRENT after a doubtful answer; the real Attempt decides.
func (x *explorer) reread(s *state, i int) {
	t := *s
	l := &t.leaders[i]
	a := x.attempt(s, l)
	a.Sent("", errNoAnswer)
	if x.refusalBelieved {
		l.pc = toFail
		if l.purpose == claim || l.purpose == collect {
			l.pc = toClaim
		}
		x.emit(step{kind: rereads, epoch: l.epoch}, &t)
		return
	}
	a.Seen(x.visible(s, s.cur))
	if a.Step() == sink.Send && x.freshResend {
		l.want.change = t.freshChange()
	}
	x.decided(&t, i, a, step{kind: rereads, epoch: l.epoch, arg: uint8(a.Step())})
}

// decided goes on as an attempt says.
func (x *explorer) decided(t *state, i int, a sink.Attempt, st step) {
	l := &t.leaders[i]
	switch a.Step() {
	case sink.Send:
		l.pc = toSend
	case sink.Read:
		l.pc = toRead
	case sink.Done:
		x.done(l)
	case sink.Moved, sink.ClaimAgain:
		switch l.purpose {
		case claim, adopt, collect:
			l.pc = toClaim
			l.forgetRun()
		default:
			l.want, l.pc = current{}, toFail
		}
	case sink.Fenced:
		*l = leader{}
	default:
		x.fail("an attempt of epoch %d ended as %s", l.epoch, a.Step())
	}
	x.emit(st, t)
}

// done goes on after a change that is in.
func (x *explorer) done(l *leader) {
	l.seen = l.want
	switch l.purpose {
	case claim, adopt:
		l.unsettled, l.pc = 0, toWalk
		if x.settleBeforeClaim {
			l.pc = ready
		}
	case collect:
		l.condemn, l.drop, l.pc = 0, 0, ready
	default:
		l.pc = toJournal
		if x.dataLast && l.purpose <= refine {
			l.pc = toDataLate
		}
		if l.purpose <= refine || l.purpose == promote {
			l.condemn, l.drop = 0, 0 // a publish carried them, a promotion let them go
		}

	}
	l.want, l.purpose = current{}, 0
}

func (l *leader) forgetRun() { l.run, l.pane, l.target, l.purpose, l.want = 0, 0, 0, 0, current{} }

// transact is a transaction in the state store, fenced by the lease row.
func (x *explorer) transact(s *state, i int) {
	t := *s
	l := &t.leaders[i]
	d := &t.db[l.store]
	st := step{kind: isFenced, epoch: l.epoch}
	if !d.holds(l) {
		*l = leader{}
		x.emit(st, &t)
		return
	}
	switch l.pc {
	case toSettle:
		if !x.newestFirst && !x.asLeft(&t, d, l.walked, l.seen) {
			st.kind, l.walked, l.pc = findsJournalBehind, walk{}, toWalk
			break
		}
		run, done := x.settle(&t, d, &l.walked)
		st.kind, st.arg = journalsPublished, run
		if done {
			st.kind, l.pc = reconciled, ready
			if x.settleBeforeClaim && l.seen.epoch != l.epoch {
				l.pc = toClaim
			}
		}
	case toJournal:
		if s.spent.faults < x.faults && x.journalFaults {
			u := *s
			u.spent.faults++
			u.leaders[i].forgetRun()
			u.leaders[i].pc = toClaim
			x.emit(step{kind: journalUnreachable, epoch: l.epoch}, &u)
		}
		if !x.knows(&t, d, t.panes[l.pane].parent) {
			st.kind, l.pc = findsJournalBehind, toClaim
			l.forgetRun()
			break
		}
		st.kind, st.arg, l.pc = journalsPublished, l.run, ready
		d.publish(l.run)
		switch m := t.panes[l.pane]; {
		case m.reason == reset:
			d.intent = applied
		case m.reason == rollback && x.barLast:
			d.barred |= bit(t.panes[m.parent].base)
		}
		l.forgetRun()
	case toFail:
		st.kind, st.arg, l.pc = journalsFailed, l.run, toClaim
		d.end(l.run, failed)
		l.forgetRun()
	}
	x.emit(st, &t)
}
