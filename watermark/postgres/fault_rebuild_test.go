//go:build integration

package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/watermarktest"
)

// TestB34RebuildCommitWithoutAnswer loses the answer of each COMMIT in the life
// of a base, from its queueing over its promotion to its rollback: each is done
// once, and each answer is right.
func TestB34RebuildCommitWithoutAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		v    verdict
	}{{"after the server committed", cutAfter}, {"before the server saw it", cutBefore}} {
		t.Run(c.name, func(t *testing.T) {
			ctx := watermarktest.Context(t)
			b := newBase(t, nil)
			direct := watermarktest.Migrated(t, b)
			p := newProxy(t, b.url)
			s := b.at(t, p.dsn)
			delta := watermarktest.Acquire(t, direct, "ads", watermark.RoleDelta)
			full := watermarktest.Acquire(t, direct, "ads", watermark.RoleFull)
			lose := func(what string, call func() error) {
				t.Helper()
				hits := p.once("commit\x00", c.v)
				if err := call(); err != nil || hits.Load() < 2 {
					t.Fatalf("%s: %v after %d commits; want a second look", what, err, hits.Load())
				}
			}
			due := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
			r := watermark.Rebuild{ID: watermarktest.ID(), Pipeline: "ads", Cause: watermark.RebuildSchedule, Due: due}
			lose("create", func() error { _, err := s.CreateRebuild(ctx, r); return err })
			// Skipped by a transaction that answers with an error.
			next := watermark.Rebuild{ID: watermarktest.ID(), Pipeline: "ads", Cause: watermark.RebuildSchedule, Due: due.AddDate(0, 0, 1)}
			lose("skip", func() error {
				_, err := s.CreateRebuild(ctx, next)
				var open *watermark.RebuildOpenError
				if errors.As(err, &open) && open.ID == r.ID {
					return nil
				}
				return errors.Join(errors.New("the open one is not named"), err)
			})
			lose("start", func() error { _, err := s.StartRebuild(ctx, full, r.ID); return err })
			pin := watermark.Pin{Pipeline: "ads", Kind: watermark.PinBase, ID: watermarktest.ID(), Owner: "ann", Reason: "x"}
			lose("pin", func() error { return s.Pin(ctx, pin) })
			lose("unpin", func() error { return s.Unpin(ctx, "ads", pin.Kind, pin.ID, "ann") })
			lose("finish", func() error {
				return s.FinishRebuild(ctx, full, r.ID, watermark.RebuildResult{
					State: watermark.RebuildCandidate, Manifest: watermark.ManifestRef{Key: "full/x", SHA256: "ff"}, ActualCut: due, Approved: true,
				})
			})
			lose("promote", func() error {
				pub := watermarktest.Published(watermarktest.Planned(delta, 1), 7)
				pub.Promoted = r.ID
				out, err := s.PublishRun(ctx, delta, pub)
				if out.Already {
					return errors.New("it says that an earlier call did it")
				}
				return err
			})
			in := watermark.Intent{
				ID: watermarktest.ID(), Pipeline: "ads", Kind: watermark.IntentRollback, Actor: "ann", Reason: "prices are wrong",
				Pane: watermark.ManifestRef{Key: "manifests/1.json", SHA256: "aa"}, Bar: r.ID, Pause: true,
			}
			lose("rollback", func() error { _, err := s.CreateIntent(ctx, in, 2); return err })
			lose("its failure", func() error { return s.FinishIntent(ctx, delta, in.ID, watermark.IntentFailed, "the pane is gone") })
			lose("register", func() error { _, _, err := s.RegisterConfig(ctx, "ads", "a", "h1"); return err })
			lose("schedule", func() error { _, _, err := s.ScheduleState(ctx, "ads", "0 3 * * *"); return err })

			got, err := direct.RebuildByID(ctx, r.ID)
			if err != nil || got.State != watermark.RebuildPromoted {
				t.Fatalf("rebuild %+v, %v", got, err)
			}
			if skipped, err := direct.RebuildByID(ctx, next.ID); err != nil || skipped.State != watermark.RebuildSkipped {
				t.Fatalf("the next time: %+v, %v", skipped, err)
			}
			if bars, err := direct.Bars(ctx, "ads"); err != nil || len(bars) != 0 {
				t.Fatalf("bars %+v, %v", bars, err)
			}
			row, err := direct.Pipeline(ctx, "ads")
			if err != nil || row.Version != 3 || !row.Paused {
				t.Fatalf("row %+v, %v; want one change by the promotion and one by the rollback", row, err)
			}
			trail, err := direct.AuditTrail(ctx, "ads", 10, 0)
			if err != nil || len(trail) != 4 {
				t.Fatalf("audit: %+v, %v; want pin, unpin, rollback and its failure once each", trail, err)
			}
		})
	}
}
