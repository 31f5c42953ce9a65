// Package shelf keeps slices longer than a process lives: in a local directory
// and in the bucket of the output. So the first run after a restart, and the
// first on another machine, reads no object that was read before.
//
// A Shelf is one pipeline's: Dir below it is shared by all pipelines and
// processes that use one directory, the bucket by all replicas.
//
// Invariants:
//
//  1. What Load returns is what Store was given at that address, byte for byte,
//     or nothing: everything is verified before anything of it is believed. What
//     is damaged or foreign is deleted, what cannot be read stays; both are
//     counted and said once, and the objects are read instead.
//  2. Nothing here fails a run or delays a publication. The directory is written
//     while slices are built, as spools are; the bucket after the pane is live,
//     beside whatever the pipeline does next. What could not be written is tried
//     again after the next publication.
//  3. An address is a hash of everything that a slice is a function of, but for
//     its types, which it carries: a slice of other types is built again and
//     takes the place of the one before. So an entry never becomes wrong, only
//     useless.
//  4. Only slices whose rejected rows were told to people are kept: nobody would
//     tell of them later.
//  5. An idle run asks for nothing and writes nothing. A run without a slice at
//     hand asks the bucket only for slices of a pane that was published, and
//     lists them once in a tenure, and again where older partitions come to matter.
//
// The digests find damage. They do not stop somebody who may write to the
// directory or below state/ of the output from putting a slice of his own
// there; he could write CURRENT as well.
package shelf

import (
	"context"
	"sync"
	"time"
	"weak"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/spool"
)

// Tiers, for Observe.
const (
	TierDirectory = "directory"
	TierBucket    = "bucket"
)

// Outcomes, for Observe.
const (
	Hit     = "hit"
	Miss    = "miss"
	Damaged = "damaged"
	Failed  = "failed" // it could not be read or written
	Stored  = "stored"
)

// Settings are what a Shelf is made of.
type Settings struct {
	Pipeline string
	// Dir is the pipeline's place in a local directory; nil is none.
	Dir *Scope
	// Objects is the bucket; nil is none.
	Objects Objects
	// Recipe is that of all slices here.
	Recipe string
	NewID  func() string
	// TempDir and Memory are those of the spools.
	TempDir string
	Memory  *spool.Budget
	// Observe is told of every look and every write; nil for nobody.
	Observe func(tier, outcome string, n int)
	Log     *zap.Logger
}

// Entry is a slice of a pane.
type Entry struct {
	At    slice.ID
	Slice *slice.Slice
	// Local says that the bucket has it in another way already.
	Local bool
}

// Shelf keeps the slices of one pipeline. It is safe for concurrent use.
type Shelf struct {
	set    Settings
	bucket *bucket

	mu struct {
		sync.Mutex
		// Weak: it is for the cache to say what stays in memory.
		fresh    map[slice.ID]weak.Pointer[slice.Slice] // built here and not in the bucket yet
		untold   map[slice.ID]weak.Pointer[slice.Slice] // nor in the directory, see invariant 4
		expected map[slice.ID]bool                      // which the bucket may have
		blind    bool                                   // what is there is not to be used
	}
}

// New returns a shelf; it does no I/O and starts nothing.
func New(set Settings) *Shelf {
	if set.Observe == nil {
		set.Observe = func(string, string, int) {}
	}
	s := &Shelf{set: set}
	if set.Objects != nil {
		s.bucket = newBucket(set)
	}
	s.mu.fresh, s.mu.untold = map[slice.ID]weak.Pointer[slice.Slice]{}, map[slice.ID]weak.Pointer[slice.Slice]{}
	return s
}

// Expect says which slices, of partitions that start at from or later, the
// bucket may have: those of a pane that was published. Load asks it for no
// others, unless it knows that they are there.
func (s *Shelf) Expect(at map[slice.ID]bool, from time.Time) {
	s.mu.Lock()
	if s.mu.blind {
		at = nil
	}
	s.mu.expected = at
	s.mu.Unlock()
	if s.bucket != nil && len(at) > 0 {
		s.bucket.reach(from)
	}
}

