package slice

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
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
	names  *Names
	mu     struct {
		sync.Mutex
		used  int64
		order *list.List // of *cached, most recently used first
		byID  map[ID]*list.Element
		kept  uint64 // how often Keep was called
		types [][]column.Type
	}
}

type cached struct {
	id    ID
	slice *Slice
	kept  uint64 // the last call of Keep that kept it
}

// NewCache returns an empty cache of slices of so many bytes together; the
// newest is kept whatever its size.
func NewCache(budget int64) *Cache {
	c := &Cache{budget: budget, names: NewNames(IDOf)}
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
	// Load returns the slice at an address, which is the caller's alone, or nil
	// where there is none that can be trusted to be what was stored.
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

// Put caches a slice, which nobody else has yet.
func (c *Cache) Put(id ID, s *Slice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.share(s)
	if e, ok := c.mu.byID[id]; ok {
		c.drop(e)
	}
	c.mu.byID[id] = c.mu.order.PushFront(&cached{id: id, slice: s})
	c.mu.used += weight(s)
	for c.mu.used > c.budget && c.mu.order.Len() > 1 {
		c.drop(c.mu.order.Back())
	}
}

// IDs names the slices of inputs as IDOf does, see Names.Of.
func (c *Cache) IDs(inputs []Input) []ID { return c.names.Of(inputs) }

// Lacks returns the numbers of the inputs whose slices are not in the cache,
// without using those that are.
func (c *Cache) Lacks(inputs []Input) (missing []int) {
	ids := c.IDs(inputs)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range ids {
		if _, ok := c.mu.byID[ids[i]]; !ok {
			missing = append(missing, i)
		}
	}
	return missing
}

// get fills in the slices of IDs that are in the cache.
func (c *Cache) get(ids []ID, into []*Slice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range ids {
		if e, ok := c.mu.byID[ids[i]]; ok {
			c.mu.order.MoveToFront(e)
			into[i] = e.Value.(*cached).slice
		}
	}
}

// Keep drops the slices that are not of these inputs: partitions that left the
// window and former versions of those in it. Without it the cache would fill
// its budget with what no run can use.
func (c *Cache) Keep(inputs []Input) {
	ids := c.IDs(inputs)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.kept++
	for i := range ids {
		if e, ok := c.mu.byID[ids[i]]; ok {
			e.Value.(*cached).kept = c.mu.kept
		}
	}
	for e := c.mu.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*cached).kept != c.mu.kept {
			c.drop(e)
		}
		e = next
	}
}

// manyTypes is how many lists of types a cache keeps for its slices to share: as
// many as a schema has versions in a window, and more.
const manyTypes = 16

// share lets a slice have the same lists of types as those before it, as far as
// they are equal: they are compared with each other in every run. The caller holds
// mu.
func (c *Cache) share(s *Slice) {
	s.Built, s.Observed = c.same(s.Built), c.same(s.Observed)
	for i := range s.Objects {
		s.Objects[i].Observed, s.Objects[i].Seen = c.same(s.Objects[i].Observed), c.same(s.Objects[i].Seen)
	}
}

// same is a list that is equal to types; the caller holds mu.
func (c *Cache) same(types []column.Type) []column.Type {
	if len(types) == 0 {
		return types
	}
	for _, known := range c.mu.types {
		if sameList(known, types) || reflect.DeepEqual(known, types) {
			return known
		}
	}
	if len(c.mu.types) == manyTypes {
		c.mu.types = c.mu.types[1:]
	}
	c.mu.types = append(c.mu.types, types)
	return types
}

// sameList says whether two lists are one and the same in memory.
func sameList(a, b []column.Type) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
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
	cache.get(w.IDs, w.Slices)
	for i, slice := range w.Slices {
		if slice == nil {
			due = append(due, i)
		}
	}
	w.Reused = len(inputs) - len(due)
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
		cache.Put(w.IDs[i], w.Slices[i])
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
