package watermarktest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"golang.org/x/sync/errgroup"
)

func ready(t testing.TB, s watermark.Store) string {
	t.Helper()
	r, err := s.ReadyRebuild(Context(t), pipe)
	if errors.Is(err, watermark.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func barred(t testing.TB, s watermark.Store) string {
	t.Helper()
	all, err := s.Bars(Context(t), pipe)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, b := range all {
		ids = append(ids, b.Generation)
	}
	return strings.Join(ids, " ")
}

// rebuildSuperseded: the newest word counts, of candidates and of promotions.
func rebuildSuperseded(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	f, d := Acquire(t, s, pipe, watermark.RoleFull), Acquire(t, s, pipe, watermark.RoleDelta)
	a := rebuilt(t, s, f, watermark.RebuildCandidate, true)
	if got := ready(t, s); got != a.ID {
		t.Fatalf("ready: %q, want %s", got, a.ID)
	}
	b := rebuilt(t, s, f, watermark.RebuildHeld, false)
	if got := states(t, s, a.ID, b.ID); got != "candidate held" || ready(t, s) != a.ID {
		t.Fatalf("after a held one: %s; want no change of the candidate", got)
	}
	c := rebuilt(t, s, f, watermark.RebuildCandidate, false)
	if got := states(t, s, a.ID, b.ID, c.ID); got != "superseded superseded candidate" || ready(t, s) != "" {
		t.Fatalf("after a new candidate: %s, ready %q", got, ready(t, s))
	}
	// The end of the first, told again, is no other end: it is only past.
	if err := s.FinishRebuild(ctx, f, a.ID, func() watermark.RebuildResult {
		r := made(a.ID, watermark.RebuildCandidate)
		r.Approved = true
		return r
	}()); err != nil || states(t, s, a.ID, c.ID) != "superseded candidate" {
		t.Fatalf("a repeated end: %v, %s", err, states(t, s, a.ID, c.ID))
	}
	// A promotion supersedes what is older and leaves what is newer.
	if _, err := s.ApproveRebuild(ctx, pipe, c.ID, nil, change("")); err != nil {
		t.Fatal(err)
	}
	held := rebuilt(t, s, f, watermark.RebuildHeld, false)
	pub := promoted(t, s, d, c.ID, 7)
	if got := states(t, s, c.ID, held.ID); got != "promoted held" || ready(t, s) != "" {
		t.Fatalf("after the promotion: %s, ready %q", got, ready(t, s))
	}
	if got := mustRebuild(t, s, c.ID); got.PromotedBy != pub.Run.ID {
		t.Fatalf("promoted by %q, want %s", got.PromotedBy, pub.Run.ID)
	}
	e := rebuilt(t, s, f, watermark.RebuildCandidate, true)
	if got := states(t, s, c.ID, held.ID, e.ID); got != "promoted superseded candidate" {
		t.Fatalf("after the next candidate: %s", got)
	}
	before := snapshot(t, s)
	if again := mustPublish(t, s, d, pub); !again.Already {
		t.Fatalf("published again: %+v", again)
	}
	if after := snapshot(t, s); after != before {
		t.Fatalf("a repeated promotion changed something:\nbefore %s\nafter  %s", before, after)
	}
}

// promotedOlder promotes the older of two that wait, and one that the store
// does not know.
func promotedOlder(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	f, d := Acquire(t, s, pipe, watermark.RoleFull), Acquire(t, s, pipe, watermark.RoleDelta)
	a := rebuilt(t, s, f, watermark.RebuildHeld, false)
	b := rebuilt(t, s, f, watermark.RebuildHeld, false)
	c := rebuilt(t, s, f, watermark.RebuildHeld, false)
	if _, err := s.ApproveRebuild(ctx, pipe, b.ID, []string{"documents"}, change("the source was cleaned")); err != nil {
		t.Fatal(err)
	}
	promoted(t, s, d, b.ID, 7)
	if got := states(t, s, a.ID, b.ID, c.ID); got != "superseded promoted held" {
		t.Fatalf("after the promotion of the second: %s", got)
	}
	lost := promoted(t, s, d, ID(), 8)
	if run, err := s.RunByID(ctx, lost.Run.ID); err != nil || run.Status != watermark.RunPublished {
		t.Fatalf("promotion of a rebuild the store lost: %+v, %v", run, err)
	}
	if got := states(t, s, a.ID, b.ID, c.ID); got != "superseded promoted held" {
		t.Fatalf("after the promotion of a lost one: %s", got)
	}
	// A restored store may still have it running: CURRENT is the truth.
	r := mustCreate(t, s, manual())
	if _, err := s.StartRebuild(ctx, f, r.ID); err != nil {
		t.Fatal(err)
	}
	promoted(t, s, d, r.ID, 9)
	if got := states(t, s, b.ID, c.ID, r.ID); got != "promoted superseded promoted" {
		t.Fatalf("after the promotion of one that seemed to run: %s", got)
	}
	if _, err := s.OpenRebuild(ctx, pipe); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("it is still open: %v", err)
	}
	full := Published(Planned(f, 3), 0)
	full.Promoted = r.ID
	if _, err := s.PublishRun(ctx, f, full); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("a full run that promotes: %v", err)
	}
	bad := Published(Planned(d, 9), 10)
	bad.Promoted = "g1"
	if _, err := s.PublishRun(ctx, d, bad); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("promotion of no ULID: %v", err)
	}
}

