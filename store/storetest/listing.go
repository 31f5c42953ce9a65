package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/deltad/deltad/store"
)

func (s suite) emptyStore(t *testing.T) {
	st := s.open(t)
	for _, o := range []store.ListOptions{{}, {Prefix: "a/"}, {Delimiter: "/"}, {StartAfter: "x"}} {
		if l := list(t, st, o); len(l.Keys)+len(l.Prefixes) != 0 || l.Pages != 1 {
			t.Fatalf("list %+v of an empty store: %+v", o, l)
		}
	}
	_, err := st.Get(t.Context(), "a/b", store.GetOptions{})
	want(t, "get from an empty store", err, store.ErrNotFound)
	if st.String() == "" {
		t.Fatal("no URL")
	}
}

// thousandKeys lists partitions around the page size, whole and with other page sizes.
func (s suite) thousandKeys(t *testing.T) {
	st := s.open(t)
	const prefix = "p/2026/11/30/03/05/"
	var keys []string
	fill(t, st, []string{"p/2026/11/30/03/04/z", "p/2026/11/30/03/06/a"})
	for _, n := range []int{999, 1000, 1001, 2500} {
		from := len(keys)
		for i := from; i < n; i++ {
			keys = append(keys, fmt.Sprintf("%spart-%05d.parquet", prefix, i))
		}
		fill(t, st, keys[from:])
		l := list(t, st, store.ListOptions{Prefix: prefix})
		equal(t, fmt.Sprintf("%d keys", n), l.Keys, keys)
		if pages := (n + 999) / 1000; l.Pages < pages || l.Pages > pages+1 {
			t.Fatalf("%d keys in %d pages", n, l.Pages)
		}
		equal(t, "with delimiter", list(t, st, store.ListOptions{Prefix: prefix, Delimiter: "/"}).Keys, keys)
	}
	l := list(t, st, store.ListOptions{Prefix: prefix, StartAfter: keys[2400], MaxKeys: 7})
	equal(t, "MaxKeys 7", l.Keys, keys[2401:])
	if l.Pages < 15 || l.Pages > 16 {
		t.Fatalf("99 keys by 7: %d pages", l.Pages)
	}
	equal(t, "StartAfter over pages", list(t, st, store.ListOptions{Prefix: prefix, StartAfter: keys[300]}).Keys, keys[301:])
	equal(t, "all", list(t, st, store.ListOptions{MaxKeys: 5000}).Keys,
		slices.Concat([]string{"p/2026/11/30/03/04/z"}, keys, []string{"p/2026/11/30/03/06/a"}))
}

func (s suite) listDelimiter(t *testing.T) {
	st := s.open(t)
	var keys, prefixes []string
	for i := range 23 {
		d := fmt.Sprintf("d/%02d/", i)
		prefixes = append(prefixes, d)
		for j := range 1 + i%3 {
			keys = append(keys, fmt.Sprintf("%sx/%d", d, j))
		}
	}
	top := []string{"d/00a", "d/05", "d/zz"}
	if s.o.NoKeyAndChild != "" || s.o.ShakyKeyAndChild != "" {
		top[1] = "d/05-"
	}
	fill(t, st, append(slices.Clone(top), keys...))
	for _, limit := range []int{0, 1, 2, 10, 26} {
		l := list(t, st, store.ListOptions{Prefix: "d/", Delimiter: "/", MaxKeys: limit})
		equal(t, fmt.Sprintf("keys by %d", limit), l.Keys, top)
		equal(t, fmt.Sprintf("prefixes by %d", limit), l.Prefixes, prefixes)
	}
	for _, c := range []struct {
		name           string
		o              store.ListOptions
		keys, prefixes []string
	}{
		{"partial name", store.ListOptions{Prefix: "d/0", Delimiter: "/"}, top[:2], prefixes[:10]},
		{"root", store.ListOptions{Delimiter: "/"}, nil, []string{"d/"}},
		{"prefix without slash", store.ListOptions{Prefix: "d", Delimiter: "/"}, nil, []string{"d/"}},
		{"absent", store.ListOptions{Prefix: "e/", Delimiter: "/"}, nil, nil},
		{"start after a key", store.ListOptions{Prefix: "d/", Delimiter: "/", StartAfter: "d/00a"}, top[1:], prefixes[1:]},
		{"start after a tree", store.ListOptions{Prefix: "d/", Delimiter: "/", StartAfter: store.After("d/19/")}, top[2:], prefixes[20:]},
	} {
		l := list(t, st, c.o)
		equal(t, c.name+": keys", l.Keys, c.keys)
		equal(t, c.name+": prefixes", l.Prefixes, c.prefixes)
	}
}

func (s suite) listStartAfter(t *testing.T) {
	st := s.open(t)
	keys := []string{"p/a", "p/b/1", "p/b/2", "p/c", "q/1"}
	fill(t, st, keys)
	for _, c := range []struct {
		name, prefix, after string
		want                []string
	}{
		{"existing", "", "p/b/1", keys[2:]},
		{"absent between", "", "p/b/15", keys[2:]},
		{"absent directory", "", "p/bb", keys[3:]},
		{"below the prefix", "p/", "a", keys[:4]},
		{"prefix itself", "p/", "p/", keys[:4]},
		{"last of the prefix", "p/", "p/c", nil},
		{"past the prefix", "p/", "q", nil},
		{"a parent", "p/b/", "p/", keys[1:3]},
		{"far behind", "", "zzz", nil},
		{"prefix is a partial name", "p/b", "p/b/1", keys[2:3]},
	} {
		equal(t, c.name, list(t, st, store.ListOptions{Prefix: c.prefix, StartAfter: c.after}).Keys, c.want)
		equal(t, c.name+" by 1", list(t, st, store.ListOptions{Prefix: c.prefix, StartAfter: c.after, MaxKeys: 1}).Keys, c.want)
	}
}

