// Package fault is a store that fails on purpose, by rules, for the tests of everything that stands on a store.
//
// A rule names the operation and the keys it is about, how many matches pass first and how many are hit, and what happens: nothing
// reached the store, the store did it but the answer was an error or never came, the request is still in the network and arrives later,
// the body breaks, the listing lies. Everything is deterministic: no clock, no randomness but what a rule brings itself.
package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deltad/deltad/store"
)

// Kind is what happens to a call that a rule hits.
type Kind int

// The kinds of fault.
const (
	// ErrorBefore answers Err without touching the store.
	ErrorBefore Kind = iota
	// ErrorAfter lets the store do it and then answers Err: with the default Err, a reply that was lost.
	ErrorAfter
	// Hang lets the store do it and then waits for the caller's context to end: a black-holed reply.
	Hang
	// Late answers Err at once and keeps a put or delete in the network until Deliver; to any other call it is ErrorBefore.
	Late
	// Delay waits for Delay, and for Hold if set, and then passes the call on.
	Delay
	// Truncate breaks the body of a get with Err after N bytes.
	Truncate
	// Corrupt flips one bit of byte N of a body.
	Corrupt
	// Lie passes a page of a listing through Page.
	Lie
	// Crash passes nothing on and answers Err from here on, to every call, until Heal: the process is gone. OnHit sees it happen.
	Crash
)

// Rule is one fault. Its counters live in the Store, so a Rule may be reused.
type Rule struct {
	Kind Kind
	// Op is one of store.Ops, "" for any.
	Op string
	// Key is a substring of the key, or of the prefix of a listing; "" for any.
	Key string
	// Skip matches pass first; then Times matches are hit, 0 for all.
	Skip, Times int
	// Err is what is answered; default is store.ErrUnavailable.
	Err error
	// N is the byte that Truncate and Corrupt are about.
	N int64
	// Delay and Hold are waited for by Delay; either may be zero.
	Delay time.Duration
	Hold  <-chan struct{}
	// Page rewrites a page for Lie.
	Page func(store.Page) store.Page
	// OnHit, if set, is called when the rule hits, before anything happens.
	OnHit func()
	// P, if set, is asked at each match whether to hit, for seeded soak runs.
	P func() bool
}

// Call is one call that reached the Store, in order, hit or not.
type Call struct {
	Op, Key string
	// Hit says that a rule was applied.
	Hit bool
}

// Store passes calls to another store unless a rule hits. The first rule that hits decides.
type Store struct {
	inner store.Store

	mu struct {
		sync.Mutex
		rules   []*counted
		calls   []Call
		late    []func(context.Context) error
		crashed error
	}
}

type counted struct {
	Rule
	seen, hits int
}

var _ store.Store = (*Store)(nil)

// New returns a store with rules; more may follow.
func New(inner store.Store, rules ...Rule) *Store {
	s := &Store{inner: inner}
	s.Add(rules...)
	return s
}

// Add appends rules.
func (s *Store) Add(rules ...Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rules {
		s.mu.rules = append(s.mu.rules, &counted{Rule: r})
	}
}

// Heal removes all rules and ends a crash. Requests that are still in the network stay there.
func (s *Store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.rules, s.mu.crashed = nil, nil
}

// Calls returns what was called so far.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.calls)
}

// Count is the number of calls of an operation so far, "" for all.
func (s *Store) Count(op string) int {
	n := 0
	for _, c := range s.Calls() {
		if op == "" || c.Op == op {
			n++
		}
	}
	return n
}

// Deliver lets the requests that Late kept in the network arrive, in order, and returns what the store said to each.
func (s *Store) Deliver(ctx context.Context) []error {
	s.mu.Lock()
	late := s.mu.late
	s.mu.late = nil
	s.mu.Unlock()
	errs := make([]error, 0, len(late))
	for _, f := range late {
		errs = append(errs, f(ctx))
	}
	return errs
}

// String is the inner store's.
func (s *Store) String() string { return s.inner.String() }

// pick records the call and returns the rule that hits it, or nil.
func (s *Store) pick(op, key string) *Rule {
	s.mu.Lock()
	hit := s.match(op, key)
	s.mu.calls = append(s.mu.calls, Call{Op: op, Key: key, Hit: hit != nil})
	if hit != nil && hit.Kind == Crash {
		s.mu.crashed = hit.Err
	}
	s.mu.Unlock()
	if hit != nil && hit.OnHit != nil {
		hit.OnHit()
	}
	return hit
}