func rebuildApproved(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	f := Acquire(t, s, pipe, watermark.RoleFull)
	queued := mustCreate(t, s, manual())
	refuse := func(name, id string, overrides []string, c watermark.Change, want error, says string) {
		t.Helper()
		before := snapshot(t, s)
		if _, err := s.ApproveRebuild(ctx, pipe, id, overrides, c); !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %v …%s…", name, err, want, says)
		}
		if after := snapshot(t, s); after != before {
			t.Errorf("%s changed something:\nbefore %s\nafter  %s", name, before, after)
		}
	}
	refuse("a queued one", queued.ID, nil, change("x"), watermark.ErrConflict, "queued")
	if _, err := s.CancelRebuild(ctx, queued.ID, change("x")); err != nil {
		t.Fatal(err)
	}
	refuse("a cancelled one", queued.ID, nil, change("x"), watermark.ErrConflict, "cancelled")
	held := rebuilt(t, s, f, watermark.RebuildHeld, false)
	if ready(t, s) != "" {
		t.Fatal("a held one is ready")
	}
	refuse("a held one without overrides", held.ID, nil, change("x"), watermark.ErrInvalid, "name the checks")
	refuse("a held one without a reason", held.ID, []string{"documents"}, change(""), watermark.ErrInvalid, "reason")
	c := change("the source was cleaned")
	for range 2 {
		got, err := s.ApproveRebuild(ctx, pipe, held.ID, []string{"documents", `nulls "of" ü`}, c)
		if err != nil || got.State != watermark.RebuildCandidate || !got.Approved || len(got.Overrides) != 2 || got.Overrides[1] != `nulls "of" ü` {
			t.Fatalf("approved: %+v, %v", got, err)
		}
	}
	if got := ready(t, s); got != held.ID {
		t.Fatalf("ready: %q, want %s", got, held.ID)
	}
	trail, err := s.AuditTrail(ctx, pipe, 20, 0)
	if err != nil || trail[0].Action != "promote" || trail[0].ID != c.ID || trail[0].Actor != "ann" ||
		!strings.Contains(string(trail[0].Details), held.ID) || !strings.Contains(string(trail[0].Details), "documents") ||
		strings.Count(actions(trail), "promote") != 1 {
		t.Fatalf("audit: %+v, %v", trail, err)
	}
	// Approved once more it keeps what was overridden.
	if got, err := s.ApproveRebuild(ctx, pipe, held.ID, nil, change("")); err != nil || len(got.Overrides) != 2 {
		t.Fatalf("approved once more: %+v, %v", got, err)
	}
	newer := rebuilt(t, s, f, watermark.RebuildCandidate, true)
	refuse("a superseded one", held.ID, []string{"documents"}, change("x"), watermark.ErrConflict, "superseded")
	d := Acquire(t, s, pipe, watermark.RoleDelta)
	promoted(t, s, d, newer.ID, 7)
	refuse("a promoted one", newer.ID, nil, change("x"), watermark.ErrConflict, "not barred")
}

