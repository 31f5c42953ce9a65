package partition

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var patterns = []string{
	"%Y/%m/%d/%H/%M", "%Y/%m/%d/%H", "year=%Y/month=%m/day=%d/hour=%H", "dt=%Y-%m-%d/hour=%H", "%Y-%m-%d--%H", "%Y%m%d%H%M", "%y%j", "ts=%s", "x%%/%Y/%j/%H%M%S",
	"%Y/%-m/%-d/%-H", "%-d.%-m.%Y/%H", "%d/%m/%Y", "%H/%Y%m%d", "%-j-%Y", "_w/%Y/%m/%d/%Y%m%d%H", "dt=%Y-%m-%d/ts=%s",
}

func anyLayout(t *rapid.T) *Layout {
	pattern := rapid.SampledFrom(patterns).Draw(t, "pattern")
	loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []LayoutOptions{
		{Granularity: rapid.SampledFrom([]time.Duration{0, 5 * time.Minute, 3 * time.Hour, 24 * time.Hour}).Draw(t, "granularity"), Location: loc},
		{Location: loc}, {},
	} {
		if l, err := ParseLayout(pattern, o); err == nil {
			return l
		}
	}
	t.Fatalf("no way to use %s", pattern)
	return nil
}

func anyInstant(t *rapid.T, l *Layout, name string) time.Time {
	lo := l.Oldest().Unix() + 86400
	near := rapid.SampledFrom([]int64{0, 1772953200, 1793505600}).Draw(t, name+" near") // any, or around changes of clocks in 2026
	if near == 0 {
		return unix(rapid.Int64Range(lo, 4_000_000_000).Draw(t, name))
	}
	return unix(rapid.Int64Range(near-2*86400, near+2*86400).Draw(t, name))
}

// TestPrefixesParseBack is promise 2 of the package.
func TestPrefixesParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		start := l.Floor(anyInstant(t, l, "at"))
		if l.Granularity()/l.Unit() > 2000 {
			start = l.Floor(start)
			k := l.Parse(l.PrefixOf(start)+"/f", 1)
			if k.Verdict != OK || !k.Start.Equal(start) {
				t.Fatalf("%s: %+v", l.PrefixOf(start), k)
			}
			return
		}
		prefixes := l.PrefixesOf(start)
		if prefixes[0] != l.PrefixOf(start) || prefixes[len(prefixes)-1] != lastPrefix(l, start) {
			t.Fatalf("first %s, last %s of %v", l.PrefixOf(start), lastPrefix(l, start), prefixes)
		}
		for _, p := range prefixes {
			k := l.Parse(p+"/d/f", 1)
			if k.Verdict != OK || !k.Start.Equal(start) || k.Canonical != p || k.Prefix != p || k.Rest != "d/f" {
				t.Fatalf("%s of %s in %s: %+v", p, start, l.loc, k)
			}
		}
	})
}

// lastPrefix is the canonical prefix of the last label in the partition that
// contains start.
func lastPrefix(l *Layout, start time.Time) string {
	return l.PrefixOf(l.Next(start).Add(-time.Second))
}

// TestTextOrderIsTimeOrder is promise 3 of the package.
func TestTextOrderIsTimeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		if !l.Lexical() {
			return
		}
		a, b := anyInstant(t, l, "a"), anyInstant(t, l, "b")
		if rapid.Bool().Draw(t, "close") {
			b = a.Add(time.Duration(rapid.Int64Range(0, 5).Draw(t, "units")) * l.Unit())
		}
		sa, sb := l.Floor(a), l.Floor(b)
		if strings.Compare(l.PrefixOf(sa), l.PrefixOf(sb)) != sa.Compare(sb) {
			t.Fatalf("%s of %s, %s of %s", l.PrefixOf(sa), sa, l.PrefixOf(sb), sb)
		}
		if sa.Before(sb) && lastPrefix(l, sa) >= l.PrefixOf(sb) {
			t.Fatalf("last %s, then %s", lastPrefix(l, sa), l.PrefixOf(sb))
		}
	})
}

