package watermarktest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
)

func auditImmutable(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	e := watermark.AuditEntry{
		ID: ID(), Actor: "ann", Action: "promote", Pipeline: pipe, Reason: "checked by hand", Details: []byte(`{"base":"01J"}`),
	}
	for range 2 {
		if err := s.AppendAudit(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []func(*watermark.AuditEntry){
		func(e *watermark.AuditEntry) { e.Action = "pause" }, func(e *watermark.AuditEntry) { e.Pipeline = "other" },
		func(e *watermark.AuditEntry) { e.Details = []byte(`{"rebuild":"01J"}`) },
	} {
		f := e
		other(&f)
		if err := s.AppendAudit(ctx, f); !errors.Is(err, watermark.ErrReused) || !errors.Is(err, watermark.ErrConflict) {
			t.Errorf("another entry of the same id: %v", err)
		}
	}
	if _, err := s.Pause(ctx, pipe, watermark.Change{ID: e.ID, Actor: "ann", Reason: "x"}); !errors.Is(err, watermark.ErrReused) {
		t.Errorf("a pause under the id of a promotion: %v", err)
	}
	if p, err := s.EnsurePipeline(ctx, pipe); err != nil || p.Paused {
		t.Errorf("it is paused: %+v, %v", p, err)
	}
	for _, id := range []string{"\xff", "a\x00b", "", "none"} {
		_, err1 := s.RunByID(ctx, id)
		_, err2 := s.IntentByID(ctx, id)
		_, err3 := s.RebuildByID(ctx, id)
		_, err4 := s.RequestByID(ctx, id)
		for _, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, watermark.ErrNotFound) {
				t.Errorf("id %q: %v", id, err)
			}
		}
	}
	for _, sql := range []string{
		`UPDATE deltad_audit SET reason = 'nothing happened'`,
		`DELETE FROM deltad_audit`,
		`DELETE FROM deltad_audit WHERE pipeline = 'ads'`,
	} {
		if err := db.Exec(t, sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v, want a refusal by the database", sql, err)
		}
	}
	trail, err := s.AuditTrail(ctx, "", 10, 0)
	if err != nil || len(trail) != 1 {
		t.Fatalf("trail: %+v, %v", trail, err)
	}
	got := trail[0]
	var details map[string]string
	if err := json.Unmarshal(got.Details, &details); err != nil || details["base"] != "01J" {
		t.Fatalf("details %s: %v", got.Details, err)
	}
	if got.ID != e.ID || got.Actor != e.Actor || got.Action != e.Action || got.Pipeline != pipe || got.Reason != e.Reason || got.At.IsZero() || got.Seq == 0 {
		t.Fatalf("entry %+v, want %+v", got, e)
	}
}

func auditPages(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	for i := range 5 {
		name := pipe
		if i == 2 {
			name = "other"
		}
		if err := s.AppendAudit(ctx, watermark.AuditEntry{ID: ID(), Actor: "ann", Action: string(rune('a' + i)), Pipeline: name}); err != nil {
			t.Fatal(err)
		}
	}
	var actions string
	before := int64(0)
	for {
		page, err := s.AuditTrail(ctx, pipe, 3, before)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			actions += e.Action
		}
		if len(page) < 3 {
			break
		}
		before = page[len(page)-1].Seq
	}
	if actions != "edba" {
		t.Fatalf("pages give %q, want edba", actions)
	}
}

