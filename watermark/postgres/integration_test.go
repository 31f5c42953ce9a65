//go:build integration

package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/watermarktest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// server is the DSN of a superuser, from the environment. Each test makes
// databases of its own there.
func server(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv("DELTAD_TEST_PG")
	if dsn == "" {
		t.Fatal("DELTAD_TEST_PG is not set: want the URL of a superuser on a PostgreSQL server for tests")
	}
	return dsn
}

// base is a schema of its own in the database of this test run, as fast to
// make as a database is slow; tune changes the options of its handles.
type base struct {
	url  string
	tune func(*Options)
}

func fresh(t testing.TB) watermarktest.Database {
	t.Helper()
	return newBase(t, nil)
}

// shared is the database of this test run.
var shared struct {
	once sync.Once
	url  *url.URL
	drop func() error
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.drop != nil {
		if err := shared.drop(); err != nil {
			fmt.Fprintln(os.Stderr, "drop the test database:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func execOn(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func newBase(t testing.TB, tune func(*Options)) base {
	t.Helper()
	admin := server(t)
	shared.once.Do(func() {
		name := "deltad_test_" + strings.ToLower(watermarktest.ID())
		if shared.url, shared.err = url.Parse(admin); shared.err != nil {
			return
		}
		if shared.err = execOn(admin, "create database "+name); shared.err != nil {
			return
		}
		shared.url.Path = "/" + name
		shared.drop = func() error { return execOn(admin, "drop database "+name+" with (force)") }
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	schema := "s" + strings.ToLower(watermarktest.ID())
	if err := execOn(shared.url.String(), "create schema "+schema); err != nil {
		t.Fatal(err)
	}
	u := *shared.url
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return base{url: u.String(), tune: tune}
}

func (b base) Open(t testing.TB) watermark.Store {
	t.Helper()
	return b.at(t, b.url)
}

// at opens a handle that reaches the database by another way.
func (b base) at(t testing.TB, dsn string) watermark.Store {
	t.Helper()
	o := Options{URL: dsn, CallTimeout: 10 * time.Second}
	if b.tune != nil {
		b.tune(&o)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (b base) conn(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (b base) Exec(t testing.TB, sql string) error {
	t.Helper()
	return execOn(b.url, sql)
}

func TestConformance(t *testing.T) { watermarktest.Run(t, fresh) }

// TestB32NothingOutlivesATransaction runs the whole suite the way a
// transaction-mode pooler would treat it at its worst: every transaction gets
// another backend, and what a transaction left in its session is looked for
// before the session is thrown away.
func TestB32NothingOutlivesATransaction(t *testing.T) {
	var seen, stranded atomic.Int64
	var what atomic.Value
	suite := func(t *testing.T, fresh func(testing.TB) watermarktest.Database) {
		// The group waits for its tests, which run side by side.
		t.Run("suite", func(t *testing.T) { watermarktest.Run(t, fresh) })
	}
	suite(t, func(t testing.TB) watermarktest.Database {
		t.Helper()
		return newBase(t, func(o *Options) {
			o.pool = func(c *pgxpool.Config) {
				c.AfterRelease = func(conn *pgx.Conn) bool {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					defer cancel()
					var locks, statements, settings, listening int
					err := conn.QueryRow(ctx, `select
						(select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
						(select count(*) from pg_prepared_statements where name <> ''),
						(select count(*) from pg_settings where source = 'session' and name like '%timeout'),
						(select count(*) from pg_listening_channels())`, pgx.QueryExecModeSimpleProtocol).
						Scan(&locks, &statements, &settings, &listening)
					if err != nil {
						return false // a broken session leaves nothing either
					}
					seen.Add(1)
					if locks+statements+settings+listening > 0 {
						stranded.Add(1)
						what.Store(fmt.Sprintf("%d advisory locks, %d prepared statements, %d settings, %d channels",
							locks, statements, settings, listening))
					}
					return false
				}
			}
		})
	})
	if seen.Load() < 100 {
		t.Fatalf("only %d transactions were looked at", seen.Load())
	}
	if stranded.Load() > 0 {
		t.Fatalf("%d of %d transactions left something in their session: %v", stranded.Load(), seen.Load(), what.Load())
	}
}
