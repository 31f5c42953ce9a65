package model

import "github.com/deltad/deltad/sink"

// planCollection asks the real PlanCollection: nothing is kept but what CURRENT names and the pins, and everything is old.
func (x *explorer) planCollection(s *state, i int) {
	l := &s.leaders[i]
	pins := x.pins
	if x.ignorePins {
		pins = 0
	}
	ev := x.evidence(s, l.seen, s.db[l.store], pins)
	if x.ignoreBorrowedData {
		for j := range ev.Panes {
			ev.Panes[j].DataIDs = []string{ev.Panes[j].RunID}
		}
	}
	ev.Retain.Bases = int(x.retain)
	if x.ignoreSupports {
		for j := range ev.Panes {
			ev.Panes[j].Supports = nil
		}
	}
	if x.ignoreHistory {
		ev.History = nil
	}
	plan := sink.PlanCollection(ev)
	if plan.Empty() {
		return
	}
	t := *s
	n := &t.leaders[i]
	t.spent.collections++
	n.condemn, n.drop = x.setOf(plan.Condemn), x.setOf(plan.Drop)
	for _, r := range plan.Delete {
		n.del |= x.setOf([]string{r.ID})
	}
	switch d := &t.db[l.store]; {
	case x.deleteUncondemned:
		n.del |= n.condemn
		n.condemn, n.drop = 0, 0
	case x.condemnInJournal:
		if !d.holds(l) {
			*n = leader{}
			break
		}
		d.condemned |= n.condemn
		n.del = d.condemned & s.data
		n.condemn, n.drop = 0, 0
	}
	if n.pc != idle {
		n.pc = toCondemn
		if n.del != 0 {
			n.pc = toDelete
		}
	}
	x.emit(step{kind: plansCollection, epoch: l.epoch}, &t)
}

// condemn changes condemned, by itself or along with the next publish.
func (x *explorer) condemn(s *state, i int) {
	l := &s.leaders[i]
	t := *s
	n := &t.leaders[i]
	if l.condemn|l.drop == 0 {
		n.pc = ready
		x.emit(step{kind: endsCollection, epoch: l.epoch}, &t)
		return
	}
	n.want = l.seen
	n.want.condemned = l.seen.condemned&^l.drop | l.condemn
	n.purpose, n.pc = collect, toSend
	x.stamp(&t, n)
	if err := sink.Transition(x.head(&t, n.seen).Current, x.current(&t, n.want)); err != nil {
		x.fail("a collection plans what is not allowed: %v", err)
	}
	x.emit(step{kind: endsCollection, epoch: l.epoch}, &t)
	if x.carrying && s.spent.runs < x.runs {
		t = *s
		t.leaders[i].pc = ready
		x.emit(step{kind: leavesToPublish, epoch: l.epoch}, &t)
	}
}
