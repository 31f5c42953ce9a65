// Package sqlite is the embedded state store: one SQLite file, in Go alone.
//
// A write transaction takes the file's write lock when it begins, waits its
// turn and is on disk (WAL, synchronous FULL) when it ends, so an acknowledged
// watermark survives a power cut. Several processes on one machine may use one
// file; network file systems are not supported, because WAL needs shared
// memory and honest locks. The database's clock is the machine's, which is one
// and the same for all processes that can open the file.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/deltad/deltad/migrations"
	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/internal/sqlstore"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Options say where the file is.
type Options struct {
	// Path is the file's. Its folder is made if it is missing.
	Path string
	// CallTimeout bounds each transaction, waiting for the write lock
	// included; 0 means 5 s.
	CallTimeout time.Duration
}

// Open makes a state store of a file, created if missing. Migrate it before
// use. Close it when done.
func Open(ctx context.Context, o Options) (watermark.Store, error) {
	d, steps, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	return sqlstore.New(d, dialect(steps)), nil
}

func open(ctx context.Context, o Options) (*database, []migrations.Migration, error) {
	if o.Path == "" {
		return nil, nil, fmt.Errorf("open state store: %w: no path", watermark.ErrInvalid)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("open state store %s: %w", o.Path, err)
	}
	steps, err := migrations.SQLite()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, fmt.Errorf("open state store %s: %w", path, err)
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 5 * time.Second
	}
	// One writer: SQLite has one anyway, and waiting in Go heeds the context.
	writes, err := newConnector(dsn(path, o.CallTimeout, "immediate"))
	if err != nil {
		return nil, nil, fmt.Errorf("open state store %s: %w", path, err)
	}
	reads, err := newConnector(dsn(path, o.CallTimeout, "deferred"))
	if err != nil {
		return nil, nil, fmt.Errorf("open state store %s: %w", path, err)
	}
	writer, reader := sql.OpenDB(writes), sql.OpenDB(reads)
	writer.SetMaxOpenConns(1)
	reader.SetMaxOpenConns(4)
	d := &database{writer: writer, reader: reader, timeout: o.CallTimeout}
	// The first write connection makes the file and turns WAL on; a reader
	// that came first would do so under a lock that cannot wait.
	if err := d.Update(ctx, func(context.Context, sqlstore.Tx) error { return nil }); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open state store %s: %w", path, opening(err)), d.Close())
	}
	return d, steps, nil
}

// opening puts the first failure into the store's classes.
func opening(err error) error {
	var f *sqlstore.Failure
	switch {
	case errors.As(err, &f) && f.Class == sqlstore.Damaged:
		return &watermark.CorruptError{Table: "(database)", Detail: f.Err.Error()}
	case errors.As(err, &f) && f.Class != sqlstore.Refused:
		return fmt.Errorf("%w: %w", watermark.ErrUnavailable, f.Err)
	default:
		return err
	}
}

func dsn(path string, busy time.Duration, lock string) string {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout("+strconv.FormatInt(busy.Milliseconds(), 10)+")")
	q.Add("_pragma", "journal_mode(WAL)")
	q.Add("_pragma", "synchronous(FULL)")
	q.Add("_txlock", lock)
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// dialect is all that SQLite spells in its own way: instants are microseconds
// since 1970 and booleans 0 or 1, as the tables are STRICT. Update excludes
// every other writer, so neither rows nor the migration need a lock.
func dialect(steps []migrations.Migration) sqlstore.Dialect {
	return sqlstore.Dialect{
		Now:  "CAST(round(unixepoch('subsec') * 1000) * 1000 AS INTEGER)",
		Time: func(t time.Time) any { return t.UnixMicro() },
		Bool: func(b bool) any {
			if b {
				return int64(1)
			}
			return int64(0)
		},
		HasTable: "SELECT count(*) AS n FROM sqlite_schema WHERE type = 'table' AND name = $1",
		Steps:    steps,
	}
}

type database struct {
	writer  *sql.DB
	reader  *sql.DB
	timeout time.Duration
}

func (d *database) Close() error { return errors.Join(d.reader.Close(), d.writer.Close()) }

func (d *database) Update(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	return d.transact(ctx, d.writer, d.timeout, fn)
}

// Migrate has the limit of steps that rewrite a large table.
func (d *database) Migrate(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	return d.transact(ctx, d.writer, 15*time.Minute, fn)
}

func (d *database) View(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	return d.transact(ctx, d.reader, d.timeout, fn)
}

func (d *database) transact(ctx context.Context, db *sql.DB, limit time.Duration,
	fn func(context.Context, sqlstore.Tx) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return classify(err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit a no-op; else fn's error is the one to report
	if err := fn(ctx, transaction{tx}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		f := classify(err)
		if f.Class == sqlstore.Unavailable && db == d.writer {
			f.Class = sqlstore.Unknown // an I/O error at COMMIT may come after the commit record
		}
		return f
	}
	return nil
}

// classify says what an error means for the transaction it ended.
func classify(err error) *sqlstore.Failure {
	f := &sqlstore.Failure{Class: sqlstore.Refused, Err: err}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, sql.ErrConnDone) {
		f.Class = sqlstore.Unavailable
		return f
	}
	var e *driver.Error
	if !errors.As(err, &e) {
		return f
	}
	switch e.Code() & 0xff { // the primary code below the extended one
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_FULL, lib.SQLITE_CANTOPEN,
		lib.SQLITE_INTERRUPT, lib.SQLITE_NOMEM, lib.SQLITE_READONLY, lib.SQLITE_PROTOCOL, lib.SQLITE_PERM:
		f.Class = sqlstore.Unavailable
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		f.Class = sqlstore.Damaged
	}
	return f
}

type transaction struct{ tx *sql.Tx }

func (t transaction) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	res, err := t.tx.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, classify(err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, classify(err)
	}
	return n, nil
}

func (t transaction) Script(ctx context.Context, text string) error {
	if _, err := t.tx.ExecContext(ctx, text); err != nil {
		return classify(err)
	}
	return nil
}

func (t transaction) Query(ctx context.Context, text string, args ...any) ([]sqlstore.Row, error) {
	rows, err := t.tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, classify(err)
	}
	var out []sqlstore.Row
	for rows.Next() {
		values := make([]any, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, classify(err)
		}
		out = append(out, sqlstore.NewRow(names, values))
	}
	if err := rows.Err(); err != nil {
		return nil, classify(err)
	}
	return out, nil
}
