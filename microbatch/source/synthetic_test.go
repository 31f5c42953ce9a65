package source

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// stream is a sorted sequence of keys that is computed, not held.
type stream struct {
	n    int
	key  func(i int) string
	gone func(i int) bool // optional
}

// cursor walks a stream; keys next to each other are found without a search.
type cursor struct {
	stream
	i       int
	current string
	valid   bool
}

// seek is the smallest key of the stream that is at least from.
func (c *cursor) seek(from string) (string, bool) {
	if c.valid && c.current >= from {
		return c.current, true
	}
	if next := c.i + 1; c.valid && next < c.n && c.key(next) >= from {
		c.i = next
	} else {
		c.i = sort.Search(c.n, func(i int) bool { return c.key(i) >= from })
	}
	for ; c.i < c.n; c.i++ {
		if c.gone == nil || !c.gone(c.i) {
			c.current, c.valid = c.key(c.i), true
			return c.current, true
		}
	}
	c.valid = false
	return "", false
}

func keysOf(keys ...string) stream {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return stream{n: len(keys), key: func(i int) string { return keys[i] }}
}

// synthetic answers listings from arithmetic and counts them.
type synthetic struct {
	streams []stream
	size    func(key string) int64 // nil: 1 byte, markers 0
	page    int                    // if set, no page holds more
	lists   int
	heads   map[string]error
	edit    func(o store.ListOptions, p *store.Page) // makes it lie
}

// seek is the smallest key of all that is at least from.
func seek(cursors []cursor, from string) (string, bool) {
	best, found := "", false
	for i := range cursors {
		if k, ok := cursors[i].seek(from); ok && (!found || k < best) {
			best, found = k, true
		}
	}
	return best, found
}

func (s *synthetic) List(_ context.Context, o store.ListOptions) (store.Page, error) {
	s.lists++
	cursors := make([]cursor, len(s.streams))
	for i, st := range s.streams {
		cursors[i].stream = st
	}
	from := max(o.Prefix, o.StartAfter+"\x00")
	if o.StartAfter == "" {
		from = o.Prefix
	}
	if key, ok := strings.CutPrefix(o.Token, "behind key "); ok {
		from = key + "\x00"
	} else if dir, ok := strings.CutPrefix(o.Token, "behind directory "); ok {
		from = behind(dir)
	}
	var p store.Page
	last := ""
	for n := 0; ; n++ {
		key, ok := seek(cursors, from)
		if !ok || !strings.HasPrefix(key, o.Prefix) {
			break
		}
		if n == o.Limit() || n == s.page && n > 0 {
			p.NextToken = last
			break
		}
		if i := strings.Index(key[len(o.Prefix):], o.Delimiter); o.Delimiter != "" && i >= 0 {
			dir := key[:len(o.Prefix)+i+1]
			p.Prefixes = append(p.Prefixes, dir)
			last, from = "behind directory "+dir, behind(dir)
			continue
		}
		size := int64(1)
		if s.size != nil {
			size = s.size(key)
		} else if strings.HasSuffix(key, "/") {
			size = 0
		}
		p.Objects = append(p.Objects, store.ObjectInfo{Key: key, ETag: "e-" + key, Size: size})
		last, from = "behind key "+key, key+"\x00"
	}
	if s.edit != nil {
		s.edit(o, &p)
	}
	return p, nil
}

func (s *synthetic) Head(_ context.Context, key string) (store.ObjectInfo, error) {
	if err := s.heads[key]; err != nil {
		return store.ObjectInfo{}, err
	}
	return store.ObjectInfo{Key: key}, nil
}

// history is count partitions of a layout from first on, each with some objects. Gone partitions are left out.
func history(l *partition.Layout, base string, first time.Time, count, objects int, gone func(p int) bool) stream {
	g := l.Granularity()
	s := stream{n: count * objects, key: func(i int) string {
		return fmt.Sprintf("%s%s/part-%05d.parquet", base, l.PrefixOf(first.Add(time.Duration(i/objects)*g)), i%objects)
	}}
	if gone != nil {
		s.gone = func(i int) bool { return gone(i / objects) }
	}
	return s
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UTC()
}

func layout(t testing.TB, pattern string, o partition.LayoutOptions) *partition.Layout {
	t.Helper()
	l, err := partition.ParseLayout(pattern, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func source(t testing.TB, l Lister, o Options) *Source {
	t.Helper()
	s, err := New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantNewest(t testing.TB, f Found, want time.Time) {
	t.Helper()
	if f.Newest == nil || !f.Newest.Equal(want) {
		t.Fatalf("newest %v, want %s (%d calls)", f.Newest, want, f.Calls)
	}
}
