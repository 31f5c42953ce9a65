package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/store"
)

// SpecialKeys are the last segments that must survive put, list, get, head and delete unchanged on every store.
var SpecialKeys = []string{
	"part+1 a=b%3A.parquet", "\u00fc.parquet", "plain", "a b", "a+b", "a%20b", "a%2Fb", "a%25b", "100%", "%", "%zz", "=", ":", "a&b", "a?b=c",
	"a#b", "'quoted\"'", "<tag>", "(1)", "[1]", "{1}", "!*$@;,", "~", "^`|", "\u65e5\u672c\u8a9e", "\U0001f600",
	"u\u0308 decomposed", ".hidden", "..two", "trailing.", " leading", "trailing ", "_SUCCESS", strings.Repeat("n", 255),
}

// specialKeys is B14: listed keys are the keys that were put, paged one by one too, and get what they name.
func (s suite) specialKeys(t *testing.T) {
	st := s.open(t)
	names := slices.Clone(SpecialKeys)
	if s.o.NoBackslash == "" {
		names = append(names, `a\b.parquet`, `\`)
	} else {
		t.Log(s.o.NoBackslash)
	}
	if s.o.NoEmptySegments == "" {
		names = append(names, "a//b", "/x", "./x", "a/../b", "..", ".")
	} else {
		t.Log(s.o.NoEmptySegments)
	}
	var keys []string
	for _, n := range names {
		k := "k/dt=2026-11-30 03:05/" + n
		keys = append(keys, k)
		put(t, st, k, "body of "+k)
	}
	slices.Sort(keys)
	equal(t, "list", list(t, st, store.ListOptions{Prefix: "k/"}).Keys, keys)
	equal(t, "list by 1", list(t, st, store.ListOptions{Prefix: "k/", MaxKeys: 1}).Keys, keys)
	equal(t, "prefix", list(t, st, store.ListOptions{Prefix: "k/", Delimiter: "/"}).Prefixes, []string{"k/dt=2026-11-30 03:05/"})
	for i, k := range keys {
		body, info := get(t, st, k)
		if body != "body of "+k || info.Key != k {
			t.Fatalf("get %q: body %q, key %q", k, body, info.Key)
		}
		if _, err := st.Head(t.Context(), k); err != nil {
			t.Fatalf("head %q: %v", k, err)
		}
		equal(t, "start after "+k, list(t, st, store.ListOptions{Prefix: "k/", StartAfter: k, MaxKeys: 1000}).Keys, keys[i+1:])
		if l := list(t, st, store.ListOptions{Prefix: k}); len(l.Keys) == 0 || l.Keys[0] != k {
			t.Fatalf("list with prefix %q: %q", k, l.Keys)
		}
	}
	for _, k := range keys {
		want(t, "delete "+k, st.Delete(t.Context(), k), nil)
	}
	equal(t, "after deleting", list(t, st, store.ListOptions{Prefix: "k/"}).Keys, nil)
}

func (s suite) badKeys(t *testing.T) {
	st := s.open(t)
	for _, k := range []string{"", "nul\x00byte", "not\xffutf8", strings.Repeat("k", 1025)} {
		_, err := store.PutBytes(t.Context(), st, k, nil, store.PutOptions{})
		want(t, "put", err, store.ErrBadKey)
		_, err = st.Get(t.Context(), k, store.GetOptions{})
		want(t, "get", err, store.ErrBadKey)
		_, err = st.Head(t.Context(), k)
		want(t, "head", err, store.ErrBadKey)
		want(t, "delete", st.Delete(t.Context(), k), store.ErrBadKey)
	}
	equal(t, "nothing written", list(t, st, store.ListOptions{}).Keys, nil)
	long := strings.Repeat("d/", 400) + strings.Repeat("k", 150)
	put(t, st, long, "x")
	equal(t, "long key", list(t, st, store.ListOptions{}).Keys, []string{long})
}

// keyAndChild is a key that is also the parent of another.
func (s suite) keyAndChild(t *testing.T) {
	for _, order := range [][]string{{"x", "x/y"}, {"x/y", "x"}} {
		st := s.open(t)
		put(t, st, order[0], "first")
		_, err := store.PutBytes(t.Context(), st, order[1], []byte("second"), store.PutOptions{})
		if s.o.NoKeyAndChild != "" {
			t.Log(s.o.NoKeyAndChild)
			if err == nil {
				t.Fatalf("put %s beside %s: no error", order[1], order[0])
			}
			equal(t, "keys", list(t, st, store.ListOptions{}).Keys, order[:1])
		} else {
			want(t, "put "+order[1], err, nil)
			equal(t, "keys", list(t, st, store.ListOptions{}).Keys, []string{"x", "x/y"})
		}
		if b, _ := get(t, st, order[0]); b != "first" {
			t.Fatalf("%s is %q", order[0], b)
		}
	}
	st := s.open(t)
	put(t, st, "a/b", "x")
	_, err := st.Get(t.Context(), "a/b/c", store.GetOptions{})
	want(t, "get below a key", err, store.ErrNotFound)
	_, err = st.Get(t.Context(), "a", store.GetOptions{})
	want(t, "get a parent", err, store.ErrNotFound)
	_, err = st.Head(t.Context(), "a")
	want(t, "head a parent", err, store.ErrNotFound)
	want(t, "delete a parent", st.Delete(t.Context(), "a"), nil)
	equal(t, "keys", list(t, st, store.ListOptions{}).Keys, []string{"a/b"})
}

// markers are the zero-byte keys ending in "/" that consoles write for folders.
func (s suite) markers(t *testing.T) {
	st := s.open(t)
	_, err := store.PutBytes(t.Context(), st, "m/09/", nil, store.PutOptions{})
	if s.o.NoMarkers != "" {
		t.Log(s.o.NoMarkers)
		want(t, "put a marker", err, store.ErrBadKey)
		equal(t, "keys", list(t, st, store.ListOptions{}).Keys, nil)
		return
	}
	want(t, "put a marker", err, nil)
	equal(t, "marker alone", list(t, st, store.ListOptions{Prefix: "m/"}).Keys, []string{"m/09/"})
	put(t, st, "m/09/data", "x")
	put(t, st, "m/08/data", "x")
	equal(t, "beside data", list(t, st, store.ListOptions{Prefix: "m/"}).Keys, []string{"m/08/data", "m/09/", "m/09/data"})
	l := list(t, st, store.ListOptions{Prefix: "m/", Delimiter: "/"})
	equal(t, "prefixes", l.Prefixes, []string{"m/08/", "m/09/"})
	equal(t, "inside", list(t, st, store.ListOptions{Prefix: "m/09/", Delimiter: "/"}).Keys, []string{"m/09/", "m/09/data"})
	info, err := st.Head(t.Context(), "m/09/")
	want(t, "head a marker", err, nil)
	if info.Size != 0 {
		t.Fatalf("marker of %d bytes", info.Size)
	}
	if _, err := st.Get(t.Context(), "m/10/", store.GetOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("get an absent marker: %v", err)
	}
}
