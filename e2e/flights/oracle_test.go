package flights_test

import (
	"fmt"
	"math/big"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/sink"
)

// The window of the flights' configuration, in hours: W, D and window.max.
const (
	size, longest, limit = 4, 6, 24
)

// oracle knows what was dropped and which panes there were, and says in SQL
// what the next pane has to be. It shares no code with deltad.
type oracle struct {
	t  *testing.T
	db *duck.DB
	// dead is the SQL of delete_when over the columns of record, or NULL.
	dead string
	dir  string // where the raw files are, for DuckDB
	// progress is the newest partition published, zero before the first.
	progress time.Time
	coverage time.Time // where that of the live pane begins
	versions int
	objects  map[string]version // what the source holds now, as in the table
}

// version is what an object holds from one put to the next.
type version struct {
	number int
	part   time.Time
	bytes  int
	rows   int
}

func newOracle(t *testing.T, db *duck.DB, dead string) *oracle {
	t.Helper()
	o := &oracle{t: t, db: db, dead: dead, dir: t.TempDir(), objects: map[string]version{}}
	for _, ddl := range []string{
		// What the source holds now, and every record of it and of what it held
		// before, as DuckDB reads it.
		`CREATE TABLE object (key VARCHAR, version INTEGER, part TIMESTAMP, bytes BIGINT, rows BIGINT)`,
		`CREATE TABLE record (key VARCHAR, version INTEGER, part TIMESTAMP, date TIMESTAMP, delay BIGINT, distance BIGINT, origin VARCHAR, destination VARCHAR)`,
		// Every advance, every hole it left, what was ever read, what was ever late.
		`CREATE TABLE advance (reached TIMESTAMP, prior TIMESTAMP)`,
		`CREATE TABLE hole (lo TIMESTAMP, hi TIMESTAMP, reached TIMESTAMP)`,
		`CREATE TABLE used (key VARCHAR, version INTEGER)`,
		`CREATE TABLE late (key VARCHAR, version INTEGER, entered BOOLEAN)`,
		`CREATE TABLE live (key VARCHAR, version INTEGER)`, // the inputs of the live pane
	} {
		exec(t.Context(), t, db, ddl)
	}
	return o
}

func (o *oracle) exec(format string, args ...any) {
	o.t.Helper()
	exec(o.t.Context(), o.t, o.db, fmt.Sprintf(format, args...))
}

func (o *oracle) query(format string, args ...any) []duck.Row {
	o.t.Helper()
	return query(o.t.Context(), o.t, o.db, fmt.Sprintf(format, args...))
}

func (o *oracle) one(format string, args ...any) any {
	o.t.Helper()
	rows := o.query(format, args...)
	if len(rows) != 1 || len(rows[0]) != 1 {
		o.t.Fatalf("want one value, got %v", rows)
	}
	for _, v := range rows[0] {
		return v
	}
	return nil
}

// path is where DuckDB finds the raw file of a key.
func (o *oracle) path(key string) string { return filepath.Join(o.dir, filepath.FromSlash(key)) }

// put says that the raw file of a key is new or another one.
func (o *oracle) put(key string, part time.Time, bytes, rows int, replaced bool) {
	o.t.Helper()
	if replaced {
		o.drop(key)
	}
	o.versions++
	o.objects[key] = version{o.versions, part, bytes, rows}
	from := fmt.Sprintf("(SELECT * FROM read_parquet(%s))", literal(o.path(key)))
	if !strings.HasSuffix(key, ".parquet") {
		from = fmt.Sprintf("read_json(%s, format = 'newline_delimited', columns = {date: 'TIMESTAMP', delay: 'BIGINT', distance: 'BIGINT', origin: 'VARCHAR', destination: 'VARCHAR'})",
			literal(o.path(key)))
	}
	o.exec(`INSERT INTO record SELECT %s, %d, %s, make_timestamp(epoch_us(date)), delay, distance, origin, destination FROM %s`, literal(key), o.versions, stamp(part), from)
	o.exec(`INSERT INTO object SELECT %s, %d, %s, %d, count(*) FROM record WHERE version = %[2]d`, literal(key), o.versions, stamp(part), bytes)
}

