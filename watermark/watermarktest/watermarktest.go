// Package watermarktest is the conformance suite of state stores: whatever
// passes [Run] may hold deltad's leases, watermark and journal.
package watermarktest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/oklog/ulid/v2"
)

// Database is one empty database that a test has to itself.
type Database interface {
	// Open returns a new handle, as another process would have it, and closes
	// it when the test ends. It does not migrate.
	Open(t testing.TB) watermark.Store
	// Exec runs a statement behind the store's back. Statements of the suite
	// are the same in every dialect.
	Exec(t testing.TB, sql string) error
}

// Run runs the suite, its tests side by side; fresh makes an empty database.
func Run(t *testing.T, fresh func(testing.TB) Database) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Database)
	}{
		{"migrate from empty, twice", migrateTwice},
		{"migrate by many at once", migrateAtOnce},
		{"migrate refuses a newer schema", migrateTooNew},
		{"migrate refuses a rewritten step", migrateRewritten},
		{"identity", identity},
		{"lease race has one winner", leaseRace},
		{"lease expires by the database's clock", leaseExpiry},
		{"lease epochs only grow", leaseEpochs},
		{"lease release", leaseRelease},
		{"lease hand-over as a value", leaseHandOver},
		{"lease epoch is raised in place", leaseRaise},
		{"old epoch is fenced from every write", fenceEveryWrite},
		{"pipeline row is made once", pipelineEnsure},
		{"pause and resume", pauseResume},
		{"adopt sets the copy back", adoptCurrent},
		{"run is planned and published", runLifecycle},
		{"publish is idempotent, also concurrently", publishIdempotent},
		{"publish out of order never goes back", publishOutOfOrder},
		{"publish without a plan", publishUnplanned},
		{"publish after a run that is forgotten", publishForgotten},
		{"run ends", runEnds},
		{"runs by page", runPages},
		{"runs and requests are pruned", pruneEnded},
		{"rebuilds are pruned", pruneRebuilds},
		{"partitions are pruned", prunePartitions},
		{"decisions are pruned after 400 days", pruneDecided},
		{"full run", fullRun},
		{"ledger", ledgerEntries},
		{"ledger of a large range", ledgerLarge},
		{"late objects count once", lateObjects},
		{"object failures and skips", objectFailures},
		{"audit is append-only", auditImmutable},
		{"audit by page", auditPages},
		{"intent", intentLifecycle},
		{"intent preconditions", intentPreconditions},
		{"intent is fulfilled by a publication", intentPublished},
		{"requests", requestQueue},
		{"instances", instanceRows},
		{"rebuild", rebuildLifecycle},
		{"rebuild asked for by many at once", rebuildTwoCallers},
		{"scheduled time found due by many at once", scheduleOnce},
		{"schedule state", scheduleState},
		{"rebuild is taken over", rebuildTakenOver},
		{"rebuild is cancelled", rebuildCancelled},
		{"rebuilds by page", rebuildPages},
		{"rebuild is superseded", rebuildSuperseded},
		{"rebuild promoted before a newer one", promotedOlder},
		{"rebuild is approved", rebuildApproved},
		{"rebuild arguments are refused", rebuildArguments},
		{"corrupt rebuilds are refused", corruptRebuilds},
		{"rebuilds, any history", rebuildHistories},
		{"rollback bars", rollbackBars},
		{"rollback fails", rollbackFails},
		{"rollback is refused", rollbackRefused},
		{"pins", pinRows},
		{"configurations in order", configOrder},
		{"configurations registered at once", configAtOnce},
		{"corrupt rows are refused", corruptRows},
		{"invalid arguments are refused", invalidArguments},
		{"text that no database can store", hostileText},
		{"cancelled call says why", cancelledCall},
		{"two holders, any interleaving", twoHolders},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // some of them sleep
			c.test(t, fresh(t))
		})
	}
}

const pipe = "ads"

// base is a partition; at is one n minutes later.
var base = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return base.Add(time.Duration(minutes) * time.Minute) }

// ID is a fresh ULID.
func ID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// Context is a context that ends with the test, or after half a minute.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Migrated opens a handle and migrates.
func Migrated(t testing.TB, db Database) watermark.Store {
	t.Helper()
	s := db.Open(t)
	if _, err := s.Migrate(Context(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// Acquire takes a lease for a minute or fails the test.
func Acquire(t testing.TB, s watermark.Store, pipeline string, role watermark.Role) watermark.Lease {
	t.Helper()
	l, err := s.Acquire(Context(t), pipeline, role, "deltad-a", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Planned is a run of a lease.
func Planned(l watermark.Lease, minutes int) watermark.Run {
	kind := watermark.RunDelta
	if l.Role == watermark.RoleFull {
		kind = watermark.RunFull
	}
	return watermark.Run{
		ID: ID(), Pipeline: l.Pipeline, Kind: kind, ChangeID: ID(), Reason: "publish",
		Parent: watermark.ManifestRef{Key: "manifests/0.json", SHA256: "aa"}, Epoch: l.Epoch, Instance: "deltad-a",
		PreviousWatermark: at(minutes - 1), Watermark: at(minutes), CoverageFrom: at(minutes - 300), ConfigHash: "c1",
		PlannedAt: base,
	}
}

// Published is step 9 of a run at a version of CURRENT.
func Published(r watermark.Run, version int64) watermark.Publication {
	return watermark.Publication{
		Run: r, CurrentVersion: version, Watermark: r.Watermark, Progress: r.Watermark,
		Manifest:  watermark.ManifestRef{Key: "manifests/" + r.ID + ".json", SHA256: "bb"},
		Documents: 12, Counts: []byte(`{"rows": 9007199254740993}`),
	}
}

func mustPublish(t testing.TB, s watermark.Store, l watermark.Lease, p watermark.Publication) watermark.Published {
	t.Helper()
	got, err := s.PublishRun(Context(t), l, p)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func mustPipeline(t testing.TB, s watermark.Store) watermark.Pipeline {
	t.Helper()
	p, err := s.Pipeline(Context(t), pipe)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func change(reason string) watermark.Change {
	return watermark.Change{ID: ID(), Actor: "ann", Reason: reason}
}
