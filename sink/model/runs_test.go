package model

import "github.com/deltad/deltad/sink"

// ready is a leader between two runs: CURRENT is its own and the journal agrees with it.
func (x *explorer) ready(s *state, i int) {
	l := &s.leaders[i]
	if s.cur.change != l.seen.change {
		t := *s
		t.leaders[i].seen = s.cur
		if s.cur.epoch != l.epoch || s.cur.nonce != l.nonce {
			t.leaders[i].pc = toClaim
		}
		x.emit(step{kind: refreshes, epoch: l.epoch}, &t)
	}
	if l.seen.version > maxCur-4 {
		x.fail("the bounds are too wide: version %d", l.seen.version)
		return
	}
	if s.spent.runs < x.runs {
		x.planRun(s, i, publish, 0)
		if x.refining && l.seen.pane != 0 {
			x.planRun(s, i, refine, 0)
		}
		if s.spent.rollbacks < x.rollbacks {
			s.chain(l.seen.pane, func(pane uint8, m manifest) bool {
				if pane != l.seen.pane && within(m.data, s.data) && x.mayGoBack(s, l.seen.pane, pane) && !(x.condemnInJournal && s.db[l.store].condemned&m.data != 0) {
					x.planRun(s, i, rollback, pane)
				}
				return true
			})
		}
	}
	if base := x.candidate(s, s.db[l.store], l.seen); base != 0 && s.spent.runs < x.runs {
		x.planRun(s, i, promote, base)
	}
	if s.db[l.store].intent == pending && l.seen.pane != 0 {
		x.planReset(s, i)
	}
	if s.spent.collections < x.collections && l.seen.pane != 0 && l.condemn|l.drop == 0 {
		x.planCollection(s, i)
	}
}

// candidate is the base that a leader promotes of its own accord: the newest that passed the gate, if it is newer than the live one and
// not barred; or 0.
func (x *explorer) candidate(s *state, d journal, seen current) uint8 {
	base := s.rebuilt()
	if base <= seen.base || has(d.barred, base) && !x.ignoreBars {
		return 0
	}
	return base
}

// mayGoBack says whether a rollback goes from one pane to another: over the same base to any, else to the last pane over the former base,
// and in neither case to a base that is gone.
func (x *explorer) mayGoBack(s *state, from, to uint8) bool {
	was, is := s.panes[from], s.panes[to]
	return is.base == was.base || is.base != 0 && to == was.former && has(s.data, generation(is.base))
}

// planRun journals a run before its first byte. A rollback that leaves a base bars it in the same transaction.
func (x *explorer) planRun(s *state, i int, reason, target uint8) {
	t := *s
	l := &t.leaders[i]
	d := &t.db[l.store]
	if !d.holds(l) || !x.knows(&t, d, l.seen.pane) {
		st := step{kind: isFenced, epoch: l.epoch}
		if d.holds(l) {
			st.kind, l.pc = findsJournalBehind, toClaim
		} else {
			*l = leader{}
		}
		x.emit(st, &t)
		return
	}
	t.spent.runs++
	l.run, l.purpose, l.target, l.pc = t.spent.runs, reason, target, toData
	x.plan(d, l.run)
	if reason == rollback {
		t.spent.rollbacks++
		l.pc = toManifest
		if from := t.panes[l.seen.pane].base; from != t.panes[target].base && !x.barLast {
			d.barred |= bit(from)
		}
		if x.rollbackNamesOldPane {
			x.nameOldPane(&t, i, target)
			return
		}
	}
	if x.dataLast {
		l.pc = toManifest
	}
	x.emit(step{kind: plansRun, epoch: l.epoch, arg: l.run<<4 | reason}, &t)
}

// nameOldPane is a rollback that has no manifest of its own.
func (x *explorer) nameOldPane(t *state, i int, target uint8) {
	l := &t.leaders[i]
	l.want = l.seen
	l.want.pane, l.want.base, l.pane, l.pc = target, t.panes[target].base, target, toSend
	x.stamp(t, l)
	x.emit(step{kind: plansRun, epoch: l.epoch, arg: l.run<<4 | rollback}, t)
}

