package flights_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch"
)

// fullRide is a ride over a full index that is rebuilt once a day, beside the
// deltas.
type fullRide struct {
	*ride
	oracle *fullOracle
	rigs   []*fullRig
	auto   bool // promoted without being asked for
	every  int  // so many-th pane is compared, and of these every sixth as DuckDB reads it too; and every promotion and rollback

	phase  string // of the rebuild: "", listing, reading, waiting
	until  int    // the hour in which the phase ends
	next   int    // the hour in which the next rebuild is due
	making *base
	held   bool
	barred *base // by a rollback, until the hour again, or for good if that is negative
	again  int
	full   fullStats
}

// fullStats says what a ride over a full index met beyond the usual.
type fullStats struct {
	rebuilds, held, overlaps, promotions, advancing, rollbacks, again, stale, unread, expired, compared, read, keys, bases int
}

func (s fullStats) String() string {
	return fmt.Sprintf("%d rebuilds (%d beside panes, %d held by the gate), %d promotions (%d with an advance), %d rollbacks, %d bases approved again, %d ends of support; "+
		"%d panes over a stale base, %d with unread objects before their coverage; %d panes over a base; %d panes compared, %d of them as DuckDB reads them too; %d documents, no difference",
		s.rebuilds, s.overlaps, s.held, s.promotions, s.advancing, s.rollbacks, s.again, s.expired, s.stale, s.unread, s.bases, s.compared, s.read, s.keys)
}

func driveFull(t *testing.T, o options) (stats, fullStats) {
	t.Helper()
	db, err := duck.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec(t.Context(), t, db, "SET threads = 1")
	rng := rand.New(rand.NewPCG(o.seed, 1))
	oracle := newFullOracle(t, db, o.dead)
	r := &fullRide{ride: &ride{t: t, rng: rng, oracle: oracle.oracle, from: january, write: ndjson}, oracle: oracle, auto: o.promote == "auto", every: max(o.every, 1), next: 4}
	if o.format == "parquet" {
		r.write = parquets(db)
	}
	r.hours = cut(t, rng, r.from, r.from.Add(time.Duration(o.hours)*hour))
	r.schedule()
	for _, p := range o.places {
		rig := newFullRig(t, p, o)
		r.rigs, r.ride.rigs = append(r.rigs, rig), append(r.ride.rigs, rig.rig)
	}
	away := 0
	for h := range r.hours {
		r.arrive(h)
		switch {
		case h == o.rest:
			away = 50
		case away == 0 && h > 30 && r.rng.IntN(16) == 0:
			away = 1 + r.rng.IntN(5)
			r.stats.absences++
		}
		if away > 0 {
			away--
			continue
		}
		r.hour(h)
	}
	return r.stats, r.full
}

// hour takes the rebuild as far as it is due, and steps in the middle of an
// hour, and at times once more.
func (r *fullRide) hour(h int) {
	r.t.Helper()
	now := r.from.Add(time.Duration(h)*hour + 30*time.Minute)
	if h > 30 && !r.disturb(now) {
		r.tooLate()
	}
	r.rebuild(h)
	if r.rng.IntN(20) == 0 {
		r.stats.restarts++
		whole := r.rng.IntN(2) == 0 && r.making == nil
		for _, rig := range r.rigs {
			rig.restart(whole)
		}
	}
	if l := r.oracle.live; l != nil && len(l.history) > 0 && r.oracle.candidate == nil && r.phase == "" && r.barred == nil && r.rng.IntN(120) == 0 {
		r.rollBack(h, now)
	}
	r.step(now)
	if r.rng.IntN(8) == 0 {
		r.step(now.Add(time.Minute))
	}
}