func intentLifecycle(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	mustPublish(t, s, l, Published(Planned(l, 5), 7))
	p, err := s.Pause(ctx, pipe, change("to reset it"))
	if err != nil {
		t.Fatal(err)
	}
	in := watermark.Intent{
		ID: ID(), Pipeline: pipe, Target: at(1), Digest: "d1", Actor: "ann", Reason: "bad data since 10:01",
		AcceptDataLoss: true, Details: []byte(`{"recomputed":4}`),
	}
	created, err := s.CreateIntent(ctx, in, p.Version)
	if err != nil || created.State != watermark.IntentPending || !created.Target.Equal(at(1)) || !created.AcceptDataLoss || created.CreatedAt.IsZero() {
		t.Fatalf("created: %+v, %v", created, err)
	}
	if after := mustPipeline(t, s); after.Version != p.Version+1 || !after.Progress.Equal(at(5)) {
		t.Fatalf("row after the intent: %+v; want a new version and the old progress", after)
	}
	if again, err := s.CreateIntent(ctx, in, p.Version); err != nil || again.ID != in.ID {
		t.Fatalf("the same again: %+v, %v", again, err)
	}
	pending, err := s.PendingIntents(ctx, pipe)
	if err != nil || len(pending) != 1 || pending[0].ID != in.ID || pending[0].Digest != "d1" {
		t.Fatalf("pending: %+v, %v", pending, err)
	}
	for range 2 {
		if err := s.FinishIntent(ctx, l, in.ID, watermark.IntentFailed, "CURRENT moved on"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.FinishIntent(ctx, l, in.ID, watermark.IntentApplied, ""); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("another end: %v, want a conflict", err)
	}
	if err := s.FinishIntent(ctx, l, ID(), watermark.IntentApplied, ""); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("an intent that is not there: %v", err)
	}
	got, err := s.IntentByID(ctx, in.ID)
	if err != nil || got.State != watermark.IntentFailed || got.Note != "CURRENT moved on" || got.FinishedAt.IsZero() {
		t.Fatalf("finished: %+v, %v", got, err)
	}
	trail, err := s.AuditTrail(ctx, pipe, 10, 0)
	if err != nil || len(trail) != 3 || trail[0].Action != "reset-failed" || trail[1].Action != "reset" || trail[1].Actor != "ann" {
		t.Fatalf("audit: %+v, %v", trail, err)
	}
	if !strings.Contains(string(trail[1].Details), "2026-11-30T10:01:00Z") || !strings.Contains(string(trail[1].Details), "recomputed") {
		t.Fatalf("audit details: %s; want the target and the plan", trail[1].Details)
	}
}

func intentPreconditions(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	intent := func() watermark.Intent {
		return watermark.Intent{ID: ID(), Pipeline: pipe, Target: at(1), Actor: "ann", Reason: "bad data"}
	}
	if _, err := s.CreateIntent(ctx, intent(), 1); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("no pipeline: %v", err)
	}
	p, err := s.EnsurePipeline(ctx, pipe)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateIntent(ctx, intent(), p.Version); !errors.Is(err, watermark.ErrNotPaused) {
		t.Fatalf("not paused: %v", err)
	}
	paused, err := s.Pause(ctx, pipe, change("to reset it"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateIntent(ctx, intent(), p.Version); !errors.Is(err, watermark.ErrStaleVersion) {
		t.Fatalf("stale: %v", err)
	}
	for _, pages := range []func() (int, error){
		func() (int, error) { x, err := s.PendingIntents(ctx, pipe); return len(x), err },
		func() (int, error) { x, err := s.AuditTrail(ctx, pipe, 10, 0); return len(x) - 1, err },
	} {
		if n, err := pages(); n != 0 || err != nil {
			t.Fatalf("a refused intent left %d rows, %v", n, err)
		}
	}
	first := intent()
	if _, err := s.CreateIntent(ctx, first, paused.Version); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateIntent(ctx, intent(), paused.Version+1); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("a second while one is pending: %v", err)
	}
	other := first
	other.Target = at(2)
	if _, err := s.CreateIntent(ctx, other, paused.Version+1); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("another reset under the same id: %v", err)
	}
}

func intentPublished(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	p, err := s.Pause(ctx, pipe, change("to reset it"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.CreateIntent(ctx, watermark.Intent{ID: ID(), Pipeline: pipe, Target: at(1), Actor: "ann", Reason: "bad data"}, p.Version)
	if err != nil {
		t.Fatal(err)
	}
	r := Planned(l, 5)
	r.Reason = "reset"
	pub := Published(r, 8)
	pub.Progress = in.Target
	pub.Intent = in.ID
	for range 2 {
		mustPublish(t, s, l, pub)
	}
	got, err := s.IntentByID(ctx, in.ID)
	if err != nil || got.State != watermark.IntentApplied || !strings.Contains(got.Note, r.ID) {
		t.Fatalf("intent: %+v, %v", got, err)
	}
	if p := mustPipeline(t, s); !p.Progress.Equal(at(1)) || !p.Watermark.Equal(at(5)) || !p.Paused {
		t.Fatalf("row: %+v; want progress back, the pane's watermark kept, still paused", p)
	}
	missing := Published(Planned(l, 6), 9)
	missing.Intent = ID()
	if _, err := s.PublishRun(ctx, l, missing); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("an intent that is not there: %v", err)
	}
	if _, err := s.RunByID(ctx, missing.Run.ID); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("a refused publication left its run: %v", err)
	}
	if p := mustPipeline(t, s); p.CurrentVersion != 8 {
		t.Fatalf("a refused publication moved the row: %+v", p)
	}
}

