// Package slice builds slices: the combined accumulators of one partition as
// a key-sorted run, made of the objects that were listed in it.
//
// Invariants:
//
//  1. A slice is a function of its objects, the index configuration and the
//     types it was built at: not of order, workers, memory or spills.
//  2. The slices of a window are built at common types, those that all its
//     objects widen to, so that their accumulators merge.
//  3. An object that cannot be read, or that clashes with the others, is an
//     error that names it (ObjectError); a good object is never blamed for a
//     bad one. Where nothing at all fits, the configuration is blamed.
//  4. What was built is cached even if another slice fails, so that the next
//     attempt gets further.
package slice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/partition"
)

// Input is a partition, or a part of one, and the objects to be read in it.
type Input struct {
	Start   time.Time          `json:"start"`
	Objects []partition.Object `json:"objects"`
}

// Slice is the combined accumulators of one partition, as a key-sorted run.
// It is immutable: a function of its objects, the index configuration and the
// types it was built at.
type Slice struct {
	Start time.Time
	// Run is the run's bytes, in memory or in a file.
	Run *spool.Data
	// Observed are the types of the read columns in these objects, Built those
	// the run was made at: Observed widened by what the window holds besides.
	Observed, Built []column.Type
	// Objects are what was read, with the rows of each.
	Objects []ReadObject
	// Rejected are the bad rows left out, the first of them for people.
	Rejected int64
	Rejects  []Reject
	// NullEventTimes counts records without an event time.
	NullEventTimes int64
	// Index names the configuration of the index that it was built with, see
	// Builder.Fits.
	Index string
	// Told says that a published run has written Rejects. It belongs to the
	// pipeline's goroutine; everything else here never changes.
	Told bool

	opened atomic.Pointer[opened]
}

// opened is a run that was opened, of which bytes and at which shape.
type opened struct {
	of    *spool.Data
	shape table.Shape
	run   *table.Run
}

// Open opens the slice's run, and keeps it for whoever opens it at that shape
// again. It is safe for concurrent use.
func (slice *Slice) Open(shape table.Shape) (*table.Run, error) {
	if o := slice.opened.Load(); o != nil && o.of == slice.Run {
		if sameShape(o.shape, shape) {
			return o.run, nil
		}
		if o.shape.Same(shape) {
			slice.opened.Store(&opened{slice.Run, shape, o.run})
			return o.run, nil
		}
	}
	run, err := table.Open(slice.Run, slice.Run.Size(), shape)
	if err != nil {
		return nil, err
	}
	slice.opened.Store(&opened{slice.Run, shape, run})
	return run, nil
}

// sameShape says whether two shapes are one and the same in memory.
func sameShape(a, b table.Shape) bool {
	return len(a.Keys) == len(b.Keys) && len(a.Fns) == len(b.Fns) && len(a.Keys) > 0 && len(a.Fns) > 0 && &a.Keys[0] == &b.Keys[0] && &a.Fns[0] == &b.Fns[0]
}

// ReadObject is an object that was read, its number of rows, and the types of
// the read columns in it alone: those that it says, and those that values of it
// have. Seen is nil where its rows were not read.
type ReadObject struct {
	partition.Object
	Rows           int64
	Observed, Seen []column.Type
}

// Reject is a bad row that was left out.
type Reject struct {
	Key    string
	Row    int64 // from 1
	Reason string
	Text   string // the row as it stands, text formats only
}

// maxRejects bounds the rejected rows that a slice keeps for people.
const maxRejects = 1000

// ObjectError is an object that cannot be indexed. Err does not repeat its
// name.
type ObjectError struct {
	Object partition.Object
	Err    error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("object %s: %v", e.Object.Key, e.Err) }
func (e *ObjectError) Unwrap() error { return e.Err }

// unreadable is the fault of an object whose scan ended with err, unless that
// was no fault of the object.
func unreadable(o partition.Object, err error) error {
	if own := (*spillError)(nil); errors.As(err, &own) {
		return fmt.Errorf("slice of %s: %w", clock(o.Partition), own)
	}
	if named := (*scan.Error)(nil); errors.As(err, &named) {
		err = named.Err
	}
	return &ObjectError{o, err}
}

// Opener returns a reader of one version of an object, and the name=value
// pairs of its path.
type Opener func(o partition.Object) (scan.Blob, map[string]string)

// Builder builds slices. It is immutable and safe for concurrent use.
type Builder struct {
	Program *index.Program
	Format  scan.Format
	Row     scan.RowPolicy
	Limits  scan.Limits
	Open    Opener
	// Dir is where spools put their files, Memory what they share; TableBytes
	// is what the table of one slice being built may hold, 0 for any amount.
	Dir        string
	Memory     *spool.Budget
	TableBytes int64
	// Reuse, where it is not nil, hands memory from slice to slice.
	Reuse *Reuse
	// Room, where it is not nil, is told how many bytes the objects have that
	// Window is about to read, before it reads the first of them.
	Room func(bytes int64)

	settled bool // types given are those of a window: what is built has these and no others
}

