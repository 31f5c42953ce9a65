package flights_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/e2e/flights"
)

// ride is one drive over the flights: what is dropped when, and the pipelines
// that all have to make the same of it.
type ride struct {
	t      *testing.T
	rng    *rand.Rand
	oracle *oracle
	write  writer
	rigs   []*rig
	from   time.Time
	hours  [][]piece // of the flights
	due    [][]piece // by the hour in which they arrive
	held   []piece   // arrive when their hour has left the coverage
	here   []object  // what the source holds
	names  int
	stats  stats
}

// object is a dropped piece.
type object struct {
	piece
	key string
}

// stats says what a ride met, so that a test can insist on it.
type stats struct {
	panes, refined, idle, absences, jumps, late, early, replaced, removed, restarts, recomputed, documents, deleted, quarantined int
}

func (s stats) String() string {
	return fmt.Sprintf("%d panes (%d refined, %d recomputed) and %d idle steps; %d absences, %d advances over more than a day; "+
		"%d early, %d late, %d replaced, %d removed objects; %d restarts; %d documents and %d tombstones compared",
		s.panes, s.refined, s.recomputed, s.idle, s.absences, s.jumps, s.early, s.late, s.replaced, s.removed, s.restarts, s.documents, s.deleted)
}

// options of a ride.
type options struct {
	seed            uint64
	hours           int
	format, deletes string
	dead            string // SQL of deletes
	rest            int    // hours from which everybody is away for two days
	promote         string // full.promote, where there is a full index
	every           int    // so many-th pane is compared, where there is a full index
	places          []place
}

var january = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

func drive(t *testing.T, o options) stats {
	t.Helper()
	db, err := duck.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec(t.Context(), t, db, "SET threads = 1")
	rng := rand.New(rand.NewPCG(o.seed, 1))
	r := &ride{t: t, rng: rng, oracle: newOracle(t, db, o.dead), from: january, write: ndjson}
	if o.format == "parquet" {
		r.write = parquets(db)
	}
	r.hours = cut(t, rng, r.from, r.from.Add(time.Duration(o.hours)*hour))
	r.schedule()
	for _, p := range o.places {
		r.rigs = append(r.rigs, newRig(t, p, o.format, o.deletes))
	}
	away := 0
	for h := range r.hours {
		if h%24 == 0 && !r.oracle.coverage.IsZero() {
			r.oracle.forget(r.oracle.coverage.Add(-3 * 24 * hour))
		}
		r.arrive(h)
		switch {
		case h == o.rest:
			away = 50
		case away == 0 && r.rng.IntN(16) == 0:
			away = 1 + r.rng.IntN(5)
			r.stats.absences++
		}
		if away > 0 {
			away--
			continue
		}
		r.hour(h)
	}
	for _, rig := range r.rigs {
		n, err := rig.app.State.CountLate(t.Context(), "flights")
		if want := r.oracle.one(`SELECT count(*) FROM late WHERE entered`); err != nil || n != want {
			t.Errorf("%s: the state store names %d late objects (%v), want %d", rig.place.name, n, err, want)
		}
	}
	return r.stats
}

// schedule decides in which hour each piece arrives: most in their own, some
// up to five hours late, a few before it, a few after it left the coverage.
func (r *ride) schedule() {
	r.due = make([][]piece, len(r.hours)+16)
	for h, pieces := range r.hours {
		for _, p := range pieces {
			at := h
			switch n := r.rng.IntN(100); {
			case n < 70 || h < 30:
			case n < 90:
				at += 1 + r.rng.IntN(3)
			case n < 95:
				at += 3 + r.rng.IntN(3)
			case n < 98:
				at -= 1 + r.rng.IntN(3)
				r.stats.early++
			default:
				r.held = append(r.held, p)
				continue
			}
			r.due[at] = append(r.due[at], p)
		}
	}
}

// hour steps once in the middle of an hour, and at times once more.
func (r *ride) hour(h int) {
	r.t.Helper()
	now := r.from.Add(time.Duration(h)*hour + 30*time.Minute)
	if h > 24 && !r.disturb(now) {
		r.tooLate()
	}
	if r.rng.IntN(20) == 0 {
		r.stats.restarts++
		r.oracle.restart()
		whole := r.rng.IntN(2) == 0
		for _, rig := range r.rigs {
			rig.restart(whole)
		}
	}
	r.step(now)
	if r.rng.IntN(8) == 0 {
		r.step(now.Add(time.Minute))
	}
}

// arrive drops what is due.
func (r *ride) arrive(h int) {
	r.t.Helper()
	for _, p := range r.due[h] {
		r.names++
		r.drop(p, "", fmt.Sprintf("%spart-%05d.", partitionOf(p.hour), r.names))
	}
	if r.rng.IntN(10) == 0 { // what is not data
		for _, rig := range r.rigs {
			rig.put(partitionOf(r.from.Add(time.Duration(h)*hour))+"_SUCCESS", nil)
		}
	}
}