// TestLatestIsABound: what Latest says of a directory is true of every label below it.
func TestLatestIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		at, hi := anyInstant(t, l, "at"), anyInstant(t, l, "hi")
		if rapid.Bool().Draw(t, "close") {
			hi = at.Add(time.Duration(rapid.Int64Range(-100, 100).Draw(t, "units")) * l.Unit())
		}
		var d Dir
		var chain []Dir
		for name := range strings.SplitSeq(l.PrefixOf(at), "/") {
			next, verdict, reason := l.Child(d, name)
			if verdict != OK {
				t.Fatalf("%s below %q: %v %s", name, d.Path, verdict, reason)
			}
			if l.Canonical(next) != next.Path {
				t.Fatalf("canonical of %s is %s", next.Path, l.Canonical(next))
			}
			if l.Lexical() && l.Earliest(next).After(next.labelOr(at)) {
				t.Fatalf("earliest of %s is %s, it holds %s", next.Path, l.Earliest(next), at)
			}
			d, chain = next, append(chain, next)
		}
		leaf, ok := l.Latest(d, hi)
		if ok != !d.Label().After(lastOfLabel(l, hi)) && l.loc == time.UTC {
			t.Fatalf("label %s, limit %s: %v", d.Label(), hi, ok)
		}
		for _, above := range chain {
			if order, some := l.Latest(above, hi); ok && (!some || order < leaf) {
				t.Fatalf("%s says %d %v, below it %s is %d", above.Path, order, some, d.Path, leaf)
			}
		}
	})
}

func (d Dir) labelOr(t time.Time) time.Time {
	if d.label.IsZero() {
		return t
	}
	return d.label
}

func lastOfLabel(l *Layout, t time.Time) time.Time { return t.Truncate(l.Unit()).Add(l.Unit() - 1) }