func (o *oracle) drop(key string) {
	o.t.Helper()
	delete(o.objects, key)
	o.exec(`DELETE FROM object WHERE key = %s`, literal(key))
}

// expectation is what a step at some time has to do.
type expectation struct {
	outcome     string
	n           time.Time // the watermark of the pane
	from        time.Time // coverage (from, n]
	late        int64
	quarantined int64
}

// expect decides, by the rules of coverage, what a step at now has to do.
func (o *oracle) expect(now time.Time) expectation {
	o.t.Helper()
	ahead := stamp(now.Add(time.Minute))
	e := expectation{n: o.progress, outcome: "idle"}
	e.quarantined = o.one(`SELECT count(DISTINCT part) FROM object WHERE part > %s`, ahead).(int64)
	newest, ok := o.one(`SELECT max(part) FROM object WHERE part <= %s`, ahead).(time.Time)
	if !ok {
		return e
	}
	if newest.After(o.progress) {
		e.outcome, e.n = "advanced", newest
		if !o.progress.IsZero() {
			o.exec(`INSERT INTO advance VALUES (%s, %s)`, stamp(newest), stamp(o.progress))
		}
	}
	// An advance jumped if an hour lies between; one counts for W.
	e.from = o.one(`SELECT greatest(least(%[1]s - to_hours(%[2]d), (SELECT min(prior) FROM advance WHERE reached > %[1]s - to_hours(%[3]d) AND reached > prior + to_hours(1))), %[1]s - to_hours(%[4]d))`,
		stamp(e.n), max(size, longest), size, limit).(time.Time)
	if e.outcome == "advanced" && !o.progress.IsZero() && o.progress.Before(e.from) && e.n.After(o.progress.Add(hour)) {
		o.exec(`INSERT INTO hole VALUES (%s, %s, %s)`, stamp(o.progress), stamp(e.from), stamp(e.n))
	}
	covered := fmt.Sprintf(`SELECT key, version FROM object WHERE part > %s AND part <= %s`, stamp(e.from), stamp(e.n))
	if e.outcome == "idle" {
		if o.one(`SELECT count(*) FROM ((%[1]s EXCEPT TABLE live) UNION ALL (TABLE live EXCEPT %[1]s))`, covered).(int64) > 0 {
			e.outcome = "refined"
		}
	}
	// What a run lists reaches 2 W beyond the coverage: its own, or where it
	// follows soon, that of the pane before.
	lists := e.from
	if o.coverage.Before(lists) && !o.progress.IsZero() && now.Sub(o.progress) <= longest*hour {
		lists = o.coverage
	}
	late := fmt.Sprintf(`SELECT key, version FROM object WHERE part <= %[1]s AND part > %[3]s - to_hours(%[2]d)
		AND NOT EXISTS (FROM hole WHERE part > lo AND part <= hi) EXCEPT TABLE used EXCEPT SELECT key, version FROM late`, stamp(e.from), 2*size, stamp(lists))
	if e.late = o.one(`SELECT count(*) FROM (%s)`, late).(int64); e.late > 0 {
		o.exec(`INSERT INTO late SELECT *, false FROM (%s)`, late)
	}
	if e.outcome != "idle" {
		o.exec(`DELETE FROM live; INSERT INTO live %s; INSERT INTO used TABLE live; UPDATE late SET entered = true`, covered)
		o.progress, o.coverage = e.n, e.from
	}
	return e
}

// forget drops what no later pane can depend on.
func (o *oracle) forget(before time.Time) {
	o.t.Helper()
	o.exec(`DELETE FROM record WHERE part < %[1]s; DELETE FROM object WHERE part < %[1]s; DELETE FROM advance WHERE reached < %[1]s;
		DELETE FROM used WHERE key NOT IN (SELECT key FROM object)`, stamp(before))
}

