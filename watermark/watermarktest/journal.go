package watermarktest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"golang.org/x/sync/errgroup"
)

func runLifecycle(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	r := Planned(l, 1)
	for range 2 {
		if err := s.PlanRun(ctx, l, r); err != nil {
			t.Fatal(err)
		}
	}
	planned, err := s.PlannedRuns(ctx, pipe)
	if err != nil || len(planned) != 1 {
		t.Fatalf("planned: %+v, %v", planned, err)
	}
	got := planned[0]
	got.Counts = nil
	want := r
	want.Status = watermark.RunPlanned
	if got.ID != want.ID || got.ChangeID != want.ChangeID || got.Parent != want.Parent || got.Epoch != want.Epoch ||
		!got.Watermark.Equal(want.Watermark) || !got.PreviousWatermark.Equal(want.PreviousWatermark) ||
		!got.CoverageFrom.Equal(want.CoverageFrom) || !got.PlannedAt.Equal(want.PlannedAt) ||
		got.Status != want.Status || got.Kind != want.Kind || got.Reason != want.Reason || got.ConfigHash != want.ConfigHash {
		t.Fatalf("planned as\n%+v, want\n%+v", got, want)
	}
	if got.Watermark.Location() != time.UTC {
		t.Fatalf("watermark is in %s, want UTC", got.Watermark.Location())
	}
	other := r
	other.ChangeID = ID()
	if err := s.PlanRun(ctx, l, other); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("another run under the same id: %v, want a conflict", err)
	}
	if err := s.AbandonRun(ctx, l, r.ID, "given up"); err != nil {
		t.Fatal(err)
	}
	if err := s.PlanRun(ctx, l, r); err != nil {
		t.Fatalf("planned once more: %v", err)
	}
	if again, err := s.RunByID(ctx, r.ID); err != nil || again.Status != watermark.RunPlanned || again.Error != "" || !again.FinishedAt.IsZero() {
		t.Fatalf("planned once more: %+v, %v", again, err)
	}
	if _, err := s.LatestPublished(ctx, pipe); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("latest published of none: %v", err)
	}
	pub := Published(r, 7)
	out := mustPublish(t, s, l, pub)
	if out.Already || out.Run.Status != watermark.RunPublished || out.Run.Documents != 12 || out.Run.CurrentVersion != 7 ||
		out.Run.Manifest != pub.Manifest || out.Run.FinishedAt.IsZero() {
		t.Fatalf("published: %+v", out)
	}
	var counts struct{ Rows int64 }
	if err := json.Unmarshal(out.Run.Counts, &counts); err != nil || counts.Rows != 9007199254740993 {
		t.Fatalf("counts came back as %s (%v)", out.Run.Counts, err)
	}
	p := mustPipeline(t, s)
	if !p.Watermark.Equal(at(1)) || !p.Progress.Equal(at(1)) || p.CurrentVersion != 7 || p.RunID != r.ID ||
		p.Manifest != pub.Manifest || p.ConfigHash != "c1" || p.Version != 2 {
		t.Fatalf("row after publication: %+v", p)
	}
	if planned, err := s.PlannedRuns(ctx, pipe); err != nil || len(planned) != 0 {
		t.Fatalf("planned after publication: %+v, %v", planned, err)
	}
	if latest, err := s.LatestPublished(ctx, pipe); err != nil || latest.ID != r.ID {
		t.Fatalf("latest published: %+v, %v", latest, err)
	}
	if _, err := s.RunByID(ctx, ID()); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("a run that is not there: %v", err)
	}
}