func FuzzParseLayout(f *testing.F) {
	for _, p := range append(patterns, "%", "%-", "%-%", "%Q/%Y", "//", "..", "%Y%-m%d", "%-s", "a/%Y%m%d/b") {
		f.Add(p, int64(0))
	}
	f.Add("%Y/%m/%d/%H/%M", int64(5*time.Minute))
	f.Fuzz(func(t *testing.T, pattern string, granularity int64) {
		l, err := ParseLayout(pattern, LayoutOptions{Granularity: time.Duration(granularity)})
		if err != nil {
			var pattern *PatternError
			if !errors.As(err, &pattern) {
				t.Fatalf("%T", err)
			}
			return
		}
		start := l.Floor(time.Unix(1_772_694_548, 0))
		k := l.Parse(l.PrefixOf(start)+"/x", 1)
		if k.Verdict != OK || !k.Start.Equal(start) || k.Canonical != l.PrefixOf(start) {
			t.Fatalf("%q: prefix %q parses as %+v", pattern, l.PrefixOf(start), k)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	layouts := make([]*Layout, len(patterns))
	for i, p := range patterns {
		l, err := ParseLayout(p, LayoutOptions{})
		if err != nil {
			f.Fatal(err)
		}
		layouts[i] = l
		f.Add(i, l.PrefixOf(time.Unix(1_772_694_548, 0))+"/part+1 a=b%3A.parquet", int64(1))
	}
	f.Add(0, "2026/02/30/00/00/x", int64(1))
	f.Add(0, "_temporary/x", int64(1))
	f.Add(3, "dt=__HIVE_DEFAULT_PARTITION__/hour=1/", int64(0))
	f.Fuzz(func(t *testing.T, which int, key string, size int64) {
		if which < 0 || which >= len(layouts) {
			return
		}
		l := layouts[which]
		k := l.Parse(key, size)
		if !strings.HasPrefix(key, k.Dead) || k.Dead != "" && !strings.HasSuffix(k.Dead, "/") {
			t.Fatalf("dead %q of %q", k.Dead, key)
		}
		if k.Dead != "" {
			if below := l.Parse(k.Dead+"z", 1); below.Verdict != k.Verdict || below.Dead != k.Dead {
				t.Fatalf("%q is %v, but %q is %+v", key, k.Verdict, k.Dead+"z", below)
			}
		}
		if (k.Reason == "") != (k.Verdict == OK) {
			t.Fatalf("%v with reason %q", k.Verdict, k.Reason)
		}
		if k.Verdict != OK {
			return
		}
		if k.Prefix+"/"+k.Rest != key {
			t.Fatalf("%q is %q and %q", key, k.Prefix, k.Rest)
		}
		if again := l.Parse(k.Canonical+"/"+k.Rest, size); again.Verdict != OK || !again.Start.Equal(k.Start) || again.Canonical != k.Canonical {
			t.Fatalf("%+v became %+v", k, again)
		}
		if y := k.Start.Year(); y < 1970 || y > 2286 {
			t.Fatalf("year %d of %q", y, key)
		}
	})
}

// TestParserIsParse holds a parser that remembers the directories of the key before to one that remembers nothing, over keys as a listing
// has them and over keys that nobody would write.
func TestParserIsParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		p := l.Parser()
		at := anyInstant(t, l, "at")
		for range rapid.IntRange(1, 20).Draw(t, "keys") {
			at = at.Add(time.Duration(rapid.Int64Range(-2, 3).Draw(t, "units")) * l.Unit())
			key := l.PrefixOf(at) + rapid.SampledFrom([]string{"/f", "/d/f", "/_x/f", "/.f", "", "/", "/d/"}).Draw(t, "rest")
			if n := len(key); n > 0 && rapid.Bool().Draw(t, "damaged") {
				i := rapid.IntRange(0, n-1).Draw(t, "where")
				key = key[:i] + rapid.SampledFrom([]string{"", "/", "0", "9", "x", "_", "=", "//"}).Draw(t, "what") + key[i+rapid.IntRange(0, min(2, n-i)).Draw(t, "cut"):]
			}
			size := rapid.Int64Range(0, 1).Draw(t, "size")
			got, want := p.Parse(key, size), l.Parse(key, size)
			if got != want {
				t.Fatalf("%s in %s: %+v, want %+v", key, l, got, want)
			}
			if want.Verdict != OK {
				continue
			}
			d := p.dirs[len(p.dirs)-1]
			if spelled := l.format(d.label, l.Depth()); want.Canonical != spelled || l.OneSpelling() && l.fixed && want.Prefix != spelled {
				t.Fatalf("%s in %s: %+v, spelled %s", key, l, want, spelled)
			}
			var chain Dir
			for name := range strings.SplitSeq(want.Prefix, "/") {
				var verdict Verdict
				if chain, verdict, _ = l.Child(chain, name); verdict != OK {
					t.Fatalf("%s in %s: %s is %s", key, l, name, verdict)
				}
			}
			if chain != d {
				t.Fatalf("%s in %s: directory %+v, child by child %+v", key, l, d, chain)
			}
		}
	})
}

func BenchmarkParser(b *testing.B) {
	l, err := ParseLayout("%Y/%m/%d/%H/%M", LayoutOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var keys []string
	for i := range 1440 {
		keys = append(keys, l.PrefixOf(unix(1_795_000_000+60*int64(i)))+"/part-00000.parquet")
	}
	b.ReportAllocs()
	for b.Loop() {
		p := l.Parser()
		for _, key := range keys {
			if p.Parse(key, 1).Verdict != OK {
				b.Fatal(key)
			}
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	o := []Object{{Key: "ads/2026/11/30/10/00/part-00000.parquet", ETag: "a1b2c3d4e5f60718293a4b5c6d7e8f90", Size: 123456}}
	b.ReportAllocs()
	for b.Loop() {
		if FingerprintOf(o) == (Fingerprint{}) {
			b.Fatal("zero")
		}
	}
}
