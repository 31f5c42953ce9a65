package watermarktest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"golang.org/x/sync/errgroup"
)

// manual is a rebuild that a person asks for, scheduled one that is due.
func manual() watermark.Rebuild {
	return watermark.Rebuild{ID: ID(), Pipeline: pipe, Cause: watermark.RebuildManual, Actor: "ann", Reason: "a new field"}
}

func scheduled(due time.Time) watermark.Rebuild {
	return watermark.Rebuild{ID: ID(), Pipeline: pipe, Cause: watermark.RebuildSchedule, Due: due}
}

func mustCreate(t testing.TB, s watermark.Store, r watermark.Rebuild) watermark.Rebuild {
	t.Helper()
	got, err := s.CreateRebuild(Context(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func mustRebuild(t testing.TB, s watermark.Store, id string) watermark.Rebuild {
	t.Helper()
	got, err := s.RebuildByID(Context(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func made(id string, state watermark.RebuildState) watermark.RebuildResult {
	return watermark.RebuildResult{
		State: state, Manifest: watermark.ManifestRef{Key: "full/" + id + "/manifest.json", SHA256: "ff"},
		ActualCut: at(3), Documents: 1234, Rows: 1 << 41, Checks: []byte(`[{"name":"documents","ok":true,"live":9007199254740993}]`),
	}
}

// rebuilt goes the whole way from the queue to an end, and returns what the
// store has then.
func rebuilt(t testing.TB, s watermark.Store, f watermark.Lease, state watermark.RebuildState, approved bool) watermark.Rebuild {
	t.Helper()
	r := mustCreate(t, s, manual())
	if _, err := s.StartRebuild(Context(t), f, r.ID); err != nil {
		t.Fatal(err)
	}
	res := made(r.ID, state)
	res.Approved = approved
	if err := s.FinishRebuild(Context(t), f, r.ID, res); err != nil {
		t.Fatal(err)
	}
	return mustRebuild(t, s, r.ID)
}

// promoted is step 9 of a run that made a generation the base.
func promoted(t testing.TB, s watermark.Store, d watermark.Lease, generation string, version int64) watermark.Publication {
	t.Helper()
	p := Published(Planned(d, int(version)), version)
	p.Run.Reason = "promote"
	p.Promoted = generation
	mustPublish(t, s, d, p)
	return p
}

func states(t testing.TB, s watermark.Store, ids ...string) string {
	t.Helper()
	var out []string
	for _, id := range ids {
		out = append(out, string(mustRebuild(t, s, id).State))
	}
	return strings.Join(out, " ")
}

func rebuildLifecycle(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	if _, err := s.OpenRebuild(ctx, pipe); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("open of none: %v", err)
	}
	r := manual()
	r.Cut = at(2)
	got := mustCreate(t, s, r)
	if again := mustCreate(t, s, r); again.ID != r.ID || !again.CreatedAt.Equal(got.CreatedAt) {
		t.Fatalf("again: %+v, want %+v", again, got)
	}
	if got.State != watermark.RebuildQueued || got.Pipeline != pipe || got.Cause != "manual" || !got.Cut.Equal(at(2)) || !got.Due.IsZero() ||
		got.Actor != "ann" || got.Reason != "a new field" || got.CreatedAt.IsZero() || !got.StartedAt.IsZero() || got.Approved ||
		got.Manifest != (watermark.ManifestRef{}) || len(got.Overrides) != 0 || string(got.Checks) != "[]" {
		t.Fatalf("queued: %+v", got)
	}
	other := r
	other.Cut = at(3)
	if _, err := s.CreateRebuild(ctx, other); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("another under the same id: %v, want a conflict", err)
	}
	f := Acquire(t, s, pipe, watermark.RoleFull)
	started, err := s.StartRebuild(ctx, f, r.ID)
	if err != nil || started.State != watermark.RebuildRunning || started.Instance != "deltad-a" || started.Epoch != f.Epoch || started.StartedAt.IsZero() {
		t.Fatalf("started: %+v, %v", started, err)
	}
	if again, err := s.StartRebuild(ctx, f, r.ID); err != nil || !again.StartedAt.Equal(started.StartedAt) {
		t.Fatalf("started again: %+v, %v", again, err)
	}
	if cancel, err := s.ProgressRebuild(ctx, f, r.ID, watermark.RebuildProgress{Phase: "read", Done: 3, Total: 9, Rows: 1 << 40}); cancel || err != nil {
		t.Fatalf("progress: %v, %v", cancel, err)
	}
	if open, err := s.OpenRebuild(ctx, pipe); err != nil || open.ID != r.ID || open.Phase != "read" || open.Done != 3 || open.Total != 9 || open.Rows != 1<<40 {
		t.Fatalf("open: %+v, %v", open, err)
	}
	res := made(r.ID, watermark.RebuildCandidate)
	for range 2 {
		if err := s.FinishRebuild(ctx, f, r.ID, res); err != nil {
			t.Fatal(err)
		}
	}
	end := mustRebuild(t, s, r.ID)
	var check []struct{ Live json.Number }
	if err := json.Unmarshal(end.Checks, &check); err != nil || len(check) != 1 || check[0].Live != "9007199254740993" {
		t.Fatalf("checks came back as %s (%v)", end.Checks, err)
	}
	if end.State != watermark.RebuildCandidate || end.Manifest != res.Manifest || !end.ActualCut.Equal(at(3)) || end.Documents != 1234 ||
		end.Approved || end.FinishedAt.IsZero() || end.Epoch != f.Epoch {
		t.Fatalf("finished: %+v", end)
	}
	if end.Phase != watermark.PhaseDone || end.Done != 0 || end.Total != 0 || end.Rows != 1<<41 {
		t.Errorf("finished: phase %q, %d of %d, %d rows", end.Phase, end.Done, end.Total, end.Rows)
	}
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"another end", s.FinishRebuild(ctx, f, r.ID, made(r.ID, watermark.RebuildHeld)), watermark.ErrConflict},
		{"another manifest", s.FinishRebuild(ctx, f, r.ID, made(ID(), watermark.RebuildCandidate)), watermark.ErrConflict},
		{"start of an ended one", func() error { _, err := s.StartRebuild(ctx, f, r.ID); return err }(), watermark.ErrConflict},
		{"progress of an ended one", func() error {
			_, err := s.ProgressRebuild(ctx, f, r.ID, watermark.RebuildProgress{})
			return err
		}(), watermark.ErrConflict},
		{"start of none", func() error { _, err := s.StartRebuild(ctx, f, ID()); return err }(), watermark.ErrNotFound},
		{"end of none", s.FinishRebuild(ctx, f, ID(), res), watermark.ErrNotFound},
		{"id of none", func() error { _, err := s.RebuildByID(ctx, ID()); return err }(), watermark.ErrNotFound},
		{"cancel of none", func() error { _, err := s.CancelRebuild(ctx, ID(), change("x")); return err }(), watermark.ErrNotFound},
		{"approval in another pipeline", func() error {
			_, err := s.ApproveRebuild(ctx, "other", r.ID, nil, change("x"))
			return err
		}(), watermark.ErrNotFound},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	trail, err := s.AuditTrail(ctx, pipe, 10, 0)
	if err != nil || len(trail) != 1 || trail[0].Action != "rebuild" || trail[0].Actor != "ann" || trail[0].ID != r.ID {
		t.Fatalf("audit: %+v, %v", trail, err)
	}
}

// rebuildTwoCallers queues from many places at once: one is queued, and the
// others learn which.
func rebuildTwoCallers(t *testing.T, db Database) {
	handles := []watermark.Store{Migrated(t, db), Migrated(t, db)}
	var g errgroup.Group
	ids, errs := make([]string, 8), make([]error, 8)
	for i := range ids {
		g.Go(func() error {
			r := manual()
			ids[i] = r.ID
			_, errs[i] = handles[i%2].CreateRebuild(Context(t), r)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	open, err := handles[0].OpenRebuild(Context(t), pipe)
	if err != nil {
		t.Fatal(err)
	}
	won := 0
	for i, err := range errs {
		var busy *watermark.RebuildOpenError
		switch {
		case err == nil && ids[i] == open.ID:
			won++
		case !errors.As(err, &busy) || busy.ID != open.ID || !errors.Is(err, watermark.ErrConflict):
			t.Errorf("caller %d: %v, want the id %s of the open one", i, err, open.ID)
		}
	}
	if won != 1 {
		t.Fatalf("%d callers queued one, want one", won)
	}
	all, err := handles[0].Rebuilds(Context(t), pipe, 10, "")
	if err != nil || len(all) != 1 {
		t.Fatalf("rebuilds: %+v, %v; want the one that was queued", all, err)
	}
	if trail, err := handles[0].AuditTrail(Context(t), pipe, 20, 0); err != nil || len(trail) != 1 {
		t.Fatalf("audit: %+v, %v; want that of the one", trail, err)
	}
}

// scheduleOnce lets any number of callers find one scheduled time due: it runs
// once, or is skipped once, and never comes back.
func scheduleOnce(t *testing.T, db Database) {
	ctx := Context(t)
	handles := []watermark.Store{Migrated(t, db), Migrated(t, db)}
	s := handles[0]
	due := func(minutes int) string {
		var g errgroup.Group
		got := make([]watermark.Rebuild, 6)
		for i := range got {
			g.Go(func() (err error) {
				got[i], err = handles[i%2].CreateRebuild(ctx, scheduled(at(minutes)))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			if r.ID != got[0].ID || !r.Due.Equal(at(minutes)) || r.Actor != "deltad" {
				t.Fatalf("one caller got %+v, another %+v", r, got[0])
			}
		}
		return got[0].ID
	}
	first := due(10)
	if got := mustRebuild(t, s, first); got.State != watermark.RebuildQueued {
		t.Fatalf("due: %+v", got)
	}
	// The next time comes while it is open.
	late := scheduled(at(20))
	_, err := s.CreateRebuild(ctx, late)
	var busy *watermark.RebuildOpenError
	if !errors.As(err, &busy) || busy.ID != first || busy.Pipeline != pipe {
		t.Fatalf("due while one is open: %v", err)
	}
	if skipped := mustRebuild(t, s, late.ID); skipped.State != watermark.RebuildSkipped || !strings.Contains(skipped.Error, first) || skipped.FinishedAt.IsZero() {
		t.Fatalf("skipped: %+v", skipped)
	}
	if again, err := s.CreateRebuild(ctx, late); err != nil || again.State != watermark.RebuildSkipped {
		t.Fatalf("the skipped one again: %+v, %v", again, err)
	}
	if _, err := s.CreateRebuild(ctx, manual()); !errors.As(err, &busy) || busy.ID != first {
		t.Fatalf("a manual one while one is open: %v", err)
	}
	if _, err := s.CancelRebuild(ctx, first, change("not now")); err != nil {
		t.Fatal(err)
	}
	// Neither comes back now that nothing is open.
	for minutes, want := range map[int]string{10: first, 20: late.ID} {
		if got := due(minutes); got != want {
			t.Errorf("minute %d is rebuild %s, want %s", minutes, got, want)
		}
	}
	if _, err := s.OpenRebuild(ctx, pipe); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("open: %v", err)
	}
	if trail, err := s.AuditTrail(ctx, pipe, 20, 0); err != nil || len(trail) != 1 || trail[0].Action != "rebuild-cancel" {
		t.Fatalf("audit: %+v, %v; a schedule is no person", trail, err)
	}
}

func scheduleState(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	state := func(schedule string) (last, since time.Time) {
		t.Helper()
		time.Sleep(2 * time.Millisecond) // SQLite's clock counts milliseconds
		last, since, err := s.ScheduleState(ctx, pipe, schedule)
		if err != nil {
			t.Fatal(err)
		}
		return last, since
	}
	last, since := state("0 3 * * *")
	if !last.IsZero() || since.IsZero() {
		t.Fatalf("of a new schedule: last %s, since %s", last, since)
	}
	mustCreate(t, s, scheduled(at(30)))
	if _, err := s.CreateRebuild(ctx, scheduled(at(20))); err == nil { // skipped, and older
		t.Fatal("two are open")
	}
	last, again := state("0 3 * * *")
	if !last.Equal(at(30)) || !again.Equal(since) {
		t.Fatalf("last %s, since %s; want %s and no change of %s", last, again, at(30), since)
	}
	last, moved := state("0 4 * * *")
	if !last.Equal(at(30)) || !moved.After(since) {
		t.Fatalf("of another schedule: last %s, since %s; want a later one than %s", last, moved, since)
	}
	if _, back := state("0 3 * * *"); !back.After(moved) {
		t.Fatalf("of the first schedule again: since %s, want a later one than %s", back, moved)
	}
	if last, _, err := s.ScheduleState(ctx, "other", "0 3 * * *"); err != nil || !last.IsZero() {
		t.Fatalf("of another pipeline: %s, %v", last, err)
	}
}

// rebuildTakenOver lets the holder die in the middle: the next one goes on with
// the same rebuild, and the dead one writes nothing any more.
func rebuildTakenOver(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	r := mustCreate(t, s, scheduled(at(10)))
	dead := Acquire(t, s, pipe, watermark.RoleFull)
	if _, err := s.StartRebuild(ctx, dead, r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ProgressRebuild(ctx, dead, r.ID, watermark.RebuildProgress{Phase: "write", Done: 5, Total: 9, Rows: 70}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelRebuild(ctx, r.ID, change("too slow")); err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(t, `UPDATE deltad_lease SET expires_at = acquired_at`); err != nil {
		t.Fatal(err)
	}
	next, err := s.Acquire(ctx, pipe, watermark.RoleFull, "deltad-b", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Not before it has taken the rebuild over.
	if _, err := s.ProgressRebuild(ctx, next, r.ID, watermark.RebuildProgress{}); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("progress without a start: %v", err)
	}
	if err := s.FinishRebuild(ctx, next, r.ID, made(r.ID, watermark.RebuildCandidate)); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("end without a start: %v", err)
	}
	got, err := s.StartRebuild(ctx, next, r.ID)
	if err != nil || got.State != watermark.RebuildRunning || got.Instance != "deltad-b" || got.Epoch != next.Epoch ||
		got.Phase != "" || got.Done != 0 || got.Rows != 0 || !got.CancelRequested {
		t.Fatalf("taken over: %+v, %v", got, err)
	}
	fencedRebuildWrites(t, s, dead, r.ID)
	if err := s.Release(ctx, next); err != nil {
		t.Fatal(err)
	}
	fencedRebuildWrites(t, s, next, r.ID)
	last := Acquire(t, s, pipe, watermark.RoleFull)
	if _, err := s.StartRebuild(ctx, last, r.ID); err != nil {
		t.Fatal(err)
	}
	if cancel, err := s.ProgressRebuild(ctx, last, r.ID, watermark.RebuildProgress{}); err != nil || !cancel {
		t.Fatalf("the cancel was lost: %v, %v", cancel, err)
	}
	if err := s.FinishRebuild(ctx, last, r.ID, watermark.RebuildResult{State: watermark.RebuildCancelled}); err != nil {
		t.Fatal(err)
	}
	if got := states(t, s, r.ID); got != "cancelled" {
		t.Fatalf("ended as %s", got)
	}
}

// fencedRebuildWrites tries every write that needs the full lease.
func fencedRebuildWrites(t *testing.T, s watermark.Store, l watermark.Lease, id string) {
	t.Helper()
	ctx := Context(t)
	before := snapshot(t, s)
	for _, w := range []struct {
		name string
		err  error
	}{
		{"StartRebuild", func() error { _, err := s.StartRebuild(ctx, l, id); return err }()},
		{"ProgressRebuild", func() error {
			_, err := s.ProgressRebuild(ctx, l, id, watermark.RebuildProgress{Done: 9})
			return err
		}()},
		{"FinishRebuild", s.FinishRebuild(ctx, l, id, made(id, watermark.RebuildCandidate))},
	} {
		if !errors.Is(w.err, watermark.ErrFenced) {
			t.Errorf("%s at epoch %d: %v, want fenced", w.name, l.Epoch, w.err)
		}
	}
	if after := snapshot(t, s); after != before {
		t.Errorf("a fenced holder changed something:\nbefore %s\nafter  %s", before, after)
	}
}

func rebuildCancelled(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	queued := mustCreate(t, s, manual())
	c := change("not now")
	for range 2 {
		got, err := s.CancelRebuild(ctx, queued.ID, c)
		if err != nil || got.State != watermark.RebuildCancelled || got.FinishedAt.IsZero() {
			t.Fatalf("cancelled: %+v, %v", got, err)
		}
	}
	if _, err := s.CancelRebuild(ctx, queued.ID, change("again")); !errors.Is(err, watermark.ErrConflict) || !strings.Contains(err.Error(), "cancelled") {
		t.Fatalf("cancel of a cancelled one: %v", err)
	}
	f := Acquire(t, s, pipe, watermark.RoleFull)
	if _, err := s.StartRebuild(ctx, f, queued.ID); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("start of a cancelled one: %v", err)
	}
	running := mustCreate(t, s, manual())
	if _, err := s.StartRebuild(ctx, f, running.ID); err != nil {
		t.Fatal(err)
	}
	got, err := s.CancelRebuild(ctx, running.ID, change("too slow"))
	if err != nil || got.State != watermark.RebuildRunning || !got.CancelRequested {
		t.Fatalf("cancel of a running one: %+v, %v", got, err)
	}
	if cancel, err := s.ProgressRebuild(ctx, f, running.ID, watermark.RebuildProgress{}); err != nil || !cancel {
		t.Fatalf("its holder was told %v, %v", cancel, err)
	}
	// The holder may be done before it hears of it.
	if err := s.FinishRebuild(ctx, f, running.ID, made(running.ID, watermark.RebuildCandidate)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, s)
	if _, err := s.CancelRebuild(ctx, running.ID, change("late")); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("cancel of a candidate: %v", err)
	}
	if after := snapshot(t, s); after != before {
		t.Fatalf("a refused cancel changed something:\nbefore %s\nafter  %s", before, after)
	}
	failed := mustCreate(t, s, manual())
	if _, err := s.StartRebuild(ctx, f, failed.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.FinishRebuild(ctx, f, failed.ID, watermark.RebuildResult{State: watermark.RebuildFailed, Error: "read p/x: bad\x00\xff"}); err != nil {
		t.Fatal(err)
	}
	if got := mustRebuild(t, s, failed.ID); got.State != watermark.RebuildFailed || !strings.HasPrefix(got.Error, "read p/x: bad") {
		t.Fatalf("failed: %+v", got)
	}
	if got := states(t, s, running.ID); got != "candidate" {
		t.Fatalf("a failed rebuild made the candidate %s", got)
	}
}

func rebuildPages(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	var want []string
	for range 5 {
		r := mustCreate(t, s, manual())
		want = append([]string{r.ID}, want...)
		if _, err := s.CancelRebuild(ctx, r.ID, change("next")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // ids of one millisecond are in no order
	}
	other := manual()
	other.Pipeline = "other"
	mustCreate(t, s, other)
	var got []string
	before := ""
	for {
		page, err := s.Rebuilds(ctx, pipe, 2, before)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		if len(page) < 2 {
			break
		}
		before = page[len(page)-1].ID
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("pages give %v, want %v", got, want)
	}
}
