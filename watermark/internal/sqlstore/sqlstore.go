// Package sqlstore is the state store over any SQL database that can run one
// statement text: what a lease, a publication or an intent means is written
// here once, and what differs between databases is a [Dialect] and a [DB].
//
// Every operation is one transaction of a function that may run again: it
// looks by id first, so running it after a COMMIT whose answer was lost tells
// whether that COMMIT happened and does the work only if it did not. A
// transaction that died on its way still holds the lock on the lease or
// pipeline row until the database has decided about it, so the second run
// cannot overtake the first. That is why a lost answer needs no guess.
//
// Order of row locks, the same everywhere: lease, pipeline, then the rest.
package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deltad/deltad/migrations"
	"github.com/deltad/deltad/watermark"
)

// DB is a database. Its methods run fn in one transaction with a deadline of
// their own inside ctx, commit if it returns nil and roll back if not. An
// error of the database is a [*Failure]; an error that fn made is returned as
// it is.
type DB interface {
	// Update is a transaction that may write.
	Update(ctx context.Context, fn func(context.Context, Tx) error) error
	// Migrate is an Update that may take minutes.
	Migrate(ctx context.Context, fn func(context.Context, Tx) error) error
	// View is a transaction that only reads.
	View(ctx context.Context, fn func(context.Context, Tx) error) error
	Close() error
}

// Tx runs statements. Parameters are $1, $2, ….
type Tx interface {
	// Exec returns how many rows it changed.
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	// Query returns all rows.
	Query(ctx context.Context, sql string, args ...any) ([]Row, error)
	// Script runs several statements without parameters.
	Script(ctx context.Context, sql string) error
}

// Dialect is everything in which the databases differ.
type Dialect struct {
	// Now is an expression for the database's clock at the moment it is
	// evaluated; statements write it as @now.
	Now string
	// Lock ends a SELECT whose rows stay locked until the transaction ends;
	// statements write it as @lock. Empty where Update excludes all others.
	Lock string
	// Time and Bool turn a value into a parameter. Time never sees the zero
	// time, which is null.
	Time func(time.Time) any
	Bool func(bool) any
	// MigrationLock is run first in the transaction that migrates, and ends
	// with it. Empty where Update excludes all others.
	MigrationLock string
	// HasTable counts the tables named $1.
	HasTable string
	// Steps is the schema.
	Steps []migrations.Migration
}

// Class is what a failure of the database means for the transaction.
type Class int

const (
	// Refused is an error of the statement: it would be refused again.
	Refused Class = iota
	// Unavailable is a database that cannot be asked now.
	Unavailable
	// RolledBack did not happen and is worth another run at once: a
	// serialization conflict, a connection that broke before COMMIT.
	RolledBack
	// Unknown may have happened: COMMIT was sent and not answered.
	Unknown
	// Damaged is a database that is broken at rest.
	Damaged
)