// Fits says whether a slice, which may have been at rest since another process
// built it, was built with the index of this builder: with another one it has
// other accumulators, or other records behind the same ones.
func (s *Builder) Fits(built *Slice) bool { return built.Index == s.index() }

// index names the configuration of the index. What is in a Spec can be
// encoded: it came out of a file.
func (s *Builder) index() string {
	b, err := json.Marshal(s.Program.Spec())
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// request asks for the program's columns as the given types (nil: as found).
func (s *Builder) request(paths map[string]string, as []column.Type) scan.Request {
	r := scan.Request{Format: s.Format, Row: s.Row, Limits: s.Limits, PathValues: paths}
	for i, c := range s.Program.Columns() {
		col := scan.Column{Path: c.Path, Optional: c.Optional, Numeric: c.Numeric}
		if as != nil {
			col.As, col.Nulls = as[i], as[i].Kind == column.Null
		}
		r.Columns = append(r.Columns, col)
	}
	return r
}

// widen joins two lists of types column by column. The fields of structs come
// out in the order of their names, because the order in which objects and rows
// have them must not show.
func (s *Builder) widen(a, b []column.Type) ([]column.Type, error) {
	out := make([]column.Type, len(b))
	if a == nil {
		a = out
	}
	for i := range a {
		t, err := scan.Widen(s.Format, a[i], b[i])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", s.Program.Columns()[i].Path, err)
		}
		out[i] = t.Canonical()
	}
	return out, nil
}

// SameTypes says whether a run built at types a is one built at types b.
func SameTypes(a, b []column.Type) bool {
	if sameList(a, b) {
		return true
	}
	for i := range a {
		if !a[i].SameRepr(b[i]) || !sameNulls(a[i], b[i]) {
			return false
		}
	}
	return true
}

// sameNulls says of two types of one Repr whether both have a type at the same
// places: data without values serves as any type, a run that was built of it
// does not.
func sameNulls(a, b column.Type) bool {
	switch {
	case a.Kind == column.Null || b.Kind == column.Null:
		return a.Kind == b.Kind
	case a.Kind == column.List:
		return sameNulls(*a.Elem, *b.Elem)
	}
	for i := range a.Fields {
		if !sameNulls(a.Fields[i].Type, b.Fields[i].Type) {
			return false
		}
	}
	return true
}

// Build reads the objects of one partition into a slice. hint are the types
// that the other slices have; nil if there are none yet. The slice is built
// at what its objects need, widened by the hint where that is possible.
//
// Parquet says its types in the footer, a text format needs a pass over all rows
// to know them. Where they turn out to be the hint's, or Parquet's fit it, one
// pass is all.
func (s *Builder) Build(ctx context.Context, in Input, hint []column.Type) (*Slice, error) {
	return s.build(ctx, in, hint, nil)
}

// build is Build with the help of hands that are free.
func (s *Builder) build(ctx context.Context, in Input, hint []column.Type, h *hands) (*Slice, error) {
	if hint != nil {
		slice, err := s.buildAt(ctx, in, hint, h)
		if !errors.Is(err, errMisfit) {
			return slice, err
		}
	}
	return s.buildObserved(ctx, in, hint, h)
}

// errMisfit says that objects have other types than they were hoped to have.
var errMisfit = errors.New("the objects have other types")

