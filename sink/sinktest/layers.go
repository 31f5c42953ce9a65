package sinktest

import (
	"context"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

// Rows are what a pane made here, or one layer of it, says of keys. Only a layer over others has keys that left.
type Rows struct {
	Documents  map[string]int64
	Tombstones []string
	Left       []string
}

// RowsOf are the rows of a pane made here, its layers resolved.
func RowsOf(ctx context.Context, st store.Store, m sink.Manifest) (Rows, error) {
	out := Rows{Documents: map[string]int64{}}
	err := reader.Rows(ctx, st, m, func(docs, tombstones *column.Batch) error {
		for i := range docs.Len {
			out.Documents[docs.Columns[0].Strings[i]] = docs.Columns[1].Ints[i]
		}
		out.Tombstones = append(out.Tombstones, tombstones.Columns[0].Strings...)
		return nil
	})
	return out, err
}

// Diff is what a layer over a pane of was has to say so that both come to is.
func Diff(was, is Rows) Rows {
	out := Rows{Documents: map[string]int64{}}
	for k, n := range is.Documents {
		if before, ok := was.Documents[k]; !ok || before != n {
			out.Documents[k] = n
		}
	}
	for _, k := range is.Tombstones {
		if !slices.Contains(was.Tombstones, k) {
			out.Tombstones = append(out.Tombstones, k)
		}
	}
	gone := func(k string) {
		if _, ok := is.Documents[k]; !ok && !slices.Contains(is.Tombstones, k) {
			out.Left = append(out.Left, k)
		}
	}
	for k := range was.Documents {
		gone(k)
	}
	for _, k := range was.Tombstones {
		gone(k)
	}
	return out
}
