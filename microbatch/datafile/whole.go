package datafile

import (
	"context"
	"io"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// Whole returns the files that a pane would list whose rows, in key order, each shows: what a run of an id would write as a snapshot. It
// stores nothing.
func Whole(ctx context.Context, runID string, fields []column.Field, dir string, memory *spool.Budget, workers int,
	each func(emit func(docs, tombstones *column.Batch) error) error) (files, tombstones []sink.File, err error) {
	nowhere := func(_ context.Context, name string, _ io.ReadSeeker, _ string) (string, error) {
		return sink.DataKey(runID, name), nil
	}
	o := Options{Fields: fields, Name: "part", Dir: dir, Memory: memory, Workers: workers, Put: nowhere, Files: &files}
	docs, err := NewWriter(o)
	if err != nil {
		return nil, nil, err
	}
	defer docs.Abort()
	o.Fields, o.Name, o.Files = parquet.KeyFields(fields), "tombstones", &tombstones
	dead, err := NewWriter(o)
	if err != nil {
		return nil, nil, err
	}
	defer dead.Abort()
	err = each(func(d, t *column.Batch) error {
		if err := docs.Write(ctx, d); err != nil {
			return err
		}
		return dead.Write(ctx, t)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, w := range []*parquet.Writer{docs, dead} {
		if _, err := w.Close(ctx); err != nil {
			return nil, nil, err
		}
	}
	return files, tombstones, nil
}