// buildAt is build in one pass, for objects whose types are those given (a
// column without values has any type) or, of Parquet, fit them; other objects
// are errMisfit.
func (s *Builder) buildAt(ctx context.Context, in Input, types []column.Type, h *hands) (*Slice, error) {
	slice := &Slice{Start: in.Start, Built: types, Observed: make([]column.Type, len(types)), Index: s.index()}
	bound, err := s.Program.Bind(types)
	if err != nil {
		return nil, errMisfit // the objects to blame are not known yet
	}
	b, err := s.newGatherer(bound, in.Start)
	if err != nil {
		return nil, err
	}
	defer b.drop()
	var as []column.Type
	if s.Format == scan.Parquet {
		as = types
	}
	src := s.reading(ctx, in, h)
	defer src.stop()
	g := s.gathering(slice, b, in.Objects)
	err = s.each(h, src, &b.tools.scratch, func(w *walk, i int, f *fetched, scratch *scan.Scratch) error {
		defer src.close(i)
		result, err := g.lift(ctx, w, i, f, s.request(f.paths, as), scratch, types)
		switch {
		case errors.Is(err, errMisfit), errors.Is(err, scan.ErrRetype), errors.Is(err, scan.ErrMisfit):
			return errMisfit
		case err != nil:
			return unreadable(in.Objects[i], err)
		}
		for j, t := range result.Observed { // Parquet has types without values
			if t.Kind != column.Null && types[j].Kind == column.Null && !s.settled {
				return errMisfit
			}
		}
		slice.Objects[i].found(result)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, o := range slice.Objects {
		for i, seen := range o.Observed {
			if seen.Kind != column.Null {
				slice.Observed[i] = types[i]
			}
		}
	}
	if s.Format == scan.Parquet { // the objects may all be narrower
		if slice.Observed, err = s.join(ctx, slice.Objects, nil, clock(in.Start), 1); err != nil {
			return nil, errMisfit
		}
	}
	return slice, g.finish()
}

// buildObserved is build in two passes: the first tells the types.
func (s *Builder) buildObserved(ctx context.Context, in Input, hint []column.Type, h *hands) (*Slice, error) {
	slice := &Slice{Start: in.Start, Index: s.index()}
	src := s.reading(ctx, in, h)
	defer src.stop()
	seen := make([]ReadObject, len(in.Objects))
	held := int64(0)
	kept := make([]bool, len(in.Objects))
	for i, o := range in.Objects {
		held += o.Size
		seen[i].Object, kept[i] = o, held <= mostHeld
	}
	t := s.Reuse.take()
	err := s.each(h, src, &t.scratch, func(_ *walk, i int, f *fetched, scratch *scan.Scratch) error {
		req := s.request(f.paths, nil)
		req.Scratch = scratch
		types, err := scan.Observe(ctx, f, req)
		if err != nil {
			return unreadable(in.Objects[i], err)
		}
		seen[i].Observed = types
		if kept[i] {
			src.keep(i)
		} else {
			src.close(i) // it is read again rather than kept
		}
		return nil
	})
	s.Reuse.give(t)
	if err != nil {
		return nil, err
	}
	observed, err := s.join(ctx, seen, nil, clock(in.Start), 1)
	if err == nil {
		observed, err = s.bindable(ctx, observed, nil, seen, 1)
	}
	if err != nil {
		return nil, err
	}
	built := observed
	if hint != nil {
		// Where they do not widen, the run decides later which object is at odds.
		if joined, err := s.widen(observed, hint); err == nil {
			built = joined
		}
	}
	slice.Observed, slice.Built = observed, built
	bound, err := s.Program.Bind(built)
	if err != nil {
		return nil, s.blame(seen, err)
	}
	b, err := s.newGatherer(bound, in.Start)
	if err != nil {
		return nil, err
	}
	defer b.drop()
	src.rewind()
	g := s.gathering(slice, b, in.Objects)
	err = s.each(h, src, &b.tools.scratch, func(w *walk, i int, f *fetched, scratch *scan.Scratch) error {
		defer src.close(i)
		result, err := g.lift(ctx, w, i, f, s.request(f.paths, built), scratch, nil)
		if err != nil {
			return unreadable(in.Objects[i], err)
		}
		slice.Objects[i].found(result)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slice, g.finish()
}

// mostHeld bounds the bytes of objects that are kept from the first pass for
// the second.
const mostHeld = 16 << 20

// finish makes the slice's run.
func (slice *Slice) finish(b *gatherer) (err error) {
	if slice.Run, err = b.finish(); err != nil {
		return fmt.Errorf("write slice of %s: %w", clock(slice.Start), err)
	}
	return nil
}

// blame finds the object whose own types cannot be bound: the error is its.
// Where none of the objects can be bound the error is an unfitError.
func (s *Builder) blame(objects []ReadObject, err error) error {
	var first *ObjectError
	fits := false
	for _, o := range objects {
		_, own := s.Program.Bind(o.types())
		if own != nil && first == nil {
			first = &ObjectError{o.Object, own}
		}
		fits = fits || own == nil
	}
	switch {
	case first == nil:
		return err
	case fits:
		return first
	}
	return &unfitError{first}
}

// unfitError is a slice none of whose objects the configuration fits. The
// objects are at fault where other slices do fit, the configuration where none
// does: then nothing may be skipped, or a mistake in an expression would
// empty the index.
type unfitError struct{ first *ObjectError }

func (e *unfitError) Error() string { return e.first.Error() }
func (e *unfitError) Unwrap() error { return e.first }

// ErrNothingFits says that no object of the window fits the configuration.
var ErrNothingFits = errors.New("the configuration fits no object of the window")

// blameConfig takes the blame off the objects where nothing of the window
// could be built because nothing fits.
func blameConfig(slices []*Slice, err error) error {
	for _, s := range slices {
		if s != nil {
			return err
		}
	}
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	var others []error
	var unfit *unfitError
	for _, e := range parts {
		var u *unfitError
		switch {
		case !errors.As(e, &u):
			others = append(others, e)
		case unfit == nil:
			unfit = u
		}
	}
	if unfit == nil {
		return err
	}
	// Formatted, not wrapped: nobody may take it for a fault of that object.
	return errors.Join(append(others, fmt.Errorf("%w: %s", ErrNothingFits, unfit.Error()))...)
}

// fit returns the batch at the types wanted, where that takes no more than
// typing columns without values.
func fit(b *column.Batch, want []column.Type) (*column.Batch, bool) {
	out := b
	for i, v := range b.Columns {
		switch {
		case v.Type.Equal(want[i]):
		case v.Type.Kind == column.Null:
			if out == b {
				out = &column.Batch{Len: b.Len, Columns: append([]*column.Vector(nil), b.Columns...)}
			}
			nulls := column.New(want[i])
			for range b.Len {
				nulls.AppendNull()
			}
			out.Columns[i] = nulls
		default:
			return nil, false
		}
	}
	return out, true
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
