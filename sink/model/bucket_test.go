package model

import "github.com/deltad/deltad/sink"

// etag is what the store compares. Every body carries a fresh change id, so it stands for all of it.
func (x *explorer) etag(c current) uint8 {
	if x.bodyWithoutIdentity && c.version != absent {
		return 1 + (c.pane<<4 | c.condemned>>1)
	}
	return c.change
}

// put is what the store does with a conditional put of CURRENT, and whether it was applied. The properties of a change are checked
// where it happens:
//
//	no owner that fences the writer is ever replaced
//	version rises by one
//	a pane is built on the pane it replaces, and becomes current once
//	the watermark goes back in a rollback alone, progress in a rollback or a reset
//	condemned data is not current
//	the reset comes about once
//	a base that a rollback left is not promoted again
func (x *explorer) put(t *state, q request) bool {
	if !x.plainPut && x.etag(t.cur) != q.ifMatch {
		return false
	}
	was, now := t.cur, q.body
	t.cur = now
	if was.version != absent && x.ownerOf(was).Fences(x.ownerOf(now)) {
		x.fail("a fenced writer of epoch %d replaced CURRENT of epoch %d", now.epoch, was.epoch)
	}
	if now.version != was.version+1 {
		x.fail("version %d followed version %d", now.version, was.version)
	}
	if now.pane == was.pane {
		return true
	}
	m, before := t.panes[now.pane], t.panes[was.pane]
	switch {
	case has(t.everPanes, now.pane):
		x.fail("run %d became current again", m.run)
	case m.parent != was.pane:
		x.fail("run %d replaced run %d without being built on it: a publication is lost", m.run, before.run)
	case was.pane != 0 && m.mark < before.mark && m.reason != rollback:
		x.fail("the watermark went back without a rollback")
	case m.reason == promote && has(t.left, m.base):
		x.fail("a promotion went to base %d, which a rollback had left", m.base)
	case was.pane != 0 && m.progress < before.progress && m.reason != rollback && m.reason != reset:
		x.fail("progress went back without a rollback or a reset")
	}
	if m.reason == rollback && before.base != m.base {
		t.left |= bit(before.base)
	}
	t.everPanes |= bit(now.pane)
	t.everRuns |= bit(m.run)
	if m.reason == reset {
		if t.resets++; t.resets > 1 {
			x.fail("the reset came about twice")
		}
	}
	return true
}

// check is what must hold in every state.
func (x *explorer) check(t *state) {
	if p := t.panes[t.cur.pane]; t.cur.pane != 0 {
		switch {
		case p.written == 0:
			x.fail("CURRENT names a manifest that does not exist")
		case !within(p.data, t.data):
			x.fail("CURRENT names data that does not exist")
		case t.cur.condemned&p.data != 0:
			x.fail("CURRENT names data that is condemned")
		}
	}
	x.checkBases(t)
	for run := uint8(1); run <= resetRun; run++ {
		for _, p := range t.panes {
			if p.run == run && has(x.pins&t.everRuns, run) && !within(p.data, t.data) {
				x.fail("the data of run %d, which is pinned, was deleted", run)
			}
		}
		for i := range t.db {
			switch st := t.db[i].status[run]; {
			case st == published && !has(t.everRuns, run):
				x.fail("the journal says published of run %d, which no reader could ever see", run)
			case st > published && has(t.everRuns, run) && !x.retried(t, run):
				x.fail("the journal says %s of run %d, which was published", statusNames[st], run)
			}
		}
	}
	switch in := t.db[0].intent; {
	case in == applied && t.resets == 0:
		x.fail("the journal says applied of the reset, which never came about")
	case in == refused && t.resets > 0:
		x.fail("the journal says refused of the reset, which came about")
	}
}

// checkBases is what must hold of bases in every state.
func (x *explorer) checkBases(t *state) {
	base, live := t.cur.base, t.panes[t.cur.pane]
	switch {
	case base != live.base:
		x.fail("CURRENT names base %d, its pane was computed for base %d", base, live.base)
	case base != 0 && !has(t.data, generation(base)):
		x.fail("CURRENT names base %d, whose data does not exist", base)
	case base != 0 && has(t.cur.condemned, generation(base)):
		x.fail("CURRENT names base %d, which is condemned", base)
	case live.supports != 0 && !has(t.data, generation(lowest(live.supports))):
		x.fail("the data of base %d, which the pane supports, was deleted", lowest(live.supports))
	}
	if f := t.panes[live.former]; x.retain > 1 && live.former != 0 && (!within(f.data, t.data) || !has(t.data, generation(f.base))) {
		x.fail("data of pane %d over base %d, where a rollback would go to, was deleted", live.former, f.base)
	}
}

