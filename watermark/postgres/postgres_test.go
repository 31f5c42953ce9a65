package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/internal/sqlstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestClassify(t *testing.T) {
	state := func(code string) error { return fmt.Errorf("exec: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		name           string
		err            error
		before, commit sqlstore.Class
	}{
		{"connection broke", io.ErrUnexpectedEOF, sqlstore.RolledBack, sqlstore.Unknown},
		{"deadline", context.DeadlineExceeded, sqlstore.Unavailable, sqlstore.Unknown},
		{"cancelled", context.Canceled, sqlstore.Unavailable, sqlstore.Unknown},
		{"no connection", &pgconn.ConnectError{}, sqlstore.Unavailable, sqlstore.Unknown},
		{"commit of an aborted transaction", pgx.ErrTxCommitRollback, sqlstore.RolledBack, sqlstore.RolledBack},
		{"terminated by the administrator", state("57P01"), sqlstore.RolledBack, sqlstore.Unknown},
		{"server crashed", state("57P02"), sqlstore.RolledBack, sqlstore.Unknown},
		{"idle in transaction too long", state("25P03"), sqlstore.RolledBack, sqlstore.Unknown},
		{"read-only", state("25006"), sqlstore.RolledBack, sqlstore.RolledBack},
		{"deadlock", state("40P01"), sqlstore.RolledBack, sqlstore.RolledBack},
		{"serialization", state("40001"), sqlstore.RolledBack, sqlstore.RolledBack},
		{"two first inserts", state("23505"), sqlstore.RolledBack, sqlstore.RolledBack},
		{"statement timeout", state("57014"), sqlstore.Unavailable, sqlstore.Unavailable},
		{"starting up", state("57P03"), sqlstore.Unavailable, sqlstore.Unavailable},
		{"too many connections", state("53300"), sqlstore.Unavailable, sqlstore.Unavailable},
		{"disk full", state("53100"), sqlstore.Unavailable, sqlstore.Unavailable},
		{"wrong password", state("28P01"), sqlstore.Unavailable, sqlstore.Unavailable},
		{"damaged page", state("XX001"), sqlstore.Damaged, sqlstore.Damaged},
		{"no such table", state("42P01"), sqlstore.Refused, sqlstore.Refused},
		{"append-only trigger", state("P0001"), sqlstore.Refused, sqlstore.Refused},
	} {
		if got := class(c.err, beforeCommit); got != c.before {
			t.Errorf("%s before COMMIT: class %d, want %d", c.name, got, c.before)
		}
		if got := class(c.err, atCommit); got != c.commit {
			t.Errorf("%s at COMMIT: class %d, want %d", c.name, got, c.commit)
		}
	}
}

func TestOpenDoesNoIO(t *testing.T) {
	s, err := Open(context.Background(), Options{URL: "postgres://deltad@127.0.0.1:1/deltad", CallTimeout: 2 * time.Second})
	if err != nil {
		t.Fatalf("open with the database down: %v", err)
	}
	if _, err := s.Pipeline(context.Background(), "ads"); !errors.Is(err, watermark.ErrUnavailable) {
		t.Fatalf("a call with the database down: %v, want unavailable", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenKeepsThePasswordToItself(t *testing.T) {
	_, err := Open(context.Background(), Options{URL: "postgres://deltad:hunter2secret@db:notaport/deltad"})
	if err == nil || strings.Contains(err.Error(), "hunter2secret") {
		t.Fatalf("got %v, want an error without the password", err)
	}
}

func TestPasswordIsAskedForEachConnection(t *testing.T) {
	asked := errors.New("secret file is gone")
	s, err := Open(context.Background(), Options{
		URL:      "postgres://deltad@127.0.0.1:1/deltad",
		Password: func(context.Context) (string, error) { return "", asked },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.StateID(context.Background()); !errors.Is(err, asked) || !errors.Is(err, watermark.ErrUnavailable) {
		t.Fatalf("got %v, want the secret's own error as an outage", err)
	}
}
