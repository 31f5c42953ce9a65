package watermarktest

import (
	"errors"
	"testing"

	"github.com/deltad/deltad/watermark"
	"golang.org/x/sync/errgroup"
)

func pipelineEnsure(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	if _, err := s.Pipeline(ctx, pipe); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("before: %v, want not found", err)
	}
	var g errgroup.Group
	for range 8 {
		g.Go(func() error { _, err := s.EnsurePipeline(ctx, pipe); return err })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	p := mustPipeline(t, s)
	if p.Version != 1 || !p.Watermark.IsZero() || !p.Progress.IsZero() || p.Paused || p.Source != "" || p.UpdatedAt.IsZero() {
		t.Fatalf("a new row is %+v", p)
	}
	if _, err := s.EnsurePipeline(ctx, "beta"); err != nil {
		t.Fatal(err)
	}
	all, err := s.Pipelines(ctx)
	if err != nil || len(all) != 2 || all[0].Name != pipe || all[1].Name != "beta" {
		t.Fatalf("all rows: %+v, %v", all, err)
	}
}

func pauseResume(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	c := change("the producer is broken")
	p, err := s.Pause(ctx, pipe, c)
	if err != nil || !p.Paused || p.PauseReason != c.Reason || p.PausedBy != "ann" || p.PausedAt.IsZero() || p.Version != 2 {
		t.Fatalf("paused: %+v, %v", p, err)
	}
	if again, err := s.Pause(ctx, pipe, c); err != nil || again != p {
		t.Fatalf("the same pause again: %+v, %v; want no change from %+v", again, err, p)
	}
	r := change("repaired")
	p, err = s.Resume(ctx, pipe, r)
	if err != nil || p.Paused || p.PauseReason != "" || p.PausedBy != "" || !p.PausedAt.IsZero() || p.Version != 3 {
		t.Fatalf("resumed: %+v, %v", p, err)
	}
	// A pause that is told again after the resume must not pause again.
	if late, err := s.Pause(ctx, pipe, c); err != nil || late.Paused {
		t.Fatalf("a late repetition of the pause: %+v, %v", late, err)
	}
	trail, err := s.AuditTrail(ctx, pipe, 10, 0)
	if err != nil || len(trail) != 2 || trail[0].Action != "resume" || trail[1].Action != "pause" || trail[1].Reason != c.Reason {
		t.Fatalf("audit: %+v, %v", trail, err)
	}
}

func adoptCurrent(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	pub := Published(Planned(l, 5), 1000)
	pub.Ledger = []watermark.LedgerEntry{{Partition: at(5), State: "covered", Fingerprint: "old"}}
	mustPublish(t, s, l, pub)
	before := mustPipeline(t, s)
	cur := watermark.CurrentCopy{
		Version: 3, RunID: ID(), Watermark: at(2), Progress: at(1),
		Manifest: watermark.ManifestRef{Key: "manifests/3.json", SHA256: "dd"}, ConfigHash: "c9",
	}
	c := change("a new output")
	p, err := s.AdoptCurrent(ctx, l, cur, c)
	if err != nil || p.CurrentVersion != 3 || !p.Watermark.Equal(at(2)) || !p.Progress.Equal(at(1)) ||
		p.RunID != cur.RunID || p.Manifest != cur.Manifest || p.ConfigHash != "c9" || p.Version != before.Version+1 {
		t.Fatalf("adopted: %+v, %v", p, err)
	}
	if again, err := s.AdoptCurrent(ctx, l, cur, c); err != nil || again != p {
		t.Fatalf("again: %+v, %v; want no change", again, err)
	}
	// Publications go on from there, and so do ledger entries.
	next := Published(Planned(l, 3), 4)
	next.Ledger = []watermark.LedgerEntry{{Partition: at(5), State: "covered", Fingerprint: "new"}}
	mustPublish(t, s, l, next)
	if p := mustPipeline(t, s); p.CurrentVersion != 4 || !p.Watermark.Equal(at(3)) {
		t.Fatalf("after the next publication: %+v", p)
	}
	entries, err := s.LedgerRange(ctx, pipe, "", at(0), at(9), 10)
	if err != nil || len(entries) != 1 || entries[0].Fingerprint != "new" {
		t.Fatalf("ledger: %+v, %v", entries, err)
	}
	trail, err := s.AuditTrail(ctx, pipe, 10, 0)
	if err != nil || len(trail) != 1 || trail[0].Action != "adopt" || trail[0].Reason != "a new output" {
		t.Fatalf("audit: %+v, %v", trail, err)
	}
}
