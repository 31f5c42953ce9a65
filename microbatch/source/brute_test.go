package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/partition"
)

// scenario is a small random source, small pages, and a time.
type scenario struct {
	store *synthetic
	keys  []string
	opts  Options
	now   time.Time
}

var patterns = []string{
	"%Y/%m/%d/%H/%M", "%Y/%m/%d/%H", "year=%Y/month=%m/day=%d/hour=%H", "dt=%Y-%m-%d/hour=%H", "%Y-%m-%d--%H", "%Y%m%d%H%M", "%y%j", "ts=%s", "x%%/%Y/%j/%H%M%S", "a/b/%Y%m/c/%d",
	"%Y/%-m/%-d/%-H", "%-d.%-m.%Y/%H", "%d/%m/%Y", "%H/%Y%m%d", "%-j-%Y", "_w/%Y/%m/%d/%Y%m%d%H", "dt=%Y-%m-%d/ts=%s", "%Y/x/%-m-%-d/%H/%-M",
}

func anyScenario(t *rapid.T) scenario {
	loc, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia"}).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	pattern := rapid.SampledFrom(patterns).Draw(t, "pattern")
	l, err := partition.ParseLayout(pattern, partition.LayoutOptions{Location: loc, Granularity: rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Minute, 6 * time.Hour}).Draw(t, "granularity")})
	if err != nil {
		if l, err = partition.ParseLayout(pattern, partition.LayoutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := scenario{
		now:  time.Unix(rapid.SampledFrom([]int64{1796007920, 1798761600, 1793505600, 1772953200}).Draw(t, "now")+rapid.Int64Range(-7200, 7200).Draw(t, "now off"), 0),
		opts: Options{Layout: l, Prefixes: rapid.SampledFrom([][]string{nil, {"p"}, {"q", "_a/b"}}).Draw(t, "prefixes")},
	}
	s.opts.Eligibility.Settle = time.Duration(rapid.SampledFrom([]int64{0, 0, 45}).Draw(t, "settle")) * time.Second
	bases := []string{""}
	if len(s.opts.Prefixes) > 0 {
		bases = nil
		for _, p := range s.opts.Prefixes {
			bases = append(bases, p+"/")
		}
	}
	dir := func(name string) string {
		units := rapid.SampledFrom([]int64{1, 3, 70, 2000, 500_000}).Draw(t, name+" scale")
		back := time.Duration(rapid.Int64Range(-2*units, 20*units).Draw(t, name)) * l.Unit()
		at := s.now.Add(-back)
		if at.Before(l.Oldest()) || at.Year() > 2090 {
			at = s.now
		}
		return l.DirOf(at, rapid.SampledFrom([]int{l.Depth(), l.Depth(), l.Depth(), l.Depth(), rapid.IntRange(0, l.Depth()).Draw(t, "level")}).Draw(t, name+" depth"))
	}
	for i := range rapid.IntRange(0, 40).Draw(t, "keys") {
		d := dir("dir")
		if d != "" {
			d += "/"
		}
		tail := rapid.SampledFrom([]string{"a", "a", "b", "z/y=1/c", "_SUCCESS", "_SUCCESS", "", "_temporary/0/a", "_temporary/0/b", ".x/a", "a/_b/c", "2026", "9", "13", "x/y/z/u/v/w/q"}).Draw(t, "tail")
		base := bases[i%len(bases)]
		if base+d+tail != "" {
			s.keys = append(s.keys, base+d+tail)
		}
	}
	s.keys = append(s.keys, rapid.SliceOfN(rapid.SampledFrom([]string{"9999/01/01/00/00/x", "p/2026/13/x/y/z/w", "p/_tmp/x", "q/zzz/1", "20260230/x", "2026/2/30/x/y/z", "p/1969-01-01--01/x"}), 0, 3).Draw(t, "junk")...)
	s.store = &synthetic{streams: []stream{keysOf(s.keys...)}, page: rapid.SampledFrom([]int{1, 2, 3, 5, 1000}).Draw(t, "page")}
	return s
}

// brute is what a full listing says, key by key.
func (s scenario) brute() (newest map[string]time.Time, objects map[time.Time][]string) {
	newest, objects = map[string]time.Time{}, map[time.Time][]string{}
	bases := []string{""}
	if len(s.opts.Prefixes) > 0 {
		bases = s.opts.Prefixes
	}
	e := s.opts.Eligibility
	e.Granule = s.opts.Layout.Granularity()
	seen := map[string]bool{}
	for _, key := range s.keys {
		for _, prefix := range bases {
			base := prefix
			if base != "" {
				base += "/"
			}
			if len(key) < len(base) || key[:len(base)] != base || seen[key] {
				continue
			}
			seen[key] = true
			size := int64(1)
			if key[len(key)-1] == '/' {
				size = 0
			}
			k := s.opts.Layout.Parse(key[len(base):], size)
			if k.Verdict != partition.OK {
				continue
			}
			p := s.opts.Layout.At(k.Start)
			if e.Eligible(p.Start, p.End, s.now) != partition.Eligible {
				continue
			}
			objects[k.Start] = append(objects[k.Start], key)
			if k.Start.After(newest[prefix]) {
				newest[prefix] = k.Start
			}
		}
	}
	for _, keys := range objects {
		slices.Sort(keys)
	}
	return newest, objects
}

func TestNewestIsThatOfAFullListing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyScenario(t)
		want, _ := s.brute()
		src, err := New(s.store, s.opts)
		if err != nil {
			t.Fatal(err)
		}
		f, err := src.Newest(context.Background(), s.now, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Calls != s.store.lists {
			t.Fatalf("%d calls reported, %d made", f.Calls, s.store.lists)
		}
		for _, p := range f.Prefixes {
			w, some := want[p.Prefix]
			if some != (p.Newest != nil) || some && !p.Newest.Equal(w) {
				t.Fatalf("prefix %q: newest %v, want %v (%v)\nkeys %q", p.Prefix, p.Newest, w, some, s.keys)
			}
		}
	})
}

