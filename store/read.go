package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
)

// ReadAll reads a whole object or range into memory. More than limit bytes are refused with ErrTooLarge before the first is read.
func ReadAll(ctx context.Context, s Store, key string, limit int64, o GetOptions) ([]byte, ObjectInfo, error) {
	return ReadInto(ctx, s, key, nil, limit, o)
}

// ReadInto is ReadAll into buf's memory, if it has enough.
func ReadInto(ctx context.Context, s Store, key string, buf []byte, limit int64, o GetOptions) ([]byte, ObjectInfo, error) {
	obj, err := s.Get(ctx, key, o)
	if err != nil {
		return nil, ObjectInfo{}, err
	}
	defer obj.Body.Close()
	if obj.Length > limit {
		return nil, obj.Info, Fail("get", s.String(), key, ErrTooLarge, fmt.Errorf("%d bytes, limit %d", obj.Length, limit))
	}
	b := buf[:0]
	if int64(cap(b)) < obj.Length {
		b = make([]byte, obj.Length)
	}
	b = b[:obj.Length]
	if _, err := io.ReadFull(obj.Body, b); err != nil {
		return nil, obj.Info, Fail("get", s.String(), key, nil, fmt.Errorf("read body: %w", err))
	}
	// The end must be there too: a store may report a broken or over-long body only behind the last byte.
	var more [1]byte
	if n, err := io.ReadFull(obj.Body, more[:]); n != 0 || err != io.EOF {
		return nil, obj.Info, Fail("get", s.String(), key, ErrUnavailable, fmt.Errorf("body does not end after %d bytes: %v", obj.Length, err))
	}
	return b, obj.Info, nil
}

// PutBytes is Put with a body in memory.
func PutBytes(ctx context.Context, s Store, key string, body []byte, o PutOptions) (etag string, err error) {
	return s.Put(ctx, key, bytes.NewReader(body), o)
}

// maxEmptyPages bounds how many pages without any entry may follow each other. A server that filters may send some; one that goes on
// for ever is broken.
const maxEmptyPages = 100

// Pages iterates over the pages of a listing from the first (or o.Token) to the last, each checked against the one before: entries that
// do not ascend over page boundaries, or page after page without any, are ErrBadListing. It stops after the first error.
func Pages(ctx context.Context, s Store, o ListOptions) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		last, empty := "", 0
		for {
			p, err := s.List(ctx, o)
			if err == nil {
				err = follows(&last, &empty, p)
				if err != nil {
					err = Fail("list", s.String(), o.Prefix, ErrBadListing, err)
				}
			}
			if !yield(p, err) || err != nil || p.NextToken == "" {
				return
			}
			o.Token = p.NextToken
		}
	}
}

func follows(last *string, empty *int, p Page) error {
	first, end := "", *last
	if len(p.Objects) > 0 {
		first, end = p.Objects[0].Key, max(end, p.Objects[len(p.Objects)-1].Key)
	}
	if len(p.Prefixes) > 0 {
		if first == "" || p.Prefixes[0] < first {
			first = p.Prefixes[0]
		}
		end = max(end, p.Prefixes[len(p.Prefixes)-1])
	}
	if first == "" {
		if *empty++; *empty > maxEmptyPages {
			return fmt.Errorf("%d empty pages in a row", *empty)
		}
		return nil
	}
	if *empty = 0; *last != "" && first <= *last {
		return fmt.Errorf("page begins with %q, not behind %q", first, *last)
	}
	*last = end
	return nil
}

// Objects iterates over all objects of a listing, page by page, in byte order; with a delimiter the common prefixes are left out. It
// stops after the first error.
func Objects(ctx context.Context, s Store, o ListOptions) iter.Seq2[ObjectInfo, error] {
	return func(yield func(ObjectInfo, error) bool) {
		for p, err := range Pages(ctx, s, o) {
			if err != nil {
				yield(ObjectInfo{}, err)
				return
			}
			for _, info := range p.Objects {
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}
