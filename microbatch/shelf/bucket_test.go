package shelf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// objects is a bucket that counts, fails and waits as it is told.
type objects struct {
	*sink.Sink
	mu    sync.Mutex
	calls map[string]int
	fail  map[string]error
	gate  chan struct{} // writes wait for it, or for the end of their context
}

func newObjects() *objects {
	return &objects{Sink: sink.New(sink.Settings{Store: mem.New("out"), Pipeline: "p"}), calls: map[string]int{}, fail: map[string]error{}}
}

func (o *objects) call(what string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[what]++
	return o.fail[what]
}

func (o *objects) n(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[what]
}

func (o *objects) CachedSlices(ctx context.Context, recipe string, from time.Time) ([]sink.Cached, error) {
	if err := o.call("list"); err != nil {
		return nil, err
	}
	return o.Sink.CachedSlices(ctx, recipe, from)
}

func (o *objects) OpenCached(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if err := o.call("get"); err != nil {
		return nil, 0, err
	}
	return o.Sink.OpenCached(ctx, key)
}

func (o *objects) PutCached(ctx context.Context, key string, body io.ReadSeeker) error {
	o.mu.Lock()
	gate := o.gate
	o.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := o.call("put"); err != nil {
		return err
	}
	return o.Sink.PutCached(ctx, key, body)
}

func (o *objects) DropCached(ctx context.Context, key string) error {
	if err := o.call("drop"); err != nil {
		return err
	}
	return o.Sink.DropCached(ctx, key)
}

