package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/store/storetest"
)

func want(t *testing.T, what string, err, class error) {
	t.Helper()
	if class == nil && err != nil || class != nil && !errors.Is(err, class) {
		t.Fatalf("%s: got error %v, want %v", what, err, class)
	}
}

func put(t *testing.T, s store.Store, key, body string) string {
	t.Helper()
	etag, err := store.PutBytes(t.Context(), s, key, []byte(body), store.PutOptions{})
	want(t, "put "+key, err, nil)
	return etag
}

// TestDecoratorsConform runs the whole suite through every decorator at once.
func TestDecoratorsConform(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		inner := mem.New("t")
		for _, k := range []string{"a", "team/adr", "team/ads", "team/ads-old/x", "zz"} {
			put(t, inner, k, "other")
		}
		return store.Metered(fault.New(store.Prefixed(inner, "team/ads/")), func(string, string, time.Duration, int64) {})
	}, storetest.Options{Rounds: 10})
}

func TestPrefixed(t *testing.T) {
	inner := mem.New("t")
	s := store.Prefixed(inner, "p/q/")
	put(t, s, "k", "body")
	if _, err := inner.Head(t.Context(), "p/q/k"); err != nil {
		t.Fatal(err)
	}
	if s.String() != "mem://t/p/q/" || store.Prefixed(inner, "") != store.Store(inner) {
		t.Fatal(s)
	}
	_, err := s.Head(t.Context(), "absent")
	want(t, "head", err, store.ErrNotFound)
	if !strings.Contains(err.Error(), "head mem://t/p/q/absent: not found") {
		t.Fatal(err)
	}
	// A page from outside the prefix is not cut into something that looks right.
	lying := fault.New(inner, fault.Rule{Kind: fault.Lie, Op: "list", Page: func(p store.Page) store.Page {
		return store.Page{Objects: []store.ObjectInfo{{Key: "other/k"}}}
	}})
	_, err = store.Prefixed(lying, "p/q/").List(t.Context(), store.ListOptions{})
	want(t, "list", err, store.ErrBadListing)
}

