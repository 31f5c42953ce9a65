package reader

import (
	"context"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// Pane calls emit with the documents of one manifest, in key order and batch by batch, a verified file at a time. It looks at neither
// CURRENT nor a base.
func Pane(ctx context.Context, st store.Store, m sink.Manifest, emit func(*column.Batch) error) error {
	for _, file := range m.Files {
		t, err := Open(st, Options{Lazy: true}).table(ctx, m, []sink.File{file}, false)
		if err != nil {
			return err
		}
		for _, f := range t.files {
			batches, err := t.load(ctx, f)
			if err != nil {
				return err
			}
			for _, b := range batches {
				if err := emit(b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
