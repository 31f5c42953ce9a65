package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// ErrChanged is a read of an object that was replaced or removed after it was
// listed: the next run lists again.
var ErrChanged = errors.New("the object changed after it was listed")

// Blob reads one version of one object; every read is conditional on its
// ETag. A whole read is kept, and so is what was read of the object's end, where
// formats have their footers: a second pass asks for neither again. It serves
// one goroutine. Its errors leave it to the caller to name the key.
type Blob struct {
	store  store.Store
	object partition.Object
	whole  []byte
	tail   []byte // from tailAt to about the end
	tailAt int64
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
	if b.whole == nil {
		body, err := b.read(ctx, store.GetOptions{IfMatch: b.object.ETag}, b.object.Size)
		if err != nil {
			return nil, err
		}
		b.whole = body
	}
	return b.whole, nil
}

// ReadRange returns n bytes from offset off.
func (b *Blob) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if b.whole != nil {
		return b.whole[off : off+n], nil
	}
	if n == 0 {
		return nil, nil
	}
	if at := off - b.tailAt; b.tail != nil && at >= 0 && at+n <= int64(len(b.tail)) {
		return b.tail[at : at+n], nil
	}
	body, err := b.read(ctx, store.GetOptions{IfMatch: b.object.ETag, Offset: off, Length: n}, n)
	if err == nil && n <= tailBytes && off+n >= b.object.Size-tailGap && int64(len(b.tail)) < n {
		b.tail, b.tailAt = body, off
	}
	return body, err
}

func (b *Blob) read(ctx context.Context, o store.GetOptions, want int64) ([]byte, error) {
	body, _, err := store.ReadAll(ctx, b.store, b.object.Key, want, o)
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
