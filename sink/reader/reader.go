package reader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// What a caller branches on.
var (
	// ErrNoIndex: nothing was published yet.
	ErrNoIndex = errors.New("no index yet")
	// ErrOlder: CURRENT has a lower version than the snapshot.
	ErrOlder = errors.New("CURRENT is older than what was read before")
	// ErrPair: delta and base do not belong together.
	ErrPair = errors.New("delta and base do not belong together")
	// ErrKeyTypes: keys of different columns, or of types that have no common order.
	ErrKeyTypes = errors.New("their keys have different columns or types")
	// ErrKey: what was given is no key of the index, there or not: too many values or too few, or a text that is no value of its column.
	ErrKey = errors.New("not a key of this index")
)

// Options of a Reader. The zero value is fine.
type Options struct {
	// Lazy loads a file when it is first needed. Snapshots then fail with store.ErrNotFound once the pane has been collected; poll again.
	Lazy bool
	// Restarts bounds how often one poll starts again from CURRENT; 0 means 5.
	Restarts int
	// Pause is waited before starting again; 0 means 20 ms.
	Pause time.Duration
}

// Reader follows one output. Poll is for one goroutine, Snapshot for any.
type Reader struct {
	st   store.Store
	o    Options
	etag string
	now  atomic.Pointer[Snapshot]
}

// Open returns a reader of the output that st is rooted at; it does no I/O.
func Open(st store.Store, o Options) *Reader {
	if o.Restarts <= 0 {
		o.Restarts = 5
	}
	if o.Pause <= 0 {
		o.Pause = 20 * time.Millisecond
	}
	return &Reader{st: st, o: o}
}

// Snapshot is the last one that was read whole, or nil.
func (r *Reader) Snapshot() *Snapshot { return r.now.Load() }

// Poll asks for a new CURRENT and, if there is one, loads what it names and makes it the snapshot. changed says that the snapshot is
// another one. It is ErrNoIndex while there is no pane.
func (r *Reader) Poll(ctx context.Context) (changed bool, err error) {
	for i := 0; ; i++ {
		changed, err = r.poll(ctx)
		if !errors.Is(err, store.ErrNotFound) || i == r.o.Restarts {
			return changed, err
		}
		t := time.NewTimer(r.o.Pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return false, fmt.Errorf("poll: %w; %w", context.Cause(ctx), err)
		case <-t.C:
		}
	}
}

func (r *Reader) poll(ctx context.Context) (bool, error) {
	head, err := sink.ReadHead(ctx, r.st, r.etag)
	if errors.Is(err, store.ErrNotModified) {
		if r.Snapshot() == nil {
			return false, ErrNoIndex
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("poll: %w", err)
	}
	old := r.Snapshot()
	switch {
	case old != nil && (!head.Exists || head.Version < old.Current.Version):
		return false, fmt.Errorf("poll: %w: version %d after %d", ErrOlder, head.Version, old.Current.Version)
	case !head.Exists:
		return false, ErrNoIndex
	case head.Delta == nil:
		r.etag = head.ETag
		return false, ErrNoIndex
	}
	next, err := r.load(ctx, head, old)
	if err != nil {
		return false, fmt.Errorf("poll: version %d: %w", head.Version, err)
	}
	r.now.Store(next)
	r.etag = head.ETag // only now: a poll that failed is tried again
	return true, nil
}

// load builds the snapshot that head names, reusing of the old one what has not changed.
func (r *Reader) load(ctx context.Context, head sink.Head, old *Snapshot) (*Snapshot, error) {
	s := &Snapshot{Current: head.Current}
	if old != nil && *old.Current.Delta == *head.Delta && sameBase(old.Current.Base, head.Base) {
		s.Manifest, s.delta = old.Manifest, old.delta
		s.BaseManifest, s.base = old.BaseManifest, old.base
		return s, nil
	}
	m, err := sink.ReadManifest(ctx, r.st, head.Delta.Ref())
	if err != nil {
		return nil, err
	}
	s.Manifest = m
	return s, r.fill(ctx, s, old)
}

// fill loads what s.Current and s.Manifest name; of old, which may be nil, it takes the base if that is the same, and layers.
func (r *Reader) fill(ctx context.Context, s, old *Snapshot) error {
	head := s.Current
	var err error
	if head.Base != nil {
		if old != nil && sameBase(old.Current.Base, head.Base) {
			s.BaseManifest, s.base = old.BaseManifest, old.base
		} else {
			m, err := sink.ReadManifest(ctx, r.st, head.Base.Ref())
			if err != nil {
				return err
			}
			s.BaseManifest = &m
		}
	}
	if err := s.pair(); err != nil {
		return err
	}
	var below *stack
	if old != nil {
		below = old.delta
	}
	if s.delta, err = r.stack(ctx, s.Manifest, below); err != nil {
		return err
	}
	if s.BaseManifest != nil && s.base == nil {
		if s.base, err = r.stack(ctx, *s.BaseManifest, nil); err != nil {
			return err
		}
	}
	return s.compatible()
}

func sameBase(a, b *sink.BaseRef) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Ref() == b.Ref()
}
