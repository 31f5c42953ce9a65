package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/watermarktest"
)

// file is one database file of a test.
type file struct{ path string }

func fresh(t testing.TB) watermarktest.Database {
	t.Helper()
	return file{path: filepath.Join(t.TempDir(), "a b%20c", "state #1?.db")}
}

func (f file) Open(t testing.TB) watermark.Store {
	t.Helper()
	s, err := Open(watermarktest.Context(t), Options{Path: f.path, CallTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func (f file) Exec(t testing.TB, statement string) error {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(f.path, 20*time.Second, "immediate"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(statement)
	return err
}

func TestConformance(t *testing.T) { watermarktest.Run(t, fresh) }
