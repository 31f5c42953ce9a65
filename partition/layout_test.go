package partition

import (
	"testing"
	"time"
)

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UTC()
}

func layout(t testing.TB, pattern string, o LayoutOptions) *Layout {
	t.Helper()
	l, err := ParseLayout(pattern, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestPrefixes(t *testing.T) {
	when := at(t, "2026-03-05T07:09:08Z")
	for _, tc := range []struct {
		pattern string
		prefix  string
		lexical bool
		granule time.Duration
	}{
		{"%Y/%m/%d/%H/%M", "2026/03/05/07/09", true, time.Minute},
		{"%Y/%m/%d/%H/%M/", "2026/03/05/07/09", true, time.Minute},
		{"year=%Y/month=%m/day=%d/hour=%H", "year=2026/month=03/day=05/hour=07", true, time.Hour},
		{"dt=%Y-%m-%d/hour=%H", "dt=2026-03-05/hour=07", true, time.Hour},
		{"%Y-%m-%d--%H", "2026-03-05--07", true, time.Hour},
		{"%Y%m%d%H%M", "202603050709", true, time.Minute},
		{"%Y%m%d%H%M%S", "20260305070908", true, time.Second},
		{"%Y/%j/%H", "2026/064/07", true, time.Hour},
		{"%y%m%d", "260305", true, 24 * time.Hour},
		{"ts=%s", "ts=1772694548", true, time.Second},
		{"dt=%Y-%m-%d/ts=%s", "dt=2026-03-05/ts=1772694548", true, time.Second},
		{"%Y/%-m/%-d/%-H", "2026/3/5/7", false, time.Hour},
		{"%d/%m/%Y", "05/03/2026", false, 24 * time.Hour},
		{"_warehouse/100%%/%Y/%m/%d", "_warehouse/100%/2026/03/05", true, 24 * time.Hour},
		{"%Y/%m/%d/%Y%m%d%H", "2026/03/05/2026030507", true, time.Hour},
	} {
		t.Run(tc.pattern, func(t *testing.T) {
			l := layout(t, tc.pattern, LayoutOptions{})
			if got := l.PrefixOf(when); got != tc.prefix {
				t.Errorf("prefix %q, want %q", got, tc.prefix)
			}
			if l.Lexical() != tc.lexical || l.Granularity() != tc.granule {
				t.Errorf("lexical %v granularity %s", l.Lexical(), l.Granularity())
			}
			k := l.Parse(tc.prefix+"/a/b.parquet", 1)
			if k.Verdict != OK || !k.Start.Equal(when.Truncate(tc.granule)) || k.Rest != "a/b.parquet" || k.Prefix != tc.prefix || k.Canonical != tc.prefix {
				t.Errorf("parsed %+v", k)
			}
		})
	}
}

func TestPatternProblems(t *testing.T) {
	newYork := zone(t, "America/New_York")
	for _, tc := range []struct {
		name, pattern string
		o             LayoutOptions
		want          string
	}{
		{"empty", "", LayoutOptions{}, `layout "": empty`},
		{"nothing to count", "data", LayoutOptions{}, `layout "data": has no placeholder`},
		{"unknown", "%Y/%q", LayoutOptions{}, `layout "%Y/%q": unknown placeholder %q (known: %Y %y %m %d %j %H %M %S %s, %-m and the like for unpadded, %%)`},
		{"cut short", "%Y/%", LayoutOptions{}, `layout "%Y/%": ends in the middle of a placeholder`},
		{"no year", "%m/%d", LayoutOptions{}, `layout "%m/%d": has no year (%Y or %y) and no epoch (%s)`},
		{"no day", "%Y", LayoutOptions{}, `layout "%Y": names no day: %m and %d, or %j, are needed; partitions longer than a day are not supported`},
		{"month only", "%Y/%m", LayoutOptions{}, `layout "%Y/%m": names a month but no day: partitions longer than a day are not supported`},
		{"minute without hour", "%Y%m%d/%M", LayoutOptions{}, `layout "%Y%m%d/%M": has a minute but no hour`},
		{"unpadded runs on", "%Y%-m%d", LayoutOptions{}, `layout "%Y%-m%d": %-m is unpadded and followed by %d, so it has no visible end`},
		{"absolute", "/%Y%m%d", LayoutOptions{}, `layout "/%Y%m%d": begins with "/": it is relative to the source and its prefixes`},
		{"empty segment", "%Y//%m%d", LayoutOptions{}, `layout "%Y//%m%d": holds an empty segment "//"`},
		{"up", "../%Y%m%d", LayoutOptions{}, `layout "../%Y%m%d": holds the segment ".."`},
		{"several at once", "%Y/%q/%-m%d", LayoutOptions{Granularity: 7 * time.Minute},
			`layout "%Y/%q/%-m%d": unknown placeholder %q (known: %Y %y %m %d %j %H %M %S %s, %-m and the like for unpadded, %%); ` +
				`%-m is unpadded and followed by %d, so it has no visible end; granularity: must be whole seconds and divide 24h evenly, got 7m0s`},
		{"finer than the layout", "%Y/%m/%d/%H", LayoutOptions{Granularity: 5 * time.Minute},
			`layout "%Y/%m/%d/%H": granularity: must be a whole multiple of 1h0m0s, which the finest placeholder counts; got 5m0s`},
		{"does not divide the day", "%Y/%m/%d/%H", LayoutOptions{Granularity: 5 * time.Hour},
			`layout "%Y/%m/%d/%H": granularity: must be whole seconds and divide 24h evenly, got 5h0m0s`},
		{"longer than a day", "%Y/%m/%d", LayoutOptions{Granularity: 48 * time.Hour},
			`layout "%Y/%m/%d": granularity: must be whole seconds and divide 24h evenly, got 48h0m0s`},
		{"minutes with daylight saving", "%Y/%m/%d/%H/%M", LayoutOptions{Location: newYork},
			`layout "%Y/%m/%d/%H/%M": granularity: must be at least 1h in time zone America/New_York, whose offset changes (2000-04-02T07:00:00Z); got 1m0s`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseLayout(tc.pattern, tc.o)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
	if _, err := ParseLayout("%Y/%m/%d/%H/%M", LayoutOptions{Location: zone(t, "Asia/Kolkata")}); err != nil {
		t.Errorf("minutes in a zone of one offset: %v", err)
	}
}

func TestCoarserGranularityHasSeveralPrefixes(t *testing.T) {
	l := layout(t, "%Y/%m/%d/%H/%M", LayoutOptions{Granularity: 5 * time.Minute})
	start := at(t, "2026-11-30T09:55:00Z")
	got := l.PrefixesOf(start)
	want := []string{"2026/11/30/09/55", "2026/11/30/09/56", "2026/11/30/09/57", "2026/11/30/09/58", "2026/11/30/09/59"}
	if len(got) != len(want) || got[0] != want[0] || got[4] != want[4] || lastPrefix(l, start) != want[4] {
		t.Errorf("prefixes %q, last %q", got, lastPrefix(l, start))
	}
	for _, p := range want {
		if k := l.Parse(p+"/x", 1); !k.Start.Equal(start) {
			t.Errorf("%s starts %s", p, k.Start)
		}
	}
}

func TestVerdicts(t *testing.T) {
	minutes := layout(t, "%Y/%m/%d/%H/%M", LayoutOptions{})
	hive := layout(t, "dt=%Y-%m-%d/hour=%H", LayoutOptions{})
	flat := layout(t, "%Y%m%d%H", LayoutOptions{})
	unpadded := layout(t, "%Y/%-m/%-d", LayoutOptions{})
	epochs := layout(t, "ts=%s/%Y", LayoutOptions{})
	yday := layout(t, "%Y/%j", LayoutOptions{})
	for _, tc := range []struct {
		name    string
		l       *Layout
		key     string
		size    int64
		verdict Verdict
		dead    string
		reason  string
	}{
		{"plain", minutes, "2026/11/30/03/09/a.parquet", 1, OK, "", ""},
		{"below", minutes, "2026/11/30/03/09/x=1/a.parquet", 1, OK, "", ""},
		{"odd names", minutes, "2026/11/30/03/09/part+1 a=b%3A.parquet", 0, OK, "", ""},
		{"marker", minutes, "2026/11/30/03/09/", 0, Ignore, "", "directory marker"},
		{"marker above", minutes, "2026/11/", 0, Ignore, "", "directory marker"},
		{"slash with content", minutes, "2026/11/30/03/09/d/", 3, OK, "", ""},
		{"success", minutes, "2026/11/30/03/09/_SUCCESS", 0, Ignore, "", "a segment below the prefix begins with _ or ."},
		{"staging below", minutes, "2026/11/30/03/09/_temporary/0/a", 1, Ignore, "2026/11/30/03/09/_temporary/", "a segment below the prefix begins with _ or ."},
		{"staging at the top", minutes, "_temporary/0/a", 1, Ignore, "_temporary/", `"_temporary" does not match %Y`},
		{"success above", minutes, "2026/_SUCCESS", 1, Ignore, "", `"_SUCCESS" begins with "_"`},
		{"hidden between", minutes, "2026/.hive-staging_x/1", 1, Ignore, "2026/.hive-staging_x/", `".hive-staging_x" does not match %m`},
		{"loose", minutes, "2026/11/30/03/a.parquet", 1, Foreign, "", "not below a partition's prefix"},
		{"file where a directory should be", flat, "2026113003", 1, Foreign, "", "not below a partition's prefix"},
		{"other tree", minutes, "archive/2026/x", 1, Foreign, "archive/", `"archive" does not match %Y`},
		{"year 9999", minutes, "9999/01/01/00/00/x", 1, Quarantine, "9999/", "year 9999 is implausible"},
		{"year 1969", minutes, "1969/12/31/23/59/x", 1, Quarantine, "1969/", "year 1969 is implausible"},
		{"year 0000", minutes, "0000/12/31/23/59/x", 1, Quarantine, "0000/", "year 0 is implausible"},
		{"long year", minutes, "20266/12/31/23/59/x", 1, Quarantine, "20266/", `year "20266" has 5 digits, not 4`},
		{"02/30", minutes, "2026/02/30/00/00/x", 1, Quarantine, "2026/02/30/", "day 02/30 does not exist"},
		{"02/29 in no leap year", minutes, "2026/02/29/00/00/x", 1, Quarantine, "2026/02/29/", "day 02/29 does not exist"},
		{"02/29 in a leap year", minutes, "2028/02/29/00/00/x", 1, OK, "", ""},
		{"month 13", minutes, "2026/13/01/00/00/x", 1, Quarantine, "2026/13/", "month 13 does not exist"},
		{"hour 24", minutes, "2026/11/30/24/00/x", 1, Quarantine, "2026/11/30/24/", "hour 24 does not exist"},
		{"minute 60", minutes, "2026/11/30/23/60/x", 1, Quarantine, "2026/11/30/23/60/", "minute 60 does not exist"},
		{"unpadded", minutes, "2026/11/30/9/00/x", 1, Quarantine, "2026/11/30/9/", `hour "9" is not padded to 2 digits`},
		{"over-padded", minutes, "2026/11/30/009/00/x", 1, Quarantine, "2026/11/30/009/", `hour "009" has 3 digits, not 2`},
		{"not a number", minutes, "2026/11/xx/00/00/x", 1, Foreign, "2026/11/xx/", `"xx" does not match %d`},
		{"sign", minutes, "2026/11/-1/00/00/x", 1, Foreign, "2026/11/-1/", `"-1" does not match %d`},
		{"other digits", minutes, "2026/11/٣٠/00/00/x", 1, Foreign, "2026/11/٣٠/", `"٣٠" does not match %d`},
		{"empty segment", minutes, "2026//11/30/03/09/x", 1, Foreign, "2026//", `"" does not match %m`},
		{"hive null", hive, "dt=__HIVE_DEFAULT_PARTITION__/hour=00/x", 1, Quarantine, "dt=__HIVE_DEFAULT_PARTITION__/", `"dt=__HIVE_DEFAULT_PARTITION__" does not match dt=%Y-%m-%d`},
		{"other column", hive, "day=2026-11-30/hour=00/x", 1, Foreign, "day=2026-11-30/", `"day=2026-11-30" does not match dt=%Y-%m-%d`},
		{"hive encoded", hive, "dt=2026%2D11%2D30/hour=00/x", 1, Quarantine, "dt=2026%2D11%2D30/", `"dt=2026%2D11%2D30" does not match dt=%Y-%m-%d`},
		{"unpadded in a date", hive, "dt=2026-11-3/hour=00/x", 1, Quarantine, "dt=2026-11-3/", `day "3" is not padded to 2 digits`},
		{"digits missing", flat, "202611309/x", 1, Quarantine, "202611309/", `hour "9" is not padded to 2 digits`},
		{"many digits missing", flat, "2026113/x", 1, Quarantine, "2026113/", `"2026113" does not match %Y%m%d%H`},
		{"digits too many", flat, "20261130099/x", 1, Quarantine, "20261130099/", `hour "099" has 3 digits, not 2`},
		{"unpadded layout", unpadded, "2026/3/5/x", 1, OK, "", ""},
		{"second spelling", unpadded, "2026/03/05/x", 1, OK, "", ""},
		{"third spelling", unpadded, "2026/003/5/x", 1, Quarantine, "2026/003/", `month "003" has more than 2 digits`},
		{"epoch in milliseconds", epochs, "ts=1772694548000/2026/x", 1, Quarantine, "ts=1772694548000/", `epoch "1772694548000" has 13 digits, not 10`},
		{"epoch disagrees", epochs, "ts=1772694548/2025/x", 1, Quarantine, "ts=1772694548/2025/", "year 2025 is not that of epoch 1772694548"},
		{"day of year", yday, "2026/366/x", 1, Quarantine, "2026/366/", "day of year 366 does not exist in 2026"},
		{"day of leap year", yday, "2028/366/x", 1, OK, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := tc.l.Parse(tc.key, tc.size)
			if k.Verdict != tc.verdict || k.Dead != tc.dead || k.Reason != tc.reason {
				t.Errorf("%s: %v, dead %q, reason %q", tc.key, k.Verdict, k.Dead, k.Reason)
			}
		})
	}
}

func TestTwoSpellingsShareOneCanonical(t *testing.T) {
	l := layout(t, "%Y/%-m/%-d", LayoutOptions{})
	a, b := l.Parse("2026/3/5/x", 1), l.Parse("2026/03/5/x", 1)
	if a.Canonical != "2026/3/5" || b.Canonical != a.Canonical || a.Prefix == b.Prefix || !a.Start.Equal(b.Start) {
		t.Errorf("%+v\n%+v", a, b)
	}
}
