package source

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// ErrChanged is a read of an object that was replaced or removed after it was
// listed: the next run lists again.
var ErrChanged = errors.New("the object changed after it was listed")

// Blob reads one version of one object; every read is conditional on its
// ETag. A whole read is kept, and so is what was read of the object's end, where
// formats have their footers: a second pass asks for neither again. It is safe
// for concurrent use. Its errors leave it to the caller to name the key.
type Blob struct {
	store  store.Store
	object partition.Object
	mu     struct {
		sync.Mutex
		whole  []byte
		tail   []byte // from tailAt to about the end
		tailAt int64
	}
}

// What is kept of an object's end: reads of up to tailBytes that end within
// tailGap of it.
const (
	tailBytes = 1 << 20
	tailGap   = 8
)

// NewBlob returns a blob of the object as it was listed. It does no I/O.
func NewBlob(st store.Store, o partition.Object) *Blob { return &Blob{store: st, object: o} }

// Key is the object's key.
func (b *Blob) Key() string { return b.object.Key }

// Size is the object's size in bytes.
func (b *Blob) Size() int64 { return b.object.Size }

// ReadAll returns the whole object.
func (b *Blob) ReadAll(ctx context.Context) ([]byte, error) {
	if whole, _ := b.kept(0, b.object.Size); whole != nil {
		return whole, nil
	}
	body, err := b.ReadInto(ctx, nil)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.whole = body
	}
	return body, err
}

// ReadInto returns the whole object in buf's memory, if it has enough, and keeps
// nothing of it: the caller may use the memory again.
func (b *Blob) ReadInto(ctx context.Context, buf []byte) ([]byte, error) {
	return b.read(ctx, buf, store.GetOptions{IfMatch: b.object.ETag}, b.object.Size)
}

// ReadRange returns n bytes from offset off.
func (b *Blob) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	part, longest := b.kept(off, n)
	if part != nil {
		return part, nil
	}
	body, err := b.read(ctx, nil, store.GetOptions{IfMatch: b.object.ETag, Offset: off, Length: n}, n)
	if err == nil && n <= tailBytes && off+n >= b.object.Size-tailGap && longest < n {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.tail, b.mu.tailAt = body, off
	}
	return body, err
}

// kept returns the range if it was kept, and how much of the end was.
func (b *Blob) kept(off, n int64) ([]byte, int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, tail := &b.mu, int64(len(b.mu.tail))
	switch at := off - m.tailAt; {
	case m.whole != nil:
		return m.whole[off : off+n], tail
	case m.tail != nil && at >= 0 && at+n <= tail:
		return m.tail[at : at+n], tail
	}
	return nil, tail
}

func (b *Blob) read(ctx context.Context, buf []byte, o store.GetOptions, want int64) ([]byte, error) {
	body, _, err := store.ReadInto(ctx, b.store, b.object.Key, buf, want, o)
	switch {
	case errors.Is(err, store.ErrPrecondition), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrRange), errors.Is(err, store.ErrTooLarge):
		return nil, fmt.Errorf("read at etag %s: %w: %w", b.object.ETag, ErrChanged, err)
	case err != nil:
		return nil, err
	case int64(len(body)) != want:
		return nil, fmt.Errorf("%w: got %d bytes, listed with %d", ErrChanged, len(body), want)
	}
	return body, nil
}
