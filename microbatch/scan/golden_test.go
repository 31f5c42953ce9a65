package scan

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// No scan leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Files of many writers, good and bad: every column's rows or error.
func TestPublicFiles(t *testing.T) {
	dir := filepath.Join("testdata", "parquet-testing")
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var got strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		blob := &memBlob{key: filepath.Base(name), data: data}
		f, err := openParquet(context.Background(), blob, Limits{}.withDefaults())
		if err != nil {
			fmt.Fprintf(&got, "%s: %v\n", blob.key, err)
			continue
		}
		for _, n := range f.root.children {
			out, res, err := rows(blob, Request{Format: Parquet, Columns: []Column{{Path: n.name}}})
			if err != nil {
				fmt.Fprintf(&got, "%s\n", err)
				continue
			}
			fmt.Fprintf(&got, "%s: %s %s, %d rows: %s\n", blob.key, n.name, res.Observed[0], len(out), strings.Join(out[:min(len(out), 30)], " "))
		}
	}
	golden := filepath.Join(dir, "rows.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s\nwant\n%s", g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Errorf("%d lines, want %d", len(g), len(w))
	}
}
