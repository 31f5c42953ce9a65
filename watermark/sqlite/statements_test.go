package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark/watermarktest"
	lib "modernc.org/sqlite"
)

// counting counts what its connections prepare and what of that is open.
type counting struct {
	driver.Connector
	prepared map[string]int
	open     int
}

type countingConn struct {
	connection
	c *counting
}

type countedStmt struct {
	statement
	c *counting
}

func (c *counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn.(connection), c}, nil
}

func (c countingConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	s, err := c.connection.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.c.prepared[text]++
	c.c.open++
	return countedStmt{s.(statement), c.c}, nil
}

func (s countedStmt) Close() error {
	s.c.open--
	return s.statement.Close()
}

// counted is a database of one connection.
func counted(t *testing.T) (*sql.DB, *counting) {
	t.Helper()
	c, err := lib.NewConnector(dsn(filepath.Join(t.TempDir(), "state.db"), time.Second, "immediate"))
	if err != nil {
		t.Fatal(err)
	}
	n := &counting{Connector: c, prepared: map[string]int{}}
	db := sql.OpenDB(connector{n})
	db.SetMaxOpenConns(1)
	return db, n
}

func do(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func number(t *testing.T, db *sql.DB, text string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), text, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func TestStatementIsPreparedOnce(t *testing.T) {
	db, n := counted(t)
	do(t, db, `CREATE TABLE a (x INTEGER NOT NULL) STRICT; CREATE TABLE b (y INTEGER)`)
	const add, sum = `INSERT INTO a (x) VALUES ($1)`, `SELECT sum(x) FROM a WHERE x >= $1`
	for i := range 10 {
		do(t, db, add, i)
		if got, want := number(t, db, sum, 0), i*(i+1)/2; got != want {
			t.Errorf("after %d: %d, want %d", i, got, want)
		}
	}
	// One that fails, and one whose rows are not all read, serve again.
	for range 3 {
		if _, err := db.ExecContext(t.Context(), add, nil); err == nil {
			t.Error("a null went into a column that has none")
		}
		if got := number(t, db, `SELECT x FROM a ORDER BY x DESC`); got != 9 {
			t.Errorf("the largest is %d, want 9", got)
		}
	}
	// So does one of another schema.
	do(t, db, `ALTER TABLE a ADD COLUMN z INTEGER NOT NULL DEFAULT 7`)
	do(t, db, add, 10)
	if got := number(t, db, sum, 0); got != 55 {
		t.Errorf("after the schema changed: %d, want 55", got)
	}
	for _, text := range []string{add, sum} {
		if n.prepared[text] != 1 {
			t.Errorf("%s was prepared %d times, want once", text, n.prepared[text])
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n.open != 0 {
		t.Errorf("%d statements are open after the connection was closed", n.open)
	}
}

func TestStatementIsReadTwiceAtOnce(t *testing.T) {
	db, n := counted(t)
	do(t, db, `CREATE TABLE a (x INTEGER NOT NULL) STRICT`)
	for i := range 3 {
		do(t, db, `INSERT INTO a (x) VALUES ($1)`, i)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// each calls do for the rows of one text.
	each := func(do func(x int)) {
		rows, err := tx.QueryContext(t.Context(), `SELECT x FROM a ORDER BY x`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var x int
			if err := rows.Scan(&x); err != nil {
				t.Fatal(err)
			}
			do(x)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	var pairs []string
	each(func(a int) {
		each(func(b int) { pairs = append(pairs, fmt.Sprint(a, b)) })
	})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if len(pairs) != 9 || pairs[0] != "0 0" || pairs[8] != "2 2" {
		t.Errorf("got %q, want each of three with each of three", pairs)
	}
	if n.open != 3 { // what else was said, and one of the text
		t.Errorf("%d statements are open, want 3", n.open)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStatementsAreBounded(t *testing.T) {
	db, n := counted(t)
	defer db.Close()
	for i := range 3 * mostStatements {
		if got := number(t, db, fmt.Sprintf(`SELECT %d`, i)); got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
		if n.open > mostStatements {
			t.Fatalf("%d statements are open, want at most %d", n.open, mostStatements)
		}
	}
	if err := db.Close(); err != nil || n.open != 0 {
		t.Errorf("%d statements are open after the connection was closed (%v)", n.open, err)
	}
}

// BenchmarkWrite is a transaction of a store.
func BenchmarkWrite(b *testing.B) {
	s := file{filepath.Join(b.TempDir(), "state.db")}.Open(b)
	ctx := watermarktest.Context(b)
	if _, err := s.Migrate(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.EnsurePipeline(ctx, "ads"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLedger is two looks into the ledger as every step takes them.
func BenchmarkLedger(b *testing.B) {
	s := file{filepath.Join(b.TempDir(), "state.db")}.Open(b)
	ctx := watermarktest.Context(b)
	if _, err := s.Migrate(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, limit := range []int{1, 1 << 20} {
			if _, err := s.LedgerRange(ctx, "ads", "", time.Time{}, time.Time{}, limit); err != nil {
				b.Fatal(err)
			}
		}
	}
}