func actions(trail []watermark.AuditEntry) string {
	var out []string
	for _, e := range trail {
		out = append(out, e.Action)
	}
	return strings.Join(out, " ")
}

func rollback(bar string, pause bool) watermark.Intent {
	return watermark.Intent{
		ID: ID(), Pipeline: pipe, Kind: watermark.IntentRollback, Digest: "d1", Actor: "ann", Reason: "prices are wrong",
		Pane: watermark.ManifestRef{Key: "manifests/5.json", SHA256: "cc"}, Bar: bar, Pause: pause,
	}
}

// rollbackBars follows a base from its promotion over a rollback to its second
// promotion.
func rollbackBars(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	f, d := Acquire(t, s, pipe, watermark.RoleFull), Acquire(t, s, pipe, watermark.RoleDelta)
	g := rebuilt(t, s, f, watermark.RebuildCandidate, true)
	promoted(t, s, d, g.ID, 7)
	p := mustPipeline(t, s)
	in := rollback(g.ID, false)
	for range 2 {
		got, err := s.CreateIntent(ctx, in, p.Version)
		if err != nil || got.Kind != watermark.IntentRollback || got.Pane != in.Pane || got.Bar != g.ID || got.Pause || got.State != watermark.IntentPending {
			t.Fatalf("rollback: %+v, %v", got, err)
		}
	}
	if after := mustPipeline(t, s); after.Paused || after.Version != p.Version+1 {
		t.Fatalf("row after the rollback's intent: %+v", after)
	}
	bars, err := s.Bars(ctx, pipe)
	if err != nil || len(bars) != 1 || bars[0].Generation != g.ID || bars[0].Intent != in.ID || bars[0].Actor != "ann" ||
		bars[0].Reason != in.Reason || bars[0].At.IsZero() || bars[0].Pipeline != pipe {
		t.Fatalf("bars: %+v, %v", bars, err)
	}
	if _, err := s.ApproveRebuild(ctx, pipe, g.ID, nil, change("it was right")); !errors.Is(err, watermark.ErrConflict) || !strings.Contains(err.Error(), "pending") {
		t.Fatalf("approval while the rollback is pending: %v", err)
	}
	back := Published(Planned(d, 5), 8)
	back.Run.Reason = "rollback"
	back.Intent = in.ID
	for range 2 {
		mustPublish(t, s, d, back)
	}
	if got, err := s.IntentByID(ctx, in.ID); err != nil || got.State != watermark.IntentApplied {
		t.Fatalf("intent: %+v, %v", got, err)
	}
	if got := barred(t, s); got != g.ID || ready(t, s) != "" || states(t, s, g.ID) != "promoted" {
		t.Fatalf("after the rollback: barred %q, ready %q, %s", got, ready(t, s), states(t, s, g.ID))
	}
	c := change("")
	if _, err := s.ApproveRebuild(ctx, pipe, g.ID, nil, c); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("a bar lifted without a reason: %v", err)
	}
	c = change("prices were right after all")
	for range 2 {
		if got, err := s.ApproveRebuild(ctx, pipe, g.ID, nil, c); err != nil || got.State != watermark.RebuildCandidate || !got.Approved {
			t.Fatalf("approved: %+v, %v", got, err)
		}
	}
	if barred(t, s) != "" || ready(t, s) != g.ID {
		t.Fatalf("after the approval: barred %q, ready %q", barred(t, s), ready(t, s))
	}
	promoted(t, s, d, g.ID, 9)
	if states(t, s, g.ID) != "promoted" || ready(t, s) != "" {
		t.Fatalf("after the second promotion: %s, ready %q", states(t, s, g.ID), ready(t, s))
	}
	trail, err := s.AuditTrail(ctx, pipe, 20, 0)
	if err != nil || actions(trail) != "promote rollback-applied rollback rebuild" {
		t.Fatalf("audit: %s, %v", actions(trail), err)
	}
	if !strings.Contains(string(trail[2].Details), g.ID) || !strings.Contains(string(trail[2].Details), "manifests/5.json") {
		t.Fatalf("audit of the rollback: %s", trail[2].Details)
	}
}

