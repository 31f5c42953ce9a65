package partition

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func starts(c Calendar, r Range) []string {
	var out []string
	for s := range c.Starts(r) {
		out = append(out, s.Format("02T15:04"))
	}
	return out
}

// TestB12LocalHours: hourly partitions in local time, around both changes of 2026 in New York.
func TestB12LocalHours(t *testing.T) {
	l := layout(t, "%Y/%m/%d/%H", LayoutOptions{Location: zone(t, "America/New_York")})

	// 1 November: 01 happens twice, and is one partition of two hours.
	r := Range{From: at(t, "2026-11-01T03:00:00Z"), To: at(t, "2026-11-01T08:00:00Z")}
	if got, want := starts(l.Calendar, r), []string{"01T04:00", "01T05:00", "01T07:00", "01T08:00"}; !slices.Equal(got, want) {
		t.Errorf("starts %v, want %v", got, want)
	}
	if n := l.Count(r); n != 4 {
		t.Errorf("count %d", n)
	}
	one := l.Parse("2026/11/01/01/x", 1)
	if p := l.At(one.Start); !p.Start.Equal(at(t, "2026-11-01T05:00:00Z")) || !p.End.Equal(at(t, "2026-11-01T07:00:00Z")) {
		t.Errorf("01 is %s to %s", p.Start, p.End)
	}
	second := at(t, "2026-11-01T06:30:00Z") // 01:30 the second time
	if got := l.Floor(second); !got.Equal(one.Start) {
		t.Errorf("floor of the second 01:30 is %s", got)
	}
	if got := l.PrefixOf(l.Floor(second)); got != "2026/11/01/01" {
		t.Errorf("prefix %s", got)
	}
	if got := l.PrefixesOf(second); len(got) != 1 {
		t.Errorf("prefixes %v", got)
	}

	// 8 March: 02 does not exist.
	r = Range{From: at(t, "2026-03-08T05:00:00Z"), To: at(t, "2026-03-08T08:00:00Z")}
	if got, want := starts(l.Calendar, r), []string{"08T06:00", "08T07:00", "08T08:00"}; !slices.Equal(got, want) {
		t.Errorf("starts %v, want %v", got, want)
	}
	if got := l.PrefixOf(at(t, "2026-03-08T07:00:00Z")); got != "2026/03/08/03" {
		t.Errorf("after 01 comes %s", got)
	}
	k := l.Parse("2026/03/08/02/x", 1)
	if k.Verdict != Quarantine || k.Reason != "local time 2026-03-08 02:00 does not exist in America/New_York (daylight saving skips it)" {
		t.Errorf("02: %v %q", k.Verdict, k.Reason)
	}

	warnings := l.Warnings()
	if len(warnings) != 1 || warnings[0] != "time zone America/New_York changes its offset (daylight saving; for one at 2000-04-02T07:00:00Z): a local hour that repeats is one partition of two hours, "+
		"a local hour that is skipped does not exist and its prefix is quarantined; UTC has neither" {
		t.Errorf("warnings %q", warnings)
	}
	if utc := layout(t, "%Y/%m/%d/%H", LayoutOptions{}); len(utc.Warnings()) != 0 || utc.loc != time.UTC {
		t.Errorf("UTC is the default and has nothing to warn of: %q", utc.Warnings())
	}
}

func TestDaysHave23And25Hours(t *testing.T) {
	l := layout(t, "%Y/%m/%d", LayoutOptions{Location: zone(t, "America/Sao_Paulo")})
	// Midnight of 4 November 2018 did not exist there: the day began at 01:00, 03:00Z.
	p := l.At(at(t, "2018-11-04T12:00:00Z"))
	if !p.Start.Equal(at(t, "2018-11-04T03:00:00Z")) || p.End.Sub(p.Start) != 23*time.Hour || l.PrefixOf(p.Start) != "2018/11/04" {
		t.Errorf("%s to %s is %s", p.Start, p.End, l.PrefixOf(p.Start))
	}
	if k := l.Parse("2018/11/04/x", 1); !k.Start.Equal(p.Start) {
		t.Errorf("parsed start %s", k.Start)
	}
}

