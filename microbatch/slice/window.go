package slice

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// Window is the slices of a run, all built at the same types.
type Window struct {
	Slices []*Slice // in the order of the inputs
	IDs    []ID     // of the inputs; not to be changed
	Types  []column.Type
	Reused int // slices that no object was read for
	Loaded int // those of them that came off a shelf
}

// Window returns the slices of all inputs, built at their common types:
// cached ones where they are at hand, those that the cache's shelf has, the others read. The types are no
// narrower than floor (those of a base that the slices are to be joined with;
// nil for none); hint are the types of the run before. What was built is
// cached even if another slice fails, so that the next attempt gets further.
func (s *Builder) Window(ctx context.Context, inputs []Input, floor, hint []column.Type, cache *Cache, workers int) (Window, error) {
	if hint == nil {
		hint = floor
	}
	w := Window{Slices: make([]*Slice, len(inputs)), IDs: cache.IDs(inputs)}
	due := w.recall(ctx, s, inputs, cache, workers)
	if hint == nil {
		hint = w.newest()
	}
	if hint == nil && len(due) > 1 {
		// The newest tells the types that the others most likely have.
		last := due[len(due)-1]
		err := s.buildAll(ctx, inputs, []int{last}, nil, cache, workers, w.Slices)
		switch {
		case err == nil:
			hint, due = w.Slices[last].Built, due[:len(due)-1]
		case errors.Is(err, rescue.ErrPanic):
			return w, err // it must be counted, whatever a second attempt does
		}
	}
	if err := s.buildAll(ctx, inputs, due, hint, cache, workers, w.Slices); err != nil {
		return w, blameConfig(w.Slices, err)
	}
	var err error
	if w.Types, err = s.common(ctx, w.Slices, floor, workers); err != nil {
		return w, err
	}
	due = unlike(w.Slices, w.Types)
	settled := *s
	settled.settled = true
	if err := settled.buildAll(ctx, inputs, due, w.Types, cache, workers, w.Slices); err != nil {
		return w, err
	}
	for _, i := range unlike(w.Slices, w.Types) {
		slice := w.Slices[i]
		return w, fmt.Errorf("slice of %s has types %v, the window %v: its objects changed while they were read", clock(slice.Start), slice.Built, w.Types)
	}
	return w, nil
}

// unlike are the numbers of the slices that were not built at some types.
func unlike(of []*Slice, types []column.Type) (others []int) {
	var same []column.Type // as types, and shared by most
	for i, slice := range of {
		switch {
		case sameList(slice.Built, same):
		case SameTypes(slice.Built, types):
			same = slice.Built
		default:
			others = append(others, i)
		}
	}
	return others
}

// buildAll builds the inputs numbered in due, at most workers at a time, those
// that are left over helping with their objects. One
// that fails does not stop the others; the error joins all.
func (s *Builder) buildAll(ctx context.Context, inputs []Input, due []int, hint []column.Type, cache *Cache, workers int, out []*Slice) error {
	var g errgroup.Group
	h := newHands(workers)
	var objects []partition.Object
	for _, i := range due {
		objects = append(objects, inputs[i].Objects...)
	}
	if s.Room != nil && len(due) > 0 {
		s.Room(sizeOf(objects))
	}
	src := s.ahead(ctx, objects)
	defer src.stop()
	errs := make([]error, len(due))
	at := 0
	for n, i := range due {
		h := h.on(src.part(at, len(inputs[i].Objects)))
		at += len(inputs[i].Objects)
		h.wait()
		g.Go(func() error {
			defer h.release()
			defer rescue.Into(&errs[n], "build slice of "+clock(inputs[i].Start))
			slice, err := s.build(ctx, inputs[i], hint, h)
			if err != nil {
				errs[n] = err
				return nil
			}
			out[i] = slice
			cache.Put(IDOf(inputs[i]), slice)
			cache.lay(ctx, s, inputs[i], slice)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

func sizeOf(objects []partition.Object) (n int64) {
	for _, o := range objects {
		n += o.Size
	}
	return n
}

// common is the types that floor and all objects widen to.
func (s *Builder) common(ctx context.Context, of []*Slice, floor []column.Type, workers int) ([]column.Type, error) {
	if few := kinds(of); few != nil {
		types, err := s.join(ctx, few, floor, "the window", workers)
		if err == nil && len(unlike(of, types)) == 0 {
			return types, nil // the index was bound at them
		}
	}
	var objects []ReadObject
	for _, slice := range of {
		objects = append(objects, slice.Objects...)
	}
	types, err := s.join(ctx, objects, floor, "the window", workers)
	if err != nil || len(unlike(of, types)) == 0 {
		return types, err
	}
	return s.bindable(ctx, types, floor, objects, workers)
}

// mostKinds is how many lists of types are looked for among many.
const mostKinds = 8

// kinds are objects of all lists of types that the objects of some slices have,
// which say of the window's types what all say; nil where they are many, or not
// all known. In order to be found they are shared, see Cache.share.
func kinds(of []*Slice) (few []ReadObject) {
	for _, slice := range of {
		for i := range slice.Objects {
			o := &slice.Objects[i]
			if slices.ContainsFunc(few, func(k ReadObject) bool { return sameList(k.Observed, o.Observed) && sameList(k.Seen, o.Seen) }) {
				continue
			}
			if len(few) == mostKinds || o.Seen == nil {
				return nil
			}
			few = append(few, *o)
		}
	}
	return few
}

// Observe returns the types that floor (nil for none) and all objects of the
// inputs widen to, at most workers objects read at a time. Parquet tells its
// types in the footer, a text format needs a pass over all rows.
func (s *Builder) Observe(ctx context.Context, inputs []Input, floor []column.Type, workers int) ([]column.Type, error) {
	var objects []ReadObject
	for _, in := range inputs {
		for _, o := range in.Objects {
			objects = append(objects, ReadObject{Object: o})
		}
	}
	errs, err := s.look(ctx, objects, workers)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	types, err := s.join(ctx, objects, floor, "the index", workers)
	if err != nil {
		return nil, err
	}
	return s.bindable(ctx, types, floor, objects, workers)
}

// look finds out the types of each object alone, at most workers at a time.
func (s *Builder) look(ctx context.Context, objects []ReadObject, workers int) ([]error, error) {
	var g errgroup.Group
	g.SetLimit(max(1, workers))
	errs := make([]error, len(objects))
	for i := range objects {
		g.Go(func() error {
			o := &objects[i]
			defer rescue.Into(&errs[i], "look at "+o.Key)
			blob, paths := s.Open(o.Object)
			types, err := scan.Observe(ctx, blob, s.request(paths, nil))
			if err != nil {
				errs[i] = &ObjectError{o.Object, err}
			}
			o.Observed = types
			return nil
		})
	}
	return errs, g.Wait()
}

// Widen returns the types that some and those of objects widen to. It
// is a forecast: an object that cannot be read or does not fit is passed over.
func (s *Builder) Widen(ctx context.Context, types []column.Type, of []partition.Object, workers int) []column.Type {
	objects := make([]ReadObject, len(of))
	for i, o := range of {
		objects[i].Object = o
	}
	errs, err := s.look(ctx, objects, workers)
	if err != nil {
		return types
	}
	for i, o := range objects {
		if errs[i] != nil {
			continue
		}
		if wider, err := s.widen(types, o.Observed); err == nil {
			types = wider
		}
	}
	return types
}
