// Package duck asks DuckDB, so that tests can compare what deltad publishes
// with what an engine that shares no code with it computes from the same
// files.
//
// A database lives in memory and ends with its test. DuckDB reads files by
// their paths (read_parquet, read_json, read_csv are compiled in); it is told
// not to load or fetch extensions.
package duck

import (
	"context"
	"database/sql"
	"fmt"

	// Registers the driver "duckdb" and links DuckDB statically.
	_ "github.com/duckdb/duckdb-go/v2"
)

// DB is an in-memory DuckDB database.
type DB struct{ db *sql.DB }

// Row is one row of a result; its keys are the column names. Values are what
// the driver makes of them: int64 for BIGINT, string for VARCHAR, time.Time for
// TIMESTAMP, *big.Int for HUGEINT, nil for NULL.
type Row map[string]any

// Open starts an empty database in memory. Its time zone is UTC.
func Open(ctx context.Context) (*DB, error) {
	db, err := sql.Open("duckdb", "?autoinstall_known_extensions=false&autoload_known_extensions=false")
	if err != nil {
		return nil, fmt.Errorf("open duckdb in memory: %w", err)
	}
	// One connection: a setting or a temporary table of one query must be there
	// for the next.
	db.SetMaxOpenConns(1)
	d := &DB{db: db}
	if err := db.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("open duckdb in memory: %w", err)
	}
	return d, nil
}

// Close ends the database.
func (d *DB) Close() error {
	if err := d.db.Close(); err != nil {
		return fmt.Errorf("close duckdb: %w", err)
	}
	return nil
}

// Exec runs a statement that has no result.
func (d *DB) Exec(ctx context.Context, query string, args ...any) error {
	if _, err := d.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("run in duckdb %q: %w", query, err)
	}
	return nil
}

// Query returns all rows of a result, in its order.
func (d *DB) Query(ctx context.Context, query string, args ...any) ([]Row, error) {
	rows, err := d.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("ask duckdb %q: %w", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("ask duckdb %q: %w", query, err)
	}
	var all []Row
	for rows.Next() {
		values, ptrs := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			ptrs[i] = &values[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return nil, fmt.Errorf("read row %d of duckdb %q: %w", len(all), query, err)
		}
		row := make(Row, len(names))
		for i, n := range names {
			row[n] = values[i]
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("ask duckdb %q: %w", query, err)
	}
	return all, nil
}
