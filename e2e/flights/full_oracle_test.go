package flights_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/sink"
)

// What the configuration with a full index says beside the window, in hours:
// D, and full.support_previous_for.
const (
	day, support = 24, 6
)

// base is a generation of the full index. What it read stands in the table
// base_read too.
type base struct {
	number int
	cut    time.Time
	read   map[string]int // versions by key
}

// lacks says that a base has not read an object of before its cut.
func (b *base) lacks(key string, part time.Time) bool {
	_, read := b.read[key]
	return !read && !part.After(b.cut)
}

// supported is a base beside a pane's own that it has to fit.
type supported struct {
	*base
	until time.Time
}

// former is a base that was left, and the last pane over it.
type former struct {
	*base
	pane *pane
}

type jump struct{ from, at time.Time }

// pane is one publication.
type pane struct {
	n, from, progress time.Time
	base              *base // nil before the first
	supports          []supported
	history           []former
	jumps             []jump
	inputs            map[string]version
}

// fullOracle knows which bases and panes there were, and computes documents
// over base and delta from all records that the source ever held.
type fullOracle struct {
	*oracle
	live      *pane
	candidate *base // the next step makes it the base
	bases     int
}

func newFullOracle(t *testing.T, db *duck.DB, dead string) *fullOracle {
	t.Helper()
	o := &fullOracle{oracle: newOracle(t, db, dead)}
	o.exec(`CREATE TABLE base_read (base INTEGER, version INTEGER)`)
	return o
}

// reads says that a base reads what is there up to a cut.
func (o *fullOracle) reads(cut time.Time) *base {
	o.t.Helper()
	o.bases++
	o.exec(`INSERT INTO base_read SELECT %d, version FROM object WHERE part <= %s`, o.bases, stamp(cut))
	b := &base{o.bases, cut, map[string]int{}}
	for key, v := range o.objects {
		if !v.part.After(cut) {
			b.read[key] = v.number
		}
	}
	return b
}

// intended is what a step has to do.
type intended struct {
	outcome     string // or refined instead of idle, see settle
	next        pane   // without its inputs
	promotes    bool
	quarantined int64
	must, may   map[string]version // inputs; may has those of must too
}

// intend decides what a step at now has to do.
func (o *fullOracle) intend(now time.Time) intended {
	o.t.Helper()
	e := intended{outcome: "idle"}
	var newest time.Time
	future := map[time.Time]bool{}
	for _, v := range o.objects {
		switch {
		case v.part.After(now.Add(time.Minute)):
			future[v.part] = true
		case v.part.After(newest):
			newest = v.part
		}
	}
	e.quarantined = int64(len(future))
	if newest.IsZero() {
		return e
	}
	var past pane
	if o.live != nil {
		past = *o.live
	}
	e.next = pane{n: past.n, progress: past.progress, base: past.base, supports: past.supports, history: past.history}
	if newest.After(past.progress) {
		e.outcome, e.next.n, e.next.progress = "advanced", newest, newest
		e.next.supports = slices.DeleteFunc(slices.Clone(past.supports), func(s supported) bool { return !s.until.After(now) })
	}
	if o.candidate != nil {
		e.promote(o.candidate, o.live, now)
	}
	for _, j := range past.jumps {
		if j.at.After(e.next.n.Add(-size * hour)) {
			e.next.jumps = append(e.next.jumps, j)
		}
	}
	if e.outcome == "advanced" && !past.progress.IsZero() && newest.After(past.progress.Add(hour)) {
		e.next.jumps = append(e.next.jumps, jump{past.progress, newest})
	}
	e.next.from = e.next.reach()
	o.inputs(&e)
	if e.outcome == "idle" && (!within(e.must, past.inputs) || !within(past.inputs, e.may)) {
		e.outcome = "refined"
	}
	return e
}

// within says whether a has nothing that b has not.
func within(a, b map[string]version) bool {
	for key, v := range a {
		if b[key] != v {
			return false
		}
	}
	return true
}

