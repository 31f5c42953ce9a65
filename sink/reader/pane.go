package reader

import (
	"context"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// Pane calls emit with the documents of one manifest, in key order and batch by batch. It looks at neither CURRENT nor a base, and holds
// the bytes of one file, which it has verified, and one row group of it.
func Pane(ctx context.Context, st store.Store, m sink.Manifest, emit func(*column.Batch) error) error {
	t, err := Open(st, Options{Lazy: true}).table(ctx, m, m.Files, false)
	if err != nil {
		return err
	}
	for _, f := range t.files {
		if err := t.each(ctx, f, emit); err != nil {
			return err
		}
	}
	return nil
}