// listJumps leaves out whole trees by starting after them, as a lister does with ignored trees and partitions it has seen.
func (s suite) listJumps(t *testing.T) {
	st := s.open(t)
	keys := []string{
		"p/00/_temporary/0/x", "p/00/_temporary/1/y", "p/00/data", "p/01/a", "p/01/a~", "p/01/\u00ff", "p/01/\U0001f600", "p/010/b", "p/02/c",
	}
	fill(t, st, keys)
	for _, c := range []struct {
		name, after string
		want        []string
	}{
		{"ignored tree", store.After("p/00/_temporary/"), keys[2:]},
		{"partition", store.After("p/00/"), keys[3:]},
		{"partition with high code points", store.After("p/01/"), keys[7:]},
		{"name prefix", store.After("p/01"), keys[8:]},
		{"absent tree", store.After("p/00/_spark/"), keys},
		{"tilde", "p/00/~", keys[3:]},
	} {
		equal(t, c.name, list(t, st, store.ListOptions{Prefix: "p/", StartAfter: c.after}).Keys, c.want)
	}
}

func (s suite) listByteOrder(t *testing.T) {
	st := s.open(t)
	keys := []string{
		"o/a-b", "o/a-b/c", "o/a.b", "o/a/0", "o/a/b", "o/a/b-c", "o/a/b.c", "o/a/b/c", "o/a/b0", "o/a0", "o/aB", "o/a_", "o/ab", "o/b",
		"o/\u00e4", "o/\u6587", "o/\U0001f600",
	}
	if s.o.NoKeyAndChild != "" || s.o.ShakyKeyAndChild != "" {
		keys[0], keys[4] = "o/a-a", "o/a/a"
	}
	slices.Sort(keys)
	shuffled := slices.Clone(keys)
	slices.Reverse(shuffled)
	fill(t, st, shuffled)
	equal(t, "all", list(t, st, store.ListOptions{Prefix: "o/"}).Keys, keys)
	equal(t, "by 2", list(t, st, store.ListOptions{Prefix: "o/", MaxKeys: 2}).Keys, keys)
	for i, k := range keys {
		equal(t, "after "+k, list(t, st, store.ListOptions{Prefix: "o/", StartAfter: k}).Keys, keys[i+1:])
	}
	l := list(t, st, store.ListOptions{Prefix: "o/", Delimiter: "/", MaxKeys: 3})
	equal(t, "prefixes", l.Prefixes, []string{"o/a-b/", "o/a/"})
}

// listAfterWrite wants every acknowledged change in the next listing.
func (s suite) listAfterWrite(t *testing.T) {
	st := s.open(t)
	var keys []string
	for i := range 30 {
		k := fmt.Sprintf("w/%02d/part", i)
		put(t, st, k, "body")
		keys = append(keys, k)
		equal(t, "after put", list(t, st, store.ListOptions{Prefix: "w/"}).Keys, keys)
		if i%5 == 4 {
			want(t, "delete", st.Delete(t.Context(), keys[0]), nil)
			keys = keys[1:]
			equal(t, "after delete", list(t, st, store.ListOptions{Prefix: "w/"}).Keys, keys)
		}
	}
}

// listWhileWriting wants the keys that exist all the time in every listing, each once, whatever else comes and goes.
func (s suite) listWhileWriting(t *testing.T) {
	st := s.open(t)
	var stable []string
	for i := range 60 {
		stable = append(stable, fmt.Sprintf("m/%03d/stable", i))
	}
	fill(t, st, stable)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			k := fmt.Sprintf("m/%03d/moving", i%61)
			if _, err := store.PutBytes(context.WithoutCancel(ctx), st, k, nil, store.PutOptions{}); err != nil {
				t.Errorf("put %s: %v", k, err)
				return
			}
			if err := st.Delete(context.WithoutCancel(ctx), k); err != nil {
				t.Errorf("delete %s: %v", k, err)
				return
			}
		}
	})
	for range 10 {
		l, err := listAll(t.Context(), st, store.ListOptions{Prefix: "m/", MaxKeys: 7})
		if err != nil {
			t.Error(err)
			break
		}
		got := slices.DeleteFunc(l.Keys, func(k string) bool { return strings.HasSuffix(k, "/moving") })
		if !slices.Equal(got, stable) {
			t.Errorf("%d stable keys listed, want %d", len(got), len(stable))
			break
		}
	}
	stop()
	wg.Wait()
}

// emptyPrefixes wants a tree gone from delimiter listings with its last key.
func (s suite) emptyPrefixes(t *testing.T) {
	st := s.open(t)
	fill(t, st, []string{"e/1/a/b/c", "e/2/x"})
	want(t, "delete", st.Delete(t.Context(), "e/1/a/b/c"), nil)
	equal(t, "keys", list(t, st, store.ListOptions{Prefix: "e/"}).Keys, []string{"e/2/x"})
	l := list(t, st, store.ListOptions{Prefix: "e/", Delimiter: "/"})
	if s.o.EmptyPrefixesLinger != "" {
		t.Log(s.o.EmptyPrefixesLinger)
		l.Prefixes = slices.DeleteFunc(l.Prefixes, func(p string) bool { return p == "e/1/" })
	}
	equal(t, "prefixes", l.Prefixes, []string{"e/2/"})
	put(t, st, "e/1/a", "again")
	equal(t, "prefixes again", list(t, st, store.ListOptions{Prefix: "e/", Delimiter: "/"}).Prefixes, []string{"e/1/", "e/2/"})
}