func TestMetered(t *testing.T) {
	type call struct {
		op, outcome string
		bytes       int64
	}
	var mu sync.Mutex
	var calls []call
	s := store.Metered(mem.New("t"), func(op, outcome string, d time.Duration, n int64) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, call{op, outcome, n})
		if d < 0 || !slices.Contains(store.Ops, op) || !slices.Contains(store.Outcomes, outcome) {
			t.Errorf("%s, %s, %v", op, outcome, d)
		}
	})
	ctx := t.Context()
	for i := range 5 {
		put(t, s, fmt.Sprintf("k/%d", i), "12345")
	}
	for _, err := range store.Objects(ctx, s, store.ListOptions{MaxKeys: 2}) {
		want(t, "list", err, nil)
	}
	obj, err := s.Get(ctx, "k/0", store.GetOptions{})
	want(t, "get", err, nil)
	_, err = io.ReadFull(obj.Body, make([]byte, 2))
	want(t, "read", err, nil)
	want(t, "close", obj.Body.Close(), nil)
	want(t, "close again", obj.Body.Close(), nil)
	_, err = s.Get(ctx, "absent", store.GetOptions{})
	want(t, "get", err, store.ErrNotFound)
	_, err = s.Head(ctx, "k/1")
	want(t, "head", err, nil)
	want(t, "delete", s.Delete(ctx, "k/1"), nil)
	_, err = store.PutBytes(ctx, s, "k/0", []byte("x"), store.PutOptions{IfNoneMatch: true})
	want(t, "create", err, store.ErrPrecondition)
	wanted := slices.Concat(slices.Repeat([]call{{"put", "ok", 5}}, 5), slices.Repeat([]call{{"list", "ok", 0}}, 3), []call{
		{"get", "ok", 2}, {"get", "not_found", 0}, {"head", "ok", 0}, {"delete", "ok", 0}, {"put", "precondition", 1},
	})
	if !slices.Equal(calls, wanted) {
		t.Fatalf("%v\nwant %v", calls, wanted)
	}
	calls = nil
	broken := store.Metered(fault.New(mem.New("t"), fault.Rule{Kind: fault.Truncate, Op: "get", N: 3}), func(op, outcome string, _ time.Duration, n int64) {
		calls = append(calls, call{op, outcome, n})
	})
	put(t, broken, "k", "12345")
	_, _, err = store.ReadAll(ctx, broken, "k", 10, store.GetOptions{})
	want(t, "get", err, store.ErrUnavailable)
	if last := calls[len(calls)-1]; last != (call{"get", "unavailable", 3}) {
		t.Fatalf("%v", last)
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{store.Fail("get", "u", "k", store.ErrNotFound, io.EOF), "not_found"},
		{fmt.Errorf("run: %w", store.Fail("put", "u", "k", store.ErrConflict, nil)), "conflict"},
		{store.Fail("get", "u", "k", store.ErrUnavailable, context.DeadlineExceeded), "canceled"},
		{store.Fail("get", "u", "k", nil, context.Canceled), "canceled"},
		{io.ErrUnexpectedEOF, "error"},
		{store.ErrUnsupported, "unsupported"}, {store.ErrTooLarge, "too_large"}, {store.ErrBadListing, "bad_listing"},
		{store.ErrBadKey, "bad_key"}, {store.ErrNoBucket, "no_bucket"}, {store.ErrDenied, "denied"}, {store.ErrUnavailable, "unavailable"},
		{store.ErrRange, "range"}, {store.ErrNotModified, "not_modified"}, {store.ErrPrecondition, "precondition"},
	} {
		if got := store.Outcome(c.err); got != c.want || !slices.Contains(store.Outcomes, got) {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	err := store.Fail("get", "s3://b/", "p/k", store.ErrNotFound, io.EOF)
	if err.Error() != "get s3://b/p/k: not found: EOF" || !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// TestPages refuses listings that go wrong over page boundaries, and ones that never end.
func TestPages(t *testing.T) {
	obj := func(keys ...string) (l []store.ObjectInfo) {
		for _, k := range keys {
			l = append(l, store.ObjectInfo{Key: k})
		}
		return l
	}
	for _, c := range []struct {
		name  string
		pages []store.Page // the last repeats for ever
		n     int
		class error
	}{
		{"whole", []store.Page{{Objects: obj("a", "b"), NextToken: "1"}, {Objects: obj("c")}}, 3, nil},
		{"empty page between", []store.Page{{Objects: obj("a"), NextToken: "1"}, {NextToken: "2"}, {Objects: obj("c")}}, 2, nil},
		{"empty", []store.Page{{}}, 0, nil},
		{"prefixes between", []store.Page{{Objects: obj("a"), Prefixes: []string{"b/"}, NextToken: "1"}, {Objects: obj("c")}}, 2, nil},
		{"goes round", []store.Page{{Objects: obj("a", "b"), NextToken: "1"}, {Objects: obj("a"), NextToken: "2"}}, 2, store.ErrBadListing},
		{"steps back", []store.Page{{Objects: obj("a", "c"), NextToken: "1"}, {Objects: obj("b")}}, 2, store.ErrBadListing},
		{"steps back behind a prefix", []store.Page{{Objects: obj("a"), Prefixes: []string{"c/"}, NextToken: "1"}, {Objects: obj("b")}}, 1, store.ErrBadListing},
		{"repeats a prefix", []store.Page{{Prefixes: []string{"c/"}, NextToken: "1"}, {Prefixes: []string{"c/"}}}, 0, store.ErrBadListing},
		{"never ends", []store.Page{{NextToken: "1"}}, 0, store.ErrBadListing},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := 0
			s := fault.New(mem.New("t"), fault.Rule{Kind: fault.Lie, Op: "list", Page: func(store.Page) store.Page {
				p := c.pages[min(i, len(c.pages)-1)]
				i++
				return p
			}})
			n := 0
			var err error
			for p, e := range store.Pages(t.Context(), tokenless{s}, store.ListOptions{}) {
				if err = e; e == nil {
					n += len(p.Objects)
				}
			}
			want(t, "list", err, c.class)
			if n != c.n {
				t.Fatalf("%d objects, want %d", n, c.n)
			}
		})
	}
	// Leaving early asks for no further page.
	s := fault.New(mem.New("t"))
	for _, k := range []string{"a", "b", "c"} {
		put(t, s, k, "")
	}
	for _, err := range store.Objects(t.Context(), s, store.ListOptions{MaxKeys: 1}) {
		want(t, "list", err, nil)
		break
	}
	if n := s.Count("list"); n != 1 {
		t.Fatalf("%d pages", n)
	}
}

// tokenless hides the lies' tokens from the store below, which would refuse them.
type tokenless struct{ store.Store }

