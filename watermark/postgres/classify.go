package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/deltad/deltad/watermark/internal/sqlstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// moment is where in a transaction an error came.
type moment bool

const (
	beforeCommit moment = false
	atCommit     moment = true
)

// classify says what an error means for the transaction it ended.
//
// Before COMMIT is sent nothing can have happened. From then on, only an
// answer of the server decides: an error message other than that of a session
// being ended is a rollback, everything else (a broken connection, a deadline,
// a server that shuts down) leaves the outcome unknown.
func classify(err error, when moment) error {
	return &sqlstore.Failure{Class: class(err, when), Err: err}
}

func class(err error, when moment) sqlstore.Class {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return sqlstore.RolledBack
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return classOfState(pg.Code, when)
	}
	switch {
	case when == atCommit && !pgconn.SafeToRetry(err):
		return sqlstore.Unknown
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), pgconn.Timeout(err):
		return sqlstore.Unavailable // waiting again in the same call would double its deadline
	case isConnect(err):
		return sqlstore.Unavailable
	default:
		return sqlstore.RolledBack // the connection broke; another may be whole
	}
}

// isConnect says that no connection could be made at all.
func isConnect(err error) bool {
	var c *pgconn.ConnectError
	return errors.As(err, &c)
}

// classOfState sorts SQLSTATEs, by class (the first two characters) where the
// class is of one kind.
func classOfState(code string, when moment) sqlstore.Class {
	switch {
	case strings.HasPrefix(code, "XX"):
		// internal_error, data_corrupted, index_corrupted
		return sqlstore.Damaged
	case strings.HasPrefix(code, "08"), code == "57P01", code == "57P02", code == "57P05", code == "25P03":
		// The session ended: administrator, crash, idle limits.
		if when == atCommit {
			return sqlstore.Unknown
		}
		return sqlstore.RolledBack
	case code == readOnly:
		return sqlstore.RolledBack
	case strings.HasPrefix(code, "40"), code == "23505":
		// Serialization and deadlock; two first inserts of one row, the second
		// of which finds it when it runs again.
		return sqlstore.RolledBack
	case strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57"), strings.HasPrefix(code, "58"),
		strings.HasPrefix(code, "28"), code == "55P03", code == "3D000":
		// Out of resources, shutting down or starting, statement timeout, I/O;
		// credentials and a missing database, which people repair without a
		// restart of the daemon.
		return sqlstore.Unavailable
	default:
		return sqlstore.Refused
	}
}
