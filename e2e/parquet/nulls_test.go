//go:build integration

package parquet_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/partition"
)

// TestNullsOfDuckDB: a column that is NULL throughout has in a file whatever type
// DuckDB takes NULL for, or was told to. The slices are those of files in which it
// has its own.
func TestNullsOfDuckDB(t *testing.T) {
	db, err := duck.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dir := t.TempDir()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, Fields: []index.FieldSpec{
		{Name: "sum", Fn: "sum", Args: []string{"n"}}, {Name: "s", Fn: "latest", Args: []string{"s"}}, {Name: "tags", Fn: "latest", Args: []string{"tags"}},
		{Name: "rows", Fn: "count", Args: []string{"*"}},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	b := slice.Builder{Program: program, Format: scan.Parquet, Open: func(o partition.Object) (scan.Blob, map[string]string) {
		data, err := os.ReadFile(filepath.Join(dir, o.Key))
		if err != nil {
			t.Error(err)
		}
		return blob{o.Key, data}, nil
	}}
	start := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	// object is a file of the rows of a query, in the n-th partition.
	object := func(n int, name, query string) slice.Input {
		file := filepath.Join(dir, name)
		if err := db.Exec(t.Context(), fmt.Sprintf("copy (%s) to '%s' (format parquet)", query, file)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		at := start.Add(time.Duration(n) * time.Minute)
		return slice.Input{Start: at, Objects: []partition.Object{{Key: name, ETag: "e", Size: info.Size(), Partition: at}}}
	}
	const values = `select 'k' || (i % 7) k, i::bigint n, 's' || i s, ['a', 's' || i] tags, timestamp '2026-11-30 03:00:00' + to_seconds(i) ts from range(100) t(i)`
	nulls := func(n, s, tags, ts string) string {
		return fmt.Sprintf("select 'k' || (i %% 9) k, %s n, %s s, %s tags, %s ts from range(50) t(i)", n, s, tags, ts)
	}
	for i, types := range [][4]string{
		{"null", "null", "null", "null"}, // which DuckDB takes for integers
		{"null::double", "null::blob", "null::varchar", "null::bigint"},
		{"null::boolean", "null::date", "null::struct(a integer)", "null::varchar"},
		{"null::varchar[]", "null::integer[]", "null::integer[]", "null::double"},
	} {
		var runs [2][][]byte
		for as, query := range []string{nulls("null::bigint", "null::varchar", "null::varchar[]", "null::timestamp"), nulls(types[0], types[1], types[2], types[3])} {
			inputs := []slice.Input{object(0, "values.parquet", values), object(1, fmt.Sprintf("nulls-%d-%d.parquet", i, as), query)}
			w, err := b.Window(t.Context(), inputs, nil, nil, slice.NewCache(1<<30), 2)
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			for _, s := range w.Slices {
				run, err := io.ReadAll(io.NewSectionReader(s.Run, 0, s.Run.Size()))
				if err != nil {
					t.Fatal(err)
				}
				runs[as] = append(runs[as], run)
			}
		}
		for n := range runs[0] {
			if !bytes.Equal(runs[0][n], runs[1][n]) {
				t.Errorf("%v: slice %d differs from that of the right types", types, n)
			}
		}
	}
}