// TestLastDayOfLeapYears: the standard library's zone bounds end before they begin there, which once made Count run for ever.
func TestLastDayOfLeapYears(t *testing.T) {
	for _, name := range zones {
		c, err := NewCalendar(time.Hour, zone(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{2040, 2044, 2072} {
			r := Range{From: time.Date(year, 12, 29, 0, 0, 0, 0, time.UTC), To: time.Date(year+1, 1, 3, 0, 0, 0, 0, time.UTC)}
			n := 0
			for s := range c.Starts(r) {
				if !c.IsStart(s) || c.At(s).End.Sub(s) != time.Hour {
					t.Errorf("%s: %s to %s", name, s, c.At(s).End)
				}
				n++
			}
			if n != 120 || c.Count(r) != 120 {
				t.Errorf("%s %d: %d starts, count %d", name, year, n, c.Count(r))
			}
		}
	}
}

var zones = []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca", "Antarctica/Troll", "America/St_Johns"}

func anyCalendar(t *rapid.T) Calendar {
	loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	g := rapid.SampledFrom([]time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour, 5 * time.Minute, time.Second}).Draw(t, "granularity")
	c, err := NewCalendar(g, loc)
	if err != nil {
		if c, err = NewCalendar(time.Hour, loc); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestPartitionsTileTime is promise 1 of the package.
func TestPartitionsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCalendar(t)
		at := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
		p := c.At(at)
		if p.Start.After(at) || !p.End.After(at) {
			t.Fatalf("%s is not in [%s, %s)", at, p.Start, p.End)
		}
		if next := c.At(p.End); !next.Start.Equal(p.End) {
			t.Fatalf("%s ends at %s, the next starts at %s", p.Start, p.End, next.Start)
		}
		if !c.Prev(p.End).Equal(p.Start) || !c.Prev(at).Before(p.Start) || !c.Next(c.Prev(at)).Equal(p.Start) {
			t.Fatalf("previous of %s is %s, of %s is %s", p.End, c.Prev(p.End), at, c.Prev(at))
		}
		if !c.IsStart(p.Start) || !c.Floor(p.End.Add(-1)).Equal(p.Start) {
			t.Fatalf("%s: start or last instant is not its own", p.Start)
		}
	})
}

func TestCountIsTheLengthOfStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCalendar(t)
		from := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "from"), 0)
		r := Range{From: from, To: from.Add(time.Duration(rapid.IntRange(-5, 300).Draw(t, "granules")) * c.Granularity() / 2)}
		n := 0
		for range c.Starts(r) {
			n++
		}
		if got := c.Count(r); got != n {
			t.Fatalf("%s: count %d, starts %d", r, got, n)
		}
	})
	// Over many years too, and through a day that Samoa skipped.
	c, err := NewCalendar(time.Hour, zone(t, "Pacific/Apia"))
	if err != nil {
		t.Fatal(err)
	}
	r, n := Range{From: at(t, "2010-06-01T00:00:00Z"), To: at(t, "2013-01-01T00:00:00Z")}, 0
	for range c.Starts(r) {
		n++
	}
	if got := c.Count(r); got != n {
		t.Errorf("count %d, starts %d", got, n)
	}
}

func TestRanges(t *testing.T) {
	h := func(n int) time.Time { return at(t, "2026-11-30T00:00:00Z").Add(time.Duration(n) * time.Hour) }
	r := func(a, b int) Range { return Range{From: h(a), To: h(b)} }
	if r(1, 3).Contains(h(1)) || !r(1, 3).Contains(h(2)) || !r(1, 3).Contains(h(3)) || r(1, 3).Contains(h(4)) {
		t.Error("(from, to] holds to and not from")
	}
	if !r(3, 3).Empty() || !r(3, 2).Empty() || r(2, 3).Empty() {
		t.Error("empty")
	}
	for _, tc := range []struct {
		name      string
		got, want []Range
	}{
		{"union", Union(r(5, 6), r(1, 3), r(2, 4), r(9, 8)), []Range{r(1, 4), r(5, 6)}},
		{"touching", Union(r(1, 2), r(2, 3)), []Range{r(1, 3)}},
		{"none", Union(), nil},
		{"intersect", []Range{r(1, 5).Intersect(r(3, 9))}, []Range{r(3, 5)}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, tc.got, tc.want)
		}
	}
	b, err := json.Marshal(Range{From: h(1).In(zone(t, "America/New_York")), To: h(2)})
	if err != nil || string(b) != `{"from":"2026-11-30T01:00:00Z","to":"2026-11-30T02:00:00Z"}` {
		t.Errorf("%s, %v", b, err)
	}
	var back Range
	if err := json.Unmarshal(b, &back); err != nil || !back.From.Equal(h(1)) || !back.To.Equal(h(2)) {
		t.Errorf("%v, %v", back, err)
	}
}

func TestUnionIsThatOfSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Unix(0, 0)
		some := func(name string) []Range {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Range {
				return Range{From: base.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "from"))), To: base.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "to")))}
			}), 0, 5).Draw(t, name)
		}
		holds := func(rs []Range, at time.Time) bool {
			return slices.ContainsFunc(rs, func(r Range) bool { return r.Contains(at) })
		}
		a := some("ranges")
		union := Union(a...)
		for i := range 22 {
			at := base.Add(time.Duration(i))
			if holds(union, at) != holds(a, at) {
				t.Fatalf("union of %v is %v at %d", a, union, i)
			}
		}
		for i := 1; i < len(union); i++ {
			if !union[i-1].To.Before(union[i].From) {
				t.Fatalf("union %v touches", union)
			}
		}
	})
}
