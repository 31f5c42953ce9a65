// Package postgres is the state store on PostgreSQL, through pgx.
//
// Nothing outlives a transaction. There are no session settings, session
// locks, LISTEN or named prepared statements, so a transaction-mode pooler may
// hand each transaction to another backend: statements are described once and
// then sent as unnamed ones with their parameters in a single round trip
// (pgx.QueryExecModeCacheDescribe), never by a name that another backend does
// not know. The limits of a transaction are set with SET LOCAL in the same
// message as BEGIN, so a client that vanishes from the network holds the lease
// row for seconds and not until the kernel gives up the connection.
//
// Every call has a deadline. A COMMIT that was sent and not answered is
// reported as unknown, and the store above looks again by id. A read-only
// server (SQLSTATE 25006, what a failover leaves behind) costs the pool its
// connections, so that the next attempt may reach the new primary.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/migrations"
	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/internal/sqlstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options say where the database is.
type Options struct {
	// URL is a postgres:// URL or a keyword=value string, as libpq takes it,
	// with the pool_… settings of pgxpool.
	URL string
	// Password, if set, is asked for each new connection, so that a rotated
	// secret file is picked up.
	Password func(context.Context) (string, error)
	// MaxConns bounds the pool; 0 means what the URL says.
	MaxConns int32
	// CallTimeout bounds each transaction, waiting for a connection included;
	// 0 means 5 s.
	CallTimeout time.Duration
	// ApplicationName is what pg_stat_activity shows; '' means deltad.
	ApplicationName string

	// pool changes the pool before it is made, in tests.
	pool func(*pgxpool.Config)
}

// Open makes a state store of a database. It checks the options and does no
// I/O: a database that is down is found by the first call. Migrate it before
// use. Close it when done.
func Open(ctx context.Context, o Options) (watermark.Store, error) {
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("parse state store url: %w", err) // pgx keeps the password out of it
	}
	steps, err := migrations.Postgres()
	if err != nil {
		return nil, err
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 5 * time.Second
	}
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	cfg.ConnConfig.StatementCacheCapacity = 0
	cfg.ConnConfig.DescriptionCacheCapacity = 256
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = o.CallTimeout
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "deltad"
		if o.ApplicationName != "" {
			cfg.ConnConfig.RuntimeParams["application_name"] = o.ApplicationName
		}
	}
	if o.Password != nil {
		cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
			secret, err := o.Password(ctx)
			if err != nil {
				return fmt.Errorf("read state store password: %w", err)
			}
			c.Password = secret
			return nil
		}
	}
	if o.pool != nil {
		o.pool(cfg)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open state store: %w", err)
	}
	d := &database{pool: pool, timeout: o.CallTimeout}
	return sqlstore.New(d, dialect(steps)), nil
}

// dialect is all that Postgres spells in its own way.
func dialect(steps []migrations.Migration) sqlstore.Dialect {
	return sqlstore.Dialect{
		// The moment of evaluation, not of BEGIN: a transaction may have
		// waited for the lease row in between.
		Now:  "clock_timestamp()",
		Lock: " FOR UPDATE",
		Time: func(t time.Time) any { return t },
		Bool: func(b bool) any { return b },
		// Transaction-scoped, so a pooler cannot strand it. The number is
		// arbitrary and only ours.
		MigrationLock: "SELECT pg_advisory_xact_lock(7234890117)",
		HasTable:      "SELECT count(*) AS n FROM pg_catalog.pg_class WHERE oid = to_regclass($1)",
		Steps:         steps,
	}
}

// beginWithin opens a transaction whose limits are its own. READ COMMITTED is
// said because the locks on lease and pipeline rows are the order, and a
// default of SERIALIZABLE would only add conflicts. The access mode is not
// said: a session that is read-only by default should be noticed.
//
// A session that is idle in a transaction for the limit has a client that is
// past its deadline: what the transaction holds, the lease row above all, is
// free for the client's next call.
func beginWithin(limit time.Duration) string {
	ms := max(1, limit.Milliseconds())
	return fmt.Sprintf("begin isolation level read committed; set local statement_timeout = %d; "+
		"set local idle_in_transaction_session_timeout = %d", ms, ms)
}

type database struct {
	pool    *pgxpool.Pool
	timeout time.Duration
}

// migrationTimeout is for steps that rewrite a large table, and for waiting
// until another process has done so.
const migrationTimeout = 15 * time.Minute

func (d *database) Close() error {
	d.pool.Close()
	return nil
}

func (d *database) Update(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	return d.transact(ctx, d.timeout, "", fn)
}

func (d *database) Migrate(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	return d.transact(ctx, migrationTimeout, "", fn)
}

func (d *database) View(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	err := d.transact(ctx, d.timeout, "; set transaction read only", fn)
	var f *sqlstore.Failure
	if errors.As(err, &f) && f.Class == sqlstore.Unknown {
		f.Class = sqlstore.RolledBack // nothing was written, so nothing is in doubt
	}
	return err
}

func (d *database) transact(ctx context.Context, limit time.Duration, mode string,
	fn func(context.Context, sqlstore.Tx) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return classify(err, beforeCommit)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginWithin(limit) + mode})
	if err != nil {
		d.discard(ctx, conn, err)
		return classify(err, beforeCommit)
	}
	if err := fn(ctx, transaction{tx}); err != nil {
		d.rollback(ctx, tx)
		d.discard(ctx, conn, err)
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		d.discard(ctx, conn, err)
		return classify(err, atCommit)
	}
	return nil
}

// rollback runs on a context of its own: a caller that gave up must not leave
// the lease row locked. pgx closes the connection if it cannot be done.
func (d *database) rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx) // the transaction's own error is the one to report
}

// readOnly is the SQLSTATE of a write on a server that stopped being primary.
const readOnly = "25006"

// discard drops connections that lead to a server which cannot write any more,
// and takes broken ones out of the pool at once.
func (d *database) discard(ctx context.Context, conn *pgxpool.Conn, err error) {
	if conn.Conn().IsClosed() {
		// pgx says goodbye in the background, for up to 15 s where nobody
		// answers, and the pool would count the connection as long: a lost
		// network would fill it beyond the time of a lease.
		conn.Hijack()
		return
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != readOnly {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Conn().Close(ctx) // on its way out whatever it answers
	d.pool.Reset()
}

type transaction struct{ tx pgx.Tx }

func (t transaction) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, sql, args...)
	if err != nil {
		return 0, classify(err, beforeCommit)
	}
	return tag.RowsAffected(), nil
}

func (t transaction) Script(ctx context.Context, sql string) error {
	// Without parameters pgx uses the simple protocol, which takes several
	// statements.
	if _, err := t.tx.Exec(ctx, sql); err != nil {
		return classify(err, beforeCommit)
	}
	return nil
}

func (t transaction) Query(ctx context.Context, sql string, args ...any) ([]sqlstore.Row, error) {
	rows, err := t.tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err, beforeCommit)
	}
	defer rows.Close()
	var names []string
	for _, f := range rows.FieldDescriptions() {
		names = append(names, f.Name)
	}
	var out []sqlstore.Row
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, classify(err, beforeCommit)
		}
		for i, v := range values {
			// Named, so that the error about it can be understood.
			if inf, ok := v.(pgtype.InfinityModifier); ok {
				values[i] = inf.String()
			}
		}
		out = append(out, sqlstore.NewRow(names, values))
	}
	if err := rows.Err(); err != nil {
		return nil, classify(err, beforeCommit)
	}
	return out, nil
}
