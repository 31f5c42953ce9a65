package store

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Prefixed returns a view of s rooted at prefix: keys in and out are relative to it, messages name the whole key. The prefix is used as
// it is, so it normally ends in "/"; an empty one returns s itself.
func Prefixed(s Store, prefix string) Store {
	if prefix == "" {
		return s
	}
	return &prefixed{inner: s, prefix: prefix}
}

type prefixed struct {
	inner  Store
	prefix string
}

func (s *prefixed) String() string { return strings.TrimSuffix(s.inner.String(), "/") + "/" + s.prefix }

func (s *prefixed) List(ctx context.Context, o ListOptions) (Page, error) {
	o.Prefix = s.prefix + o.Prefix
	if o.StartAfter != "" {
		o.StartAfter = s.prefix + o.StartAfter
	}
	p, err := s.inner.List(ctx, o)
	if err != nil {
		return Page{}, err
	}
	// The page may be shared (a cache, a test's recording), so it is not changed in place.
	out := Page{NextToken: p.NextToken}
	for _, info := range p.Objects {
		if info.Key, err = s.cut(info.Key); err != nil {
			return Page{}, Fail("list", s.inner.String(), o.Prefix, ErrBadListing, err)
		}
		out.Objects = append(out.Objects, info)
	}
	for _, pre := range p.Prefixes {
		if pre, err = s.cut(pre); err != nil {
			return Page{}, Fail("list", s.inner.String(), o.Prefix, ErrBadListing, err)
		}
		out.Prefixes = append(out.Prefixes, pre)
	}
	return out, nil
}

func (s *prefixed) cut(key string) (string, error) {
	rel, ok := strings.CutPrefix(key, s.prefix)
	if !ok {
		return "", fmt.Errorf("entry %q is outside the prefix", key)
	}
	return rel, nil
}

// check keeps an empty relative key from addressing the prefix itself as an object.
func (s *prefixed) check(op, key string) error {
	if key == "" {
		return Fail(op, s.String(), "", ErrBadKey, fmt.Errorf("empty key"))
	}
	return nil
}

func (s *prefixed) Get(ctx context.Context, key string, o GetOptions) (Object, error) {
	if err := s.check("get", key); err != nil {
		return Object{}, err
	}
	obj, err := s.inner.Get(ctx, s.prefix+key, o)
	if err != nil {
		return Object{}, err
	}
	obj.Info.Key = key
	return obj, nil
}

func (s *prefixed) Put(ctx context.Context, key string, body io.ReadSeeker, o PutOptions) (string, error) {
	if err := s.check("put", key); err != nil {
		return "", err
	}
	return s.inner.Put(ctx, s.prefix+key, body, o)
}

func (s *prefixed) Head(ctx context.Context, key string) (ObjectInfo, error) {
	if err := s.check("head", key); err != nil {
		return ObjectInfo{}, err
	}
	info, err := s.inner.Head(ctx, s.prefix+key)
	if err != nil {
		return ObjectInfo{}, err
	}
	info.Key = key
	return info, nil
}

func (s *prefixed) Delete(ctx context.Context, key string) error {
	if err := s.check("delete", key); err != nil {
		return err
	}
	return s.inner.Delete(ctx, s.prefix+key)
}