// rebuild takes the day's rebuild on: it lists and reads while hours pass, and
// is let into CURRENT at once or hours after it was made.
func (r *fullRide) rebuild(h int) {
	r.t.Helper()
	if r.barred != nil && r.again >= 0 && h >= r.again && r.phase == "" && r.oracle.candidate == nil {
		r.approve(r.barred, "it was right after all")
		r.full.again++
		r.barred = nil
	}
	if r.phase == "" && h >= r.next && r.oracle.live != nil {
		for _, rig := range r.rigs {
			rig.begin("flights")
		}
		r.making = &base{cut: r.oracle.live.n}
		r.phase, r.until, r.next = "listing", h+r.rng.IntN(3), h-h%24+27
		r.full.rebuilds++
		r.barred = nil
		if r.until > h {
			r.full.overlaps++
		}
	}
	if r.phase == "listing" && h >= r.until {
		r.making = r.oracle.reads(r.making.cut)
		for _, rig := range r.rigs {
			rig.read(r.making)
		}
		r.phase, r.until = "reading", h+r.rng.IntN(3)
		r.spoil(r.making.cut)
	}
	if r.phase == "reading" && h >= r.until {
		r.held = false
		for i, rig := range r.rigs {
			held := rig.made(r.making).State == "held"
			if i > 0 && held != r.held {
				r.t.Fatal("a base is held at one place and not at another")
			}
			r.held = held
		}
		if r.held {
			r.full.held++
		}
		r.phase, r.until = "waiting", h+r.rng.IntN(4)*r.rng.IntN(4)
		if r.auto && !r.held {
			r.oracle.candidate, r.phase, r.making = r.making, "", nil
		}
	}
	if r.phase == "waiting" && h >= r.until {
		r.approve(r.making, "let it be the base")
		r.phase, r.making = "", nil
	}
}

// spoil replaces or removes at times what a base has read a moment ago.
func (r *fullRide) spoil(cut time.Time) {
	r.t.Helper()
	i := len(r.here) - 1 - r.rng.IntN(min(len(r.here), 20))
	if o := r.here[i]; o.hour.After(cut) || o.hour.Before(cut.Add(-10*hour)) {
		return
	}
	switch r.rng.IntN(6) {
	case 0:
		r.replace(i)
	case 1:
		r.remove(i)
	}
}

func (r *fullRide) approve(b *base, reason string) {
	r.t.Helper()
	for _, rig := range r.rigs {
		rig.approve(b, reason)
	}
	r.oracle.candidate = b
}

// rollBack lets the next step go back to the base before; most times the base
// that is left is approved again some hours later.
func (r *fullRide) rollBack(h int, now time.Time) {
	r.t.Helper()
	r.full.rollbacks++
	left := r.oracle.live.base
	for _, rig := range r.rigs {
		rig.rollBack()
	}
	r.oracle.rollBack(now)
	if r.barred, r.again = left, h+1+r.rng.IntN(8); r.rng.IntN(4) == 0 {
		r.again = -1
	}
	rolledBack := *r.oracle.live
	want := r.oracle.documents(&rolledBack)
	done := 0
	for _, rig := range r.rigs {
		rig.onRollback = func() { // base and delta have changed in one, before the step goes on
			done++
			s := rig.snapshot()
			r.oracle.checkPane(&rolledBack, s.Manifest, rig.generations)
			r.oracle.same(&rolledBack, "rolled back at "+rig.place.name, documents(r.t, s), want)
			r.full.keys += len(want)
		}
	}
	r.t.Cleanup(func() {
		if done != len(r.rigs) {
			r.t.Errorf("a rollback came about at %d of %d places", done, len(r.rigs))
		}
	})
}

// tooLate drops the held pieces that lie before what panes cover and are still
// listed, and some that no pane finds: they wait for the next base.
func (r *fullRide) tooLate() {
	r.t.Helper()
	l := r.oracle.live
	if l == nil {
		return
	}
	r.ride.held = slices.DeleteFunc(r.ride.held, func(p piece) bool {
		near := !p.hour.After(l.from) && p.hour.After(l.from.Add(-2*size*hour))
		if !near && (p.hour.After(l.from.Add(-80*hour)) || r.rng.IntN(3) > 0) {
			return false
		}
		r.names++
		r.drop(p, "", fmt.Sprintf("%slate-%05d.", partitionOf(p.hour), r.names))
		r.stats.late++
		return true
	})
}