// restart says that somebody else takes the next step: what only idle steps
// have seen is found again.
func (o *oracle) restart() {
	o.t.Helper()
	o.exec(`DELETE FROM late WHERE NOT entered`)
}

// checkManifest compares what a pane says of itself with what it has to be.
func (o *oracle) checkManifest(e expectation, m sink.Manifest) {
	o.t.Helper()
	if !m.Watermark.Equal(e.n) || !m.Coverage.From.Equal(e.from) || !m.Coverage.To.Equal(e.n) {
		o.t.Fatalf("pane at %s covers (%s, %s], want (%s, %s]", m.Watermark, m.Coverage.From, m.Coverage.To, e.from, e.n)
	}
	var jumps, holes []string
	for _, j := range m.Jumps {
		jumps = append(jumps, fmt.Sprint(j.From.UTC(), j.At.UTC()))
	}
	for _, g := range m.Gap {
		holes = append(holes, fmt.Sprint(g.From.UTC(), g.To.UTC()))
	}
	var wantJumps, wantHoles []string
	for _, r := range o.query(`SELECT prior, reached FROM advance WHERE reached > %[1]s - to_hours(%[2]d) AND reached <= %[1]s AND reached > prior + to_hours(1) ORDER BY ALL`, stamp(e.n), size) {
		wantJumps = append(wantJumps, fmt.Sprint(r["prior"].(time.Time).UTC(), r["reached"].(time.Time).UTC()))
	}
	for _, r := range o.query(`SELECT lo, hi FROM hole WHERE reached > %[1]s - to_hours(%[2]d) AND reached <= %[1]s ORDER BY ALL`, stamp(e.n), size) {
		wantHoles = append(wantHoles, fmt.Sprint(r["lo"].(time.Time).UTC(), r["hi"].(time.Time).UTC()))
	}
	if !reflect.DeepEqual(jumps, wantJumps) || !reflect.DeepEqual(holes, wantHoles) {
		o.t.Fatalf("pane at %s: jumps %v, gaps %v; want %v, %v", m.Watermark, jumps, holes, wantJumps, wantHoles)
	}
	want := o.query(`SELECT key, part, bytes, rows FROM object WHERE part > %s AND part <= %s ORDER BY key`, stamp(e.from), stamp(e.n))
	if len(want) != len(m.Inputs) {
		o.t.Fatalf("pane at %s read %d objects, want %d", m.Watermark, len(m.Inputs), len(want))
	}
	byKey := map[string]sink.Input{}
	for _, in := range m.Inputs {
		byKey[in.Key] = in
	}
	for _, w := range want {
		in := byKey[w["key"].(string)]
		if !in.Partition.Equal(w["part"].(time.Time)) || in.Bytes != w["bytes"].(int64) || in.Rows != w["rows"].(int64) {
			o.t.Fatalf("pane at %s: input %+v, want %v", m.Watermark, in, w)
		}
	}
}

