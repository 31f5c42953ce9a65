package store

import (
	"context"
	"io"
	"sync"
	"time"
)

// Ops are the operations that Metered reports, one for each call of the interface, so each page of a listing counts: a closed set.
var Ops = []string{"list", "get", "put", "head", "delete"}

// Observe receives one call: op is one of Ops, outcome one of Outcomes, bytes what was read from or offered as a body. It is called
// from many goroutines.
type Observe func(op, outcome string, elapsed time.Duration, bytes int64)

// Metered reports every call to observe. A get is reported when its body is closed (or could not be opened), with the outcome of
// reading it; the end of the body is not a failure, and leaving early is not one either.
func Metered(s Store, observe Observe) Store { return &metered{s, observe} }

type metered struct {
	inner   Store
	observe Observe
}

func (s *metered) String() string { return s.inner.String() }

func (s *metered) done(op string, start time.Time, bytes int64, err error) {
	s.observe(op, Outcome(err), time.Since(start), bytes)
}

func (s *metered) List(ctx context.Context, o ListOptions) (Page, error) {
	start := time.Now()
	p, err := s.inner.List(ctx, o)
	s.done("list", start, 0, err)
	return p, err
}

func (s *metered) Get(ctx context.Context, key string, o GetOptions) (Object, error) {
	start := time.Now()
	obj, err := s.inner.Get(ctx, key, o)
	if err != nil {
		s.done("get", start, 0, err)
		return obj, err
	}
	obj.Body = &meteredBody{s: s, start: start, inner: obj.Body}
	return obj, nil
}

func (s *metered) Put(ctx context.Context, key string, body io.ReadSeeker, o PutOptions) (string, error) {
	start := time.Now()
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		size = 0 // the store meets the same error and says so
	}
	etag, err := s.inner.Put(ctx, key, body, o)
	s.done("put", start, size, err)
	return etag, err
}

func (s *metered) Head(ctx context.Context, key string) (ObjectInfo, error) {
	start := time.Now()
	info, err := s.inner.Head(ctx, key)
	s.done("head", start, 0, err)
	return info, err
}

func (s *metered) Delete(ctx context.Context, key string) error {
	start := time.Now()
	err := s.inner.Delete(ctx, key)
	s.done("delete", start, 0, err)
	return err
}

type meteredBody struct {
	s     *metered
	start time.Time
	inner io.ReadCloser
	n     int64
	err   error
	once  sync.Once
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	b.n += int64(n)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

func (b *meteredBody) Close() error {
	err := b.inner.Close()
	b.once.Do(func() { b.s.done("get", b.start, b.n, b.err) })
	return err
}
