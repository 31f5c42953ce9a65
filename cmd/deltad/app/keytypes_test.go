package app_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/sinktest"
)

// TestAKeyThatWidens: once a producer writes its key wider than the base has it, the index is read over the base as before: by get, explain,
// diff and verify.
func TestAKeyThatWidens(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		was, is     column.Type
		base, delta []string // keys
		find        map[string]int
	}{
		{"int32 to int64", column.Of(column.Int32), column.Of(column.Int64), []string{"1", "5"}, []string{"1", "1099511627776"},
			map[string]int{"1": 2, "5": 1, "1099511627776": 1, "7": 0}},
		{"float to double", column.Of(column.Float32), column.Of(column.Float64), []string{"0.1", "1.5"}, []string{"0.1", "1.5"},
			map[string]int{"0.1": 1, "0.10000000149011612": 1, "1.5": 2, "2.5": 0}},
		{"from no type", column.Type{}, column.Of(column.Int64), nil, []string{"5"}, map[string]int{"5": 1, "6": 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "deltad.yaml")
			text := fmt.Sprintf(`state: {url: "sqlite://%s/state.db"}
admin: {listen: ""}
pipelines:
  p:
    source: {url: "file://%s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: parquet}
    window: {size: 4m}
    index: {key: [id], fields: {n: {count: "*"}}}
    full: {}
    output: {url: "file://%s/out"}
`, dir, dir, dir)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			step := func(now string, args ...string) {
				t.Helper()
				args = append(args, "-c", file)
				if now != "" {
					args = append(args, "--now", now)
				}
				if code, out, errs := run(t, nil, args...); code != 0 {
					t.Fatalf("%s exits with %d: %s%s", args, code, out, errs)
				}
			}
			producerWrites(t, filepath.Join(dir, "in/2026/11/30/03/00"), tc.was, tc.base)
			step("2026-11-30T03:00:30Z", "run", "--once")
			step("", "rebuild")
			step("", "base", "promote")
			producerWrites(t, filepath.Join(dir, "in/2026/11/30/03/20"), tc.is, tc.delta)
			step("2026-11-30T03:20:30Z", "run", "--once")
			step("", "verify", "--recompute")
			step("", "diff")
			for key, n := range tc.find {
				code, out, errs := run(t, nil, "get", key, "-c", file, "-o", "json")
				want := fmt.Sprintf(`{"id":%s,"n":%d}`, key, n)
				if n == 0 {
					want = ""
				}
				if (code == 0) != (n > 0) || strings.TrimSpace(out) != want {
					t.Errorf("get %s exits with %d: %s%s", key, code, out, errs)
				}
				code, out, errs = run(t, nil, "explain", key, "-c", file, "-o", "json")
				if code != 0 || !strings.Contains(out, `"notes":[]`) || n > 0 && !strings.Contains(out, fmt.Sprintf(`"document":%s`, want)) {
					t.Errorf("explain %s exits with %d: %s%s", key, code, out, errs)
				}
			}
		})
	}
}

// producerWrites writes an object with a key column of the type, or without rows where that is none.
func producerWrites(t *testing.T, dir string, typ column.Type, keys []string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if typ.Kind == column.Null {
		if err := os.WriteFile(filepath.Join(dir, "empty.parquet"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	fields := []column.Field{{Name: "id", Type: typ, Key: true}}
	rows := column.NewBatch(fields)
	for _, k := range keys {
		row, err := parquet.KeyRow(fields, []string{k})
		if err != nil {
			t.Fatal(err)
		}
		if err := rows.Columns[0].AppendFrom(row.Columns[0], 0); err != nil {
			t.Fatal(err)
		}
		rows.Len++
	}
	_, err := sinktest.Files(t.Context(), fields, "part", rows, func(_ context.Context, p parquet.Part, body io.ReadSeeker) (string, error) {
		b, err := io.ReadAll(body)
		if err != nil {
			return "", err
		}
		return p.Name, os.WriteFile(filepath.Join(dir, p.Name), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