// documents computes the pane from the records: every key of the coverage with
// its fields, and whether it is deleted; a delete counts towards that alone. The
// mean comes as sum and count.
func (o *oracle) documents(e expectation) []duck.Row {
	o.t.Helper()
	return o.query(`WITH input AS (
			SELECT *, %[3]s AS dead, coalesce(NOT (%[3]s), true) AS a
			FROM record SEMI JOIN object USING (version) WHERE part > %[1]s AND part <= %[2]s
		), ranked AS (
			SELECT *, a AND part > %[2]s - to_hours(6) AS in6, a AND part > %[2]s - to_hours(1) AS in1, row_number() OVER (PARTITION BY origin
				ORDER BY date, coalesce(dead, false), delay NULLS FIRST, destination NULLS FIRST, distance) AS rank
			FROM input
		)
		SELECT origin,
			count(*) FILTER (a) AS flights,
			count(*) FILTER (in6) AS flights_6h,
			count(delay) FILTER (in1) AS delays_1h,
			count(*) FILTER (in6 AND distance > 1000) AS far_6h,
			(sum(delay) FILTER (a))::BIGINT AS delay_total,
			(sum(delay) FILTER (in6))::BIGINT AS delay_total_6h,
			max(delay) FILTER (a) AS delay_max,
			max(delay) FILTER (in6) AS delay_max_6h,
			min(delay) FILTER (in1) AS delay_min_1h,
			(sum(distance) FILTER (a))::BIGINT AS distance_sum, count(distance) FILTER (a) AS distance_n,
			(sum(delay) FILTER (in6))::BIGINT AS delay_sum, count(delay) FILTER (in6) AS delay_n,
			arg_max(destination, rank) FILTER (a AND destination IS NOT NULL) AS destination,
			arg_max(destination, rank) FILTER (in1 AND destination IS NOT NULL) AS destination_1h,
			arg_min(destination, rank) FILTER (a AND destination IS NOT NULL) AS destination_first,
			list_sort(list(DISTINCT destination) FILTER (a AND destination IS NOT NULL)) AS destinations,
			nullif(count(DISTINCT destination) FILTER (in6), 0) AS destinations_6h,
			(sum(delay) FILTER (a))::BIGINT::DOUBLE / nullif(count(*) FILTER (a), 0)::DOUBLE AS delay_per_flight,
			coalesce(arg_max(dead, rank) FILTER (dead IS NOT NULL), false) AS deleted
		FROM ranked GROUP BY origin ORDER BY origin`, stamp(e.from), stamp(e.n), o.dead)
}

// mean divides exactly and rounds once.
func mean(sum, n any) any {
	if sum == nil || n.(int64) == 0 {
		return nil
	}
	f, _ := new(big.Rat).SetFrac64(sum.(int64), n.(int64)).Float64()
	return f
}

// checkDocuments compares the documents that DuckDB reads from a table
// expression over the published files with those it computes from the records.
func (o *oracle) checkDocuments(e expectation, published, tombstones string) (documents, deleted int) {
	o.t.Helper()
	var want []duck.Row
	var dead []string
	for _, row := range o.documents(e) {
		if row["deleted"].(bool) {
			dead = append(dead, row["origin"].(string))
			continue
		}
		row["distance_mean"], row["delay_mean_6h"] = mean(row["distance_sum"], row["distance_n"]), mean(row["delay_sum"], row["delay_n"])
		for _, helper := range []string{"distance_sum", "distance_n", "delay_sum", "delay_n", "deleted"} {
			delete(row, helper)
		}
		want = append(want, row)
	}
	got := o.query(`SELECT * FROM %s`, published) // in the order of the file
	if len(got) != len(want) {
		o.t.Fatalf("pane at %s has %d documents, want %d", e.n, len(got), len(want))
	}
	for i, row := range got {
		for name, v := range row {
			row[name] = plain(v)
		}
		for name, v := range want[i] {
			if w := plain(v); !reflect.DeepEqual(row[name], w) {
				o.t.Fatalf("pane at %s, document %v, field %s: %v (%T), want %v (%T)", e.n, want[i]["origin"], name, row[name], row[name], w, w)
			}
		}
		if len(row) != len(want[i]) {
			o.t.Fatalf("pane at %s, document %v has the columns %v, want %v", e.n, want[i]["origin"], row, want[i])
		}
	}
	var hidden []string
	if tombstones != "" {
		for _, r := range o.query(`SELECT origin FROM %s`, tombstones) {
			hidden = append(hidden, r["origin"].(string))
		}
	}
	if !reflect.DeepEqual(hidden, dead) {
		o.t.Fatalf("pane at %s has the tombstones %v, want %v", e.n, hidden, dead)
	}
	return len(got), len(hidden)
}

// plain gives integers one type: a published column is as wide as the widest
// file's.
func plain(v any) any {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	}
	return v
}