// promote makes a step one that promotes.
func (e *intended) promote(b *base, live *pane, now time.Time) {
	e.promotes = true
	if e.outcome == "idle" {
		e.outcome = "refined"
	}
	e.next.base, e.next.supports = b, nil
	if live.base != nil {
		e.next.supports = []supported{{live.base, now.Add(support * hour)}}
		e.next.history = leave(live.history, live, b)
	}
}

// leave is the history after a pane was left for another base.
func leave(history []former, left *pane, to *base) []former {
	out := []former{{left.base, left}}
	for _, f := range history {
		if f.base != to && f.base != left.base && len(out) < 16 {
			out = append(out, f)
		}
	}
	return out
}

// reach is where the coverage begins: (c, N], c = min(N − max(W, D), P, H − D).
func (p *pane) reach() time.Time {
	c := p.n.Add(-max(size, day) * hour)
	for _, j := range p.jumps {
		c = earlier(c, j.from)
	}
	for _, b := range p.fits() {
		c = earlier(c, b.cut.Add(-day*hour))
	}
	return c
}

// fits are the bases that a pane has to fit.
func (p *pane) fits() []*base {
	var out []*base
	if p.base != nil {
		out = append(out, p.base)
	}
	for _, s := range p.supports {
		out = append(out, s.base)
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// inputs says which objects the pane has to have read: all of the coverage,
// and what some base lacks of before its cut, found once (at the latest 2 W
// before the coverage, or by another base) and from then on always. Those that
// lie further back may be found or not.
func (o *fullOracle) inputs(e *intended) {
	e.must, e.may = map[string]version{}, map[string]version{}
	fits, c := e.next.fits(), e.next.from
	for key, v := range o.objects {
		covered, lacking, known := v.part.After(c) && !v.part.After(e.next.n), false, v.part.After(c.Add(-2*size*hour))
		for _, b := range fits {
			lacking = lacking || b.lacks(key, v.part)
			_, read := b.read[key]
			known = known || read
		}
		if o.live != nil {
			known = known || o.live.inputs[key] == v
		}
		if covered || lacking {
			e.may[key] = v
		}
		if covered || lacking && known {
			e.must[key] = v
		}
	}
}

// settle takes over what a pane says that it read, if that is right.
func (o *fullOracle) settle(e intended, m sink.Manifest) {
	o.t.Helper()
	next := e.next
	next.inputs = map[string]version{}
	for _, in := range m.Inputs {
		v := o.objects[in.Key]
		if !v.part.Equal(in.Partition.Time) || int64(v.bytes) != in.Bytes || int64(v.rows) != in.Rows {
			o.t.Fatalf("pane at %s: input %+v, the object is %+v", next.n, in, v)
		}
		next.inputs[in.Key] = v
	}
	if !within(e.must, next.inputs) || !within(next.inputs, e.may) {
		o.t.Fatalf("pane at %s over %+v has read %v, has to read %v and may read %v", next.n, next.base, next.inputs, e.must, e.may)
	}
	if e.outcome == "idle" && within(next.inputs, o.live.inputs) && within(o.live.inputs, next.inputs) {
		o.t.Fatalf("pane at %s is a refinement for nothing", next.n)
	}
	o.live, o.candidate = &next, nil
	keep := fmt.Sprint(o.bases)
	for _, b := range next.fits() {
		keep += fmt.Sprintf(", %d", b.number)
	}
	for _, f := range next.history {
		keep += fmt.Sprintf(", %d", f.number)
	}
	if e.promotes {
		o.exec(`DELETE FROM base_read WHERE base NOT IN (%s)`, keep)
	}
}

// unread are the inputs of a pane before its coverage.
func (p *pane) unread() (n int) {
	for _, v := range p.inputs {
		if !v.part.After(p.from) {
			n++
		}
	}
	return n
}

// stale counts what a base read and is no more as it read it.
func (o *fullOracle) stale(b *base) (n int64) {
	for key, number := range b.read {
		if o.objects[key].number != number {
			n++
		}
	}
	return n
}

// rollBack goes back to the last pane over the base before.
func (o *fullOracle) rollBack(now time.Time) {
	left, to := o.live, *o.live.history[0].pane
	to.supports = []supported{{left.base, now.Add(support * hour)}}
	for _, s := range left.supports {
		if s.base != to.base && s.until.After(now) {
			to.supports = append(to.supports, s)
		}
	}
	to.history = leave(left.history, left, to.base)
	to.progress = to.n
	o.live = &to
}

// checkPane compares what a pane says of itself with what it has to be;
// generations are the ids of bases by number.
func (o *fullOracle) checkPane(p *pane, m sink.Manifest, generations map[int]string) {
	o.t.Helper()
	if !m.Watermark.Equal(p.n) || !m.Coverage.From.Equal(p.from) || !m.Coverage.To.Equal(p.n) {
		o.t.Fatalf("pane at %s covers (%s, %s], want (%s, %s]; over %+v", m.Watermark, m.Coverage.From, m.Coverage.To, p.from, p.n, p.base)
	}
	var got, want []string
	for _, j := range m.Jumps {
		got = append(got, fmt.Sprint("jump ", j.From.UTC(), j.At.UTC()))
	}
	if m.Base != nil {
		got = append(got, fmt.Sprint("base ", m.Base.Generation, m.Base.Cut.UTC(), m.Base.StaleCount))
	}
	for _, s := range m.Supports {
		got = append(got, fmt.Sprint("supports ", s.Generation, s.Cut.UTC(), s.Until.UTC()))
	}
	for _, f := range m.History {
		got = append(got, fmt.Sprint("before ", f.Generation, f.Cut.UTC()))
	}
	for _, g := range m.Gap {
		got = append(got, fmt.Sprint("gap ", g.From, g.To))
	}
	for _, j := range p.jumps {
		want = append(want, fmt.Sprint("jump ", j.from.UTC(), j.at.UTC()))
	}
	if p.base != nil {
		stale := o.stale(p.base)
		if m.Reason == sink.Rollback {
			stale = m.Base.StaleCount // that of the pane that it copies
		}
		want = append(want, fmt.Sprint("base ", generations[p.base.number], p.base.cut.UTC(), stale))
	}
	for _, s := range p.supports {
		want = append(want, fmt.Sprint("supports ", generations[s.number], s.cut.UTC(), s.until.UTC()))
	}
	for _, f := range p.history {
		want = append(want, fmt.Sprint("before ", generations[f.number], f.cut.UTC()))
	}
	if !reflect.DeepEqual(got, want) {
		o.t.Fatalf("pane at %s (%s):\n%q, want\n%q", m.Watermark, m.Reason, got, want)
	}
}

// documents computes what every reader of a pane over its base has to find:
// fields over all from what the base read and everything that it did not,
// fields with durations from what is there now.
func (o *fullOracle) documents(p *pane) []duck.Row {
	o.t.Helper()
	number, all, windowed := 0, "NULL", "NULL"
	if p.base != nil {
		number = p.base.number
	}
	for key, v := range p.inputs {
		windowed += fmt.Sprintf(", %d", v.number)
		if p.base == nil || p.base.read[key] == 0 {
			all += fmt.Sprintf(", %d", v.number)
		}
	}
	rows := o.query(`WITH used AS (
			SELECT version, bool_or(a) AS a, bool_or(w) AS w FROM (
				SELECT version, true AS a, false AS w FROM base_read WHERE base = %[1]d
				UNION ALL
				SELECT unnest([%[2]s]::INTEGER[]), true, false
				UNION ALL
				SELECT unnest([%[5]s]::INTEGER[]), false, true
			) GROUP BY version
		), ranked AS (
			SELECT record.*, %[4]s AS dead, used.a AS known, coalesce(NOT (%[4]s), true) AS alive,
				used.a AND alive AS a, used.w AND alive AND part > %[3]s - to_hours(24) AS in24,
				used.w AND alive AND part > %[3]s - to_hours(6) AS in6, used.w AND alive AND part > %[3]s - to_hours(1) AS in1,
				row_number() OVER (PARTITION BY origin
					ORDER BY date, coalesce(%[4]s, false), delay NULLS FIRST, destination NULLS FIRST, distance) AS rank
			FROM record JOIN used USING (version)
		)
		SELECT origin,
			count(*) FILTER (a) AS flights,
			count(*) FILTER (in24) AS flights_24h,
			count(delay) FILTER (in1) AS delays_1h,
			count(*) FILTER (in24 AND distance > 1000) AS far_24h,
			(sum(delay) FILTER (a))::BIGINT AS delay_total,
			(sum(delay) FILTER (in24))::BIGINT AS delay_total_24h,
			(sum(delay) FILTER (in6))::BIGINT AS delay_total_6h,
			max(delay) FILTER (a) AS delay_max,
			max(delay) FILTER (in24) AS delay_max_24h,
			min(delay) FILTER (in1) AS delay_min_1h,
			(sum(distance) FILTER (a))::BIGINT AS distance_sum, count(distance) FILTER (a) AS distance_n,
			(sum(delay) FILTER (in24))::BIGINT AS delay_sum, count(delay) FILTER (in24) AS delay_n,
			arg_max(destination, rank) FILTER (a AND destination IS NOT NULL) AS destination,
			arg_max(destination, rank) FILTER (in1 AND destination IS NOT NULL) AS destination_1h,
			arg_min(destination, rank) FILTER (a AND destination IS NOT NULL) AS destination_first,
			list_sort(list(DISTINCT destination) FILTER (a AND destination IS NOT NULL)) AS destinations,
			nullif(count(DISTINCT destination) FILTER (in24), 0) AS destinations_24h,
			(sum(delay) FILTER (a))::BIGINT::DOUBLE / nullif(count(*) FILTER (a), 0)::DOUBLE AS delay_per_flight,
			coalesce(arg_max(dead, rank) FILTER (known AND dead IS NOT NULL), false) AS deleted
		FROM ranked GROUP BY origin ORDER BY origin`, number, all, stamp(p.n), o.dead, windowed)
	return slices.DeleteFunc(rows, func(row duck.Row) bool {
		row["distance_mean"], row["delay_mean_24h"] = mean(row["distance_sum"], row["distance_n"]), mean(row["delay_sum"], row["delay_n"])
		dead := row["deleted"].(bool)
		for _, helper := range []string{"distance_sum", "distance_n", "delay_sum", "delay_n", "deleted"} {
			delete(row, helper)
		}
		return dead
	})
}

// same compares documents of a pane, those a reader found with those wanted.
func (o *fullOracle) same(p *pane, how string, got, want []duck.Row) {
	o.t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want) || i < len(got) && got[i]["origin"].(string) < want[i]["origin"].(string):
			o.t.Fatalf("pane at %s, %s: document %v should not be there", p.n, how, got[i]["origin"])
		case i >= len(got) || got[i]["origin"] != want[i]["origin"]:
			o.t.Fatalf("pane at %s, %s: document %v is not there", p.n, how, want[i]["origin"])
		}
		for name, v := range want[i] {
			if g, w := plain(got[i][name]), plain(v); !reflect.DeepEqual(g, w) {
				o.t.Fatalf("pane at %s, %s, document %v, field %s: %v (%T), want %v (%T)", p.n, how, want[i]["origin"], name, g, g, w, w)
			}
		}
		if len(got[i]) != len(want[i]) {
			o.t.Fatalf("pane at %s, %s: document %v has the columns %v, want %v", p.n, how, want[i]["origin"], got[i], want[i])
		}
	}
}
