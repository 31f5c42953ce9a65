package reader

import (
	"context"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/store"
)

// Pane calls emit with the documents of one manifest, in key order and batch by batch, its layers resolved. It looks at neither CURRENT nor
// a base, and holds the bytes of one file of each layer, which it has verified, and one row group of it. emit must not keep the batch.
func Pane(ctx context.Context, st store.Store, m sink.Manifest, emit func(*column.Batch) error) error {
	if m.Top() > 0 {
		return Rows(ctx, st, m, func(docs, _ *column.Batch) error {
			if docs.Len == 0 {
				return nil
			}
			return emit(docs)
		})
	}
	t, err := Open(st, Options{Lazy: true}).table(ctx, m, m.Files, false, nil)
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

// block is how many keys Rows hands over at a time.
const block = 4096

// Rows calls emit with what the layers of a pane come to: its documents and the keys of its tombstones, both in key order. All keys of a
// call come after all those of the calls before. Otherwise it is as Pane.
func Rows(ctx context.Context, st store.Store, m sink.Manifest, emit func(docs, tombstones *column.Batch) error) error {
	s, err := Open(st, Options{Lazy: true}).stack(ctx, m, nil)
	if err != nil {
		return err
	}
	docs, tombstones := column.NewBatch(s.fields), column.NewBatch(parquet.KeyFields(s.fields))
	for p := s.pile(); ; p.next() {
		if err := p.fill(ctx); err != nil {
			return err
		}
		if p.done() || docs.Len+tombstones.Len == block {
			if err := emit(docs, tombstones); err != nil || p.done() {
				return err
			}
			docs.Reset()
			tombstones.Reset()
		}
		h, to := p.heads[0], docs
		if p.tombstone() {
			to = tombstones
		}
		for i, v := range to.Columns {
			if err := v.AppendFrom(h.batch.Columns[i], h.row); err != nil {
				return err
			}
		}
		to.Len++
	}
}
