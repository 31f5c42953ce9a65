// Package mem keeps objects in memory: the twin of an S3 bucket for tests, and an honest second implementation of the contract.
//
// It has S3's semantics to the letter, bodies' MD5 as ETags included (so that equal bodies have equal ETags, as they have there), takes
// any key that S3 takes, and stays fast with a million keys: a put or a get costs a logarithm, a page its entries, and a delimiter
// listing jumps over what a common prefix folds. Nothing is kept after the process.
package mem

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/deltad/deltad/store"
)

// Store is an in-memory store. Create it with New.
type Store struct {
	name string
	now  func() time.Time

	mu struct {
		sync.RWMutex
		keys    index
		objects map[string]object
	}
}

type object struct {
	body []byte
	etag string
	at   time.Time
}

// New returns an empty store; name is the host part of its URL, mem://name.
func New(name string) *Store {
	s := &Store{name: name, now: time.Now}
	s.mu.objects = map[string]object{}
	return s
}

// NewAt is New with a clock, for tests that assert that LastModified drives nothing.
func NewAt(name string, now func() time.Time) *Store {
	s := New(name)
	s.now = now
	return s
}

// String is mem://name.
func (s *Store) String() string { return "mem://" + s.name }

func (s *Store) fail(op, key string, class, cause error) error {
	return store.Fail(op, s.String(), key, class, cause)
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, o store.ListOptions) (store.Page, error) {
	if err := ctx.Err(); err != nil {
		return store.Page{}, s.fail("list", o.Prefix, nil, err)
	}
	after := o.StartAfter
	if o.Token != "" {
		b, err := hex.DecodeString(o.Token)
		if err != nil {
			return store.Page{}, s.fail("list", o.Prefix, nil, fmt.Errorf("token %q: %w", o.Token, err))
		}
		after = string(b)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()

	// An entry is a key or a common prefix; entries come in order, and what is returned are those behind after.
	var p store.Page
	last, n, limit := "", 0, o.Limit()
	c, at := s.mu.keys.seek(max(o.Prefix, after))
	for {
		key, ok := s.mu.keys.get(c, at)
		if !ok || !strings.HasPrefix(key, o.Prefix) {
			return p, nil
		}
		entry, folded := key, false
		if o.Delimiter != "" {
			if i := strings.Index(key[len(o.Prefix):], o.Delimiter); i >= 0 {
				entry, folded = key[:len(o.Prefix)+i+len(o.Delimiter)], true
			}
		}
		if entry > after {
			if n == limit {
				p.NextToken = hex.EncodeToString([]byte(last))
				return p, nil
			}
			last = entry
			n++
			if folded {
				p.Prefixes = append(p.Prefixes, entry)
			} else {
				p.Objects = append(p.Objects, s.info(key, s.mu.objects[key]))
			}
		}
		if folded {
			next, ok := successor(entry)
			if !ok {
				return p, nil
			}
			c, at = s.mu.keys.seek(next)
		} else {
			c, at = s.mu.keys.next(c, at)
		}
	}
}

// successor is the least string greater than every string that begins with p; there is none if p is all 0xff.
func successor(p string) (string, bool) {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xff {
			return p[:i] + string([]byte{p[i] + 1}), true
		}
	}
	return "", false
}

func (s *Store) info(key string, obj object) store.ObjectInfo {
	return store.ObjectInfo{Key: key, ETag: obj.etag, Size: int64(len(obj.body)), LastModified: obj.at}
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	if err := cmp.Or(ctx.Err(), store.CheckKey(key)); err != nil {
		return store.Object{}, s.fail("get", key, nil, err)
	}
	s.mu.RLock()
	obj, ok := s.mu.objects[key]
	s.mu.RUnlock()
	switch {
	case !ok:
		return store.Object{}, s.fail("get", key, store.ErrNotFound, nil)
	case o.IfMatch != "" && o.IfMatch != obj.etag:
		return store.Object{}, s.fail("get", key, store.ErrPrecondition, nil)
	case o.IfNoneMatch != "" && o.IfNoneMatch == obj.etag:
		return store.Object{}, s.fail("get", key, store.ErrNotModified, nil)
	}
	info := s.info(key, obj)
	offset, length, err := o.Range(info.Size)
	if err != nil {
		return store.Object{}, s.fail("get", key, nil, err)
	}
	body := &reader{ctx: ctx, r: bytes.NewReader(obj.body[offset : offset+length])}
	return store.Object{Info: info, Offset: offset, Length: length, Body: body}, nil
}

// Head implements store.Store.
func (s *Store) Head(ctx context.Context, key string) (store.ObjectInfo, error) {
	if err := cmp.Or(ctx.Err(), store.CheckKey(key)); err != nil {
		return store.ObjectInfo{}, s.fail("head", key, nil, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj, ok := s.mu.objects[key]
	if !ok {
		return store.ObjectInfo{}, s.fail("head", key, store.ErrNotFound, nil)
	}
	return s.info(key, obj), nil
}

// Put implements store.Store. The body is read into memory before the map is locked.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	if err := cmp.Or(ctx.Err(), store.CheckPut(key, o)); err != nil {
		return "", s.fail("put", key, nil, err)
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", s.fail("put", key, nil, fmt.Errorf("rewind body: %w", err))
	}
	b, err := io.ReadAll(&reader{ctx: ctx, r: body})
	if err != nil {
		return "", s.fail("put", key, nil, fmt.Errorf("read body: %w", err))
	}
	sum := md5.Sum(b)
	obj := object{body: b, etag: hex.EncodeToString(sum[:]), at: s.now().UTC()}

	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.mu.objects[key]
	if (o.IfNoneMatch && exists) || (o.IfMatch != "" && (!exists || old.etag != o.IfMatch)) {
		return "", s.fail("put", key, store.ErrPrecondition, nil)
	}
	s.mu.objects[key] = obj
	if !exists {
		s.mu.keys.insert(key)
	}
	return obj.etag, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := cmp.Or(ctx.Err(), store.CheckKey(key)); err != nil {
		return s.fail("delete", key, nil, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.mu.objects[key]; ok {
		delete(s.mu.objects, key)
		s.mu.keys.delete(key)
	}
	return nil
}

// Len is the number of objects.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.mu.objects)
}

// reader ends with the context, and refuses reads after Close as a network body would.
type reader struct {
	ctx    context.Context
	r      io.Reader
	closed bool
}

func (r *reader) Read(b []byte) (int, error) {
	if r.closed {
		return 0, errors.New("read after close")
	}
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

func (r *reader) Close() error {
	r.closed = true
	return nil
}
