package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/watermarktest"
)

// rebuilder names the database file in the environment of a process that
// rebuilds, promotes and rolls back until it is killed.
const rebuilder = "DELTAD_TEST_SQLITE_REBUILDER"

// stages are what one generation goes through there, each one transaction.
var stages = []string{"queued", "running", "candidate", "promoted", "rolling back", "rolled back", "approved"}

// rebuildUntilKilled prints each stage once it is acknowledged. It takes over
// the rebuild that a killed one left open.
func rebuildUntilKilled(path string) error {
	ctx := context.Background()
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		return err
	}
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	p, err := s.EnsurePipeline(ctx, "ads")
	if err != nil {
		return err
	}
	delta, err := s.Acquire(ctx, "ads", watermark.RoleDelta, "child", time.Millisecond, 0)
	if err != nil {
		return err
	}
	full, err := s.Acquire(ctx, "ads", watermark.RoleFull, "child", time.Millisecond, 0)
	if err != nil {
		return err
	}
	pending, err := s.PendingIntents(ctx, "ads")
	if err != nil {
		return err
	}
	for _, in := range pending {
		if err := s.FinishIntent(ctx, delta, in.ID, watermark.IntentFailed, "its process died"); err != nil {
			return err
		}
	}
	for v := p.CurrentVersion + 1; ; v += 2 {
		if err := generation(ctx, s, delta, full, v); err != nil {
			return err
		}
	}
}

// generation takes one rebuild through all stages.
func generation(ctx context.Context, s watermark.Store, delta, full watermark.Lease, version int64) error {
	r, err := s.OpenRebuild(ctx, "ads")
	if errors.Is(err, watermark.ErrNotFound) {
		r, err = s.CreateRebuild(ctx, watermark.Rebuild{
			ID: watermarktest.ID(), Pipeline: "ads", Cause: watermark.RebuildManual, Actor: "ann", Reason: "x",
		})
	}
	if err != nil {
		return err
	}
	publish := func(version int64, change func(*watermark.Publication)) error {
		pub := watermarktest.Published(watermarktest.Planned(delta, int(version)), version)
		change(&pub)
		_, err := s.PublishRun(ctx, delta, pub)
		return err
	}
	intent := watermark.Intent{
		ID: watermarktest.ID(), Pipeline: "ads", Kind: watermark.IntentRollback, Actor: "ann", Reason: "prices are wrong",
		Pane: watermark.ManifestRef{Key: "manifests/1.json", SHA256: "aa"}, Bar: r.ID,
	}
	for i, do := range []func() error{
		func() error { return nil },
		func() error {
			if _, err := s.StartRebuild(ctx, full, r.ID); err != nil {
				return err
			}
			return s.Pin(ctx, watermark.Pin{Pipeline: "ads", Kind: watermark.PinPane, ID: "x", Owner: watermark.RebuildOwner(r.ID)})
		},
		func() error {
			return s.FinishRebuild(ctx, full, r.ID, watermark.RebuildResult{
				State: watermark.RebuildCandidate, Manifest: watermark.ManifestRef{Key: "full/" + r.ID, SHA256: "ff"},
				ActualCut: time.Unix(1e9, 0), Approved: true,
			})
		},
		func() error { return publish(version, func(p *watermark.Publication) { p.Promoted = r.ID }) },
		func() error {
			p, err := s.Pipeline(ctx, "ads")
			if err != nil {
				return err
			}
			_, err = s.CreateIntent(ctx, intent, p.Version)
			return err
		},
		func() error { return publish(version+1, func(p *watermark.Publication) { p.Intent = intent.ID }) },
		func() error {
			_, err := s.ApproveRebuild(ctx, "ads", r.ID, nil, watermark.Change{ID: watermarktest.ID(), Actor: "ann", Reason: "they were right"})
			return err
		},
	} {
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", stages[i], err)
		}
		fmt.Printf("%d %s\n", i, r.ID)
	}
	return nil
}

// stage is where a generation stands by what the file says, which must fit
// together.
func stage(ctx context.Context, s watermark.Store, id string) (int, error) {
	r, err := s.RebuildByID(ctx, id)
	if err != nil {
		return 0, err
	}
	bars, err := s.Bars(ctx, "ads")
	if err != nil {
		return 0, err
	}
	pending, err := s.PendingIntents(ctx, "ads")
	if err != nil {
		return 0, err
	}
	pins, err := s.Pins(ctx, "ads")
	if err != nil {
		return 0, err
	}
	// Rollbacks of killed processes leave their bars.
	barred, raised := false, map[string]bool{}
	for _, b := range bars {
		barred = barred || b.Generation == id
		raised[b.Intent] = true
	}
	for _, p := range pins {
		if p.Owner == watermark.RebuildOwner(id) && r.State != watermark.RebuildRunning {
			return 0, fmt.Errorf("it is %s and holds a pin", r.State)
		}
	}
	if len(pending) > 1 || len(pending) == 1 && !raised[pending[0].ID] {
		return 0, fmt.Errorf("intents %+v beside bars %+v", pending, bars)
	}
	switch {
	case r.State == watermark.RebuildQueued:
		return 0, nil
	case r.State == watermark.RebuildRunning:
		return 1, nil
	case r.State == watermark.RebuildCandidate && r.PromotedBy == "" && !barred:
		return 2, nil
	case r.State == watermark.RebuildPromoted && !barred:
		return 3, nil
	case r.State == watermark.RebuildPromoted && len(pending) == 1:
		return 4, nil
	case r.State == watermark.RebuildPromoted:
		return 5, nil
	case r.State == watermark.RebuildCandidate && r.Approved && !barred:
		return 6, nil
	}
	return 0, fmt.Errorf("it is %s, barred %v", r.State, barred)
}

// TestKilledInARebuild kills a process between and inside the transactions of
// a rebuild, its promotion and its rollback. What was acknowledged is there, at
// most the one after it is too, and nothing is half there: no bar without its
// rollback, no pin without its rebuild. The next process goes on from it.
func TestKilledInARebuild(t *testing.T) {
	ctx := watermarktest.Context(t)
	f := fresh(t).(file)
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), rebuilder+"="+f.path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acked, id := -1, ""
		lines := bufio.NewScanner(out)
		timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		for n := 0; lines.Scan(); n++ {
			if _, err := fmt.Sscanf(strings.TrimSpace(lines.Text()), "%d %s", &acked, &id); err != nil {
				t.Fatal(err)
			}
			if n == 1+round { // each round in another stage
				time.AfterFunc(time.Duration(round)*time.Millisecond, func() { _ = cmd.Process.Kill() })
			}
		}
		timer.Stop()
		_ = cmd.Wait() // killed: its status says nothing
		s := f.Open(t)
		got, err := stage(ctx, s, id)
		if err != nil || got < acked || got > acked+1 {
			t.Fatalf("round %d: %s was acknowledged, it is at %d (%v)", round, stages[acked], got, err)
		}
		all, err := s.Rebuilds(ctx, "ads", 100, "")
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		for _, r := range all {
			if r.State == watermark.RebuildQueued || r.State == watermark.RebuildRunning {
				open++
			}
		}
		if open > 1 {
			t.Fatalf("round %d: %d rebuilds are open", round, open)
		}
	}
}
