package partition

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFingerprintIsThatOfTheSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Object {
			return Object{Key: rapid.SampledFrom([]string{"a", "b", "ab", ""}).Draw(t, "key"), ETag: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "etag"), Size: rapid.Int64Range(0, 2).Draw(t, "size")}
		}), 0, 6).Draw(t, "objects")
		want := FingerprintOf(objects)
		shuffled := append(slices.Clone(objects), objects...)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if FingerprintOf(shuffled) != want {
			t.Fatal("order or repetition matters")
		}
		other := append(slices.Clone(objects), Object{Key: "c"})
		if FingerprintOf(other) == want {
			t.Fatal("another object does not matter")
		}
		for i := range objects {
			changed := slices.Clone(objects)
			changed[i].ETag += "x"
			if FingerprintOf(changed) == want {
				t.Fatal("a changed ETag does not matter")
			}
		}
	})
	// Where one value ends and the next begins matters.
	if FingerprintOf([]Object{{Key: "a", ETag: "bc"}}) == FingerprintOf([]Object{{Key: "ab", ETag: "c"}}) {
		t.Error("key and ETag run together")
	}
	// The value is a format others store: it does not change.
	got := FingerprintOf([]Object{{Key: "p/2026/11/30/03/05/b.parquet", ETag: "e2", Size: 20}, {Key: "p/2026/11/30/03/05/a.parquet", ETag: "e1", Size: 10}}).String()
	if want := "adfe3da6e7661eba6ee5ffd1755e5f6ef126d6130990dbf416c0c91db7485c8c"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}

func TestIgnored(t *testing.T) {
	for _, tc := range []struct {
		rel  string
		size int64
		want bool
	}{
		{"a.parquet", 1, false}, {"a.parquet", 0, false}, {"x=1/a", 1, false}, {"a_b/.c", 1, true}, {"_SUCCESS", 0, true}, {"_temporary/0/a", 1, true},
		{"a/_b/c", 1, true}, {".crc", 1, true}, {"d/", 0, true}, {"d/", 1, false}, {"", 0, true}, {"a/b_c/d.e", 1, false}, {"a//b", 1, false}, {"-", 1, false},
	} {
		if got := Ignored(tc.rel, tc.size); got != tc.want {
			t.Errorf("%q of %d bytes: %v", tc.rel, tc.size, got)
		}
	}
}

func TestEligibility(t *testing.T) {
	now := at(t, "2026-11-30T03:05:20Z")
	zero, hour := time.Duration(0), time.Hour
	for _, tc := range []struct {
		name    string
		granule time.Duration
		e       Eligibility
		newest  string // the newest eligible
		next    Standing
	}{
		{"default skew of minutes", time.Minute, Eligibility{}, "2026-11-30T03:06:00Z", Future},
		{"default skew of hours is a minute", time.Hour, Eligibility{}, "2026-11-30T03:00:00Z", Future},
		{"default skew of seconds is a second", time.Second, Eligibility{}, "2026-11-30T03:05:21Z", Future},
		{"no skew", time.Minute, Eligibility{MaxFutureSkew: &zero}, "2026-11-30T03:05:00Z", Future},
		{"an hour of skew", time.Minute, Eligibility{MaxFutureSkew: &hour}, "2026-11-30T04:05:00Z", Future},
		{"settled for 20 s", time.Minute, Eligibility{Settle: 20 * time.Second}, "2026-11-30T03:04:00Z", Unsettled},
		{"settled for 21 s", time.Minute, Eligibility{Settle: 21 * time.Second}, "2026-11-30T03:03:00Z", Unsettled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := NewCalendar(tc.granule, nil)
			if err != nil {
				t.Fatal(err)
			}
			tc.e.Granule = tc.granule
			newest := tc.e.Newest(c, now)
			if !newest.Equal(at(t, tc.newest)) {
				t.Errorf("newest %s, want %s", newest, tc.newest)
			}
			p, next := c.At(newest), c.At(c.Next(newest))
			if got := tc.e.Eligible(p.Start, p.End, now); got != Eligible {
				t.Errorf("the newest is %s", got)
			}
			if got := tc.e.Eligible(next.Start, next.End, now); got != tc.next {
				t.Errorf("the one after is %s, want %s", got, tc.next)
			}
		})
	}
}

func TestNewestIsTheLastEligible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCalendar(t)
		now := time.Unix(rapid.Int64Range(100_000_000, 4_000_000_000).Draw(t, "now"), 0)
		skew := time.Duration(rapid.Int64Range(0, 3).Draw(t, "skew")) * c.Granularity() / 2
		e := Eligibility{Granule: c.Granularity(), MaxFutureSkew: &skew, Settle: time.Duration(rapid.Int64Range(0, 3).Draw(t, "settle")) * c.Granularity() / 2}
		newest := e.Newest(c, now)
		if p := c.At(newest); e.Eligible(p.Start, p.End, now) != Eligible {
			t.Fatalf("%s is not eligible", newest)
		}
		if p := c.At(c.Next(newest)); e.Eligible(p.Start, p.End, now) == Eligible {
			t.Fatalf("%s is eligible and newer than %s", p.Start, newest)
		}
	})
}

func TestStates(t *testing.T) {
	for s, name := range map[State]string{Covered: "covered", SkippedThenCovered: "skipped_then_covered", NeverCovered: "never_covered", Late: "late", Quarantined: "quarantined"} {
		if back, err := ParseState(name); err != nil || back != s || s.String() != name || !s.Valid() {
			t.Errorf("%s: %s, %v", name, back, err)
		}
	}
	if zero := State(0); zero.Valid() || zero.String() != "state(0)" {
		t.Errorf("the zero state is %s", zero)
	}
	if _, err := ParseState(""); err == nil {
		t.Error("the empty state was read")
	}
}

func TestPathColumns(t *testing.T) {
	got := PathColumns("dt=2026-11-30/hour=03/country=a%2Fb=c/=x/plain/part=1.parquet")
	want := []Column{{"dt", "2026-11-30"}, {"hour", "03"}, {"country", "a%2Fb=c"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