// rollbackFails lifts the bar that it raised, and no other.
func rollbackFails(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	f, d := Acquire(t, s, pipe, watermark.RoleFull), Acquire(t, s, pipe, watermark.RoleDelta)
	g := rebuilt(t, s, f, watermark.RebuildCandidate, true)
	promoted(t, s, d, g.ID, 7)
	in := rollback(g.ID, true)
	if _, err := s.CreateIntent(ctx, in, mustPipeline(t, s).Version); err != nil {
		t.Fatal(err)
	}
	p := mustPipeline(t, s)
	if !p.Paused || p.PauseReason != in.Reason || p.PausedBy != "ann" || p.PausedAt.IsZero() || barred(t, s) != g.ID {
		t.Fatalf("row after the intent: %+v, barred %q", p, barred(t, s))
	}
	for range 2 {
		if err := s.FinishIntent(ctx, d, in.ID, watermark.IntentFailed, "the pane is gone"); err != nil {
			t.Fatal(err)
		}
	}
	if barred(t, s) != "" || !mustPipeline(t, s).Paused {
		t.Fatalf("after the failure: barred %q, row %+v; want no bar, and the pause to stay", barred(t, s), mustPipeline(t, s))
	}
	// A bar of an earlier rollback outlives the failure of a later one.
	first := rollback(g.ID, false)
	if _, err := s.CreateIntent(ctx, first, mustPipeline(t, s).Version); err != nil {
		t.Fatal(err)
	}
	if err := s.FinishIntent(ctx, d, first.ID, watermark.IntentApplied, ""); err != nil {
		t.Fatal(err)
	}
	second := rollback(g.ID, false)
	if _, err := s.CreateIntent(ctx, second, mustPipeline(t, s).Version); err != nil {
		t.Fatal(err)
	}
	if err := s.FinishIntent(ctx, d, second.ID, watermark.IntentFailed, "the pane is gone"); err != nil {
		t.Fatal(err)
	}
	if got := barred(t, s); got != g.ID {
		t.Fatalf("barred %q after the failure of the second rollback, want %s", got, g.ID)
	}
	if got, err := s.IntentByID(ctx, second.ID); err != nil || got.Kind != watermark.IntentRollback || got.Note != "the pane is gone" {
		t.Fatalf("intent: %+v, %v", got, err)
	}
}

