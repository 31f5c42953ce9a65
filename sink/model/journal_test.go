package model

// holds says whether the lease row is this leader's, which every transaction of a leader checks.
func (d *journal) holds(l *leader) bool { return d.epoch == l.epoch && d.nonce == l.nonce }

// plan enters a run. A run that is planned again (a reset's, after an interruption) is planned and nothing else.
func (x *explorer) plan(d *journal, run uint8) {
	if d.status[run] == published || x.replanKeepsStatus && d.status[run] != unplanned {
		return
	}
	d.status[run] = planned
}

// knows says whether the journal has what head names as published. A leader asks in every transaction that builds on it: a database that
// was restored, or failed over to a replica that lags, may know less than the leader has told it, and still hold the leader's lease.
func (x *explorer) knows(s *state, d *journal, pane uint8) bool {
	return pane == 0 || d.status[s.panes[pane].run] == published || x.journalUnasked
}

// publish is step 9, a transaction; it may be repeated.
func (d *journal) publish(run uint8) {
	d.status[run] = published
	if run == resetRun {
		d.intent = applied
	}
}

// end settles a run as failed, abandoned or unknown. Published is final.
func (d *journal) end(run, status uint8) {
	if d.status[run] != published {
		d.status[run] = status
	}
}

func (d *journal) set(status uint8) (runs uint8) {
	for run, st := range d.status {
		if run > 0 && st == status {
			runs |= bit(uint8(run))
		}
	}
	return runs
}

// empty says whether the journal knows of nothing that a walk could settle.
func (x *explorer) empty(d *journal) bool {
	return d.set(published) == 0 && (x.emptyTooSoon || d.set(planned) == 0 && d.intent != pending)
}

// walk follows the parent links from head back to the newest run that is journalled as published, or where the journal is empty, W back.
func (x *explorer) walk(s *state, d *journal, head current, short bool) (w walk) {
	s.chain(head.pane, func(pane uint8, m manifest) bool {
		w.reached, w.oldest = w.reached|bit(m.run), m.run
		if d.status[m.run] == published {
			return false
		}
		w.open |= bit(pane)
		return !short || m.mark+x.window > s.panes[head.pane].mark
	})
	return w
}

// walkOf is the walk of a leader, with its mistakes.
func (x *explorer) walkOf(s *state, d *journal, head current) walk {
	w := x.walk(s, d, head, x.shortWalk || x.empty(d))
	switch {
	case x.ignoreCurrent:
		w = walk{}
	case x.ignoreParents:
		w = walk{open: w.open & bit(head.pane), reached: bit(s.panes[head.pane].run) &^ 1}
	}
	return w
}

// asLeft says whether the journal still is as the walk and the transactions since found and left it, as far as the next one builds on it:
// the parent of the next pane to journal, or in the end the newest pane, must be known.
func (x *explorer) asLeft(s *state, d *journal, w walk, head current) bool {
	if w.open == 0 {
		return x.ignoreCurrent || x.knows(s, d, head.pane)
	}
	parent := s.panes[lowest(w.open)].parent
	return !has(w.reached, s.panes[parent].run) || x.knows(s, d, parent)
}

// settle is one transaction of a reconciliation and whether it was the last. Runs are published oldest first, so that whatever interrupts
// it, nothing that is not journalled lies behind a run that is. Planned runs that the walk did not reach are settled at the end, all at
// once: each by itself makes no difference.
func (x *explorer) settle(t *state, d *journal, w *walk) (run uint8, done bool) {
	if w.open != 0 {
		pane := lowest(w.open)
		if x.newestFirst {
			for pane = maxPanes; !has(w.open, pane); pane-- {
			}
		}
		w.open &^= bit(pane)
		run = t.panes[pane].run
		d.publish(run)
		return run, false
	}
	for run := uint8(1); run <= resetRun; run++ {
		if d.status[run] != planned || has(w.reached, run) {
			continue
		}
		status := abandoned
		if run < w.oldest {
			status = unknown
		}
		d.end(run, status)
	}
	*w = walk{}
	return 0, true
}

// afterAll asks of every state: if everything stopped now, and one more leader came and did nothing but claim and reconcile, would the
// journal agree with CURRENT and its ancestors? It stands for a crash of both leaders after every step.
func (x *explorer) afterAll(s *state) {
	if s.cur.version == absent || s.cur.version == maxCur {
		return
	}
	for i := range s.db {
		if i > 0 && !x.twoStores {
			break
		}
		t := *s
		d := &t.db[i]
		d.epoch, d.nonce = 1+max(d.epoch, t.cur.epoch), t.freshNonce()
		open := x.walk(&t, d, t.cur, d.set(published)|d.set(planned) == 0 && d.intent != pending).open
		t.cur.version++
		t.cur.reason = claim
		t.cur.epoch, t.cur.nonce, t.cur.change, t.cur.state = d.epoch, d.nonce, t.freshChange(), uint8(i)
		w := x.walkOf(&t, d, t.cur)
		for done := false; !done && x.bad == ""; x.check(&t) {
			_, done = x.settle(&t, d, &w)
		}
		for pane := uint8(1); pane <= maxPanes; pane++ {
			if run := t.panes[pane].run; has(open, pane) && d.status[run] != published {
				x.fail("a new leader left run %d, an ancestor of CURRENT, as %s", run, statusNames[d.status[run]])
			}
		}
		s.chain(t.cur.pane, func(_ uint8, m manifest) bool {
			if x.window >= lastMark && d.status[m.run] != published {
				x.fail("a new leader left run %d, an ancestor of CURRENT, as %s", m.run, statusNames[d.status[m.run]])
			}
			return true
		})
		if d.set(planned) != 0 {
			x.fail("a new leader left a run as planned")
		}
		if d.intent == pending && t.resets > 0 {
			x.fail("a new leader would carry out the reset a second time")
		}
		for _, q := range t.net {
			if q.on != 0 && x.put(&t, q) {
				x.fail("a request of epoch %d was applied after the claim of epoch %d", q.body.epoch, d.epoch)
			}
		}
	}
}
