package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/indextest"
	"github.com/deltad/deltad/cmd/deltad/verify"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/watermark"
)

func subject(x *indextest.Index) verify.Subject {
	return verify.Subject{
		Name: "ads", Out: x.Out, Raw: x.Raw, Source: x.Source, State: x.State, Window: x.Set.Rule.Size, Since: x.Set.Since,
		Combiners: x.Set.Combiners, Engine: x.Pipeline(),
	}
}

// checks verifies and returns the answers by name.
func checks(t *testing.T, x *indextest.Index, o verify.Options) (map[string]verify.Check, bool) {
	t.Helper()
	o.Now = x.Clock
	out := map[string]verify.Check{}
	ok, err := verify.Run(t.Context(), subject(x), o, func(c verify.Check) error {
		if _, twice := out[c.Name]; twice {
			t.Errorf("%s was told twice", c.Name)
		}
		out[c.Name] = c
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, ok
}

func everything() verify.Options {
	return verify.Options{All: true, Recompute: true, RecomputeBase: true}
}

// failing are the names of the checks that failed, sorted.
func failing(all map[string]verify.Check) (names []string) {
	for name, c := range all {
		if c.Status == verify.Failed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func keys(t *testing.T, st store.Store, prefix, part string) (out []string) {
	t.Helper()
	page, err := st.List(t.Context(), store.ListOptions{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range page.Objects {
		if strings.Contains(o.Key, part) {
			out = append(out, o.Key)
		}
	}
	if len(out) == 0 {
		t.Fatalf("nothing under %s with %s", prefix, part)
	}
	return out
}

func read(t *testing.T, st store.Store, key string) []byte {
	t.Helper()
	b, _, err := store.ReadAll(t.Context(), st, key, 1<<30, store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, st store.Store, key string, b []byte) {
	t.Helper()
	if _, err := st.Put(t.Context(), key, bytes.NewReader(b), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestAWholeIndexPasses: with everything that a live index can have, after each
// of its steps, and nothing is written.
func TestAWholeIndexPasses(t *testing.T) {
	x := indextest.Grown(t)
	before := keys(t, x.Out, "", "")
	all, ok := checks(t, x, everything())
	if !ok || len(all) != 13 {
		t.Errorf("%d checks, ok %t: %+v", len(all), ok, all)
	}
	for name, c := range all {
		if c.Status != verify.Passed || c.Found != 0 || c.Detail == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if after := keys(t, x.Out, "", ""); !slices.Equal(before, after) {
		t.Errorf("verifying wrote: %v, before %v", after, before)
	}
	m := x.Live()
	if len(m.UnreadSlices) == 0 || len(m.Supports) == 0 || m.Counts.Tombstones == 0 && m.Base == nil {
		t.Errorf("the index has not grown to have everything: %+v", m)
	}
	// The carried object goes: its kept slice serves, and no check fails.
	if err := x.Raw.Delete(t.Context(), indextest.Key("02:50", "late.ndjson")); err != nil {
		t.Fatal(err)
	}
	all, _ = checks(t, x, everything())
	if f := failing(all); len(f) > 0 {
		t.Errorf("with a carried object gone: %v", all)
	}
	if !strings.Contains(all[verify.CheckRecompute].Detail, "kept slices") {
		t.Errorf("recompute: %+v", all[verify.CheckRecompute])
	}
}

// TestEachStepOfAnIndexPasses verifies after each step, without a base and
// through jumps, gaps, refinements and a reset.
func TestEachStepOfAnIndexPasses(t *testing.T) {
	x := indextest.New(t, false)
	if _, err := verify.Run(t.Context(), subject(x), verify.Options{Now: indextest.At("03:00")}, func(verify.Check) error { return nil }); err != nil {
		t.Fatal(err)
	}
	x.Put("02:00", "history.ndjson", indextest.Row("h", "02:00", 1, "before deltad began"))
	for i, step := range []struct {
		put  string
		at   string
		want microbatch.Outcome
	}{
		{"03:00", "03:01", microbatch.Advanced}, {"03:01", "03:02", microbatch.Advanced}, {"03:09", "03:10", microbatch.Advanced},
		{"03:05", "03:10", microbatch.Refined}, {"06:00", "06:01", microbatch.Advanced}, {"06:30", "06:31", microbatch.Advanced},
	} {
		x.Put(step.put, fmt.Sprintf("%d.ndjson", i), indextest.Row("x", step.put, 1, step.put), indextest.Row(step.put, step.put, 1, ""))
		x.Step(step.at, step.want)
		all, ok := checks(t, x, everything())
		if !ok {
			t.Errorf("after %+v: %+v", step, all)
		}
	}
}

// TestEachCheckCanFail damages one thing at a time, and puts it back.
func TestEachCheckCanFail(t *testing.T) {
	x := indextest.Grown(t)
	m := x.Live()
	flip := func(prefix, part string) func(*testing.T) func() {
		return func(t *testing.T) func() {
			key := keys(t, x.Out, prefix, part)[0]
			b := read(t, x.Out, key)
			bad := slices.Clone(b)
			bad[len(bad)/2] ^= 1
			write(t, x.Out, key, bad)
			return func() { write(t, x.Out, key, b) }
		}
	}
	remove := func(st store.Store, key func(t *testing.T) string) func(*testing.T) func() {
		return func(t *testing.T) func() {
			k := key(t)
			b := read(t, st, k)
			if err := st.Delete(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			return func() { write(t, st, k, b) }
		}
	}
	outKey := func(prefix, part string) func(t *testing.T) string {
		return func(t *testing.T) string { return keys(t, x.Out, prefix, part)[0] }
	}
	raw := func(clock, name string) func(t *testing.T) string {
		return func(*testing.T) string { return indextest.Key(clock, name) }
	}
	replace := func(st store.Store, key string, change func([]byte) []byte) func(*testing.T) func() {
		return func(t *testing.T) func() {
			b := read(t, st, key)
			write(t, st, key, change(slices.Clone(b)))
			return func() { write(t, st, key, b) }
		}
	}
	add := func(clock, name string) func(*testing.T) func() {
		return func(t *testing.T) func() {
			x.Put(clock, name, indextest.Row("new", clock, 1, "late"))
			return func() { _ = x.Raw.Delete(context.Background(), indextest.Key(clock, name)) }
		}
	}
	longer := func(b []byte) []byte { return append(b, '\n') }
	base := m.Base.Generation
	for _, tt := range []struct {
		name   string
		damage func(*testing.T) func()
		want   []string // the checks that fail
		say    string
	}{
		{"CURRENT is no JSON", replace(x.Out, "CURRENT", func([]byte) []byte { return []byte("<html>") }), []string{"current"}, "CURRENT"},
		{"CURRENT is gone", remove(x.Out, func(*testing.T) string { return "CURRENT" }), []string{"current"}, "no CURRENT"},
		{"the manifest was edited", replace(x.Out, m.Key(), func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"documents":`), []byte(`"documents":1`), 1)
		}), []string{"manifests"}, m.Key()},
		{"the manifest is gone", remove(x.Out, func(*testing.T) string { return m.Key() }), []string{"manifests"}, m.Key()},
		{"the base's manifest was edited", replace(x.Out, m.Base.Manifest, longer), []string{"manifests"}, base},
		{"the supported base's manifest is gone", remove(x.Out, func(*testing.T) string { return m.Supports[0].Manifest }), []string{"manifests"}, m.Supports[0].Generation},
		{"a bit of the delta's documents", flip("delta/"+m.RunID, "part-"), []string{"files"}, "sha256"},
		{"the delta's documents are gone", remove(x.Out, outKey("delta/"+m.RunID, "part-")), []string{"files"}, "gone"},
		{"the delta's documents are longer", replace(x.Out, m.Files[0].Key, longer), []string{"files"}, "bytes"},
		{"a bit of the base's documents", flip("full/"+base, "part-"), []string{"files"}, "sha256"},
		{"the base's documents are gone", remove(x.Out, outKey("full/"+base, "part-")), []string{"files"}, "gone"},
		{"a bit of the accumulators", flip("state/full/"+base, "accumulators"), []string{"files"}, "sha256"},
		{"the keys of the base are gone", remove(x.Out, outKey("state/full/"+base, "seen")), []string{"files"}, "gone"},
		{"a kept slice is gone", remove(x.Out, outKey("state/slices/", "")), []string{"files", "state"}, "late.ndjson"},
		{"an input is gone", remove(x.Raw, raw("05:00", "a.ndjson")), []string{"lost", "recompute"}, "05/00/a.ndjson"},
		{"an input was replaced", replace(x.Raw, indextest.Key("05:00", "a.ndjson"), longer), []string{"recompute", "unread"}, "was replaced"},
		{"an object came late into the coverage", add("04:58", "b.ndjson"), []string{"unread"}, "in the coverage"},
		{"an object came late before the cut", add("02:51", "b.ndjson"), []string{"unread"}, "neither base nor pane"},
		{"an object came into a partition long before", add("01:00", "b.ndjson"), []string{"unread"}, "a rebuild reads it"},
		{"what the base read was replaced", replace(x.Raw, indextest.Key("03:00", "a.ndjson"), longer), []string{"recompute_base", "stale", "unread"}, "03/00/a.ndjson"},
		{"what the base read is gone", remove(x.Raw, raw("02:00", "a.ndjson")), []string{"recompute_base", "stale"}, "02/00/a.ndjson"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restore := tt.damage(t)
			defer restore()
			all, ok := checks(t, x, everything())
			got := failing(all)
			if ok || !subset(tt.want, got) {
				t.Errorf("failing %v, want %v: %+v", got, tt.want, all)
			}
			for _, name := range got {
				if !slices.Contains(tt.want, name) && !strings.HasPrefix(name, "recompute") {
					t.Errorf("%s fails too: %+v", name, all[name])
				}
			}
			if text := fmt.Sprint(all); !strings.Contains(text, tt.say) {
				t.Errorf("nothing says %q: %s", tt.say, text)
			}
			if len(all) != 13 {
				t.Errorf("%d checks were told", len(all))
			}
		})
	}
	if all, ok := checks(t, x, everything()); !ok {
		t.Errorf("put back: %+v", all)
	}
}

func subset(want, got []string) bool {
	for _, w := range want {
		if !slices.Contains(got, w) {
			return false
		}
	}
	return true
}

// forge replaces the live pane by one whose manifest says something else, under
// a CURRENT that agrees with it.
func forge(t *testing.T, x *indextest.Index, change func(*sink.Manifest)) {
	t.Helper()
	head, err := sink.ReadHead(t.Context(), x.Out, "")
	if err != nil {
		t.Fatal(err)
	}
	m := x.Live()
	change(&m)
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	write(t, x.Out, m.Key(), b)
	c := head.Current
	c.Delta.SHA256, c.Delta.Documents, c.Watermark = sink.Sum(b), m.Counts.Documents, m.Watermark
	if b, err = c.Encode(); err != nil {
		t.Fatal(err)
	}
	write(t, x.Out, "CURRENT", b)
}

// TestAManifestThatLies: hashes down the chain agree, and what it says is not so.
func TestAManifestThatLies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*sink.Manifest)
		want   string
	}{
		{"fewer rows", func(m *sink.Manifest) { m.Files[0].Rows--; m.Counts.Documents-- }, verify.CheckKeys},
		{"another first key", func(m *sink.Manifest) { m.Files[0].MinKey = []string{"a"} }, verify.CheckKeys},
		{"more documents counted", func(m *sink.Manifest) { m.Counts.Documents++ }, verify.CheckManifests},
		{"more rows counted", func(m *sink.Manifest) { m.Counts.Rows++ }, verify.CheckManifests},
		{"a tombstone fewer counted", func(m *sink.Manifest) { m.Counts.Tombstones++ }, verify.CheckManifests},
		{"a file dropped", func(m *sink.Manifest) { m.Counts.Documents -= m.Files[0].Rows; m.Files = m.Files[1:] }, verify.CheckRecompute},
		{"an input left out", func(m *sink.Manifest) {
			m.Counts.Rows -= m.Inputs[len(m.Inputs)-1].Rows
			m.Inputs = m.Inputs[:len(m.Inputs)-1]
		}, verify.CheckUnread},
		{"coverage from later", func(m *sink.Manifest) { m.Coverage.From = sink.At(m.Base.Cut.Add(time.Minute)) }, verify.CheckManifests},
		{"no slice kept", func(m *sink.Manifest) { m.UnreadSlices = nil }, verify.CheckState},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := indextest.Grown(t)
			forge(t, x, tt.change)
			if all, ok := checks(t, x, everything()); ok || !slices.Contains(failing(all), tt.want) {
				t.Errorf("failing %v, want %s: %+v", failing(all), tt.want, all)
			}
		})
	}
}

// TestAKeyOfBothKinds: a document and a tombstone of one key.
func TestAKeyOfBothKinds(t *testing.T) {
	x := indextest.Grown(t)
	fields, err := parquet.Fields(x.Live().Schema)
	if err != nil {
		t.Fatal(err)
	}
	var files []sink.File
	w, err := parquet.NewWriter(parquet.Options{
		Fields: parquet.KeyFields(fields), Name: "tombstones",
		Put: func(ctx context.Context, p parquet.Part, body io.ReadSeeker) error {
			key := sink.DataKey(x.Live().RunID, "tombstones-00009.parquet")
			files = append(files, p.File(key))
			_, err := x.Out.Put(ctx, key, body, store.PutOptions{})
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	dead, err := parquet.KeyRow(parquet.KeyFields(fields), []string{"x"})
	if err == nil {
		err = w.Write(t.Context(), dead)
	}
	if err == nil {
		_, err = w.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	forge(t, x, func(m *sink.Manifest) { m.Tombstones, m.Counts.Tombstones = files, 1 })
	if all, ok := checks(t, x, verify.Options{}); ok || !slices.Contains(failing(all), verify.CheckKeys) {
		t.Errorf("failing %v: %+v", failing(all), all)
	}
}

// TestTheLedgerLies: the state store forgot, or says something else.
func TestTheLedgerLies(t *testing.T) {
	x := indextest.New(t, false)
	x.Put("03:00", "a.ndjson", indextest.Row("x", "03:00", 1, "one"))
	x.Step("03:01", microbatch.Advanced)
	x.Put("03:02", "a.ndjson", indextest.Row("x", "03:02", 1, "one"))
	x.Step("03:03", microbatch.Advanced)
	s := subject(x)
	for _, tt := range []struct {
		name   string
		change func(*watermark.LedgerEntry) bool // false: it is left out
		run    func(*watermark.Run)
		want   string
	}{
		{"a line is missing", func(e *watermark.LedgerEntry) bool { return !e.Partition.Equal(indextest.At("03:02")) }, nil, verify.CheckLedger},
		{"another fingerprint", func(e *watermark.LedgerEntry) bool { e.Fingerprint = strings.Repeat("0", 64); return true }, nil, verify.CheckLedger},
		{"never covered", func(e *watermark.LedgerEntry) bool { e.State = "never_covered"; return true }, nil, verify.CheckLedger},
		{"the run is not published", nil, func(r *watermark.Run) { r.Status = watermark.RunPlanned }, verify.CheckJournal},
		{"the run has another manifest", nil, func(r *watermark.Run) { r.Manifest.SHA256 = "0" }, verify.CheckJournal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.State = liar{x.State, tt.change, tt.run}
			var got []string
			ok, err := verify.Run(t.Context(), s, verify.Options{Now: x.Clock}, func(c verify.Check) error {
				if c.Status == verify.Failed {
					got = append(got, c.Name)
				}
				return nil
			})
			if err != nil || ok || !slices.Equal(got, []string{tt.want}) {
				t.Errorf("failing %v, want %s (%v)", got, tt.want, err)
			}
		})
	}
}

// liar is a state store that says something else.
type liar struct {
	watermark.Store
	line func(*watermark.LedgerEntry) bool
	run  func(*watermark.Run)
}

func (l liar) LedgerRange(ctx context.Context, pipeline, source string, after, through time.Time, limit int) (out []watermark.LedgerEntry, err error) {
	lines, err := l.Store.LedgerRange(ctx, pipeline, source, after, through, limit)
	for _, e := range lines {
		if l.line == nil || l.line(&e) {
			out = append(out, e)
		}
	}
	return out, err
}

func (l liar) RunByID(ctx context.Context, id string) (watermark.Run, error) {
	r, err := l.Store.RunByID(ctx, id)
	if l.run != nil {
		l.run(&r)
	}
	return r, err
}

// TestAGapIsCoveredWhereItIsNamed: a partition of before the coverage that the
// ledger does not know is not.
func TestAGapIsCoveredWhereItIsNamed(t *testing.T) {
	x := indextest.New(t, false)
	x.Put("03:00", "a.ndjson", indextest.Row("x", "03:00", 1, "one"))
	x.Step("03:01", microbatch.Advanced)
	x.Put("03:05", "a.ndjson", indextest.Row("x", "03:05", 1, "one")) // never seen by a run
	x.Put("06:00", "a.ndjson", indextest.Row("x", "06:00", 1, "one"))
	x.Step("06:01", microbatch.Advanced)
	all, ok := checks(t, x, everything())
	if !ok || !strings.Contains(all[verify.CheckCoverage].Detail, "1 in gaps") {
		t.Errorf("with its gap: %+v", all)
	}
	forge(t, x, func(m *sink.Manifest) { m.Gap, m.Jumps = nil, nil })
	s := subject(x)
	s.State = liar{x.State, func(e *watermark.LedgerEntry) bool { return e.State != "never_covered" }, nil}
	var got []string
	if _, err := verify.Run(t.Context(), s, verify.Options{Now: x.Clock, All: true}, func(c verify.Check) error {
		if c.Status == verify.Failed && c.Name != verify.CheckJournal {
			got = append(got, c.Name)
		}
		return nil
	}); err != nil || !slices.Contains(got, verify.CheckCoverage) {
		t.Errorf("without it: %v, %v", got, err)
	}
}

// TestNothingThereYet: before the first pane nothing is amiss. An empty bucket
// or an empty journal alone is no such state.
func TestNothingThereYet(t *testing.T) {
	x := indextest.New(t, false)
	all, ok := checks(t, x, everything())
	if c := all[verify.CheckCurrent]; !ok || len(all) != 1 || c.Status != verify.Passed || !strings.Contains(c.Detail, "no index yet") {
		t.Fatalf("before the first pane: %+v", all)
	}
	x.Put("03:00", "a.ndjson", indextest.Row("x", "03:00", 1, "one"))
	x.Step("03:01", microbatch.Advanced)
	if err := x.Out.Delete(t.Context(), "CURRENT"); err != nil {
		t.Fatal(err)
	}
	if all, ok := checks(t, x, everything()); ok || all[verify.CheckCurrent].Status != verify.Failed {
		t.Errorf("CURRENT is lost: %+v", all)
	}
	s := subject(x)
	s.State = indextest.New(t, false).State
	ok, err := verify.Run(t.Context(), s, verify.Options{Now: x.Clock}, func(verify.Check) error { return nil })
	if err != nil || ok {
		t.Errorf("the state store is empty and manifests are there: %t, %v", ok, err)
	}
}

// TestLateBeforeTheFirstCoverage: what was there when deltad began is no
// finding, what came later is one until it is in the ledger.
func TestLateBeforeTheFirstCoverage(t *testing.T) {
	x := indextest.New(t, false)
	for _, clock := range []string{"02:35", "02:40", "03:00"} {
		x.Put(clock, "a.ndjson", indextest.Row("x", clock, 1, "one"))
	}
	x.Step("03:01", microbatch.Advanced)
	if all, ok := checks(t, x, verify.Options{}); !ok {
		t.Fatalf("history: %+v", all)
	}
	x.Put("02:40", "late.ndjson", indextest.Row("x", "02:40", 1, "late"))
	if all, ok := checks(t, x, verify.Options{}); ok || !slices.Equal(failing(all), []string{verify.CheckUnread}) {
		t.Errorf("an object that no run has seen: %+v", all)
	}
	x.Put("03:02", "a.ndjson", indextest.Row("x", "03:02", 1, "next"))
	x.Step("03:03", microbatch.Advanced)
	if all, ok := checks(t, x, verify.Options{}); !ok || !strings.Contains(all[verify.CheckUnread].Detail, "1 partitions with late objects") {
		t.Errorf("once it is in the ledger: %+v", all)
	}
}

// TestYoungObjectsWait: what came a moment ago is the next run's.
func TestYoungObjectsWait(t *testing.T) {
	x := indextest.Grown(t)
	x.Put("04:58", "b.ndjson", indextest.Row("new", "04:58", 1, "late"))
	o := verify.Options{Now: time.Now(), Fresh: time.Hour}
	x.Clock = time.Now()
	if all, ok := checks(t, x, o); !ok || !strings.Contains(all[verify.CheckUnread].Detail, "1 too young") {
		t.Errorf("young: %+v", all)
	}
	o.Fresh = time.Nanosecond
	time.Sleep(time.Millisecond)
	x.Clock = time.Now()
	if all, ok := checks(t, x, o); ok || !slices.Equal(failing(all), []string{verify.CheckUnread}) {
		t.Errorf("old enough: %+v", all)
	}
}

// TestAnOutageIsNoFinding: a store that does not answer proves nothing.
func TestAnOutageIsNoFinding(t *testing.T) {
	x := indextest.Grown(t)
	s := subject(x)
	s.Out = fault.New(x.Out, fault.Rule{Kind: fault.ErrorBefore, Op: "get", Key: "part-", Err: store.ErrUnavailable})
	ok, err := verify.Run(t.Context(), s, verify.Options{Now: x.Clock}, func(c verify.Check) error {
		if c.Status != verify.Passed {
			t.Errorf("%+v", c)
		}
		return nil
	})
	if ok || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ok %t, %v", ok, err)
	}
}

// TestRecomputeFindsTheMaker: a reset and a rollback name the files of another
// run, and the files are recomputed as that run made them.
func TestRecomputeFindsTheMaker(t *testing.T) {
	x := indextest.Grown(t)
	head, err := x.Set.Sink.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := x.Live()
	if head, _, err = x.Set.Sink.ResetProgress(t.Context(), head.Owner, head, sink.ResetOptions{To: indextest.At("03:40"), RunID: x.Set.NewID(), Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	all, _ := checks(t, x, verify.Options{Recompute: true})
	if c := all[verify.CheckRecompute]; c.Status != verify.Passed || x.Live().RunID == made.RunID {
		t.Errorf("after a reset: %+v", c)
	}
	former := made.History[0]
	if _, _, err := x.Set.Sink.Rollback(t.Context(), head.Owner, head, sink.RollbackOptions{
		Target: former.Pane, RunID: x.Set.NewID(), Now: time.Now(), SupportUntil: time.Now().Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	all, _ = checks(t, x, everything())
	if c := all[verify.CheckRecompute]; c.Status != verify.Passed || x.Live().Base.Generation != former.Generation {
		t.Errorf("after a rollback: %+v over %+v", c, x.Live().Base)
	}
	for _, name := range []string{verify.CheckManifests, verify.CheckFiles, verify.CheckKeys, verify.CheckState} {
		if all[name].Status != verify.Passed {
			t.Errorf("after a rollback: %+v", all[name])
		}
	}
	if c := all[verify.CheckRecomputeBase]; c.Status != verify.Failed || !strings.Contains(c.Findings[0], "02/58/a.ndjson") {
		t.Errorf("what the former base read was replaced: %+v", c)
	}
}