// rollbackRefused: what is refused has written neither bar nor pause.
func rollbackRefused(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	bar := ID()
	if _, err := s.CreateIntent(ctx, rollback(bar, true), 1); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("no pipeline: %v", err)
	}
	p, err := s.EnsurePipeline(ctx, pipe)
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, s)
	with := func(change func(*watermark.Intent)) error {
		in := rollback(bar, true)
		change(&in)
		_, err := s.CreateIntent(ctx, in, p.Version)
		return err
	}
	for _, c := range []struct {
		name, says string
		err        error
		want       error
	}{
		{"a stale version", "the plan was made at", func() error {
			_, err := s.CreateIntent(ctx, rollback(bar, true), p.Version+1)
			return err
		}(), watermark.ErrStaleVersion},
		{"no pane", "pane is empty", with(func(in *watermark.Intent) { in.Pane = watermark.ManifestRef{} }), watermark.ErrInvalid},
		{"nothing that keeps it", "neither bar nor pause", with(func(in *watermark.Intent) { in.Bar, in.Pause = "", false }), watermark.ErrInvalid},
		{"a bar that is no ULID", "barred generation", with(func(in *watermark.Intent) { in.Bar = "x" }), watermark.ErrInvalid},
		{"a kind", `kind "undo"`, with(func(in *watermark.Intent) { in.Kind = "undo" }), watermark.ErrInvalid},
		{"a reset with a bar", "has a pane, a bar or a pause", with(func(in *watermark.Intent) { in.Kind = "" }), watermark.ErrInvalid},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v, want …%s…", c.name, c.err, c.says)
		}
	}
	if after := snapshot(t, s); after != before {
		t.Fatalf("a refused rollback wrote something:\nbefore %s\nafter  %s", before, after)
	}
	first := rollback(bar, false)
	if _, err := s.CreateIntent(ctx, first, p.Version); err != nil {
		t.Fatal(err)
	}
	other := first
	other.Bar = ID()
	for name, in := range map[string]watermark.Intent{"a second while one is pending": rollback(ID(), true), "another under the same id": other} {
		if _, err := s.CreateIntent(ctx, in, mustPipeline(t, s).Version); !errors.Is(err, watermark.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := barred(t, s); got != bar || mustPipeline(t, s).Paused {
		t.Fatalf("barred %q, row %+v", got, mustPipeline(t, s))
	}
}

func pinRows(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	f := Acquire(t, s, pipe, watermark.RoleFull)
	r := mustCreate(t, s, scheduled(at(1)))
	if _, err := s.StartRebuild(ctx, f, r.ID); err != nil {
		t.Fatal(err)
	}
	pane := ID()
	own := watermark.Pin{Pipeline: pipe, Kind: watermark.PinPane, ID: pane, Owner: watermark.RebuildOwner(r.ID)}
	ann := watermark.Pin{Pipeline: pipe, Kind: watermark.PinPane, ID: pane, Owner: "ann", Reason: "the good one"}
	old := watermark.Pin{Pipeline: pipe, Kind: watermark.PinBase, ID: ID(), Owner: "ann", Reason: "for the audit"}
	for _, p := range []watermark.Pin{own, ann, old, own, ann} {
		if err := s.Pin(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	pins, err := s.Pins(ctx, pipe)
	if err != nil || len(pins) != 3 || pins[0].ID != old.ID || pins[0].Kind != watermark.PinBase || pins[1].Owner != "ann" ||
		pins[1].Reason != "the good one" || pins[1].At.IsZero() || pins[2].Owner != own.Owner || pins[2].Pipeline != pipe {
		t.Fatalf("pins: %+v, %v", pins, err)
	}
	for range 2 {
		if err := s.Unpin(ctx, pipe, old.Kind, old.ID, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.FinishRebuild(ctx, f, r.ID, watermark.RebuildResult{State: watermark.RebuildFailed, Error: "x"}); err != nil {
		t.Fatal(err)
	}
	if pins, err := s.Pins(ctx, pipe); err != nil || len(pins) != 1 || pins[0].Owner != "ann" {
		t.Fatalf("pins after the end of the rebuild: %+v, %v; want the person's", pins, err)
	}
	trail, err := s.AuditTrail(ctx, pipe, 20, 0)
	if err != nil || actions(trail) != "unpin pin pin" || trail[0].Actor != "ann" || !strings.Contains(string(trail[0].Details), old.ID) {
		t.Fatalf("audit: %+v, %v; want the person's pins, each once", trail, err)
	}
	if pins, err := s.Pins(ctx, "other"); err != nil || len(pins) != 0 {
		t.Fatalf("pins of another pipeline: %+v, %v", pins, err)
	}
}

// configOrder: replicas with different files do not take turns.
func configOrder(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	if _, err := s.NewestConfig(ctx, pipe); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("newest of none: %v", err)
	}
	register := func(replica, hash, newest string) watermark.ConfigRegistration {
		t.Helper()
		mine, latest, err := s.RegisterConfig(ctx, pipe, replica, hash)
		if err != nil || mine.Replica != replica || mine.Hash != hash || mine.At.IsZero() || latest.Hash != newest || latest.Seq < mine.Seq {
			t.Fatalf("%s runs %s: mine %+v, newest %+v, %v; want newest %s", replica, hash, mine, latest, err, newest)
		}
		if got, err := s.NewestConfig(ctx, pipe); err != nil || got != latest {
			t.Fatalf("newest: %+v, %v; want %+v", got, err, latest)
		}
		return mine
	}
	a := register("a", "h1", "h1")
	register("b", "h1", "h1")
	b := register("b", "h2", "h2") // rolled out to b
	for range 2 {                  // a restarts with its old file
		if again := register("a", "h1", "h2"); again != a {
			t.Fatalf("a restart moved %+v to %+v", a, again)
		}
	}
	register("a", "h2", "h2")
	register("b", "h1", "h1") // taken back on b, which is a decision too
	if again := register("b", "h2", "h2"); again.Seq <= b.Seq {
		t.Fatalf("the second rollout has place %d, the first had %d", again.Seq, b.Seq)
	}
	for _, hash := range []string{"h1", "h2", "h2"} { // b ends for good; it does not run h1 any more
		if err := s.UnregisterConfig(ctx, pipe, "b", hash); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"h1": "b", "h2": "a"}[hash]
		if got, err := s.NewestConfig(ctx, pipe); err != nil || got.Replica != want || got.Hash != "h2" {
			t.Fatalf("newest after b left %s: %+v, %v", hash, got, err)
		}
	}
	if got := register("c", "h3", "h3"); got.Seq <= b.Seq+1 {
		t.Fatalf("a place was given twice: %+v", got)
	}
	if _, err := s.NewestConfig(ctx, "other"); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("newest of another pipeline: %v", err)
	}
}

// configAtOnce registers from many replicas: each has a place of its own, and
// the newest is one of them.
func configAtOnce(t *testing.T, db Database) {
	handles := []watermark.Store{Migrated(t, db), Migrated(t, db)}
	var g errgroup.Group
	mine, newest := make([]watermark.ConfigRegistration, 8), make([]watermark.ConfigRegistration, 8)
	for i := range mine {
		g.Go(func() (err error) {
			mine[i], newest[i], err = handles[i%2].RegisterConfig(Context(t), pipe, string(rune('a'+i)), "h")
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	places := map[int64]bool{}
	last := int64(0)
	for i := range mine {
		places[mine[i].Seq] = true
		last = max(last, mine[i].Seq)
		if newest[i] != mine[i] {
			t.Errorf("replica %d registered %+v and was told %+v is newest", i, mine[i], newest[i])
		}
	}
	got, err := handles[0].NewestConfig(Context(t), pipe)
	if err != nil || len(places) != len(mine) || got.Seq != last {
		t.Fatalf("newest %+v, %v; places %v", got, err, places)
	}
}

func rebuildArguments(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	f, d := Acquire(t, s, pipe, watermark.RoleFull), Acquire(t, s, pipe, watermark.RoleDelta)
	create := func(change func(*watermark.Rebuild)) error {
		r := manual()
		change(&r)
		_, err := s.CreateRebuild(ctx, r)
		return err
	}
	finish := func(change func(*watermark.RebuildResult)) error {
		r := made(ID(), watermark.RebuildCandidate)
		change(&r)
		return s.FinishRebuild(ctx, f, ID(), r)
	}
	pin := func(change func(*watermark.Pin)) error {
		p := watermark.Pin{Pipeline: pipe, Kind: watermark.PinBase, ID: ID(), Owner: "ann"}
		change(&p)
		return s.Pin(ctx, p)
	}
	for _, c := range []struct {
		name, says string
		err        error
	}{
		{"rebuild id", "is not a ULID", create(func(r *watermark.Rebuild) { r.ID = "r" })},
		{"pipeline", "pipeline is empty", create(func(r *watermark.Rebuild) { r.Pipeline = "" })},
		{"cause", `cause "whim"`, create(func(r *watermark.Rebuild) { r.Cause = "whim" })},
		{"manual without a person", "actor is empty", create(func(r *watermark.Rebuild) { r.Actor = "" })},
		{"manual and due", "with scheduled time", create(func(r *watermark.Rebuild) { r.Due = at(1) })},
		{"scheduled and never due", "with scheduled time", create(func(r *watermark.Rebuild) { r.Cause = "schedule" })},
		{"fine cut", "finer than a microsecond", create(func(r *watermark.Rebuild) { r.Cut = at(1).Add(1) })},
		{"start under the delta lease", "under a delta lease", func() error { _, err := s.StartRebuild(ctx, d, ID()); return err }()},
		{"end under the delta lease", "under a delta lease", s.FinishRebuild(ctx, d, ID(), made(ID(), watermark.RebuildHeld))},
		{"negative progress", "negative", func() error {
			_, err := s.ProgressRebuild(ctx, f, ID(), watermark.RebuildProgress{Done: -1})
			return err
		}()},
		{"no end", `"promoted" does not end it`, finish(func(r *watermark.RebuildResult) { r.State = watermark.RebuildPromoted })},
		{"candidate of nothing", "manifest is empty", finish(func(r *watermark.RebuildResult) { r.Manifest.Key = "" })},
		{"candidate without a cut", "has no cut", finish(func(r *watermark.RebuildResult) { r.ActualCut = time.Time{} })},
		{"failed with a manifest", "has no manifest", finish(func(r *watermark.RebuildResult) { r.State = watermark.RebuildFailed })},
		{"held and approved", "cannot be approved", finish(func(r *watermark.RebuildResult) { r.State, r.Approved = watermark.RebuildHeld, true })},
		{"checks", "not a JSON array", finish(func(r *watermark.RebuildResult) { r.Checks = []byte(`{}`) })},
		{"checks with NUL", "contains NUL", finish(func(r *watermark.RebuildResult) { r.Checks = []byte(`["\u0000"]`) })},
		{"empty override", "override is empty", func() error {
			_, err := s.ApproveRebuild(ctx, pipe, ID(), []string{""}, change("x"))
			return err
		}()},
		{"cancel by nobody", "actor is empty", func() error {
			_, err := s.CancelRebuild(ctx, ID(), watermark.Change{ID: ID()})
			return err
		}()},
		{"limit", "limit 0", func() error { _, err := s.Rebuilds(ctx, pipe, 0, ""); return err }()},
		{"schedule", "schedule is empty", func() error { _, _, err := s.ScheduleState(ctx, pipe, ""); return err }()},
		{"pin kind", `pin kind "run"`, pin(func(p *watermark.Pin) { p.Kind = "run" })},
		{"pin owner", "owner is empty", pin(func(p *watermark.Pin) { p.Owner = "" })},
		{"pin of no rebuild", "rebuild id", pin(func(p *watermark.Pin) { p.Owner = watermark.RebuildOwner("x") })},
		{"replica", "replica is empty", func() error { _, _, err := s.RegisterConfig(ctx, pipe, "", "h"); return err }()},
		{"config hash", "config hash is empty", s.UnregisterConfig(ctx, pipe, "a", "")},
	} {
		if !errors.Is(c.err, watermark.ErrInvalid) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v, want invalid: …%s…", c.name, c.err, c.says)
		}
	}
	if all, err := s.Rebuilds(ctx, pipe, 10, ""); err != nil || len(all) != 0 {
		t.Errorf("refused calls left rebuilds: %+v, %v", all, err)
	}
}

// corruptRebuilds: a row that cannot be read is never taken for an absent one.
func corruptRebuilds(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	r := mustCreate(t, s, manual())
	for _, c := range []struct {
		column, damage, repair string
		call                   func() error
	}{
		{
			"checks", `UPDATE deltad_rebuild SET checks = '{}'`, `UPDATE deltad_rebuild SET checks = '[]'`,
			func() error { _, err := s.OpenRebuild(ctx, pipe); return err },
		},
		{
			"overrides", `UPDATE deltad_rebuild SET overrides = '[1]'`, `UPDATE deltad_rebuild SET overrides = '[]'`,
			func() error { _, err := s.CreateRebuild(ctx, manual()); return err },
		},
		{
			"documents", `UPDATE deltad_rebuild SET documents = -1`, `UPDATE deltad_rebuild SET documents = 0`,
			func() error { _, err := s.CancelRebuild(ctx, r.ID, change("x")); return err },
		},
		{
			"id", `UPDATE deltad_rebuild SET id = 'x'`, `UPDATE deltad_rebuild SET id = '` + r.ID + `'`,
			func() error { _, err := s.Rebuilds(ctx, pipe, 10, ""); return err },
		},
	} {
		if err := db.Exec(t, c.damage); err != nil {
			t.Fatal(err)
		}
		var ce *watermark.CorruptError
		if err := c.call(); !errors.As(err, &ce) || ce.Pipeline != pipe || ce.Table != "deltad_rebuild" || ce.Column != c.column {
			t.Errorf("%s: %v, want corrupt", c.damage, err)
		}
		if err := db.Exec(t, c.repair); err != nil {
			t.Fatal(err)
		}
	}
	if got := states(t, s, r.ID); got != "queued" {
		t.Fatalf("after the repairs: %s", got)
	}
}