func TestScanIsPartOfAFullListing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyScenario(t)
		_, all := s.brute()
		src, err := New(s.store, s.opts)
		if err != nil {
			t.Fatal(err)
		}
		after := s.now.Add(-time.Duration(rapid.SampledFrom([]int64{-3, 0, 1, 5, 60, 500}).Draw(t, "window")) * s.opts.Layout.Granularity())
		if rapid.IntRange(0, 9).Draw(t, "everything") == 0 {
			after = time.Time{}
		}
		l, err := src.Scan(context.Background(), s.now, after)
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]string{}, map[string]string{}
		for start, keys := range all {
			if start.After(after) {
				want[start.String()] = fmt.Sprintf("%q", keys)
			}
		}
		if !slices.IsSortedFunc(l.Objects, inOrder) {
			t.Fatalf("not sorted: %v", l.Objects)
		}
		for _, start := range l.Starts() {
			var keys []string
			for _, o := range of(l, start) {
				if o.ETag != "e-"+o.Key {
					t.Fatalf("%+v at %s", o, start)
				}
				keys = append(keys, o.Key)
			}
			got[start.String()] = fmt.Sprintf("%q", keys)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v\nkeys %q", got, want, s.keys)
		}
	})
}

// of are the objects of one partition.
func of(l Listing, start time.Time) []partition.Object {
	return l.Inputs(partition.Range{From: start.Add(-time.Second), To: start})
}

func TestCostIsWhatAScanTakes(t *testing.T) {
	end := at(t, "2026-11-30T03:05:00Z")
	for _, tc := range []struct {
		pattern string
		window  int
		objects int
	}{
		{fiveLevels, 60, 10}, {fiveLevels, 300, 10}, {"%Y/%-m/%-d/%-H/%M", 60, 10}, {"%Y/%-m/%-d/%-H", 24, 3}, {"%H/%Y%m%d", 5, 3}, {"data/%d/%m/%Y", 4, 2},
	} {
		l := layout(t, tc.pattern, partition.LayoutOptions{})
		newest := l.Floor(end)
		var keys []string
		for start := newest; len(keys) < tc.window*tc.objects; start = l.Prev(start) {
			for i := range tc.objects {
				keys = append(keys, fmt.Sprintf("%s/%d", l.PrefixOf(start), i))
			}
		}
		src := source(t, &synthetic{streams: []stream{keysOf(keys...)}}, Options{Layout: l})
		r := partition.Range{From: newest.Add(-time.Duration(tc.window) * l.Granularity()), To: newest}
		got, err := src.Scan(context.Background(), end, r.From)
		if err != nil {
			t.Fatal(err)
		}
		if cost := src.Cost(r, tc.objects, tc.window); cost.Run != got.Calls || cost.Lexical != l.Lexical() {
			t.Errorf("%s: said %+v, took %d", tc.pattern, cost, got.Calls)
		}
		if len(got.Starts()) != tc.window {
			t.Errorf("%s: %d partitions", tc.pattern, len(got.Starts()))
		}
	}
}