func (o *objects) keys(t testing.TB) (keys []string) {
	t.Helper()
	found, err := o.Sink.CachedSlices(t.Context(), recipe, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found {
		keys = append(keys, c.Key)
	}
	sort.Strings(keys)
	return keys
}

var recipe = strings.Repeat("a", 64)

func newShelf(t testing.TB, o *objects, c *counted) *Shelf {
	t.Helper()
	set := c.settings(t)
	set.Objects, set.Recipe = o, recipe
	set.NewID = func() string {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.calls["id"]++
		return fmt.Sprintf("01JDXK%020d", o.calls["id"])
	}
	return New(set)
}

// pane makes slices of n partitions, stored as if they were built.
func pane(t testing.TB, s *Shelf, n int) (entries []Entry) {
	t.Helper()
	for i := range n {
		built, at := made(t, i, 100)
		s.Store(t.Context(), at, built)
		entries = append(entries, Entry{At: at, Slice: built})
	}
	return entries
}

// expect asks for all slices of a pane.
func expect(s *Shelf, entries []Entry) {
	all := map[slice.ID]bool{}
	for _, e := range entries {
		all[e.At] = true
	}
	s.Expect(all, entries[0].Slice.Start)
}

// TestBucketRequests: a listing and a request for each slice, once in a tenure;
// nothing for what cannot be there.
func TestBucketRequests(t *testing.T) {
	var c counted
	o := newObjects()
	s := newShelf(t, o, &c)
	entries := pane(t, s, 10)
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	if o.n("put") != 10 || o.n("list") != 0 {
		t.Fatalf("%v, want 10 puts", o.calls)
	}
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	if o.n("put") != 10 || o.n("list") != 0 {
		t.Fatalf("%v, want nothing for a pane of the same slices", o.calls)
	}
	next := newShelf(t, o, &c)
	_, unknown := made(t, 77, 10)
	if next.Load(t.Context(), unknown) != nil || o.n("list") != 0 {
		t.Fatalf("%v, want no request for a slice of no pane", o.calls)
	}
	expect(next, entries)
	for _, e := range entries {
		if got := next.Load(t.Context(), e.At); got == nil || !sameRun(t, got, e.Slice) {
			t.Fatal("not loaded, or as another")
		}
	}
	if o.n("list") != 1 || o.n("get") != 10 {
		t.Errorf("%v, want 1 list and 10 gets", o.calls)
	}
	expect(next, entries)
	if next.Begin(true); next.Load(t.Context(), entries[0].At) == nil || o.n("list") != 1 {
		t.Errorf("%v, want no list in a tenure that goes on", o.calls)
	}
	expect(next, entries)
	if next.Begin(false); next.Load(t.Context(), entries[0].At) == nil || o.n("list") != 2 {
		t.Errorf("%v, want a list where another one may have led", o.calls)
	}
}

// TestBucketOutage: nothing fails, and there are no requests in vain.
func TestBucketOutage(t *testing.T) {
	var c counted
	o := newObjects()
	s := newShelf(t, o, &c)
	entries := pane(t, s, 10)
	o.fail["put"] = store.ErrUnavailable
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	if n := o.n("put"); n == 0 || n > uploads {
		t.Errorf("%d writes to a bucket that takes none, want no more than %d", n, uploads)
	}
	delete(o.fail, "put")
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	if n := len(o.keys(t)); n != 10 {
		t.Errorf("%d slices after the outage, want 10", n)
	}
	next := newShelf(t, o, &c)
	o.fail["list"] = store.ErrUnavailable
	expect(next, entries)
	for _, e := range entries {
		if next.Load(t.Context(), e.At) != nil {
			t.Fatal("loaded without a listing")
		}
	}
	if n := o.n("list"); n != 1 {
		t.Errorf("%d listings in vain, want 1", n)
	}
	// What is not known to be there is not written again on a guess.
	next.Published(t.Context(), entries)
	next.End(time.Minute)
	if n := len(o.keys(t)); n != 10 {
		t.Errorf("%d slices, want 10: no listing tells what is there", n)
	}
	delete(o.fail, "list")
	expect(next, entries)
	o.fail["get"] = store.ErrUnavailable
	if next.Load(t.Context(), entries[0].At) != nil || o.n("drop") != 0 {
		t.Error("a slice that could not be read was loaded or deleted")
	}
	if next.Load(t.Context(), entries[1].At) != nil || o.n("get") != 1 {
		t.Errorf("%d requests to a bucket that gives nothing, want 1", o.n("get"))
	}
	delete(o.fail, "get")
	expect(next, entries)
	if next.Load(t.Context(), entries[0].At) == nil {
		t.Error("not loaded after the outage")
	}
}

// TestBucketCollected: what a collection has deleted is missed once and kept
// again.
func TestBucketCollected(t *testing.T) {
	var c counted
	o := newObjects()
	s := newShelf(t, o, &c)
	entries := pane(t, s, 3)
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	keys := o.keys(t)
	for _, key := range keys {
		if err := o.Sink.DropCached(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	expect(s, entries)
	if s.Load(t.Context(), entries[0].At) != nil {
		t.Error("loaded what is gone")
	}
	s.Collected(keys)
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	if n := len(o.keys(t)); n != 3 {
		t.Errorf("%d slices, want 3", n)
	}
}

// TestEndIsTheEnd: the end of a tenure waits so long and no longer, and nothing
// is written after it.
func TestEndIsTheEnd(t *testing.T) {
	var c counted
	o := newObjects()
	o.gate = make(chan struct{})
	s := newShelf(t, o, &c)
	entries := pane(t, s, 10)
	s.Published(t.Context(), entries)
	began := time.Now()
	s.End(20 * time.Millisecond)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
	close(o.gate)
	if n := o.n("put"); n != 0 {
		t.Errorf("%d slices written after the end", n)
	}
	// The lease is lost: its context ends what is going on.
	ctx, lose := context.WithCancelCause(t.Context())
	o.gate = make(chan struct{})
	s.Published(ctx, entries)
	lose(errors.New("fenced"))
	s.End(time.Minute)
	if n := o.n("put"); n != 0 {
		t.Errorf("%d slices written after the lease was lost", n)
	}
	o.gate = nil
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	if n := o.n("put"); n != 10 {
		t.Errorf("%d slices in the next tenure, want 10", n)
	}
}

// TestPublishedWhileWriting: what becomes due while slices are being written is
// written too.
func TestPublishedWhileWriting(t *testing.T) {
	var c counted
	o := newObjects()
	o.gate = make(chan struct{})
	s := newShelf(t, o, &c)
	first := pane(t, s, 5)
	s.Published(t.Context(), first)
	built, at := made(t, 9, 100)
	s.Store(t.Context(), at, built)
	s.Published(t.Context(), append(first[1:], Entry{At: at, Slice: built}))
	close(o.gate)
	s.End(time.Minute)
	found := false
	for _, key := range o.keys(t) {
		found = found || strings.Contains(key, at.String())
	}
	if !found {
		t.Error("the newest slice was not written")
	}
}

// TestDistrust: what is there is not used before the next pane, and what that
// was made of takes its place.
func TestDistrust(t *testing.T) {
	var c counted
	o := newObjects()
	s := newShelf(t, o, &c)
	s.set.Dir = NewDir(t.TempDir(), 1<<20, s.set.Log).Scope("p")
	entries := pane(t, s, 3)
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	s.Distrust()
	expect(s, entries)
	for _, e := range entries {
		if s.Load(t.Context(), e.At) != nil {
			t.Fatal("loaded what is not trusted")
		}
	}
	other, _ := made(t, 50, 100)
	again := []Entry{{At: entries[0].At, Slice: other}}
	s.Store(t.Context(), again[0].At, other)
	s.Published(t.Context(), again)
	s.End(time.Minute)
	for name, next := range map[string]*Shelf{"here": s, "in the next process": newShelf(t, o, &c)} {
		expect(next, entries[:1])
		if got := next.Load(t.Context(), entries[0].At); got == nil || !sameRun(t, got, other) {
			t.Errorf("%s: not what was made since", name)
		}
	}
}

// TestDamagedInTheBucket: each of the slices of an address is tried, newest
// first, and what is damaged is deleted.
func TestDamagedInTheBucket(t *testing.T) {
	var c counted
	o := newObjects()
	s := newShelf(t, o, &c)
	entries := pane(t, s, 1)
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	for i, body := range []string{"", "deltadk1 but no more", strings.Repeat("x", 1000)} {
		key := sink.CachedKey(recipe, entries[0].At.String(), entries[0].Slice.Start, fmt.Sprintf("01JDXK9999999999999999999%d", i))
		if err := o.Sink.PutCached(t.Context(), key, bytes.NewReader([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	next := newShelf(t, o, &c)
	expect(next, entries)
	if got := next.Load(t.Context(), entries[0].At); got == nil || !sameRun(t, got, entries[0].Slice) {
		t.Error("the slice that is whole was not loaded")
	}
	if c.got("bucket damaged") != 3 || len(o.keys(t)) != 1 {
		t.Errorf("%v, %d left", c.n, len(o.keys(t)))
	}
}

// meanwhile is a bucket that something happens beside while it is listed.
type meanwhile struct {
	*objects
	what func()
}

func (m meanwhile) CachedSlices(ctx context.Context, recipe string, from time.Time) ([]sink.Cached, error) {
	found, err := m.objects.CachedSlices(ctx, recipe, from)
	m.what()
	return found, err
}

// TestBucketIsListedForMore: what begins to matter while the bucket is listed
// is not taken for listed.
func TestBucketIsListedForMore(t *testing.T) {
	var c counted
	o := newObjects()
	entries := pane(t, newShelf(t, o, &c), 10)
	s := newShelf(t, o, &c)
	s.Published(t.Context(), entries)
	s.End(time.Minute)
	late, all := entries[9:], map[slice.ID]bool{}
	for _, e := range entries {
		all[e.At] = true
	}
	next := newShelf(t, o, &c)
	set := next.set
	set.Objects = meanwhile{o, func() { next.Expect(all, entries[0].Slice.Start) }}
	next.bucket = newBucket(set)
	expect(next, late)
	for _, e := range append(late, entries[:9]...) {
		if next.Load(t.Context(), e.At) == nil {
			t.Fatalf("the slice of %s is not found", e.Slice.Start)
		}
	}
}