// planReset carries the reset out as a run of its own, under the id that was chosen when it was asked for.
func (x *explorer) planReset(s *state, i int) {
	t := *s
	l := &t.leaders[i]
	d := &t.db[l.store]
	st := step{kind: plansRun, epoch: l.epoch, arg: resetRun<<4 | reset}
	switch {
	case !d.holds(l):
		*l, st.kind = leader{}, isFenced
	case !x.knows(&t, d, l.seen.pane):
		st.kind, l.pc = findsJournalBehind, toClaim
	case s.panes[l.seen.pane].progress == mark0: // it is there already
		d.intent, st.kind = refused, refusesReset
	case x.resetReusesRun:
		l.run, l.purpose, l.pc = s.panes[l.seen.pane].run, reset, toManifest
		st.arg = l.run<<4 | reset
	case x.resetTakesFreshRun && s.spent.runs == maxRuns:
		return
	case x.resetTakesFreshRun:
		t.spent.runs++
		l.run, l.purpose, l.pc = t.spent.runs, reset, toManifest
		x.plan(d, l.run)
		st.arg = l.run<<4 | reset
	default:
		l.run, l.purpose, l.pc = resetRun, reset, toManifest
		x.plan(d, resetRun)
	}
	x.emit(st, &t)
	if d := &s.db[l.store]; x.resuming && d.holds(&s.leaders[i]) && x.knows(s, d, s.leaders[i].seen.pane) {
		t = *s // the pipeline was resumed before the reset was carried out
		t.db[s.leaders[i].store].intent = refused
		x.emit(step{kind: refusesReset, epoch: s.leaders[i].epoch}, &t)
	}
}

// writeManifest creates the manifest of the run in hand and plans the change of CURRENT, by the real NextPane and Transition.
func (x *explorer) writeManifest(s *state, i int) {
	l := &s.leaders[i]
	x.writeManifestWhen(s, i, false, false)
	if x.expiring && l.purpose <= refine && s.panes[l.seen.pane].supports != 0 {
		x.writeManifestWhen(s, i, true, false)
	}
	if x.layering && l.purpose <= refine && l.seen.pane != 0 {
		x.writeManifestWhen(s, i, false, true)
	}
}

// writeManifestWhen is writeManifest before what is supported expires, and after, of a whole pane or of a layer over the one before.
func (x *explorer) writeManifestWhen(s *state, i int, expired, layer bool) {
	t := *s
	l := &t.leaders[i]
	from := s.panes[l.seen.pane]
	m := manifest{run: l.run, version: l.seen.version + 1, parent: l.seen.pane, reason: l.purpose, data: bit(l.run), base: l.seen.base, written: 1}
	switch l.purpose {
	case publish: // the newest partition, which after a reset need not be a new one
		m.mark = max(from.mark, mark0) + 1
		if from.progress < from.mark {
			m.mark = from.mark
		}
		m.progress = m.mark
	case refine:
		m.mark, m.progress = from.mark, from.progress
	case reset:
		m.mark, m.progress, m.data = from.mark, mark0, from.data
	case rollback:
		to := s.panes[l.target]
		m.mark, m.progress, m.data, m.base = to.mark, to.progress, to.data, to.base
	case promote:
		m.mark, m.base = max(from.mark, mark0+1), l.target
		m.progress = m.mark
	}
	if layer {
		m.data |= from.data
	}
	x.lineage(&t, l.seen.pane, &m, expired)
	st := step{kind: writesManifest, epoch: l.epoch, arg: l.run}
	if l.pane = t.create(m); l.pane == 0 {
		return // beyond the bounds
	}
	ref, full := x.manifest(&t, l.pane)
	seen := x.head(&t, l.seen)
	var o sink.CommitOptions
	condemned := l.seen.condemned
	if l.purpose <= refine && l.condemn|l.drop != 0 {
		condemned = condemned&^l.drop | l.condemn
		o.Condemn = x.sets[condemned]
	}
	next, err := sink.NextPane(seen, ref, full, o)
	if err == nil {
		err = sink.Transition(seen.Current, next)
	}
	if err != nil {
		l.pc = toFail
		x.emit(st, &t)
		return
	}
	l.want = current{pane: l.pane, base: m.base, condemned: x.setOf(next.Condemned)}
	switch {
	case x.baseFirst && l.purpose == promote: // the delta follows in a second put
		l.want.pane = l.seen.pane
	case x.deltaFirst && l.purpose == promote: // the base follows in a second put
		l.want.base = l.seen.base
	}
	if x.rollbackForgets && l.purpose == rollback {
		l.want.condemned = 0
	}
	x.stamp(&t, l)
	l.pc = toSend
	if d := &t.db[l.store]; x.journalFirst {
		if d.holds(l) {
			d.publish(l.run)
		}
	}
	x.emit(st, &t)
}

// create adds a manifest and returns its number; one of the same name, which only a reset that is tried again can meet, is that one.
func (s *state) create(m manifest) uint8 {
	for pane := uint8(1); pane <= maxPanes; pane++ {
		switch p := &s.panes[pane]; {
		case p.written == 0:
			*p = m
			return pane
		case p.run == m.run && p.version == m.version:
			return pane
		}
	}
	return 0
}