// Failure is an error of the database.
type Failure struct {
	Class Class
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// Store is a [watermark.Store]. Each part is a type of its own.
type Store struct {
	schema
	leases
	pipelines
	journal
	ledger
	objects
	audit
	intents
	requests
	instances
	rebuilds
	bars
	pins
	configs
	prunes
	db DB
}

// New makes a store of a database. It does no I/O.
func New(db DB, d Dialect) *Store {
	c := &core{db: db, d: d, words: strings.NewReplacer("@now", d.Now, "@lock", d.Lock)}
	return &Store{
		schema:    schema{c},
		leases:    leases{c},
		pipelines: pipelines{c},
		journal:   journal{c},
		ledger:    ledger{c},
		objects:   objects{c},
		audit:     audit{c},
		intents:   intents{c},
		requests:  requests{c},
		instances: instances{c},
		rebuilds:  rebuilds{c},
		bars:      bars{c},
		pins:      pins{c},
		configs:   configs{c},
		prunes:    prunes{c},
		db:        db,
	}
}

// Close lets go of the database.
func (s *Store) Close() error { return s.db.Close() }

type core struct {
	db    DB
	d     Dialect
	words *strings.Replacer
}

// reruns is how often an operation runs again after a failure that is worth
// it: once to learn what became of a lost COMMIT, once more because all
// connections of a pool break together and each is found broken singly.
const reruns = 2

// update runs fn in a transaction, again where that is worth it. fn must look
// by id first and must set its results anew each time.
func (c *core) update(ctx context.Context, what string, fn func(q *query) error) error {
	return c.run(ctx, what, c.db.Update, fn)
}

// view is update for a transaction that only reads.
func (c *core) view(ctx context.Context, what string, fn func(q *query) error) error {
	return c.run(ctx, what, c.db.View, fn)
}

func (c *core) run(ctx context.Context, what string,
	tx func(context.Context, func(context.Context, Tx) error) error, fn func(q *query) error,
) error {
	for attempt := 0; ; attempt++ {
		err := tx(ctx, func(ctx context.Context, tx Tx) error {
			return fn(&query{ctx: ctx, tx: tx, c: c})
		})
		if err == nil {
			return nil
		}
		var f *Failure
		if !errors.As(err, &f) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if attempt < reruns && (f.Class == RolledBack || f.Class == Unknown) && pause(ctx, attempt) {
			continue
		}
		return explain(ctx, what, f.Class, err)
	}
}

// pause waits a moment, longer each time, and reports whether ctx still lives.
func pause(ctx context.Context, attempt int) bool {
	t := time.NewTimer(time.Duration(attempt+1) * 5 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// explain turns a failure into the error classes of package watermark.
func explain(ctx context.Context, what string, class Class, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		// The caller's own reason, which may be a stop: not an outage.
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case class == Damaged:
		return fmt.Errorf("%s: %w", what, &watermark.CorruptError{Table: "(database)", Detail: err.Error()})
	case class == Unknown:
		return fmt.Errorf("%s: %w: outcome unknown, repeat the call: %w", what, watermark.ErrUnavailable, err)
	case class == Refused:
		return fmt.Errorf("%s: %w", what, err)
	default:
		return fmt.Errorf("%s: %w: %w", what, watermark.ErrUnavailable, err)
	}
}

// query is a transaction under way, in the words of the dialect.
type query struct {
	ctx context.Context
	tx  Tx
	c   *core
}

func (q *query) exec(sql string, args ...any) (int64, error) {
	return q.tx.Exec(q.ctx, q.c.words.Replace(sql), q.params(args)...)
}

func (q *query) rows(sql string, args ...any) ([]Row, error) {
	return q.tx.Query(q.ctx, q.c.words.Replace(sql), q.params(args)...)
}

// one returns the first row, or found=false.
func (q *query) one(sql string, args ...any) (r Row, found bool, err error) {
	all, err := q.rows(sql, args...)
	if err != nil || len(all) == 0 {
		return Row{}, false, err
	}
	return all[0], true, nil
}

func (q *query) params(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case time.Time:
			if !v.IsZero() {
				out[i] = q.c.d.Time(v.UTC().Truncate(time.Microsecond))
			}
		case bool:
			out[i] = q.c.d.Bool(v)
		case int:
			out[i] = int64(v)
		default:
			out[i] = a
		}
	}
	return out
}

// insert adds rows in as few statements as few distinct texts allow: chunks of
// fixed sizes, so that the driver's cache of descriptions stays small. A cell
// that is an [expr] goes into the text. It returns the number of rows changed.
func (q *query) insert(into, conflict string, rows [][]any) (int64, error) {
	var changed int64
	for _, size := range [...]int{256, 32, 4, 1} {
		for len(rows) >= size {
			var sql strings.Builder
			sql.WriteString("INSERT INTO " + into + " VALUES ")
			var args []any
			for i, r := range rows[:size] {
				sql.WriteString(separator(i, "(", ", ("))
				for j, cell := range r {
					sql.WriteString(separator(j, "", ", "))
					if e, ok := cell.(expr); ok {
						sql.WriteString(string(e))
						continue
					}
					args = append(args, cell)
					fmt.Fprintf(&sql, "$%d", len(args))
				}
				sql.WriteString(")")
			}
			sql.WriteString(" " + conflict)
			n, err := q.exec(sql.String(), args...)
			if err != nil {
				return changed, err
			}
			changed += n
			rows = rows[size:]
		}
	}
	return changed, nil
}

// expr is a cell that is SQL text rather than a parameter.
type expr string

func separator(i int, first, then string) string {
	if i == 0 {
		return first
	}
	return then
}
