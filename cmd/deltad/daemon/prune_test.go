package daemon

import (
	"testing"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/watermark"
)

// TestB38StateStoreIsBounded enters more daily partitions than go at a time behind a
// live pane: one pruning leaves what lists and reports need, in many
// transactions, and the next finds nothing.
func TestB38StateStoreIsBounded(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	a, err := Open(t.Context(), r.config, Options{Mem: r.stores})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	p := a.Pipes[0]
	l, err := a.State.Acquire(t.Context(), p.Config.Name, watermark.RoleDelta, "a", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := a.prune(t.Context(), p, l); err != nil || gone.Most() != 0 {
		t.Fatalf("before the first pane: %+v, %v", gone, err)
	}
	now := time.Now().UTC().Truncate(time.Minute)
	coverage := now.Add(-10 * time.Minute)
	run := watermark.Run{
		ID: a.NewID(), Pipeline: p.Config.Name, Kind: watermark.RunDelta, ChangeID: a.NewID(), Reason: "publish", Epoch: l.Epoch,
		Instance: "a", Watermark: now, CoverageFrom: coverage, PlannedAt: now,
	}
	if err := a.State.PlanRun(t.Context(), l, run); err != nil {
		t.Fatal(err)
	}
	pub := watermark.Publication{Run: run, CurrentVersion: 1, Watermark: now, Progress: now, Manifest: watermark.ManifestRef{Key: "m", SHA256: "s"}}
	if _, err := a.State.PublishRun(t.Context(), l, pub); err != nil {
		t.Fatal(err)
	}
	const days, batch = 600, 100
	for d := 0; d < days; d += batch {
		var lines []watermark.LedgerEntry
		for i := range batch {
			lines = append(lines, watermark.LedgerEntry{Partition: now.AddDate(0, 0, -d-i), State: partition.Covered.String()})
		}
		if err := a.State.UpsertLedger(t.Context(), l, lines); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := a.prune(t.Context(), p, l)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := a.State.LedgerRange(t.Context(), p.Config.Name, "", time.Time{}, time.Time{}, 2*days)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 35 || len(lines) > 36 || gone.Ledger != int64(days-len(lines)) {
		t.Errorf("%d lines are left and %d went, want those of 35 days", len(lines), gone.Ledger)
	}
	if gone, err := a.prune(t.Context(), p, l); err != nil || gone.Most() != 0 {
		t.Errorf("a second time: %+v, %v", gone, err)
	}
	if _, err := a.State.LatestPublished(t.Context(), p.Config.Name); err != nil {
		t.Error(err)
	}
}
