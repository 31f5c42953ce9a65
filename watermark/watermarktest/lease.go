package watermarktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
)

func leaseRace(t *testing.T, db Database) {
	ctx := Context(t)
	handles := []watermark.Store{Migrated(t, db), Migrated(t, db)}
	for round := range 3 {
		var won, held atomic.Int32
		var winner atomic.Value
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				l, err := handles[i%len(handles)].Acquire(ctx, pipe, watermark.RoleDelta, fmt.Sprintf("h%d", i), time.Minute, 0)
				switch {
				case err == nil:
					won.Add(1)
					winner.Store(l)
				case errors.Is(err, watermark.ErrHeld):
					held.Add(1)
				default:
					t.Errorf("acquire: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || held.Load() != 15 {
			t.Fatalf("round %d: %d winners and %d refused, want 1 and 15", round, won.Load(), held.Load())
		}
		l := winner.Load().(watermark.Lease)
		if l.Epoch != int64(round+1) {
			t.Fatalf("round %d: epoch %d", round, l.Epoch)
		}
		if err := handles[0].Release(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
}

func leaseExpiry(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	const ttl = time.Second
	a, err := s.Acquire(ctx, pipe, watermark.RoleDelta, "a", ttl, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Acquire(ctx, pipe, watermark.RoleDelta, "b", ttl, 0)
	var h *watermark.HeldError
	if !errors.As(err, &h) || h.Holder != "a" || h.Epoch != 1 || h.Remaining <= 0 || h.Remaining > ttl {
		t.Fatalf("second acquire: %v, want held by a", err)
	}
	// Another role of the pipeline and another pipeline are free.
	if _, err := s.Acquire(ctx, pipe, watermark.RoleFull, "b", ttl, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(ctx, "other", watermark.RoleDelta, "b", ttl, 0); err != nil {
		t.Fatal(err)
	}
	// Renewals keep it beyond its first expiry.
	for range 2 {
		time.Sleep(ttl * 6 / 10)
		if err := s.Renew(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Acquire(ctx, pipe, watermark.RoleDelta, "b", ttl, 0); !errors.Is(err, watermark.ErrHeld) {
		t.Fatalf("acquire of a renewed lease: %v, want held", err)
	}
	time.Sleep(ttl + 100*time.Millisecond)
	// Expired and not taken: it may come back to life.
	if st, err := s.LeaseStatus(ctx, pipe, watermark.RoleDelta); err != nil || st.Live || st.Remaining != 0 {
		t.Fatalf("status of an expired lease: %+v, %v", st, err)
	}
	if err := s.Renew(ctx, a); err != nil {
		t.Fatalf("renew of an expired lease that nobody took: %v", err)
	}
	time.Sleep(ttl + 100*time.Millisecond)
	b, err := s.Acquire(ctx, pipe, watermark.RoleDelta, "b", time.Minute, 0)
	if err != nil || b.Epoch != 2 || b.Nonce == a.Nonce {
		t.Fatalf("acquire of an expired lease: %+v, %v", b, err)
	}
	if err := s.Renew(ctx, a); !errors.Is(err, watermark.ErrFenced) {
		t.Fatalf("renew by the old holder: %v, want fenced", err)
	}
	st, err := s.LeaseStatus(ctx, pipe, watermark.RoleDelta)
	if err != nil || !st.Live || st.Lease != b || st.Remaining <= 0 || st.AcquiredAt.IsZero() {
		t.Fatalf("status: %+v, %v", st, err)
	}
	if _, err := s.LeaseStatus(ctx, "nobody", watermark.RoleDelta); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("status of no lease: %v", err)
	}
}

func leaseEpochs(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	for _, c := range []struct {
		name  string
		floor int64
		want  int64
	}{
		{"first", 0, 1},
		{"next", 0, 2},
		{"CURRENT ahead", 40, 41},
		{"CURRENT behind", 7, 42},
		{"CURRENT equal", 42, 43},
	} {
		l, err := s.Acquire(ctx, pipe, watermark.RoleDelta, "a", time.Minute, c.floor)
		if err != nil || l.Epoch != c.want {
			t.Fatalf("%s: epoch %d, %v; want %d", c.name, l.Epoch, err, c.want)
		}
		if err := s.Release(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.Acquire(ctx, "fresh", watermark.RoleDelta, "a", time.Minute, 184)
	if err != nil || l.Epoch != 185 {
		t.Fatalf("first acquisition below CURRENT's epoch 184: %d, %v", l.Epoch, err)
	}
}

func leaseRelease(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	a := Acquire(t, s, pipe, watermark.RoleDelta)
	for range 2 {
		if err := s.Release(ctx, a); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
	if err := s.Renew(ctx, a); !errors.Is(err, watermark.ErrFenced) {
		t.Fatalf("renew of a released lease: %v, want fenced", err)
	}
	b := Acquire(t, s, pipe, watermark.RoleDelta)
	if err := s.Release(ctx, a); !errors.Is(err, watermark.ErrFenced) {
		t.Fatalf("release of another's lease: %v, want fenced", err)
	}
	if err := s.Renew(ctx, b); err != nil {
		t.Fatalf("the new holder after that: %v", err)
	}
}

func leaseHandOver(t *testing.T, db Database) {
	ctx := Context(t)
	a := Migrated(t, db)
	l := Acquire(t, a, pipe, watermark.RoleDelta)
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	b := db.Open(t)
	var inherited watermark.Lease
	if err := json.Unmarshal(text, &inherited); err != nil {
		t.Fatal(err)
	}
	if err := b.Renew(ctx, inherited); err != nil {
		t.Fatalf("renew by the successor: %v", err)
	}
	if err := b.PlanRun(ctx, inherited, Planned(inherited, 1)); err != nil {
		t.Fatalf("plan by the successor: %v", err)
	}
}

func leaseRaise(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	a := Acquire(t, s, pipe, watermark.RoleDelta)
	b, err := s.RaiseEpoch(ctx, a, 99)
	if err != nil || b.Epoch != 100 || b.Nonce == a.Nonce {
		t.Fatalf("raised to %+v, %v; want epoch 100 and another nonce", b, err)
	}
	if err := s.Renew(ctx, a); !errors.Is(err, watermark.ErrFenced) {
		t.Fatalf("the value before: %v, want fenced", err)
	}
	if err := s.Renew(ctx, b); err != nil {
		t.Fatal(err)
	}
	if c, err := s.RaiseEpoch(ctx, b, 5); err != nil || c.Epoch != 101 {
		t.Fatalf("raised past a lower epoch: %+v, %v; want 101", c, err)
	}
	if _, err := s.RaiseEpoch(ctx, b, 500); !errors.Is(err, watermark.ErrFenced) {
		t.Fatalf("raise by a fenced holder: %v, want fenced", err)
	}
}

// fenceEveryWrite takes the lease away and lets the old holder try everything.
func fenceEveryWrite(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	old := Acquire(t, s, pipe, watermark.RoleDelta)
	planned := Planned(old, 1)
	if err := s.PlanRun(ctx, old, planned); err != nil {
		t.Fatal(err)
	}
	request := watermark.Request{ID: ID(), Pipeline: pipe, Kind: "trigger", Actor: "ann"}
	if err := s.Enqueue(ctx, request); err != nil {
		t.Fatal(err)
	}
	p, err := s.Pause(ctx, pipe, change("to reset it"))
	if err != nil {
		t.Fatal(err)
	}
	intent, err := s.CreateIntent(ctx, watermark.Intent{ID: ID(), Pipeline: pipe, Actor: "ann", Reason: "bad data", Target: at(-9)}, p.Version)
	if err != nil {
		t.Fatal(err)
	}
	failure := []watermark.ObjectFailure{{Key: "k", ETag: "e", Error: "truncated"}}
	if _, err := s.RecordFailures(ctx, old, planned.ID, failure, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(ctx, old); err != nil {
		t.Fatal(err)
	}
	writes := []struct {
		name string
		do   func(watermark.Lease) error
	}{
		{"Renew", func(l watermark.Lease) error { return s.Renew(ctx, l) }},
		{"RaiseEpoch", func(l watermark.Lease) error { _, err := s.RaiseEpoch(ctx, l, 1000); return err }},
		{"PlanRun", func(l watermark.Lease) error { return s.PlanRun(ctx, l, Planned(l, 2)) }},
		{"PublishRun", func(l watermark.Lease) error {
			_, err := s.PublishRun(ctx, l, Published(planned, 7))
			return err
		}},
		{"AbandonRun", func(l watermark.Lease) error { return s.AbandonRun(ctx, l, planned.ID, "x") }},
		{"FailRun", func(l watermark.Lease) error { return s.FailRun(ctx, l, planned.ID, "x") }},
		{"MarkUnknown", func(l watermark.Lease) error { return s.MarkUnknown(ctx, l, planned.ID, "x") }},
		{"Prune", func(l watermark.Lease) error {
			_, err := s.Prune(ctx, l, watermark.Keep{Ended: time.Hour}, 10)
			return err
		}},
		{"UpsertLedger", func(l watermark.Lease) error {
			return s.UpsertLedger(ctx, l, []watermark.LedgerEntry{{Partition: at(1), State: "covered"}})
		}},
		{"RecordFailures", func(l watermark.Lease) error {
			_, err := s.RecordFailures(ctx, l, ID(), failure, 1)
			return err
		}},
		{"ClearFailures", func(l watermark.Lease) error {
			return s.ClearFailures(ctx, l, []watermark.ObjectRef{{Key: "k", ETag: "e"}})
		}},
		{"AdoptCurrent", func(l watermark.Lease) error {
			_, err := s.AdoptCurrent(ctx, l, watermark.CurrentCopy{Version: 9, Watermark: at(9), Progress: at(9)}, change("adopt"))
			return err
		}},
		{"FinishIntent", func(l watermark.Lease) error { return s.FinishIntent(ctx, l, intent.ID, watermark.IntentFailed, "x") }},
		{"TakeRequests", func(l watermark.Lease) error { _, err := s.TakeRequests(ctx, l); return err }},
		{"FinishRequest", func(l watermark.Lease) error {
			return s.FinishRequest(ctx, l, request.ID, watermark.RequestDone, nil)
		}},
	}
	before := snapshot(t, s)
	try := func(name string, l watermark.Lease) {
		for _, w := range writes {
			if err := w.do(l); !errors.Is(err, watermark.ErrFenced) {
				t.Errorf("%s with %s: %v, want fenced", w.name, name, err)
			}
		}
		if after := snapshot(t, s); after != before {
			t.Errorf("%s changed something:\nbefore %s\nafter  %s", name, before, after)
		}
	}
	try("a released lease", old)
	current := Acquire(t, s, pipe, watermark.RoleDelta)
	try("an old epoch", old)
	forged := current
	forged.Nonce = old.Nonce
	try("another nonce of the same epoch", forged)
	unknown := old
	unknown.Pipeline = "never-leased"
	if err := s.Renew(ctx, unknown); !errors.Is(err, watermark.ErrFenced) {
		t.Errorf("a lease without a row: %v, want fenced", err)
	}
	if err := s.Renew(ctx, current); err != nil {
		t.Errorf("the holder itself: %v", err)
	}
}

// snapshot is everything that holders of leases can write, as text.
func snapshot(t testing.TB, s watermark.Store) string {
	t.Helper()
	ctx := Context(t)
	out := map[string]any{}
	keep := func(name string, v any, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = v
	}
	p, err := s.Pipelines(ctx)
	keep("pipelines", p, err)
	r, err := s.Runs(ctx, pipe, 100, "")
	keep("runs", r, err)
	l, err := s.LedgerRange(ctx, pipe, "", time.Time{}, time.Time{}, 100)
	keep("ledger", l, err)
	o, err := s.ObjectStates(ctx, pipe)
	keep("objects", o, err)
	i, err := s.PendingIntents(ctx, pipe)
	keep("intents", i, err)
	b, err := s.Rebuilds(ctx, pipe, 100, "")
	keep("rebuilds", b, err)
	bars, err := s.Bars(ctx, pipe)
	keep("bars", bars, err)
	pins, err := s.Pins(ctx, pipe)
	keep("pins", pins, err)
	a, err := s.AuditTrail(ctx, "", 100, 0)
	keep("audit", a, err)
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func cancelledCall(t *testing.T, db Database) {
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	ctx, cancel := context.WithCancelCause(Context(t))
	cancel(fmt.Errorf("run cancelled: %w", watermark.ErrFenced))
	err := s.PlanRun(ctx, l, Planned(l, 1))
	if !errors.Is(err, watermark.ErrFenced) || errors.Is(err, watermark.ErrUnavailable) {
		t.Fatalf("a call whose caller lost the lease: %v, want that cause and no outage", err)
	}
	late, cancel2 := context.WithDeadline(Context(t), time.Now().Add(-time.Second))
	defer cancel2()
	if err := s.PlanRun(late, l, Planned(l, 1)); !errors.Is(err, watermark.ErrUnavailable) {
		t.Fatalf("a call past its deadline: %v, want unavailable", err)
	}
	if err := s.PlanRun(Context(t), l, Planned(l, 1)); err != nil {
		t.Fatalf("the next call: %v", err)
	}
}
