package watermarktest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
)

// passing waits until what was written before has a measurable age.
func passing() { time.Sleep(20 * time.Millisecond) }

// brief is an age that everything written before passing has.
const brief = 10 * time.Millisecond

func mustPrune(t *testing.T, s watermark.Store, l watermark.Lease, k watermark.Keep, limit int) watermark.Pruned {
	t.Helper()
	out, err := s.Prune(Context(t), l, k, limit)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pruneEnded(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	for v := range 5 {
		mustPublish(t, s, l, Published(Planned(l, v), int64(v+1)))
	}
	if err := s.PlanRun(ctx, l, Planned(l, 9)); err != nil {
		t.Fatal(err)
	}
	done := watermark.Request{ID: ID(), Pipeline: pipe, Kind: "gc", Actor: "ann"}
	open := watermark.Request{ID: ID(), Pipeline: pipe, Kind: "gc", Actor: "ann"}
	other := watermark.Request{ID: ID(), Pipeline: "other", Kind: "gc", Actor: "ann"}
	for _, r := range []watermark.Request{done, open, other} {
		if err := s.Enqueue(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.FinishRequest(ctx, l, done.ID, watermark.RequestDone, nil); err != nil {
		t.Fatal(err)
	}
	passing()
	for _, k := range []watermark.Keep{{}, {Ended: time.Hour}, {Decided: watermark.AuditKept}} {
		if out := mustPrune(t, s, l, k, 100); out.Most() != 0 {
			t.Fatalf("%+v forgot %+v", k, out)
		}
	}
	if out := mustPrune(t, s, l, watermark.Keep{Ended: brief}, 3); out != (watermark.Pruned{Runs: 3, Requests: 1}) {
		t.Fatalf("pruned %+v; want the limit of 3 runs and the request that is done", out)
	}
	if out := mustPrune(t, s, l, watermark.Keep{Ended: brief}, 100); out != (watermark.Pruned{Runs: 1}) {
		t.Fatalf("pruned %+v; want 1 run, all but the latest", out)
	}
	runs, err := s.Runs(ctx, pipe, 10, "")
	if err != nil || len(runs) != 2 {
		t.Fatalf("left: %+v, %v; want the planned and the latest published run", runs, err)
	}
	if latest, err := s.LatestPublished(ctx, pipe); err != nil || latest.CurrentVersion != 5 {
		t.Fatalf("latest published: %+v, %v", latest, err)
	}
	for id, want := range map[string]error{done.ID: watermark.ErrNotFound, open.ID: nil, other.ID: nil} {
		if _, err := s.RequestByID(ctx, id); !errors.Is(err, want) {
			t.Errorf("request %s: %v, want %v", id, err, want)
		}
	}
}

// pruneRebuilds: of the rebuilds that are over those go that nothing can go
// back to and no schedule stands on.
func pruneRebuilds(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	d, f := Acquire(t, s, pipe, watermark.RoleDelta), Acquire(t, s, pipe, watermark.RoleFull)
	var made []string
	for v := range watermark.PromotedKept + 4 {
		r := rebuilt(t, s, f, watermark.RebuildCandidate, true)
		promoted(t, s, d, r.ID, int64(v+1))
		made = append(made, r.ID)
	}
	pin := watermark.Pin{Pipeline: pipe, Kind: watermark.PinBase, ID: made[1], Owner: "ann", Reason: "to compare with"}
	if err := s.Pin(ctx, pin); err != nil {
		t.Fatal(err)
	}
	old := mustCreate(t, s, scheduled(at(1)))
	var skipped []string
	for minute := 2; minute < 5; minute++ {
		r := scheduled(at(minute))
		if _, err := s.CreateRebuild(ctx, r); !errors.Is(err, watermark.ErrConflict) {
			t.Fatalf("a scheduled time while another is open: %v", err)
		}
		skipped = append(skipped, r.ID)
	}
	if _, err := s.CancelRebuild(ctx, old.ID, change("not wanted")); err != nil {
		t.Fatal(err)
	}
	held := rebuilt(t, s, f, watermark.RebuildHeld, false)
	open := mustCreate(t, s, manual())
	passing()
	if out := mustPrune(t, s, d, watermark.Keep{Ended: time.Hour}, 100); out.Rebuilds != 0 {
		t.Fatalf("young ones: pruned %+v", out)
	}
	// The first, third and fourth that were promoted, the time that was called
	// off, and two of those that were skipped.
	for _, want := range []int64{4, 2, 0} {
		if out := mustPrune(t, s, d, watermark.Keep{Ended: brief}, 4); out.Rebuilds != want {
			t.Fatalf("pruned %+v, want %d rebuilds", out, want)
		}
	}
	gone := map[string]bool{made[0]: true, made[2]: true, made[3]: true, old.ID: true, skipped[0]: true, skipped[1]: true}
	for _, id := range append(append(made, skipped...), old.ID, held.ID, open.ID) {
		if _, err := s.RebuildByID(ctx, id); errors.Is(err, watermark.ErrNotFound) != gone[id] {
			t.Errorf("rebuild %s: %v, want it gone: %t", id, err, gone[id])
		}
	}
	if due, _, err := s.ScheduleState(ctx, pipe, "0 3 * * *"); err != nil || !due.Equal(at(4)) {
		t.Errorf("the newest scheduled time is %s, %v; want %s", due, err, at(4))
	}
	if err := s.Unpin(ctx, pipe, pin.Kind, pin.ID, pin.Owner); err != nil {
		t.Fatal(err)
	}
	if out := mustPrune(t, s, d, watermark.Keep{Ended: brief}, 100); out.Rebuilds != 1 {
		t.Errorf("without the pin: pruned %+v, want 1 rebuild", out)
	}
}

// prunePartitions: what is about a partition goes only where it is neither
// needed nor young, by either of which it stays.
func prunePartitions(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	long := base.AddDate(-2, 0, 0)
	past := func(minutes int) time.Time { return long.Add(time.Duration(minutes) * time.Minute) }
	pub := Published(Planned(l, 1), 1)
	for i := range 10 {
		pub.Ledger = append(pub.Ledger, watermark.LedgerEntry{Partition: past(i), State: []string{"covered", "never_covered"}[i%2]})
		pub.Late = append(pub.Late, watermark.LateObject{Key: fmt.Sprint("late", i), ETag: "e", Partition: past(i)})
	}
	mustPublish(t, s, l, pub)
	if _, err := s.RecordFailures(ctx, l, ID(), []watermark.ObjectFailure{{Key: "bad", ETag: "1", Error: "x"}, {Key: "skipped", ETag: "1", Error: "x"}}, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.SkipObject(ctx, pipe, watermark.ObjectRef{Key: "skipped", ETag: "1"}, change("cannot be mended")); err != nil {
		t.Fatal(err)
	}
	passing()
	left := func() (ledger, late int64) {
		t.Helper()
		lines, err := s.LedgerRange(ctx, pipe, "", time.Time{}, time.Time{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		late, err = s.CountLate(ctx, pipe)
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(lines)), late
	}
	for _, k := range []watermark.Keep{
		{Ended: brief}, // without a bound on partitions
		{Partitions: past(100)},
		{Partitions: past(100), Ended: 5 * 365 * 24 * time.Hour},
		{Partitions: past(-1), Ended: brief},
	} {
		if out := mustPrune(t, s, l, k, 100); out.Most() != 0 {
			t.Fatalf("%+v forgot %+v", k, out)
		}
	}
	// What was found, failed and skipped just now is younger than past(5), so
	// only the ledger goes, from its oldest end and in every state.
	if out := mustPrune(t, s, l, watermark.Keep{Partitions: past(5), Ended: brief}, 4); out != (watermark.Pruned{Ledger: 4}) {
		t.Fatalf("pruned %+v, want the limit of 4 lines", out)
	}
	if out := mustPrune(t, s, l, watermark.Keep{Partitions: past(5), Ended: brief}, 4); out != (watermark.Pruned{Ledger: 2}) {
		t.Fatalf("pruned %+v, want 2 lines up to the bound", out)
	}
	oldest, err := s.LedgerRange(ctx, pipe, "", time.Time{}, time.Time{}, 1)
	if err != nil || !oldest[0].Partition.Equal(past(6)) {
		t.Fatalf("the oldest line is %+v, %v; want the one after the bound", oldest, err)
	}
	if ledger, late := left(); ledger != 4 || late != 10 {
		t.Fatalf("%d lines and %d late objects are left, want 4 and 10", ledger, late)
	}
	// With a bound that has passed them, those go too.
	if out := mustPrune(t, s, l, watermark.Keep{Partitions: time.Now().Add(time.Hour), Ended: brief}, 100); out.Ledger != 4 || out.Late != 10 || out.Objects != 2 {
		t.Fatalf("pruned %+v", out)
	}
	if states, err := s.ObjectStates(ctx, pipe); err != nil || len(states) != 0 {
		t.Fatalf("objects left: %+v, %v", states, err)
	}
}

// pruneDecided: the audit trail loses what is older than 400 days and nothing
// else, whoever deletes.
func pruneDecided(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	mustPublish(t, s, l, Published(Planned(l, 5), 7))
	p, err := s.Pause(ctx, pipe, change("to reset it"))
	if err != nil {
		t.Fatal(err)
	}
	in := watermark.Intent{ID: ID(), Pipeline: pipe, Target: at(1), Digest: "d1", Actor: "ann", Reason: "bad data since 10:01"}
	if _, err := s.CreateIntent(ctx, in, p.Version); err != nil {
		t.Fatal(err)
	}
	if err := s.FinishIntent(ctx, l, in.ID, watermark.IntentFailed, "x"); err != nil {
		t.Fatal(err)
	}
	trail, err := s.AuditTrail(ctx, "", 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	young := len(trail)
	// Instants are text in one dialect and microseconds in the other.
	for _, of := range []string{pipe, "", "other"} {
		insert := `INSERT INTO deltad_audit (id, at, actor, action, pipeline, reason) VALUES ('` + ID() + `', %s, 'ann', 'pause', '` + of + `', 'long ago')`
		if db.Exec(t, fmt.Sprintf(insert, "1577836800000000")) != nil {
			if err := db.Exec(t, fmt.Sprintf(insert, "'2020-01-01T00:00:00Z'")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Prune(ctx, l, watermark.Keep{Decided: watermark.AuditKept - time.Hour}, 100); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("less than 400 days: %v, want a refusal", err)
	}
	if out := mustPrune(t, s, l, watermark.Keep{Decided: watermark.AuditKept}, 100); out != (watermark.Pruned{Audit: 2}) {
		t.Fatalf("pruned %+v; want the old entries of this pipeline and of none", out)
	}
	if trail, err = s.AuditTrail(ctx, "", 100, 0); err != nil || len(trail) != young+1 || trail[0].Pipeline != "other" {
		t.Fatalf("%d entries, %v; want %d and that of the other pipeline", len(trail), err, young)
	}
	if _, err := s.IntentByID(ctx, in.ID); err != nil {
		t.Fatalf("the intent of today: %v", err)
	}
}