func requestQueue(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	a := Acquire(t, s, pipe, watermark.RoleDelta)
	if got, err := s.TakeRequests(ctx, a); err != nil || len(got) != 0 {
		t.Fatalf("an empty queue: %+v, %v", got, err)
	}
	first := watermark.Request{ID: ID(), Pipeline: pipe, Kind: "trigger", Actor: "ann", Args: []byte(`{"accept_loss":true}`)}
	second := watermark.Request{ID: ID(), Pipeline: pipe, Kind: "gc", Actor: "ann", Reason: "disk"}
	other := watermark.Request{ID: ID(), Pipeline: "other", Kind: "gc", Actor: "ann"}
	for _, r := range []watermark.Request{first, second, other, first} {
		if err := s.Enqueue(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	clash := first
	clash.Kind = "gc"
	if err := s.Enqueue(ctx, clash); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("another request under the same id: %v", err)
	}
	got, err := s.TakeRequests(ctx, a)
	if err != nil || len(got) != 2 || got[0].ID != first.ID || got[1].ID != second.ID || got[0].State != watermark.RequestTaken ||
		got[0].TakenEpoch != 1 || !strings.Contains(string(got[0].Args), "accept_loss") {
		t.Fatalf("taken: %+v, %v", got, err)
	}
	if err := s.FinishRequest(ctx, a, first.ID, watermark.RequestDone, []byte(`{"run_id":"01J"}`)); err != nil {
		t.Fatal(err)
	}
	// The leader dies with the second one: the next leader sees it.
	if err := s.Release(ctx, a); err != nil {
		t.Fatal(err)
	}
	b := Acquire(t, s, pipe, watermark.RoleDelta)
	got, err = s.TakeRequests(ctx, b)
	if err != nil || len(got) != 1 || got[0].ID != second.ID || got[0].TakenEpoch != 2 {
		t.Fatalf("taken by the next: %+v, %v", got, err)
	}
	for range 2 {
		if err := s.FinishRequest(ctx, b, second.ID, watermark.RequestFailed, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.FinishRequest(ctx, b, second.ID, watermark.RequestDone, nil); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("another end: %v", err)
	}
	if err := s.FinishRequest(ctx, b, other.ID, watermark.RequestDone, nil); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("a request of another pipeline: %v", err)
	}
	done, err := s.RequestByID(ctx, first.ID)
	if err != nil || done.State != watermark.RequestDone || !strings.Contains(string(done.Result), "01J") || done.FinishedAt.IsZero() {
		t.Fatalf("done: %+v, %v", done, err)
	}
	if _, err := s.RequestByID(ctx, ID()); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("a request that is not there: %v", err)
	}
}