func (s tokenless) List(ctx context.Context, o store.ListOptions) (store.Page, error) {
	o.Token = ""
	return s.Store.List(ctx, o)
}

func TestReadAll(t *testing.T) {
	s := mem.New("t")
	put(t, s, "k", "12345")
	b, info, err := store.ReadAll(t.Context(), s, "k", 5, store.GetOptions{})
	if err != nil || string(b) != "12345" || info.Size != 5 {
		t.Fatalf("%q, %+v, %v", b, info, err)
	}
	b, _, err = store.ReadAll(t.Context(), s, "k", 2, store.GetOptions{Offset: 3})
	if err != nil || string(b) != "45" {
		t.Fatalf("a range within the limit: %q, %v", b, err)
	}
	_, _, err = store.ReadAll(t.Context(), s, "k", 4, store.GetOptions{})
	want(t, "over the limit", err, store.ErrTooLarge)
	for name, body := range map[string]io.Reader{
		"short":      strings.NewReader("123"),
		"long":       strings.NewReader("1234567"),
		"fails":      iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("12345"))),
		"fails late": io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(errors.New("checksum"))),
	} {
		if _, _, err = store.ReadAll(t.Context(), bodies{s, body}, "k", 10, store.GetOptions{}); err == nil || !strings.Contains(err.Error(), "get mem://t/k") {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// bodies replaces the body of every get.
type bodies struct {
	store.Store
	body io.Reader
}

func (s bodies) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	obj, err := s.Store.Get(ctx, key, o)
	obj.Body = io.NopCloser(s.body)
	return obj, err
}

// TestProbe has a store lack one condition after the other.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name string
		bend func(*store.PutOptions, *store.GetOptions)
		says string
	}{
		{"create", func(p *store.PutOptions, _ *store.GetOptions) { p.IfNoneMatch = false }, "PUT with If-None-Match: *: silently ignored"},
		{"swap", func(p *store.PutOptions, _ *store.GetOptions) { p.IfMatch = "" }, "PUT with If-Match of a stale ETag: silently ignored"},
		{"swap never matches", func(p *store.PutOptions, _ *store.GetOptions) {
			if p.IfMatch != "" {
				p.IfMatch = "x"
			}
		}, "PUT with If-Match: refused although"},
		{"not modified", func(_ *store.PutOptions, g *store.GetOptions) { g.IfNoneMatch = "" }, "GET with If-None-Match: silently ignored"},
		{"none", func(*store.PutOptions, *store.GetOptions) {}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mem.New("t")
			put(t, s, "out/x", "kept")
			err := store.Probe(t.Context(), bent{s, c.bend, false}, "out/")
			if c.says == "" {
				want(t, "probe", err, nil)
			} else if !errors.Is(err, store.ErrUnconditional) || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
			if s.Len() != 1 {
				t.Fatalf("%d objects left", s.Len())
			}
		})
	}
	t.Run("refuses and writes", func(t *testing.T) {
		err := store.Probe(t.Context(), bent{mem.New("t"), func(*store.PutOptions, *store.GetOptions) {}, true}, "")
		if !errors.Is(err, store.ErrUnconditional) || !strings.Contains(err.Error(), "the body changed") {
			t.Fatal(err)
		}
	})
	t.Run("cleans up after a cancelled context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inner := mem.New("t")
		s := fault.New(inner, fault.Rule{Kind: fault.Delay, Op: "put", Skip: 1, OnHit: cancel})
		want(t, "probe", store.Probe(ctx, s, ""), context.Canceled)
		if inner.Len() != 0 {
			t.Fatalf("%d objects left", inner.Len())
		}
	})
	t.Run("starts again beside a probe that removes its directory", func(t *testing.T) {
		for times, class := range map[int]error{2: nil, 3: store.ErrBadKey} {
			inner := mem.New("t")
			s := fault.New(inner, fault.Rule{Kind: fault.ErrorBefore, Op: "put", Times: times, Err: store.ErrBadKey})
			want(t, "probe", store.Probe(t.Context(), s, "out/"), class)
			if inner.Len() != 0 {
				t.Fatalf("%d objects left", inner.Len())
			}
		}
	})
	t.Run("a lost reply proves nothing", func(t *testing.T) {
		s := fault.New(mem.New("t"), fault.Rule{Kind: fault.ErrorAfter, Op: "put", Skip: 1})
		err := store.Probe(t.Context(), s, "")
		if want(t, "probe", err, store.ErrUnavailable); errors.Is(err, store.ErrUnconditional) {
			t.Fatal(err)
		}
	})
}

