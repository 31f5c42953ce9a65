package watermarktest

import (
	"errors"
	"strings"
	"testing"

	"github.com/deltad/deltad/watermark"
	"golang.org/x/sync/errgroup"
)

func migrateTwice(t *testing.T, db Database) {
	ctx := Context(t)
	s := db.Open(t)
	if err := s.Check(ctx); !errors.Is(err, watermark.ErrSchemaPending) {
		t.Fatalf("check of an empty database: %v, want pending migrations", err)
	}
	if v, err := s.SchemaVersion(ctx); v != 0 || err != nil {
		t.Fatalf("version of an empty database: %d, %v", v, err)
	}
	first, err := s.Migrate(ctx)
	if err != nil || len(first) == 0 || !strings.HasPrefix(first[0], "0001_") {
		t.Fatalf("first migration applied %v, %v", first, err)
	}
	second, err := s.Migrate(ctx)
	if err != nil || len(second) != 0 {
		t.Fatalf("second migration applied %v, %v; want nothing", second, err)
	}
	if v, err := s.SchemaVersion(ctx); v != len(first) || err != nil {
		t.Fatalf("version %d, %v; want %d", v, err, len(first))
	}
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
}

func migrateAtOnce(t *testing.T, db Database) {
	var g errgroup.Group
	applied := make([]int, 6)
	for i := range applied {
		s := db.Open(t)
		g.Go(func() error {
			names, err := s.Migrate(Context(t))
			applied[i] = len(names)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	did := 0
	for _, n := range applied {
		if n > 0 {
			did++
		}
	}
	if did != 1 {
		t.Fatalf("%d of %d processes applied migrations (%v), want one", did, len(applied), applied)
	}
}

func migrateTooNew(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	v, err := s.SchemaVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(t, `INSERT INTO deltad_migration (version, name, sha256)
		SELECT max(version) + 1, '9999_add_future', 'ff' FROM deltad_migration`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(ctx); !errors.Is(err, watermark.ErrSchemaTooNew) || !strings.Contains(err.Error(), "9999_add_future") {
		t.Fatalf("migrate: %v, want a refusal that names the unknown step", err)
	}
	if err := s.Check(ctx); !errors.Is(err, watermark.ErrSchemaTooNew) {
		t.Fatalf("check: %v, want a refusal", err)
	}
	if got, err := s.SchemaVersion(ctx); got != v+1 || err != nil {
		t.Fatalf("version %d, %v; want %d", got, err, v+1)
	}
}

func migrateRewritten(t *testing.T, db Database) {
	s := Migrated(t, db)
	if err := db.Exec(t, `UPDATE deltad_migration SET sha256 = 'ff' WHERE version = 2`); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(Context(t)); !errors.Is(err, watermark.ErrSchemaTooNew) || !strings.Contains(err.Error(), "0002_") {
		t.Fatalf("check: %v, want a refusal that names step 2", err)
	}
}

func identity(t *testing.T, db Database) {
	ctx := Context(t)
	a, b := Migrated(t, db), Migrated(t, db)
	x, err := a.StateID(ctx)
	if err != nil || len(x) != 32 {
		t.Fatalf("state id %q, %v; want 32 hex digits", x, err)
	}
	if y, err := b.StateID(ctx); y != x || err != nil {
		t.Fatalf("another handle has state id %q, %v; want %q", y, err, x)
	}
	if err := db.Exec(t, `DELETE FROM deltad_identity`); err != nil {
		t.Fatal(err)
	}
	if _, err := a.StateID(ctx); !errors.Is(err, watermark.ErrCorrupt) {
		t.Fatalf("a missing identity: %v, want corrupt", err)
	}
}
