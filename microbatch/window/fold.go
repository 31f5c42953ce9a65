package window

import (
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// foldBlock is how many keys are folded before their documents are extracted:
// enough to amortize a call per column, few enough to stay in cache.
const foldBlock = 1024

// Source is a slice of the window: the run of one partition.
type Source struct {
	Start time.Time
	Run   *table.Run
}

// Documents are what a fold emits, in key order: documents and the keys of
// tombstones. They are reused between calls.
type Documents struct {
	Docs       *column.Batch
	Tombstones *column.Batch
}

// Fold merges the slices of a window that ends at n into documents, in key
// order. Each field takes the slices inside its own duration: those whose
// start lies in (n − over, n]. It is a streaming merge that holds a block per
// run, and a pure function of the slices: their order does not matter.
func Fold(bound *index.Bound, slices []Source, n time.Time, emit func(Documents) error) error {
	f, err := newFolder(bound, slices, n)
	if err != nil {
		return err
	}
	for f.merger.Next() {
		if err := f.add(); err != nil {
			return err
		}
		if len(f.keys) == foldBlock {
			if err := f.flush(emit); err != nil {
				return err
			}
		}
	}
	if err := f.merger.Err(); err != nil {
		return fmt.Errorf("merge slices: %w", err)
	}
	return f.flush(emit)
}

type folder struct {
	merger    *table.Merger
	inside    [][]bool // by slice and fn
	columns   []combine.Column
	extractor *index.Extractor
	out       Documents
	keys      [][]byte
	arena     []byte
}

func newFolder(bound *index.Bound, slices []Source, n time.Time) (*folder, error) {
	x, err := bound.NewExtractor()
	if err != nil {
		return nil, err
	}
	shape, overs := bound.Shape(), bound.Overs()
	f := &folder{extractor: x, out: Documents{Docs: column.NewBatch(bound.Schema()), Tombstones: column.NewBatch(shape.Keys)}}
	for _, fn := range shape.Fns {
		f.columns = append(f.columns, fn.NewColumn())
	}
	cursors := make([]table.Cursor, len(slices))
	for i, s := range slices {
		cursors[i] = s.Run.Cursor()
		inside := make([]bool, len(overs))
		for j, over := range overs {
			inside[j] = over == 0 || s.Start.After(n.Add(-time.Duration(over)))
		}
		f.inside = append(f.inside, inside)
	}
	f.merger = table.Merge(cursors)
	return f, nil
}

// add folds the merger's key as the next group of the block.
func (f *folder) add() error {
	g := uint32(len(f.keys))
	from := len(f.arena)
	f.arena = append(f.arena, f.merger.Key()...)
	f.keys = append(f.keys, f.arena[from:len(f.arena):len(f.arena)])
	for j, col := range f.columns {
		col.Grow(int(g) + 1)
		for _, i := range f.merger.Holders() {
			if !f.inside[i][j] {
				continue
			}
			if err := col.Merge(g, f.merger.Cursor(i).Acc(j)); err != nil {
				return fmt.Errorf("merge key %x: %w", f.merger.Key(), err)
			}
		}
	}
	return nil
}

// flush extracts the block's documents and empties it.
func (f *folder) flush(emit func(Documents) error) error {
	if len(f.keys) == 0 {
		return nil
	}
	f.out.Docs.Reset()
	f.out.Tombstones.Reset()
	if err := f.extractor.Extract(f.keys, f.columns, f.out.Docs, f.out.Tombstones); err != nil {
		return err
	}
	for _, col := range f.columns {
		col.Reset()
	}
	f.keys, f.arena = f.keys[:0], f.arena[:0]
	return emit(f.out)
}