// drop writes a piece under a key, or under a new one that begins with stem.
func (r *ride) drop(p piece, key, stem string) {
	r.t.Helper()
	body, ext := r.write(r.t, r.rng, p.flights)
	replaced := key != ""
	if !replaced {
		key = stem + ext
	} else {
		was, err := os.ReadFile(r.oracle.path(key))
		if err != nil {
			r.t.Fatal(err)
		}
		// The same bytes are the same object where ETags are hashes.
		for key[len(key)-len(ext):] != ext || key[len(key)-len(ext)-1] != '.' || bytes.Equal(body, was) {
			body, ext = r.write(r.t, r.rng, p.flights)
		}
	}
	path := r.oracle.path(key)
	if err := firstOf(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, body, 0o600)); err != nil {
		r.t.Fatal(err)
	}
	r.oracle.put(key, p.hour, len(body), len(p.flights), replaced)
	for _, rig := range r.rigs {
		rig.put(key, body)
	}
	r.here = slices.DeleteFunc(r.here, func(o object) bool { return o.key == key })
	r.here = append(r.here, object{p, key})
}

// disturb replaces or removes an object now and then; otherwise it is false.
func (r *ride) disturb(now time.Time) bool {
	r.t.Helper()
	i := len(r.here) - 1 - r.rng.IntN(min(len(r.here), 20))
	recent := !r.here[i].hour.Before(now.Add(-5 * hour))
	switch r.rng.IntN(24) {
	case 0, 1:
		if recent {
			r.replace(i)
		}
	case 2:
		if recent && !now.Before(r.here[i].hour) {
			r.remove(i)
		}
	default:
		return false
	}
	return true
}

// replace puts another object in the place of the i-th.
func (r *ride) replace(i int) {
	r.t.Helper()
	o := r.here[i]
	p := piece{hour: o.hour}
	for _, f := range o.flights {
		if f.Delay != nil && r.rng.IntN(2) == 0 {
			d := *f.Delay*3 - 1
			f.Delay = &d
		}
		if len(p.flights) == 0 || r.rng.IntN(3) > 0 {
			p.flights = append(p.flights, f)
		}
	}
	r.stats.replaced++
	r.drop(p, o.key, "")
}

// remove takes the i-th object away.
func (r *ride) remove(i int) {
	r.t.Helper()
	key := r.here[i].key
	r.stats.removed++
	r.oracle.drop(key)
	for _, rig := range r.rigs {
		rig.drop(key)
	}
	r.here = slices.Delete(r.here, i, i+1)
}

// tooLate drops the held pieces of an hour that has just left the coverage.
func (r *ride) tooLate() {
	r.t.Helper()
	from, ok := r.oracle.one(`SELECT max(part) FROM object WHERE key NOT IN (SELECT key FROM live) AND part <= (SELECT min(part) FROM object WHERE key IN (SELECT key FROM live))`).(time.Time)
	if !ok {
		return
	}
	r.held = slices.DeleteFunc(r.held, func(p piece) bool {
		if p.hour.After(from) || p.hour.Before(from.Add(-3*hour)) {
			return false
		}
		r.names++
		r.drop(p, "", fmt.Sprintf("%slate-%05d.", partitionOf(p.hour), r.names))
		return true
	})
}

// step takes a step everywhere and compares everything.
func (r *ride) step(now time.Time) {
	r.t.Helper()
	before := r.oracle.progress
	e := r.oracle.expect(now)
	for _, rig := range r.rigs {
		rig.step(now, e)
	}
	r.stats.late += int(e.late)
	r.stats.quarantined += int(e.quarantined)
	if e.outcome == "idle" {
		r.stats.idle++
		return
	}
	r.stats.panes++
	switch {
	case e.outcome == "refined":
		r.stats.refined++
	case !before.IsZero() && e.n.Sub(before) > limit*hour:
		r.stats.jumps++
	}
	r.compare(e)
	if r.rng.IntN(25) == 0 {
		was := r.rigs[0].hashes(r.rigs[0].snapshot().Manifest)
		for _, rig := range r.rigs {
			rig.recompute(now)
			if is := rig.hashes(rig.snapshot().Manifest); is != was {
				r.t.Fatalf("%s: pane at %s without caches hashes to\n%s\nwith them to\n%s", rig.place.name, e.n, is, was)
			}
		}
		r.stats.recomputed++
		r.compare(e)
	}
}

// compare holds the live pane of every rig against the oracle, and against
// each other.
func (r *ride) compare(e expectation) {
	r.t.Helper()
	var first string
	for i, rig := range r.rigs {
		s := rig.snapshot()
		r.oracle.checkManifest(e, s.Manifest)
		hashes := rig.hashes(s.Manifest)
		if i > 0 {
			if hashes != first {
				r.t.Fatalf("pane at %s hashes to\n%s\nat %s, to\n%s\nat %s", e.n, hashes, rig.place.name, first, r.rigs[0].place.name)
			}
			continue
		}
		first = hashes
		root := rig.place.index[len("file://"):]
		var tombstones string
		if _, keys, _ := s.Files(); len(keys) > 0 {
			tombstones = fmt.Sprintf("read_parquet(%s)", literal(filepath.Join(root, keys[0])))
		}
		documents, deleted := r.oracle.checkDocuments(e, s.SQL(root), tombstones)
		r.stats.documents += documents
		r.stats.deleted += deleted
	}
}

// TestLoad knows what the file holds.
func TestLoad(t *testing.T) {
	all, err := flights.Load()
	if err != nil {
		t.Fatal(err)
	}
	origins := map[string]bool{}
	for i, f := range all {
		origins[f.Origin] = true
		if i > 0 && f.Date.Before(all[i-1].Date) {
			t.Fatalf("flight %d is out of order", i)
		}
	}
	if len(all) != 20_000 || len(origins) != 220 {
		t.Errorf("%d flights from %d origins, want 20,000 from 220", len(all), len(origins))
	}
}
