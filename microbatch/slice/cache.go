package slice

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/partition"
)

// ID names the content of a slice: partition and fingerprint, within one
// pipeline and index configuration. The types it was built at are part of the
// slice, because a wider column elsewhere in the window makes it due again.
type ID [sha256.Size]byte

// IDOf names the slice of an input.
func IDOf(in Input) ID {
	mark := partition.FingerprintOf(in.Objects)
	return sha256.Sum256([]byte(in.Start.UTC().Format(time.RFC3339Nano) + hex.EncodeToString(mark[:])))
}

// Cache keeps recently used slices up to a budget in bytes; whether they
// are in memory is for their spools to decide. It is safe for concurrent use, and any slice may be missing at any time.
type Cache struct {
	budget int64
	shelf  Shelf
	mu     struct {
		sync.Mutex
		used  int64
		order *list.List // of *cached, most recently used first
		byID  map[ID]*list.Element
	}
}

type cached struct {
	id    ID
	slice *Slice
}

// NewCache returns an empty cache of slices of so many bytes together; the
// newest is kept whatever its size.
func NewCache(budget int64) *Cache {
	c := &Cache{budget: budget}
	c.mu.order, c.mu.byID = list.New(), map[ID]*list.Element{}
	return c
}

// NewCacheOver is NewCache over a shelf: what is not in the cache is looked for
// there before its objects are read, and what was built goes there.
func NewCacheOver(shelf Shelf, budget int64) *Cache {
	c := NewCache(budget)
	c.shelf = shelf
	return c
}

// Shelf keeps slices longer than a process lives. It is safe for concurrent
// use, never fails, and may lose anything at any time.
type Shelf interface {
	// Load returns the slice at an address, or nil where there is none that can
	// be trusted to be what was stored.
	Load(ctx context.Context, at ID) *Slice
	// Store keeps a slice that was just built; its types may be others than those
	// of one stored there before.
	Store(ctx context.Context, at ID, s *Slice)
}

// Get returns a cached slice, or nil.
func (c *Cache) Get(id ID) *Slice {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.mu.byID[id]
	if !ok {
		return nil
	}
	c.mu.order.MoveToFront(e)
	return e.Value.(*cached).slice
}

// Put caches a slice.
func (c *Cache) Put(id ID, s *Slice) {
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

// Keep drops the slices that are not of these inputs: partitions that left the
// window and former versions of those in it. Without it the cache would fill
// its budget with what no run can use.
func (c *Cache) Keep(inputs []Input) {
	ids := make(map[ID]bool, len(inputs))
	for _, in := range inputs {
		ids[IDOf(in)] = true
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
func (c *Cache) drop(e *list.Element) {
	v := c.mu.order.Remove(e).(*cached)
	delete(c.mu.byID, v.id)
	c.mu.used -= weight(v.slice)
}

// weight estimates the room a slice takes, in memory or on disk.
func weight(s *Slice) int64 {
	return s.Run.Size() + int64(len(s.Objects))*256 + int64(len(s.Rejects))*512 + 512
}

// loads is how many slices are fetched from a shelf at a time, at least: it is
// waiting, not work.
const loads = 8

// recall fills in the slices that are at hand, in the cache or on its shelf,
// and returns the numbers of the inputs that are still due.
func (w *Window) recall(ctx context.Context, s *Builder, inputs []Input, cache *Cache, workers int) (due []int) {
	for i, in := range inputs {
		if w.Slices[i] = cache.Get(IDOf(in)); w.Slices[i] == nil {
			due = append(due, i)
		} else {
			w.Reused++
		}
	}
	if cache.shelf == nil || len(due) == 0 {
		return due
	}
	var g errgroup.Group
	g.SetLimit(max(loads, workers))
	recipe := s.Recipe()
	for _, i := range due {
		g.Go(func() error {
			w.Slices[i] = cache.shelf.Load(ctx, AddressOf(recipe, inputs[i]))
			return nil
		})
	}
	_ = g.Wait() // no load fails
	missed, check := due[:0], checker{builder: s}
	for _, i := range due {
		if w.Slices[i] == nil || !check.serves(w.Slices[i], inputs[i]) {
			w.Slices[i] = nil
			missed = append(missed, i)
			continue
		}
		cache.Put(IDOf(inputs[i]), w.Slices[i])
		w.Reused, w.Loaded = w.Reused+1, w.Loaded+1
	}
	return missed
}

// newest is the types of the newest slice at hand, or nil: what the others
// were built at, most likely.
func (w *Window) newest() []column.Type {
	var last *Slice
	for _, s := range w.Slices {
		if s != nil && (last == nil || !s.Start.Before(last.Start)) {
			last = s
		}
	}
	if last == nil {
		return nil
	}
	return last.Built
}

// checker says whether slices from a shelf are what their addresses say. The
// shelf has verified their bytes; this is for what a mistake of ours could have
// put there, so that it costs a slice and not every run.
type checker struct {
	builder *Builder
	types   []column.Type
	bound   *index.Bound
}

func (c *checker) serves(s *Slice, in Input) bool {
	if len(s.Built) != len(c.builder.Program.Columns()) || !c.builder.Fits(s) || IDOf(s.Input()) != IDOf(in) {
		return false
	}
	if c.bound == nil || !SameTypes(c.types, s.Built) {
		bound, err := c.builder.Program.Bind(s.Built)
		if err != nil {
			return false
		}
		c.types, c.bound = s.Built, bound
	}
	_, err := s.Open(c.bound.Shape())
	return err == nil
}

// lay gives a slice that was just built to the shelf.
func (c *Cache) lay(ctx context.Context, b *Builder, in Input, s *Slice) {
	if c.shelf != nil {
		c.shelf.Store(ctx, AddressOf(b.Recipe(), in), s)
	}
}