// bent changes the options on their way, or writes what it refuses.
type bent struct {
	store.Store
	bend   func(*store.PutOptions, *store.GetOptions)
	writes bool
}

func (s bent) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	s.bend(&o, &store.GetOptions{})
	etag, err := s.Store.Put(ctx, key, body, o)
	if errors.Is(err, store.ErrPrecondition) && s.writes {
		if _, err := s.Store.Put(ctx, key, body, store.PutOptions{}); err != nil {
			return "", err
		}
	}
	return etag, err
}

func (s bent) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	s.bend(&store.PutOptions{}, &o)
	return s.Store.Get(ctx, key, o)
}

// TestRangeNeverLeavesTheObject holds for every combination of numbers.
func TestRangeNeverLeavesTheObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 1<<40).Draw(t, "size")
		o := store.GetOptions{Offset: rapid.Int64().Draw(t, "offset"), Length: rapid.Int64().Draw(t, "length")}
		off, n, err := o.Range(size)
		if err != nil {
			if !errors.Is(err, store.ErrRange) || !o.Ranged() {
				t.Fatalf("%+v of %d: %v", o, size, err)
			}
			return
		}
		if off < 0 || n < 0 || off+n > size || (n == 0 && size > 0) || (o.Length > 0 && n > o.Length) {
			t.Fatalf("%+v of %d: %d bytes at %d", o, size, n, off)
		}
	})
}

// TestAfterIsBehindTheTree and before whatever follows it.
func TestAfterIsBehindTheTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[a-z0-9/=-]{1,10}/`).Draw(t, "prefix")
		key := prefix + rapid.String().Draw(t, "rest")
		if after := store.After(prefix); key >= after && !strings.HasPrefix(key, prefix+"\U0010FFFF\U0010FFFF") {
			t.Fatalf("%q is not before %q", key, after)
		}
		next := prefix[:len(prefix)-1] + "0" // the byte after the slash
		if after := store.After(prefix); next <= after {
			t.Fatalf("%q is not behind %q", next, after)
		}
	})
}

func FuzzCheckKey(f *testing.F) {
	for _, s := range []string{"", "a", "a//b", "\x00", "\xff", "ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		err := store.CheckKey(key)
		_, perr := store.PutBytes(t.Context(), mem.New("t"), key, nil, store.PutOptions{})
		if (err == nil) != (perr == nil) || (err != nil && !errors.Is(err, store.ErrBadKey)) {
			t.Fatalf("%q: %v, put %v", key, err, perr)
		}
	})
}

// TestB5SameSecond lists objects of one LastModified: those that appear later are found by key and ETag, with the clock standing still.
func TestB5SameSecond(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 5, 0, 0, time.UTC)
	s := mem.NewAt("t", func() time.Time { return now })
	seen := map[string]string{}
	added := func() (n int) {
		for info, err := range store.Objects(t.Context(), s, store.ListOptions{Prefix: "p/"}) {
			want(t, "list", err, nil)
			if !info.LastModified.Equal(now) {
				t.Fatalf("%v", info.LastModified)
			}
			if seen[info.Key] != info.ETag {
				seen[info.Key] = info.ETag
				n++
			}
		}
		return n
	}
	for i := range 25 {
		put(t, s, fmt.Sprintf("p/%02d", 2*i), "x")
	}
	if n := added(); n != 25 {
		t.Fatalf("%d objects", n)
	}
	for i := range 25 {
		put(t, s, fmt.Sprintf("p/%02d", 2*i+1), "x")
	}
	put(t, s, "p/00", "replaced")
	if n := added(); n != 26 {
		t.Fatalf("%d objects added or replaced, want 26", n)
	}
}

// TestPutBytesIsRepeatable sends the same reader twice.
func TestPutBytesIsRepeatable(t *testing.T) {
	s := mem.New("t")
	r := bytes.NewReader([]byte("body"))
	one, err := s.Put(t.Context(), "a", r, store.PutOptions{})
	want(t, "put", err, nil)
	two, err := s.Put(t.Context(), "b", r, store.PutOptions{})
	want(t, "put", err, nil)
	if one != two {
		t.Fatalf("%s and %s", one, two)
	}
}
