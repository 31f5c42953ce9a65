//go:build integration

package parquet_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/column"
	sinkparquet "github.com/deltad/deltad/sink/parquet"
)

// paneFields are those of a pane of ads.
var paneFields = []column.Field{
	{Name: "item", Type: column.Of(column.Int64), Key: true},
	{Name: "updates", Type: column.Of(column.Int64)},
	{Name: "clicks", Type: column.Of(column.Int64)},
	{Name: "revenue", Type: column.Of(column.Float64)},
	{Name: "cost", Type: column.DecimalOf(38, 4)},
	{Name: "lowest", Type: column.Of(column.Float64)},
	{Name: "status", Type: column.Of(column.String)},
	{Name: "title", Type: column.Of(column.String)},
}

func paneOf(rows int) *column.Batch {
	r := rand.New(rand.NewPCG(3, 4))
	b := column.NewBatch(paneFields)
	for i := range rows {
		n := 1 + r.Int64N(1+r.Int64N(500))
		for c, add := range []func(v *column.Vector){
			func(v *column.Vector) { v.AppendInt(int64(i)*5 + r.Int64N(5)) },
			func(v *column.Vector) { v.AppendInt(n) },
			func(v *column.Vector) { v.AppendInt(r.Int64N(n * 2)) },
			func(v *column.Vector) { v.AppendFloat(float64(n*r.Int64N(500_000)) / 100) },
			func(v *column.Vector) { v.AppendDecimal(column.Int128From(n * r.Int64N(90_000))) },
			func(v *column.Vector) { v.AppendFloat(float64(r.IntN(500_000)) / 100) },
			func(v *column.Vector) { v.AppendString([]string{"active", "paused", "ended", "draft"}[r.IntN(4)]) },
			func(v *column.Vector) {
				v.AppendString(fmt.Sprintf("Offer %d of item %d: now with %d %% off", r.IntN(40), i, r.IntN(100)))
			},
		} {
			add(b.Columns[c])
		}
	}
	b.Len = rows
	return b
}

// BenchmarkCopy writes a pane with deltad and with DuckDB's COPY from a table in memory, both with zstd on one processor.
func BenchmarkCopy(b *testing.B) {
	const rows = 200_000
	docs, dir := paneOf(rows), b.TempDir()
	measure := func(b *testing.B, write func() error, files string) {
		b.Helper()
		before := used(b)
		for b.Loop() {
			if err := write(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(used(b)-before)/float64(b.N)/rows, "cpu-ns/doc")
		size := int64(0)
		for _, name := range must(filepath.Glob(files)) {
			size += must(os.Stat(name)).Size()
		}
		b.ReportMetric(float64(size)/rows, "bytes/doc")
	}
	ours := filepath.Join(dir, "part-*.parquet")
	deltad := func() error {
		w, err := sinkparquet.NewWriter(sinkparquet.Options{Fields: paneFields, Name: "part", Put: func(_ context.Context, p sinkparquet.Part, body io.ReadSeeker) error {
			f, err := os.Create(filepath.Join(dir, p.Name))
			if err != nil {
				return err
			}
			if _, err := io.Copy(f, body); err != nil {
				return err
			}
			return f.Close()
		}})
		if err != nil {
			return err
		}
		for i := 0; i < rows; i += 1024 {
			if err := w.WriteRows(b.Context(), docs, i, min(i+1024, rows)); err != nil {
				return err
			}
		}
		_, err = w.Close(b.Context())
		return err
	}
	if err := deltad(); err != nil {
		b.Fatal(err)
	}
	db := must(duck.Open(b.Context()))
	defer db.Close()
	for _, q := range []string{"set threads = 1", fmt.Sprintf("create table pane as from read_parquet('%s')", ours)} {
		if err := db.Exec(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("deltad", func(b *testing.B) { measure(b, deltad, ours) })
	theirs := filepath.Join(dir, "duckdb.parquet")
	b.Run("duckdb", func(b *testing.B) {
		measure(b, func() error {
			return db.Exec(b.Context(), fmt.Sprintf("copy pane to '%s' (format parquet, compression zstd)", theirs))
		}, theirs)
	})
}

// used is what the process has used of processors, in nanoseconds.
func used(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
