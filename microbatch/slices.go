package microbatch

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/partition"
)

// sliceID names the content of a slice: partition and fingerprint, within one
// pipeline and index configuration. The types it was built at are part of the
// slice, because a wider column elsewhere in the window makes it due again.
type sliceID [sha256.Size]byte

func idOfInput(in Input) sliceID {
	mark := partition.FingerprintOf(in.Objects)
	return sha256.Sum256([]byte(in.Start.UTC().Format(time.RFC3339Nano) + hex.EncodeToString(mark[:])))
}

// sliceCache keeps recently used slices up to a budget in bytes; whether they
// are in memory is for their spools to decide. It is safe for concurrent use, and any slice may be missing at any time.
type sliceCache struct {
	budget int64
	mu     struct {
		sync.Mutex
		used  int64
		order *list.List // of *cached, most recently used first
		byID  map[sliceID]*list.Element
	}
}

type cached struct {
	id    sliceID
	slice *Slice
}

func newSliceCache(budget int64) *sliceCache {
	c := &sliceCache{budget: budget}
	c.mu.order, c.mu.byID = list.New(), map[sliceID]*list.Element{}
	return c
}

func (c *sliceCache) get(id sliceID) *Slice {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.mu.byID[id]
	if !ok {
		return nil
	}
	c.mu.order.MoveToFront(e)
	return e.Value.(*cached).slice
}

func (c *sliceCache) put(id sliceID, s *Slice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.mu.byID[id]; ok {
		c.drop(e)
	}
	c.mu.byID[id] = c.mu.order.PushFront(&cached{id, s})
	c.mu.used += weight(s)
	for c.mu.used > c.budget && c.mu.order.Len() > 1 {
		c.drop(c.mu.order.Back())
	}
}

// keep drops the slices that are not of these inputs: partitions that left the
// window and former versions of those in it. Without it the cache would fill
// its budget with what no run can use.
func (c *sliceCache) keep(inputs []Input) {
	ids := make(map[sliceID]bool, len(inputs))
	for _, in := range inputs {
		ids[idOfInput(in)] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.mu.byID {
		if !ids[id] {
			c.drop(e)
		}
	}
}

// drop removes an element; the caller holds mu.
func (c *sliceCache) drop(e *list.Element) {
	v := c.mu.order.Remove(e).(*cached)
	delete(c.mu.byID, v.id)
	c.mu.used -= weight(v.slice)
}

// weight estimates the room a slice takes, in memory or on disk.
func weight(s *Slice) int64 {
	return s.Run.Size() + int64(len(s.Objects))*256 + int64(len(s.Rejects))*512 + 512
}

// window is the slices of a run, all built at the same types.
type builtWindow struct {
	slices []*Slice // in the order of the inputs
	types  []column.Type
	reused int // slices taken from the cache
}

// slicesFor returns the slices of all inputs, built at their common types:
// cached ones where they are at hand, the others read. hint are the types of
// the run before. What was built is cached even if another slice fails, so
// that the next attempt gets further.
func (s *slicer) slicesFor(ctx context.Context, inputs []Input, hint []column.Type, cache *sliceCache, workers int) (builtWindow, error) {
	w := builtWindow{slices: make([]*Slice, len(inputs))}
	var due []int
	for i, in := range inputs {
		if w.slices[i] = cache.get(idOfInput(in)); w.slices[i] == nil {
			due = append(due, i)
		} else {
			w.reused++
		}
	}
	if hint == nil && len(due) > 1 {
		// The newest tells the types that the others most likely have.
		last := due[len(due)-1]
		if err := s.buildAll(ctx, inputs, []int{last}, nil, cache, workers, w.slices); err == nil {
			hint, due = w.slices[last].Built, due[:len(due)-1]
		}
	}
	if err := s.buildAll(ctx, inputs, due, hint, cache, workers, w.slices); err != nil {
		return w, blameConfig(w.slices, err)
	}
	var err error
	if w.types, err = s.common(w.slices); err != nil {
		return w, err
	}
	due = due[:0]
	for i, slice := range w.slices {
		if !sameBuilt(slice.Built, w.types) {
			due = append(due, i)
		}
	}
	if err := s.buildAll(ctx, inputs, due, w.types, cache, workers, w.slices); err != nil {
		return w, err
	}
	for _, slice := range w.slices {
		if !sameBuilt(slice.Built, w.types) {
			return w, fmt.Errorf("slice of %s has types %v, the window %v: its objects changed while they were read", text(slice.Start), slice.Built, w.types)
		}
	}
	return w, nil
}

// buildAll builds the inputs numbered in due, at most workers at a time. One
// that fails does not stop the others; the error joins all.
func (s *slicer) buildAll(ctx context.Context, inputs []Input, due []int, hint []column.Type, cache *sliceCache, workers int, out []*Slice) error {
	var g errgroup.Group
	g.SetLimit(max(1, workers))
	errs := make([]error, len(due))
	for n, i := range due {
		g.Go(func() error {
			defer recoverInto(&errs[n], "build slice of "+text(inputs[i].Start))
			slice, err := s.build(ctx, inputs[i], hint)
			if err != nil {
				errs[n] = err
				return nil
			}
			out[i] = slice
			cache.put(idOfInput(inputs[i]), slice)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// common is the types that all objects widen to.
func (s *slicer) common(slices []*Slice) ([]column.Type, error) {
	var objects []ReadObject
	for _, slice := range slices {
		objects = append(objects, slice.Objects...)
	}
	return s.join(objects, "the window")
}

// join is the types that the objects widen to. Where they do not, an object
// is at fault that cannot be bound by itself, else the one at odds with most
// of the others: no good object may be skipped for the sake of a bad one that
// sorts before it. The last of equals is at fault.
func (s *slicer) join(objects []ReadObject, within string) ([]column.Type, error) {
	types := make([]column.Type, len(s.program.Columns()))
	for _, o := range objects {
		joined, err := s.widen(types, o.Observed)
		if err != nil {
			return nil, s.blame(objects, s.odd(objects, within))
		}
		types = joined
	}
	return types, nil
}

// odd is the fault of the object that clashes with most.
func (s *slicer) odd(objects []ReadObject, within string) error {
	type kind struct {
		types   []column.Type
		objects int
		clashes int
		err     error
	}
	kinds := map[string]*kind{} // objects are many, their types few
	for _, o := range objects {
		id := fmt.Sprint(o.Observed)
		if kinds[id] == nil {
			kinds[id] = &kind{types: o.Observed}
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
		if k := kinds[fmt.Sprint(o.Observed)]; k.err != nil && (found == nil || k.clashes >= found.clashes) {
			worst, found = o, k
		}
	}
	if found == nil {
		return fmt.Errorf("the objects of %s have no common types", within)
	}
	return &ObjectError{worst.Object, fmt.Errorf("against the other objects of %s: %w", within, found.err)}
}
