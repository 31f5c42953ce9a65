package window

import (
	"errors"
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

// Source is a slice of the window: the run of one partition or a part of it.
// Every key that it has is in the pane.
type Source struct {
	// ID names what is in the slice; within a window of one configuration no
	// other slice has it. Empty where there is no such name.
	ID    string
	Start time.Time
	Run   *table.Run
	// All says that the slice feeds the record register and the fields over all
	// (with a base: that the base did not read it), Windowed that it feeds the
	// other fields, as far as it is inside their durations. A source of neither
	// only names keys, and its run may have any accumulators: a key that
	// nothing else has is a tombstone, which hides what another base has of it.
	All, Windowed bool
	// Read says that the base read exactly these records: a key of them that it
	// does not have was deleted, so long ago that the base has forgotten it.
	Read bool
}

// Base is a generation of the full index that a pane is computed over: its
// accumulators join those of the slices, for the keys that these have.
type Base struct {
	ID   string     // its generation
	Run  *table.Run // of the base's own shape
	Join index.Join
}

// ErrUnreadable is an accumulator of a slice or a base that cannot be read or
// merged, although it was written to be, or a document that is kept and is not
// that of its accumulators.
var ErrUnreadable = errors.New("merge slices")

// Documents are what a fold emits, in key order: documents and the keys of
// tombstones. They are reused between calls.
type Documents struct {
	Docs       *column.Batch
	Tombstones *column.Batch
	// Keys are the encoded keys of Docs.
	Keys [][]byte
	// Hashes are what a Hasher makes of the columns of Docs that are not key, or
	// none, where the fold has no Hasher.
	Hashes []Hash
}

// reset empties them.
func (d *Documents) reset() {
	d.Docs.Reset()
	d.Tombstones.Reset()
	d.Keys, d.Hashes = d.Keys[:0], d.Hashes[:0]
}

// Fold merges the slices of a window that ends at n into documents, in key
// order: one for each key that a source has. A field takes the slices inside
// its own duration: those whose start lies in (n − over, n]; one over all takes
// the base's accumulator and the slices that the base did not read. base is
// nil where there is none. It is a streaming merge that holds a block per run,
// and a pure function of slices and base: the order of the slices does not
// matter.
func Fold(bound *index.Bound, slices []Source, base *Base, n time.Time, emit func(Documents) error) error {
	return FoldSampled(bound, slices, base, n, nil, emit)
}

// FoldSampled is Fold that offers its keys to a sampler, for Canary.
func FoldSampled(bound *index.Bound, slices []Source, base *Base, n time.Time, sampler *Sampler, emit func(Documents) error) error {
	f, err := newFolder(bound, slices, base, n)
	if err != nil {
		return err
	}
	f.sampler = sampler
	for f.merger.Next() {
		if err := f.add(); err != nil {
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if len(f.keys) == foldBlock {
			if err := f.flush(emit); err != nil {
				return err
			}
		}
	}
	if err := f.merger.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return f.flush(emit)
}

type folder struct {
	merger    *table.Merger
	sampler   *Sampler
	inside    [][]bool // by slice and fn
	named     []bool   // by slice: it only names keys, or has what the base read
	columns   []combine.Column
	extractor *index.Extractor
	out       Documents
	keys      [][]byte
	absent    []bool // by key: only named, and nothing has a record of it that counts
	arena     []byte
	base      *underlay
}

func newFolder(bound *index.Bound, slices []Source, base *Base, n time.Time) (*folder, error) {
	shape, overs := bound.Shape(), bound.Overs()
	var pending []bool
	f := &folder{base: newUnderlay(base), out: Documents{Docs: column.NewBatch(bound.Schema()), Tombstones: column.NewBatch(shape.Keys)}}
	if base != nil {
		pending = base.Join.Pending
	}
	var err error
	if f.extractor, err = bound.NewExtractor(pending); err != nil {
		return nil, err
	}
	f.extractor.Absent = func(g uint32) bool { return f.absent[g] }
	for _, fn := range shape.Fns {
		f.columns = append(f.columns, fn.NewColumn())
	}
	cursors := make([]table.Cursor, len(slices))
	for i, s := range slices {
		cursors[i] = s.Run.Cursor()
		f.inside = append(f.inside, s.inside(overs, pending, n))
		f.named = append(f.named, s.names(base))
	}
	f.merger = table.Merge(cursors)
	return f, nil
}

// inside says for each fn whether the source feeds it in a window that ends at
// n, where fns are pending that a base does not have (nil for none).
func (s Source) inside(overs []int64, pending []bool, n time.Time) []bool {
	out := make([]bool, len(overs))
	for j, over := range overs {
		switch {
		case over != 0:
			out[j] = s.Windowed && s.Start.After(n.Add(-time.Duration(over)))
		case pending == nil || !pending[j]:
			out[j] = s.All
		}
	}
	return out
}

// names says whether the source only names keys, or has what the base read.
func (s Source) names(base *Base) bool { return !s.All && !s.Windowed || base != nil && s.Read }

// add folds the merger's key as the next group of the block.
func (f *folder) add() error {
	g := uint32(len(f.keys))
	from := len(f.arena)
	f.arena = append(f.arena, f.merger.Key()...)
	key := f.arena[from:len(f.arena):len(f.arena)]
	f.keys = append(f.keys, key)
	there, err := f.base.seek(key)
	if err != nil {
		return err
	}
	absent := !there
	for _, i := range f.merger.Holders() {
		absent = absent && f.named[i]
	}
	f.absent = append(f.absent, absent)
	for j, col := range f.columns {
		col.Grow(int(g) + 1)
		if there {
			if err := col.Merge(g, f.base.acc(j)); err != nil {
				return fmt.Errorf("merge key %x of the base: %w", key, err)
			}
		}
		for _, i := range f.merger.Holders() {
			if !f.inside[i][j] {
				continue
			}
			if err := col.Merge(g, f.merger.Cursor(i).Acc(j)); err != nil {
				return fmt.Errorf("merge key %x: %w", key, err)
			}
		}
	}
	f.sampler.Offer(key, f.columns, g, there || len(f.merger.Holders()) > 1)
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
	f.out.Keys = f.out.Keys[:0]
	for _, i := range f.extractor.Alive() {
		f.out.Keys = append(f.out.Keys, f.keys[i])
	}
	for _, col := range f.columns {
		col.Reset()
	}
	err := emit(f.out)
	f.keys, f.absent, f.arena = f.keys[:0], f.absent[:0], f.arena[:0]
	return err
}