// match runs under the lock.
func (s *Store) match(op, key string) *Rule {
	if s.mu.crashed != nil {
		return &Rule{Kind: ErrorBefore, Err: s.mu.crashed}
	}
	for _, c := range s.mu.rules {
		if (c.Op != "" && c.Op != op) || !strings.Contains(key, c.Key) {
			continue
		}
		c.seen++
		if c.seen <= c.Skip || (c.Times > 0 && c.hits >= c.Times) || (c.P != nil && !c.P()) {
			continue
		}
		c.hits++
		r := c.Rule
		if r.Err == nil {
			r.Err = store.ErrUnavailable
		}
		return &r
	}
	return nil
}

func (s *Store) fail(op, key string, r *Rule) error {
	return store.Fail(op, s.String(), key, nil, fmt.Errorf("injected: %w", r.Err))
}

// around applies a rule to a call that changes or asks something and returns only an error. do is the call itself.
func (s *Store) around(ctx context.Context, op, key string, r *Rule, do func(context.Context) error) error {
	if r == nil {
		return do(ctx)
	}
	switch r.Kind {
	case ErrorBefore, Crash:
		return s.fail(op, key, r)
	case ErrorAfter:
		// What the store answered is lost with the reply.
		if err := do(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		return s.fail(op, key, r)
	case Hang:
		if err := do(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		<-ctx.Done()
		return store.Fail(op, s.String(), key, nil, ctx.Err())
	case Late:
		if op == "put" || op == "delete" {
			s.mu.Lock()
			s.mu.late = append(s.mu.late, do)
			s.mu.Unlock()
		}
		return s.fail(op, key, r)
	case Delay:
		if err := wait(ctx, r); err != nil {
			return store.Fail(op, s.String(), key, nil, err)
		}
	case Truncate, Corrupt, Lie: // change what comes back
	}
	return do(ctx)
}

func wait(ctx context.Context, r *Rule) error {
	if r.Delay > 0 {
		t := time.NewTimer(r.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.Hold != nil {
		select {
		case <-r.Hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, o store.ListOptions) (store.Page, error) {
	r := s.pick("list", o.Prefix)
	var p store.Page
	err := s.around(ctx, "list", o.Prefix, r, func(ctx context.Context) (err error) {
		p, err = s.inner.List(ctx, o)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	if r != nil && r.Kind == Lie {
		p = r.Page(p)
	}
	return p, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	r := s.pick("get", key)
	var obj store.Object
	err := s.around(ctx, "get", key, r, func(ctx context.Context) (err error) {
		obj, err = s.inner.Get(ctx, key, o)
		return err
	})
	if err != nil {
		if obj.Body != nil {
			err = errors.Join(err, obj.Body.Close())
		}
		return store.Object{}, err
	}
	if r != nil && (r.Kind == Truncate || r.Kind == Corrupt) {
		obj.Body = &body{ReadCloser: obj.Body, rule: r, err: s.fail("get", key, r)}
	}
	return obj, nil
}

// Put implements store.Store. With Late the body is copied, since the caller may reuse it.
func (s *Store) Put(ctx context.Context, key string, b io.ReadSeeker, o store.PutOptions) (string, error) {
	r := s.pick("put", key)
	if r != nil && r.Kind == Late {
		if _, err := b.Seek(0, io.SeekStart); err != nil {
			return "", store.Fail("put", s.String(), key, nil, fmt.Errorf("rewind body: %w", err))
		}
		buf, err := io.ReadAll(b)
		if err != nil {
			return "", store.Fail("put", s.String(), key, nil, fmt.Errorf("read body: %w", err))
		}
		b = bytes.NewReader(buf)
	}
	etag := ""
	err := s.around(ctx, "put", key, r, func(ctx context.Context) (err error) {
		e, err := s.inner.Put(ctx, key, b, o)
		if r == nil || r.Kind != Late { // a late put has no caller to give an ETag to
			etag = e
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return etag, nil
}

// Head implements store.Store.
func (s *Store) Head(ctx context.Context, key string) (store.ObjectInfo, error) {
	r := s.pick("head", key)
	var info store.ObjectInfo
	err := s.around(ctx, "head", key, r, func(ctx context.Context) (err error) {
		info, err = s.inner.Head(ctx, key)
		return err
	})
	if err != nil {
		return store.ObjectInfo{}, err
	}
	return info, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	r := s.pick("delete", key)
	return s.around(ctx, "delete", key, r, func(ctx context.Context) error { return s.inner.Delete(ctx, key) })
}

// body breaks or falsifies what is read.
type body struct {
	io.ReadCloser
	rule *Rule
	err  error
	at   int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.rule.Kind == Truncate {
		if b.at >= b.rule.N {
			return 0, b.err
		}
		p = p[:min(int64(len(p)), b.rule.N-b.at)]
	}
	n, err := b.ReadCloser.Read(p)
	if i := b.rule.N - b.at; b.rule.Kind == Corrupt && i >= 0 && i < int64(n) {
		p[i] ^= 0x20
	}
	b.at += int64(n)
	return n, err
}