func instanceRows(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	i := watermark.Instance{ID: "deltad-a", Host: "h1", PID: 7, Build: "deltad 0.1.0", Role: "all", Details: []byte(`{"pipelines":2}`)}
	for range 2 {
		if err := s.Heartbeat(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Instances(ctx, time.Minute)
	if err != nil || len(got) != 1 || got[0].Host != "h1" || got[0].PID != 7 || got[0].SeenAt.Before(got[0].StartedAt) {
		t.Fatalf("instances: %+v, %v", got, err)
	}
	time.Sleep(5 * time.Millisecond)
	if got, err := s.Instances(ctx, time.Millisecond); err != nil || len(got) != 0 {
		t.Fatalf("seen within a millisecond: %+v, %v", got, err)
	}
	if err := s.ForgetInstance(ctx, i.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Instances(ctx, time.Minute); err != nil || len(got) != 0 {
		t.Fatalf("after forgetting: %+v, %v", got, err)
	}
}

func invalidArguments(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	run := func(change func(*watermark.Run)) watermark.Run {
		r := Planned(l, 1)
		change(&r)
		return r
	}
	acquire := func(pipeline string, role watermark.Role, holder string, ttl time.Duration, floor int64) error {
		_, err := s.Acquire(ctx, pipeline, role, holder, ttl, floor)
		return err
	}
	publish := func(change func(*watermark.Publication)) error {
		p := Published(Planned(l, 1), 7)
		change(&p)
		_, err := s.PublishRun(ctx, l, p)
		return err
	}
	for _, c := range []struct {
		name, says string
		err        error
	}{
		{"no pipeline", "pipeline is empty", acquire("", watermark.RoleDelta, "a", time.Minute, 0)},
		{"no holder", "holder is empty", acquire("p", watermark.RoleDelta, "", time.Minute, 0)},
		{"role", `role "boss"`, acquire("p", "boss", "a", time.Minute, 0)},
		{"ttl", "ttl 1µs", acquire("p", watermark.RoleDelta, "a", time.Microsecond, 0)},
		{"epoch", "epoch -1", acquire("p", watermark.RoleDelta, "a", time.Minute, -1)},
		{"zero lease", "lease pipeline is empty", s.Renew(ctx, watermark.Lease{})},
		{"run id", `run id "r1" is not a ULID`, s.PlanRun(ctx, l, run(func(r *watermark.Run) { r.ID = "r1" }))},
		{"run of another pipeline", `of pipeline "x"`, s.PlanRun(ctx, l, run(func(r *watermark.Run) { r.Pipeline = "x" }))},
		{"run kind", `run kind ""`, s.PlanRun(ctx, l, run(func(r *watermark.Run) { r.Kind = "" }))},
		{"fine watermark", "finer than a microsecond", s.PlanRun(ctx, l, run(func(r *watermark.Run) { r.Watermark = at(1).Add(1) }))},
		{"far watermark", "outside the years", s.PlanRun(ctx, l, run(func(r *watermark.Run) { r.Watermark = at(1).AddDate(9000, 0, 0) }))},
		{"no version", "version 0 of CURRENT", publish(func(p *watermark.Publication) { p.CurrentVersion = 0 })},
		{"no manifest", "manifest is empty", publish(func(p *watermark.Publication) { p.Manifest.Key = "" })},
		{"counts", "counts is not a JSON object", publish(func(p *watermark.Publication) { p.Counts = []byte(`[1]`) })},
		{"ledger state", "ledger state is empty", publish(func(p *watermark.Publication) { p.Ledger = []watermark.LedgerEntry{{Partition: at(1)}} })},
		{"late key", "late object is empty", publish(func(p *watermark.Publication) { p.Late = []watermark.LateObject{{}} })},
		{"limit", "limit 0", func() error { _, err := s.Runs(ctx, pipe, 0, ""); return err }()},
		{"change id", "change id", func() error { _, err := s.Pause(ctx, pipe, watermark.Change{Actor: "ann"}); return err }()},
		{"actor", "actor is empty", func() error { _, err := s.Pause(ctx, pipe, watermark.Change{ID: ID()}); return err }()},
		{"intent state", "does not end it", s.FinishIntent(ctx, l, ID(), watermark.IntentPending, "")},
		{"request state", "does not end it", s.FinishRequest(ctx, l, ID(), watermark.RequestTaken, nil)},
		{"object key with NUL", "without NUL", s.SkipObject(ctx, pipe, watermark.ObjectRef{Key: "a\x00b"}, change("x"))},
	} {
		if !errors.Is(c.err, watermark.ErrInvalid) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v, want invalid: …%s…", c.name, c.err, c.says)
		}
	}
	if runs, err := s.Runs(ctx, pipe, 10, ""); err != nil || len(runs) != 0 {
		t.Errorf("refused calls left runs: %+v, %v", runs, err)
	}
}

// hostileText quotes what broken files contain: recording it must not fail.
func hostileText(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	r := Planned(l, 1)
	if err := s.PlanRun(ctx, l, r); err != nil {
		t.Fatal(err)
	}
	if err := s.FailRun(ctx, l, r.ID, "read p/x: bad magic \"PA\x00\xff\xfeR1\"'; DROP TABLE deltad_run; --"); err != nil {
		t.Fatal(err)
	}
	got, err := s.RunByID(ctx, r.ID)
	if err != nil || !strings.Contains(got.Error, "bad magic") || !strings.HasSuffix(got.Error, "; --") {
		t.Fatalf("error text: %q, %v", got.Error, err)
	}
	if _, err := s.Pause(ctx, pipe, change("why\x00\xff")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"part+1 a=b%3A.parquet", "ü.parquet", `a\b.parquet`, "it's $1 @now ?1"} {
		ref := watermark.ObjectRef{Key: key, ETag: "e"}
		if err := s.SkipObject(ctx, pipe, ref, change("x")); err != nil {
			t.Fatal(err)
		}
		states, err := s.ObjectStates(ctx, pipe)
		if err != nil || len(states) != 1 || states[0].Key != key {
			t.Fatalf("key %q came back as %+v, %v", key, states, err)
		}
		if err := s.UnskipObject(ctx, pipe, ref, change("x")); err != nil {
			t.Fatal(err)
		}
	}
}