func publishIdempotent(t *testing.T, db Database) {
	handles := []watermark.Store{Migrated(t, db), Migrated(t, db)}
	s := handles[0]
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	r := Planned(l, 1)
	if err := s.PlanRun(Context(t), l, r); err != nil {
		t.Fatal(err)
	}
	pub := Published(r, 7)
	pub.Ledger = []watermark.LedgerEntry{{Partition: at(1), State: "covered", Fingerprint: "f1", Objects: 2}}
	pub.Late = []watermark.LateObject{{Key: "p/x", ETag: "e", Partition: at(-500)}, {Key: "p/y", ETag: "e"}}
	var g errgroup.Group
	results := make([]watermark.Published, 8)
	for i := range results {
		g.Go(func() (err error) {
			results[i], err = handles[i%2].PublishRun(Context(t), l, pub)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	fresh := 0
	for _, r := range results {
		if !r.Already {
			fresh++
		}
		if r.Run.Late != 2 {
			t.Errorf("late counted as %d, want 2 in every answer", r.Run.Late)
		}
	}
	if fresh != 1 {
		t.Fatalf("%d of %d calls did it, want one", fresh, len(results))
	}
	before := snapshot(t, s)
	if again := mustPublish(t, s, l, pub); !again.Already {
		t.Fatal("a repetition says it was the first")
	}
	if after := snapshot(t, s); after != before {
		t.Fatalf("a repetition changed\n%s into\n%s", before, after)
	}
	if p := mustPipeline(t, s); p.Version != 2 {
		t.Fatalf("row version %d, want one change", p.Version)
	}
	elsewhere := pub
	elsewhere.Manifest.Key = "manifests/other.json"
	if _, err := s.PublishRun(Context(t), l, elsewhere); !errors.Is(err, watermark.ErrConflict) {
		t.Fatalf("the same run with another manifest: %v, want a conflict", err)
	}
}

func publishOutOfOrder(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	older, newer := Planned(l, 1), Planned(l, 5)
	entry := func(f string) []watermark.LedgerEntry {
		return []watermark.LedgerEntry{{Partition: at(1), State: "covered", Fingerprint: f}}
	}
	second := Published(newer, 8)
	second.Ledger = entry("new")
	mustPublish(t, s, l, second)
	first := Published(older, 7)
	first.Ledger = append(entry("old"), watermark.LedgerEntry{Partition: at(0), State: "covered", Fingerprint: "only"})
	mustPublish(t, s, l, first)
	p := mustPipeline(t, s)
	if p.CurrentVersion != 8 || !p.Watermark.Equal(at(5)) || p.RunID != newer.ID {
		t.Fatalf("an older publication moved the row: %+v", p)
	}
	got, err := s.LedgerRange(ctx, pipe, "", at(-1), at(9), 10)
	if err != nil || len(got) != 2 || got[0].Fingerprint != "only" || got[1].Fingerprint != "new" {
		t.Fatalf("ledger: %+v, %v; want the newer entry kept and the missing one filled in", got, err)
	}
	if latest, err := s.LatestPublished(ctx, pipe); err != nil || latest.ID != newer.ID {
		t.Fatalf("latest published: %s, %v", latest.ID, err)
	}
	// A reset or rollback goes back at a higher version.
	back := Published(Planned(l, 2), 9)
	back.Progress = at(0)
	mustPublish(t, s, l, back)
	if p := mustPipeline(t, s); !p.Watermark.Equal(at(2)) || !p.Progress.Equal(at(0)) {
		t.Fatalf("a publication at a higher version: %+v", p)
	}
}

func publishUnplanned(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	r := Planned(l, 1)
	r.Epoch = 41 // written by a leader whose state store was lost
	mustPublish(t, s, l, Published(r, 7))
	got, err := s.RunByID(ctx, r.ID)
	if err != nil || got.Status != watermark.RunPublished || got.Epoch != 41 || got.Parent != r.Parent {
		t.Fatalf("entered as %+v, %v", got, err)
	}
	// CURRENT is the truth: a run given up too early becomes published.
	for _, end := range []func(string) error{
		func(id string) error { return s.AbandonRun(ctx, l, id, "x") },
		func(id string) error { return s.FailRun(ctx, l, id, "x") },
		func(id string) error { return s.MarkUnknown(ctx, l, id, "x") },
	} {
		r := Planned(l, 2)
		if err := s.PlanRun(ctx, l, r); err != nil {
			t.Fatal(err)
		}
		if err := end(r.ID); err != nil {
			t.Fatal(err)
		}
		out := mustPublish(t, s, l, Published(r, 8))
		if out.Already || out.Run.Status != watermark.RunPublished || out.Run.Error != "" {
			t.Fatalf("published after all: %+v", out)
		}
	}
}

func publishForgotten(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	other := Acquire(t, s, "other", watermark.RoleDelta)
	first, planned, abandoned, foreign := Planned(l, 1), Planned(l, 2), Planned(l, 2), Planned(other, 1)
	mustPublish(t, s, l, Published(first, 7))
	mustPublish(t, s, other, Published(foreign, 7))
	for _, r := range []watermark.Run{planned, abandoned} {
		if err := s.PlanRun(ctx, l, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AbandonRun(ctx, l, abandoned.ID, "x"); err != nil {
		t.Fatal(err)
	}
	r := Planned(l, 3)
	if err := s.PlanRun(ctx, l, r); err != nil {
		t.Fatal(err)
	}
	pub := Published(r, 9)
	pub.Ledger = []watermark.LedgerEntry{{Partition: at(3), State: "covered"}}
	before := snapshot(t, s)
	for name, id := range map[string]string{"unknown": ID(), "planned": planned.ID, "abandoned": abandoned.ID, "foreign": foreign.ID} {
		pub.Follows = id
		if _, err := s.PublishRun(ctx, l, pub); !errors.Is(err, watermark.ErrForgotten) || !strings.Contains(err.Error(), id) {
			t.Errorf("after an %s run: %v, want it forgotten", name, err)
		}
		fresh := Published(Planned(l, 3), 9)
		fresh.Follows = id
		if _, err := s.PublishRun(ctx, l, fresh); !errors.Is(err, watermark.ErrForgotten) {
			t.Errorf("unplanned after an %s run: %v, want it forgotten", name, err)
		}
		if _, err := s.RunByID(ctx, fresh.Run.ID); !errors.Is(err, watermark.ErrNotFound) {
			t.Errorf("unplanned after an %s run: it was entered (%v)", name, err)
		}
	}
	if after := snapshot(t, s); after != before {
		t.Fatalf("a refusal changed\n%s into\n%s", before, after)
	}
	pub.Follows = "x"
	if _, err := s.PublishRun(ctx, l, pub); !errors.Is(err, watermark.ErrInvalid) {
		t.Errorf("after no run id: %v, want a refusal", err)
	}
	pub.Follows = first.ID
	if out := mustPublish(t, s, l, pub); out.Already || out.Run.Status != watermark.RunPublished {
		t.Errorf("after a published run: %+v", out)
	}
	pub.Follows = ID()
	if out := mustPublish(t, s, l, pub); !out.Already {
		t.Errorf("a repetition: %+v", out)
	}
}

func runEnds(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	for _, c := range []struct {
		status watermark.RunStatus
		end    func(string) error
	}{
		{watermark.RunAbandoned, func(id string) error { return s.AbandonRun(ctx, l, id, "not reached") }},
		{watermark.RunFailed, func(id string) error { return s.FailRun(ctx, l, id, "not reached") }},
		{watermark.RunUnknown, func(id string) error { return s.MarkUnknown(ctx, l, id, "not reached") }},
	} {
		r := Planned(l, 1)
		if err := c.end(r.ID); !errors.Is(err, watermark.ErrNotFound) {
			t.Fatalf("%s of no run: %v", c.status, err)
		}
		if err := s.PlanRun(ctx, l, r); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.end(r.ID); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.RunByID(ctx, r.ID)
		if err != nil || got.Status != c.status || got.Error != "not reached" || got.FinishedAt.IsZero() {
			t.Fatalf("%s: %+v, %v", c.status, got, err)
		}
		published := Planned(l, 1)
		mustPublish(t, s, l, Published(published, 7))
		if err := c.end(published.ID); !errors.Is(err, watermark.ErrConflict) {
			t.Fatalf("%s of a published run: %v, want a conflict", c.status, err)
		}
	}
}

func runPages(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	var ids []string
	for range 7 {
		r := Planned(l, 1)
		ids = append(ids, r.ID)
		if err := s.PlanRun(ctx, l, r); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	var got []string
	before := ""
	for {
		page, err := s.Runs(ctx, pipe, 3, before)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		if len(page) < 3 {
			break
		}
		before = page[len(page)-1].ID
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("pages give %v, want %v", got, ids)
	}
	if other, err := s.Runs(ctx, "other", 3, ""); err != nil || len(other) != 0 {
		t.Fatalf("another pipeline has runs: %v, %v", other, err)
	}
}

func fullRun(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	d, f := Acquire(t, s, pipe, watermark.RoleDelta), Acquire(t, s, pipe, watermark.RoleFull)
	mustPublish(t, s, d, Published(Planned(d, 1), 7))
	r := Planned(f, 1)
	if err := s.PlanRun(ctx, f, r); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PublishRun(ctx, f, Published(r, 8)); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("a full run that claims a version of CURRENT: %v, want a refusal", err)
	}
	before := mustPipeline(t, s)
	out := mustPublish(t, s, f, Published(r, 0))
	if out.Run.Kind != watermark.RunFull || out.Run.Status != watermark.RunPublished {
		t.Fatalf("full run: %+v", out)
	}
	if after := mustPipeline(t, s); after != before {
		t.Fatalf("a full run moved the row to %+v", after)
	}
	if latest, err := s.LatestPublished(ctx, pipe); err != nil || latest.Kind != watermark.RunDelta {
		t.Fatalf("latest published: %+v, %v", latest, err)
	}
	delta := Planned(d, 2)
	if err := s.PlanRun(ctx, f, delta); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("a delta run under a full lease: %v, want a refusal", err)
	}
}

func corruptRows(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	r := Planned(l, 1)
	mustPublish(t, s, l, Published(r, 7))
	for _, c := range []struct {
		name, damage, repair, table, column string
		call                                func() error
	}{
		{
			"version below one", `UPDATE deltad_pipeline SET version = 0`, `UPDATE deltad_pipeline SET version = 2`,
			"deltad_pipeline", "version",
			func() error { _, err := s.Pipeline(ctx, pipe); return err },
		},
		{
			"watermark without a version of CURRENT", `UPDATE deltad_pipeline SET current_version = 0`,
			`UPDATE deltad_pipeline SET current_version = 7`, "deltad_pipeline", "current_version",
			func() error { _, err := s.EnsurePipeline(ctx, pipe); return err },
		},
		{
			"publication over a broken row", `UPDATE deltad_pipeline SET current_version = -1`,
			`UPDATE deltad_pipeline SET current_version = 7`, "deltad_pipeline", "current_version",
			func() error { _, err := s.PublishRun(ctx, l, Published(Planned(l, 2), 8)); return err },
		},
		{
			"nonce is gone", `UPDATE deltad_lease SET nonce = ''`, `UPDATE deltad_lease SET nonce = '` + l.Nonce + `'`,
			"deltad_lease", "nonce",
			func() error { _, err := s.Acquire(ctx, pipe, watermark.RoleDelta, "b", time.Minute, 0); return err },
		},
		{
			"counts are no object", `UPDATE deltad_run SET counts = '[]'`, `UPDATE deltad_run SET counts = '{}'`,
			"deltad_run", "counts",
			func() error { _, err := s.RunByID(ctx, r.ID); return err },
		},
		{
			"run id is no ULID", `UPDATE deltad_run SET id = 'x'`, `UPDATE deltad_run SET id = '` + r.ID + `'`,
			"deltad_run", "id",
			func() error { _, err := s.LatestPublished(ctx, pipe); return err },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := db.Exec(t, c.damage); err != nil {
				t.Fatal(err)
			}
			err := c.call()
			var ce *watermark.CorruptError
			if !errors.As(err, &ce) || !errors.Is(err, watermark.ErrCorrupt) || errors.Is(err, watermark.ErrUnavailable) {
				t.Fatalf("got %v, want corrupt", err)
			}
			if ce.Pipeline != pipe || ce.Table != c.table || ce.Column != c.column {
				t.Errorf("blames pipeline %q, %s.%s; want %q, %s.%s", ce.Pipeline, ce.Table, ce.Column, pipe, c.table, c.column)
			}
			if !strings.Contains(err.Error(), "does not start from nothing") {
				t.Errorf("%v: no guidance", err)
			}
			if err := db.Exec(t, c.repair); err != nil {
				t.Fatal(err)
			}
			if p := mustPipeline(t, s); !p.Watermark.Equal(at(1)) {
				t.Errorf("after the repair the watermark is %s", p.Watermark)
			}
		})
	}
}