// Load implements slice.Shelf.
func (s *Shelf) Load(ctx context.Context, at slice.ID) (found *slice.Slice) {
	// A panic is a mistake of ours over what was read: it costs the slice.
	var wrong error
	defer func() {
		if wrong != nil {
			s.set.Observe(TierBucket, Failed, 1)
			s.set.Log.Error("slice not loaded", zap.String("pipeline", s.set.Pipeline), zap.Error(wrong))
			found = nil
		}
	}()
	defer rescue.Into(&wrong, "load slice "+at.String())
	s.mu.Lock()
	expected, blind := s.mu.expected[at], s.mu.blind
	s.mu.Unlock()
	if blind {
		return nil
	}
	if s.set.Dir != nil {
		if found := s.set.Dir.load(at, s.set); found != nil {
			return found
		}
	}
	if s.bucket == nil {
		return nil
	}
	found = s.bucket.load(ctx, at, expected)
	if found != nil && s.set.Dir != nil {
		s.set.Dir.store(at, found, s.set)
	}
	return found
}

// Store implements slice.Shelf.
func (s *Shelf) Store(_ context.Context, at slice.ID, built *slice.Slice) {
	later := built.Rejected > 0 // invariant 4
	s.mu.Lock()
	s.mu.fresh[at] = weak.Make(built)
	if later {
		s.mu.untold[at] = weak.Make(built)
	}
	s.mu.Unlock()
	if s.set.Dir != nil && !later {
		s.set.Dir.store(at, built, s.set)
	}
}

// Published says that a pane of these slices is live. What of them the bucket
// lacks is written there, on ctx and beside the caller, until End.
func (s *Shelf) Published(ctx context.Context, pane []Entry) {
	live := make(map[slice.ID]bool, len(pane))
	var told, due []Entry
	s.mu.Lock()
	for _, e := range pane {
		live[e.At] = true
		if isThe(s.mu.untold, e) {
			told = append(told, e)
		}
		if !e.Local && s.bucket != nil && (isThe(s.mu.fresh, e) || !s.bucket.has(e.At)) {
			due = append(due, e)
		}
	}
	for at := range s.mu.fresh {
		if !live[at] || s.bucket == nil {
			delete(s.mu.fresh, at) // of no pane: a run that failed, or replaced since
		}
	}
	clear(s.mu.untold)
	s.mu.blind = false
	s.mu.Unlock()
	if s.set.Dir != nil {
		for _, e := range told {
			s.set.Dir.store(e.At, e.Slice, s.set)
		}
		s.set.Dir.touch(live)
	}
	if s.bucket != nil {
		s.bucket.upload(ctx, due, s.isFresh, s.uploaded)
	}
}

// isFresh says whether the bucket cannot have a slice yet, whatever it has at
// the address.
func (s *Shelf) isFresh(e Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return isThe(s.mu.fresh, e)
}

// isThe says whether an entry's slice is the one that stands at its address.
// Most often none does.
func isThe(m map[slice.ID]weak.Pointer[slice.Slice], e Entry) bool {
	there, ok := m[e.At]
	return ok && there == weak.Make(e.Slice)
}

func (s *Shelf) uploaded(e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isThe(s.mu.fresh, e) {
		delete(s.mu.fresh, e.At)
	}
}

// Distrust says that something kept was wrong although it verified: nothing is
// loaded before the next pane was published, whose slices then take the place
// of what is there.
func (s *Shelf) Distrust() {
	s.mu.Lock()
	s.mu.blind = true
	s.mu.expected = nil
	s.mu.Unlock()
	if s.set.Dir != nil {
		s.set.Dir.clear()
	}
}

// Begin begins a tenure: what the bucket had is not known any more where
// somebody else may have led since the last.
func (s *Shelf) Begin(continued bool) {
	if s.bucket != nil && !continued {
		s.bucket.forget()
	}
}

// End ends a tenure: what is being written may take so long, then it is given
// up. Nothing of the shelf is going on after it.
func (s *Shelf) End(patience time.Duration) {
	if s.bucket != nil {
		s.bucket.end(patience)
	}
}

// Collected says that these keys of the bucket were deleted.
func (s *Shelf) Collected(keys []string) {
	if s.bucket != nil {
		s.bucket.drop(keys)
	}
}
