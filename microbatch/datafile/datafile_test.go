package datafile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/datafile"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/sink"
)

// TestWhereFilesWait: a file waits in memory where there is some for it, in a
// temporary file beyond 8 MiB otherwise, and the memory is given back.
func TestWhereFilesWait(t *testing.T) {
	const mib = 1 << 20
	fields := []column.Field{{Name: "id", Type: column.Of(column.Int64), Key: true}, {Name: "x", Type: column.Of(column.Float64)}}
	docs := column.NewBatch(fields)
	for i := range int64(1_000_000) { // one file of about 10 MB
		docs.Columns[0].AppendInt(i)
		docs.Columns[1].AppendFloat(1 / float64(i+1))
	}
	docs.Len = docs.Columns[0].Len()
	for _, c := range []struct {
		name    string
		waiting *spool.Budget
		shared  int64
		onDisk  bool
	}{
		{"no memory of their own", nil, 64 * mib, true},
		{"enough", spool.NewBudget(16 * mib), 0, false},
		{"less than the file", spool.NewBudget(9 * mib), 64 * mib, true},
		{"less than is worth it", spool.NewBudget(4 * mib), 64 * mib, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared := spool.NewBudget(c.shared)
			var left int64
			if c.waiting != nil {
				left = c.waiting.Left()
			}
			var files []sink.File
			w, err := datafile.NewWriter(datafile.Options{
				Fields: fields, Name: "part", Dir: filepath.Join(t.TempDir(), "none"), Memory: shared, Waiting: c.waiting, Files: &files,
				Put: func(_ context.Context, name string, body io.ReadSeeker, _ string) (string, error) {
					n, err := io.Copy(io.Discard, body)
					return fmt.Sprint(name, " ", n), err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			err = w.Write(t.Context(), docs)
			if err == nil {
				_, err = w.Close(t.Context())
			}
			w.Abort()
			if c.onDisk != errors.Is(err, fs.ErrNotExist) || !c.onDisk && err != nil {
				t.Fatalf("a file without a directory for it: %v", err)
			}
			if !c.onDisk && (len(files) != 1 || files[0].Bytes < 8*mib || files[0].Key != fmt.Sprint("part-00000.parquet ", files[0].Bytes)) {
				t.Errorf("files are %v", files)
			}
			if shared.Left() != c.shared || c.waiting != nil && c.waiting.Left() != left {
				t.Errorf("%d and %v bytes are left", shared.Left(), c.waiting)
			}
		})
	}
}