// retried says that what the journal says of the reset may come from a backup: its id alone may be tried again after it was settled, so
// that its outcome in an old journal need not be the last. Reconciliation, which every state must survive, puts that right.
func (x *explorer) retried(t *state, run uint8) bool { return run == resetRun && t.spent.backups == 2 }

// world is what happens to the bucket and the state store by itself, and the reader.
func (x *explorer) world(s *state) {
	for i := range s.net {
		if s.net[i].on == 0 {
			continue
		}
		q := s.net[i]
		t := *s
		t.net[i] = request{}
		x.emit(step{kind: requestLost, epoch: q.body.epoch}, &t)
		t = *s
		t.net[i] = request{}
		st := step{kind: requestRefusedLate, epoch: q.body.epoch}
		if x.put(&t, q) {
			st.kind = requestAppliedLate
		}
		x.emit(st, &t)
	}
	if s.spent.backups < x.restores*2 {
		t := *s
		t.spent.backups++
		if s.spent.backups%2 == 0 {
			t.backup = t.db[0]
			x.emit(step{kind: stateBackedUp}, &t)
		} else {
			t.db[0], t.backup = t.backup, journal{}
			x.emit(step{kind: stateRestored}, &t)
		}
	}
	if x.resetAsked && s.db[0].intent == notAsked && s.cur.pane != 0 && s.resets == 0 {
		t := *s
		t.db[0].intent = pending
		x.emit(step{kind: resetAskedFor}, &t)
	}
	if n := s.rebuilt(); n < x.bases {
		t := *s
		t.data |= bit(generation(n + 1))
		t.db[0].candidates |= bit(n + 1)
		x.emit(step{kind: rebuildEnds, arg: n + 1}, &t)
	}
	if x.reading {
		x.read(s)
	}
}

// rebuilt is the newest generation.
func (s *state) rebuilt() (n uint8) {
	for n < maxBases && has(s.db[0].candidates, n+1) {
		n++
	}
	return n
}

// read is the reader's next request: CURRENT, its manifest, its data, its base; what is gone meanwhile sends it back to CURRENT.
func (x *explorer) read(s *state) {
	t := *s
	r := &t.reader
	st := step{kind: readerReadsCurrent}
	switch r.pc {
	case 0:
		if s.cur.version == r.served {
			return
		}
		if r.version, r.pane, r.base, r.pc = s.cur.version, s.cur.pane, s.cur.base, 1; r.pane == 0 {
			*r = reader{served: r.version} // no index yet
		}
	case 1:
		st.kind, r.pc = readerReadsManifest, 2
		if s.panes[r.pane].written == 0 {
			*r = reader{served: r.served}
		}
	case 2:
		if r.pc = 3; r.base != 0 {
			st.kind = readerReadsData
			if !within(s.panes[r.pane].data, s.data) && !x.readerSkipsMissing {
				*r = reader{served: r.served}
			}
			break
		}
		fallthrough
	case 3:
		st.kind = readerSwaps
		if x.readerMixesVersions {
			r.base = s.cur.base
		}
		if r.base != s.panes[r.pane].base {
			x.fail("the reader serves a pane over base %d, which was computed for base %d", r.base, s.panes[r.pane].base)
		}
		whole := r.base == 0 && within(s.panes[r.pane].data, s.data) || r.base != 0 && has(s.data, generation(r.base))
		if whole || x.readerSkipsMissing {
			if r.version < r.served {
				x.fail("the reader went back from version %d to %d", r.served, r.version)
			}
			if !whole {
				x.fail("the reader serves a pane that is not whole")
			}
			r.served = r.version
		}
		*r = reader{served: r.served}
	}
	x.emit(st, &t)
}

// attempt is the real decision about a change on its way.
func (x *explorer) attempt(s *state, l *leader) sink.Attempt {
	return sink.NewAttempt(x.owner(l.epoch, l.nonce, l.store), x.visible(s, l.seen), x.visible(s, l.want).Current)
}

// visible is c as a process sees it.
func (x *explorer) visible(s *state, c current) sink.Head {
	h := x.head(s, c)
	if x.constantChangeID && h.Exists {
		h.ChangeID = x.words[0]
	}
	return h
}
