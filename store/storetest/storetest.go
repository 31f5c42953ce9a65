// Package storetest is the contract of package store as a test suite: an implementation proves itself by
//
//	storetest.Run(t, func(t *testing.T) store.Store { return mem.New("t") }, storetest.Options{})
//
// Every behaviour that deltad relies on has a subtest here, so that a new server, a new version of one, or a new implementation is
// judged by the same lines. What a server is known not to do is said in Options with the reason, and then the suite asserts what
// remains instead of looking away.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/store"
)

// Options say where an implementation knowingly differs. The strings are reasons, logged when they matter; empty means no difference.
type Options struct {
	// NoKeyAndChild: a key "x" and a key "x/y" cannot both exist; the second put must be refused.
	NoKeyAndChild string
	// ShakyKeyAndChild: a key "x" and a key "x/y" can both exist, but now and then a listing lacks one of them.
	ShakyKeyAndChild string
	// NoMarkers: zero-byte keys that end in "/" cannot be stored; the put must be refused.
	NoMarkers string
	// NoEmptySegments: "//", leading "/", "." and ".." segments do not round-trip.
	NoEmptySegments string
	// NoBackslash: a backslash does not round-trip.
	NoBackslash string
	// EmptyPrefixesLinger: a common prefix may be listed for a while after its last key was deleted.
	EmptyPrefixesLinger string
	// WeakGet: If-Match on a get is ignored.
	WeakGet string
	// Rounds is how many creation and swap races are run; 0 means 8.
	Rounds int
	// ModelChecks is how many random listings are compared with a model; 0 means 100.
	ModelChecks int
}

// Open returns an empty store for one subtest.
type Open func(t *testing.T) store.Store

// Run runs the whole suite.
func Run(t *testing.T, open Open, o Options) {
	if o.Rounds == 0 {
		o.Rounds = 8
	}
	if o.ModelChecks == 0 {
		o.ModelChecks = 100
	}
	s := suite{open: open, o: o}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"EmptyStore", s.emptyStore},
		{"B15MoreThanThousandKeys", s.thousandKeys},
		{"ListDelimiter", s.listDelimiter},
		{"ListStartAfter", s.listStartAfter},
		{"ListJumpsOverTrees", s.listJumps},
		{"ListByteOrder", s.listByteOrder},
		{"ListMatchesModel", s.listModel},
		{"ListAfterWrite", s.listAfterWrite},
		{"ListWhileWriting", s.listWhileWriting},
		{"B14SpecialKeys", s.specialKeys},
		{"BadKeysRefused", s.badKeys},
		{"KeyAndChild", s.keyAndChild},
		{"ZeroByteMarkers", s.markers},
		{"NoEmptyPrefixes", s.emptyPrefixes},
		{"GetWhole", s.getWhole},
		{"GetRanges", s.getRanges},
		{"GetConditions", s.getConditions},
		{"Head", s.head},
		{"Delete", s.delete},
		{"CreateOnly", s.createOnly},
		{"CreateRace", s.createRace},
		{"CompareAndSwap", s.compareAndSwap},
		{"SwapRace", s.swapRace},
		{"SwapCounter", s.swapCounter},
		{"ReadersSeeWholeBodies", s.wholeBodies},
		{"LargeObject", s.largeObject},
		{"B5LastModifiedIsNoVersion", s.lastModified},
		{"B30CancelledContext", s.cancelled},
		{"Probe", s.probe},
	} {
		t.Run(c.name, c.run)
	}
}

type suite struct {
	open Open
	o    Options
}

// want fails the test unless err is of the class, or nil if class is nil.
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

// fill writes empty-ish bodies under many keys, a few at a time.
func fill(t *testing.T, s store.Store, keys []string) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	for _, k := range keys {
		g.Go(func() error {
			_, err := store.PutBytes(ctx, s, k, []byte("x"), store.PutOptions{})
			return err
		})
	}
	want(t, "fill", g.Wait(), nil)
}

// get reads an object whole.
func get(t *testing.T, s store.Store, key string) (string, store.ObjectInfo) {
	t.Helper()
	b, info, err := store.ReadAll(t.Context(), s, key, 1<<26, store.GetOptions{})
	want(t, "get "+key, err, nil)
	return string(b), info
}

// listing is all pages of a listing, with the rules that hold for every page checked on the way.
type listing struct {
	Keys, Prefixes []string
	Pages          int
}

func list(t *testing.T, s store.Store, o store.ListOptions) listing {
	t.Helper()
	l, err := listAll(t.Context(), s, o)
	want(t, fmt.Sprintf("list %+v", o), err, nil)
	return l
}

func listAll(ctx context.Context, s store.Store, o store.ListOptions) (listing, error) {
	var l listing
	for p, err := range store.Pages(ctx, s, o) {
		if err != nil {
			return l, err
		}
		l.Pages++
		if n := len(p.Objects) + len(p.Prefixes); n > o.Limit() {
			return l, fmt.Errorf("page %d holds %d entries, at most %d asked", l.Pages, n, o.Limit())
		}
		for _, info := range p.Objects {
			if info.ETag == "" || info.ETag[0] == '"' {
				return l, fmt.Errorf("ETag of %s is %q, want it unquoted", info.Key, info.ETag)
			}
			l.Keys = append(l.Keys, info.Key)
		}
		l.Prefixes = append(l.Prefixes, p.Prefixes...)
	}
	return l, nil
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	at := func(l []string) string {
		if i < len(l) {
			return fmt.Sprintf("%q", l[i])
		}
		return "the end"
	}
	t.Fatalf("%s: %d entries, want %d; at %d got %s, want %s", what, len(got), len(want), i, at(got), at(want))
}

func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: %d bytes that differ from the %d wanted", what, len(got), len(want))
	}
}
