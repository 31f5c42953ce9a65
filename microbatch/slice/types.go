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
)

// The types of objects are joined column by column. Parquet says a type of every
// column, of those without a value too, and what writes a file in which a column
// happens to be null often does not know the type it has elsewhere. So a type
// counts as far as it can; where types clash, one that no value has yields:
//
//  1. Where all types widen to one, that is the column's, values or not: a
//     column that is null for a while keeps its type.
//  2. Else those that values have (ReadObject.Seen) must widen to one, or the
//     object at odds is at fault.
//  3. That one is widened by each of the other types that widens with it, if
//     they do so together; the others yield.
//
// Each step is a function of the set of objects: their order, the slices they
// share and what is kept of them do not show.

// types are the object's, as far as is known those that values have.
func (o *ReadObject) types() []column.Type {
	if o.Seen != nil {
		return o.Seen
	}
	return o.Observed
}

// join is the types that floor and the objects widen to. Where they do not, an
// object is at fault that cannot be bound by itself, else one that clashes
// with floor, else the one at odds with most of the others: no good object may
// be skipped for the sake of a bad one that sorts before it. The last of
// equals is at fault. Objects of which only the footer is known are read where types
// clash, at most workers at a time.
func (s *Builder) join(ctx context.Context, objects []ReadObject, floor []column.Type, within string, workers int) ([]column.Type, error) {
	types := make([]column.Type, len(s.Program.Columns()))
	copy(types, floor)
	var clashing []int
	for i, t := range types {
		joined, err := s.widest(t, objects, func(o *ReadObject) column.Type { return o.Observed[i] })
		if err != nil {
			clashing = append(clashing, i)
			continue
		}
		types[i] = joined
	}
	if clashing == nil {
		return types, nil
	}
	if err := s.see(ctx, objects, workers); err != nil {
		return nil, err
	}
	for _, i := range clashing {
		seen, err := s.widest(types[i], objects, func(o *ReadObject) column.Type { return o.Seen[i] })
		if err != nil {
			return nil, s.blame(objects, s.clash(objects, floor, within))
		}
		types[i] = seen
		wider, err := s.widest(seen, objects, func(o *ReadObject) column.Type {
			if _, err := scan.Widen(s.Format, seen, o.Observed[i]); err != nil {
				return column.Type{}
			}
			return o.Observed[i]
		})
		if err == nil {
			types[i] = wider
		}
	}
	return types, nil
}

// widest is what t and a type of each object widen to.
func (s *Builder) widest(t column.Type, objects []ReadObject, of func(*ReadObject) column.Type) (column.Type, error) {
	for i := range objects {
		own := of(&objects[i])
		if t.Equal(own) {
			continue
		}
		wider, err := scan.Widen(s.Format, t, own)
		if err != nil {
			return column.Type{}, err
		}
		t = wider.Canonical()
	}
	return t.Canonical(), nil
}

// bindable is the types, or where the index cannot be bound at them but at those
// that values have, with the type null for columns without any: a sum takes no
// strings, but it takes a column of strings that has none.
func (s *Builder) bindable(ctx context.Context, types, floor []column.Type, objects []ReadObject, workers int) ([]column.Type, error) {
	if s.Format != scan.Parquet {
		return types, nil // it has no other types
	}
	if _, err := s.Program.Bind(types); err == nil {
		return types, nil
	}
	if err := s.see(ctx, objects, workers); err != nil {
		return nil, err
	}
	lean := slices.Clone(types)
	for i := range lean {
		valued := slices.ContainsFunc(objects, func(o ReadObject) bool { return o.Seen[i].Kind != column.Null })
		if (floor == nil || floor[i].Kind == column.Null) && !valued {
			lean[i] = column.Type{}
		}
	}
	if _, err := s.Program.Bind(lean); err == nil {
		return lean, nil
	}
	return types, nil // who binds them is told what is wrong
}

// see finds out which values the objects have whose rows were not read.
func (s *Builder) see(ctx context.Context, objects []ReadObject, workers int) error {
	var g errgroup.Group
	g.SetLimit(max(1, workers))
	errs := make([]error, len(objects))
	for i := range objects {
		o := &objects[i]
		if o.Seen != nil {
			continue
		}
		g.Go(func() error {
			defer rescue.Into(&errs[i], "look for values in "+o.Key)
			var err error
			if o.Seen, err = s.seen(ctx, o); err != nil {
				errs[i] = unreadable(o.Object, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// errSeen ends the search for values.
var errSeen = errors.New("every column has a value")

// seen are the types that values of the object have. Most often a few rows tell.
func (s *Builder) seen(ctx context.Context, o *ReadObject) ([]column.Type, error) {
	if s.Format != scan.Parquet {
		return o.Observed, nil
	}
	blob, paths := s.Open(o.Object)
	there := make([]bool, len(o.Observed))
	result, err := scan.Scan(ctx, blob, s.request(paths, nil), func(b *column.Batch) error {
		for i, v := range b.Columns {
			there[i] = there[i] || v.Elem == nil && v.Fields == nil && hasValue(v)
		}
		if slices.Contains(there, false) {
			return nil
		}
		return errSeen
	})
	if errors.Is(err, errSeen) {
		return o.Observed, nil
	}
	return result.Seen, err
}

// hasValue says whether a row is not null.
func hasValue(v *column.Vector) bool {
	for i := range v.Len() {
		if !v.Null(i) {
			return true
		}
	}
	return false
}

// clash is the fault of an object that does not widen with floor, else of the
// one at odds with most of the others.
func (s *Builder) clash(objects []ReadObject, floor []column.Type, within string) error {
	if floor != nil {
		for _, o := range slices.Backward(objects) {
			if _, err := s.widen(floor, o.types()); err != nil {
				return &ObjectError{o.Object, &floorError{err}}
			}
		}
	}
	return s.odd(objects, within)
}

// ErrFloor says that an object clashes with the types that a window was to be no
// narrower than.
var ErrFloor = errors.New("the types that were given do not widen to those of an object")

// floorError is an ErrFloor in the words of who runs a pipeline.
type floorError struct{ err error }

func (e *floorError) Error() string        { return fmt.Sprintf("against the live base: %v", e.err) }
func (e *floorError) Unwrap() error        { return e.err }
func (e *floorError) Is(target error) bool { return target == ErrFloor }

// odd is the fault of the object that clashes with most.
func (s *Builder) odd(objects []ReadObject, within string) error {
	type kind struct {
		types   []column.Type
		objects int
		clashes int
		err     error
	}
	kinds := map[string]*kind{} // objects are many, their types few
	for _, o := range objects {
		id := fmt.Sprint(o.types())
		if kinds[id] == nil {
			kinds[id] = &kind{types: o.types()}
		}
		kinds[id].objects++
	}
	for _, k := range kinds {
		for _, other := range kinds {
			if _, err := s.widen(other.types, k.types); err != nil {
				k.clashes += other.objects
				if k.err == nil || err.Error() < k.err.Error() {
					k.err = err
				}
			}
		}
	}
	var worst ReadObject
	var found *kind
	for _, o := range objects {
		if k := kinds[fmt.Sprint(o.types())]; k.err != nil && (found == nil || k.clashes >= found.clashes) {
			worst, found = o, k
		}
	}
	if found == nil {
		return fmt.Errorf("the objects of %s have no common types", within)
	}
	return &ObjectError{worst.Object, fmt.Errorf("against the other objects of %s: %w", within, found.err)}
}