// step takes a step everywhere and compares everything.
func (r *fullRide) step(now time.Time) {
	r.t.Helper()
	before := r.oracle.live
	e := r.oracle.intend(now)
	outcome := e.outcome
	for i, rig := range r.rigs {
		report := rig.p.Once(r.t.Context(), now, microbatch.StepOptions{})
		got := string(report.Outcome)
		if i == 0 && outcome == "idle" && got == "refined" {
			outcome = got // with what it may have found; the oracle judges
		}
		if report.Err != nil || report.StateErr != nil || got != outcome {
			r.t.Fatalf("%s: step at %s: %s (%s; %v; %v), want %s", rig.place.name, now, report.Outcome, report.Why, report.Err, report.StateErr, outcome)
		}
		if report.Late != 0 || int64(report.Quarantined) != e.quarantined {
			r.t.Fatalf("%s: step at %s: %d late objects and %d quarantined partitions, want none and %d", rig.place.name, now, report.Late, report.Quarantined, e.quarantined)
		}
	}
	r.stats.quarantined += int(e.quarantined)
	if outcome == "idle" {
		r.stats.idle++
		return
	}
	r.stats.panes++
	switch {
	case outcome == "refined":
		r.stats.refined++
	case before != nil && e.next.n.Sub(before.progress) > day*hour:
		r.stats.jumps++
	}
	r.compare(e)
	r.count(e, outcome, before)
	if r.rng.IntN(40) == 0 {
		r.recompute(now)
	}
}

func (r *fullRide) count(e intended, outcome string, before *pane) {
	switch {
	case e.promotes:
		r.full.promotions++
		if outcome == "advanced" {
			r.full.advancing++
		}
	case before != nil && len(e.next.supports) < len(before.supports):
		r.full.expired++
	}
	if e.next.base != nil {
		r.full.bases++
	}
	if r.oracle.live.unread() > 0 {
		r.full.unread++
	}
}

// recompute makes the live pane again without caches: the same bytes.
func (r *fullRide) recompute(now time.Time) {
	r.t.Helper()
	was, before := r.rigs[0].hashes(r.rigs[0].snapshot().Manifest), r.oracle.live
	for _, rig := range r.rigs {
		rig.recompute(now)
	}
	e := r.oracle.intend(now)
	e.outcome = "refined"
	r.compare(e)
	r.stats.recomputed++
	if !within(r.oracle.live.inputs, before.inputs) {
		return // it found another object
	}
	if is := r.rigs[0].hashes(r.rigs[0].snapshot().Manifest); is != was {
		r.t.Fatalf("pane at %s without caches hashes to\n%s\nwith them to\n%s", e.next.n, is, was)
	}
}

// compare holds the live pane of every rig against the oracle, and against
// each other.
func (r *fullRide) compare(e intended) {
	r.t.Helper()
	var first string
	for i, rig := range r.rigs {
		s := rig.snapshot()
		if i == 0 {
			r.oracle.settle(e, s.Manifest)
		}
		r.oracle.checkPane(r.oracle.live, s.Manifest, rig.generations)
		hashes := rig.hashes(s.Manifest)
		if e.promotes {
			hashes += "\n" + rig.baseHashes(s)
		}
		if i > 0 {
			if hashes != first {
				r.t.Fatalf("pane at %s hashes to\n%s\nat %s, to\n%s\nat %s", e.next.n, hashes, rig.place.name, first, r.rigs[0].place.name)
			}
			continue
		}
		first = hashes
		if b := s.Manifest.Base; b != nil && b.StaleCount > 0 {
			r.full.stale++
		}
		r.stats.deleted += int(s.Manifest.Counts.Tombstones)
		if !e.promotes && r.stats.panes%r.every > 0 {
			continue
		}
		want := r.oracle.documents(r.oracle.live)
		r.oracle.same(r.oracle.live, "a reader", documents(r.t, s), want)
		r.full.keys += len(want)
		r.stats.documents += len(want)
		r.full.compared++
		if e.promotes || r.stats.panes%(6*r.every) == 0 {
			got := r.oracle.query(`SELECT * FROM %s ORDER BY origin`, s.SQL(rig.place.index[len("file://"):]))
			r.oracle.same(r.oracle.live, "DuckDB", got, want)
			r.full.read++
		}
	}
}
