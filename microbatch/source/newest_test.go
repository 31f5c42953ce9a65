package source

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deltad/deltad/partition"
)

const (
	fiveLevels = "%Y/%m/%d/%H/%M"
	tenYears   = 5_260_000 // minutes
)

// TestTenYearsOfMinutes: ten years of minute partitions in a five-level layout, answered from arithmetic. Whatever lies around it, the
// newest is found in at most ten calls.
func TestTenYearsOfMinutes(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	first := at(t, "2016-11-30T00:00:00Z")
	end := first.Add((tenYears - 1) * time.Minute) // the newest
	minutes := func(from time.Time, n int, name string) stream {
		return stream{n: n, key: func(i int) string { return l.PrefixOf(from.Add(time.Duration(i)*time.Minute)) + "/" + name }}
	}
	staging := func(dir string) stream {
		return stream{n: 100_000, key: func(i int) string { return fmt.Sprintf("%s%06d", dir, i) }}
	}
	most := 0
	for _, objects := range []int{1, 10, 1500} {
		for _, quiet := range []time.Duration{0, 5 * time.Minute, 59 * time.Minute, 61 * time.Minute, 26 * time.Hour, 20 * 24 * time.Hour, 40 * 24 * time.Hour, 200 * 24 * time.Hour, 3 * 366 * 24 * time.Hour, 40 * 366 * 24 * time.Hour} {
			if objects == 10 && quiet > time.Hour || objects == 1500 && quiet > 30*24*time.Hour {
				continue // more objects matter near the end
			}
			now := end.Add(quiet)
			data := history(l, "", first, tenYears, objects, nil)
			for _, around := range []struct {
				name  string
				extra []stream
			}{
				{"nothing", nil},
				{"future to the end of time", []stream{minutes(now.Add(2*time.Minute), 500_000, "x.parquet")}},
				{"one partition in each later year", []stream{{n: 100, key: func(i int) string {
					return l.PrefixOf(now.Add(time.Duration(i+1)*366*24*time.Hour)) + "/x"
				}}}},
				{"impossible dates", []stream{keysOf("0001/01/01/00/00/x", "1969/12/31/23/59/x", "2026/02/30/00/00/x", "2026/13/01/00/00/x", "9999/12/31/23/59/x", "2026/11/30/9/00/x")}},
				{"staging at the top", []stream{staging("_temporary/0/"), staging(".hive-staging_x/"), staging("archive/")}},
				{"staging beside the newest", []stream{staging(l.PrefixOf(end) + "/_temporary/0/")}},
				{"staging above the newest", []stream{staging(l.DirOf(end, 4) + "/__magic_job-1/"), staging(l.DirOf(end, 1) + "/_tmp/")}},
				{"the next one is empty", []stream{keysOf(l.PrefixOf(end.Add(time.Minute)) + "/_SUCCESS")}},
			} {
				t.Run(fmt.Sprintf("%d objects, %s ago, %s", objects, quiet, around.name), func(t *testing.T) {
					s := &synthetic{streams: append([]stream{data}, around.extra...)}
					f, err := source(t, s, Options{Layout: l}).Newest(context.Background(), now, nil)
					if err != nil {
						t.Fatal(err)
					}
					wantNewest(t, f, end)
					most = max(most, f.Calls)
					if f.Calls != s.lists || f.Calls > 10 {
						t.Errorf("%d calls reported, %d made, at most 10 wanted", f.Calls, s.lists)
					}
				})
			}
		}
	}
	t.Logf("at most %d calls", most)
}

// TestTurnOfTheYear: the newest is in the old year, and the future fills the new one from a minute ahead.
func TestTurnOfTheYear(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	end := at(t, "2025-12-31T23:59:00Z")
	for _, objects := range []int{1, 20, 1200} {
		for _, quiet := range []int{1, 59, 61, 50_000, 300_000} {
			now := end.Add(time.Duration(quiet) * time.Minute)
			s := &synthetic{streams: []stream{
				history(l, "", end.Add(-999_999*time.Minute), 1_000_000, objects, nil),
				history(l, "", now.Add(2*time.Minute), 100_000, 1, nil),
			}}
			f, err := source(t, s, Options{Layout: l}).Newest(context.Background(), now, nil)
			if err != nil {
				t.Fatal(err)
			}
			wantNewest(t, f, end)
			if f.Calls > 10 {
				t.Errorf("%d objects, %d minutes ago: %d calls", objects, quiet, f.Calls)
			}
		}
	}
}

func TestB2TwoYearsOfMinutesWithGaps(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	first := at(t, "2024-11-30T00:00:00Z")
	const count = 2 * 365 * 1440
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		density := []float64{0.9, 0.3, 0.01}[round%3]
		live := func(p int) bool { // the same answer every time, no memory
			return float64(uint32(p*2654435761+round*40503)>>8)/float64(1<<24) < density
		}
		cut := rng.IntN(count-5000) + 5000 // nothing after it
		newest := cut
		for !live(newest) {
			newest--
		}
		s := &synthetic{streams: []stream{history(l, "", first, cut+1, 2, func(p int) bool { return !live(p) })}}
		now := first.Add(time.Duration(cut+rng.IntN(100_000)) * time.Minute)
		f, err := source(t, s, Options{Layout: l}).Newest(context.Background(), now, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantNewest(t, f, first.Add(time.Duration(newest)*time.Minute))
		if f.Calls > 10 {
			t.Errorf("round %d: %d calls", round, f.Calls)
		}
	}
}

// TestB2TotalGrowsWithTheWindow: a ranged listing costs the same at the end of one day and of ten years.
func TestB2TotalGrowsWithTheWindow(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	end := at(t, "2026-11-30T03:05:00Z")
	for _, tc := range []struct{ history, window, objects, want int }{
		{1440, 60, 10, 1}, {tenYears, 60, 10, 1}, {tenYears, 300, 10, 3}, {tenYears, 1440, 1, 2}, {tenYears, 60, 100, 6},
	} {
		s := &synthetic{streams: []stream{history(l, "", end.Add(-time.Duration(tc.history-1)*time.Minute), tc.history, tc.objects, nil)}}
		got, err := source(t, s, Options{Layout: l}).Scan(context.Background(), end, end.Add(-time.Duration(tc.window)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if got.Calls != s.lists || got.Calls > tc.want {
			t.Errorf("%+v: %d calls", tc, got.Calls)
		}
		if len(got.Starts()) != tc.window || len(got.Inputs(got.Range)) != tc.window*tc.objects || !got.Newest.Equal(end) {
			t.Errorf("%+v: %d partitions, %d objects, newest %s", tc, len(got.Starts()), len(got.Inputs(got.Range)), got.Newest)
		}
	}
}

// TestBoundOfFlatLayouts: levels of more than a thousand children are bisected.
func TestBoundOfFlatLayouts(t *testing.T) {
	for _, pattern := range []string{"%Y%m%d%H%M", "dt=%Y-%m-%d/%H%M", "%Y/%m%d%H%M", "data/%Y-%m-%d--%H", "ts=%s"} {
		l := layout(t, pattern, partition.LayoutOptions{})
		count := min(tenYears, int(10*365*24*time.Hour/l.Granularity()))
		end := at(t, "2026-11-30T03:05:00Z").Truncate(l.Granularity())
		bound := 10 + int(math.Log2(float64(count)/1000))
		for _, quiet := range []int{0, 1000, 50_000, 1_000_000} {
			s := &synthetic{streams: []stream{history(l, "", end.Add(-time.Duration(count-1)*l.Granularity()), count, 1, nil)}}
			f, err := source(t, s, Options{Layout: l}).Newest(context.Background(), end.Add(time.Duration(quiet)*l.Granularity()), nil)
			if err != nil {
				t.Fatal(err)
			}
			wantNewest(t, f, end)
			if f.Calls > bound {
				t.Errorf("%s, %d granules quiet: %d calls, bound %d", pattern, quiet, f.Calls, bound)
			}
		}
	}
}

// TestLongRunsOfEmptyPrefixes: a day, then a year of minutes that hold only markers, after the newest real one.
func TestLongRunsOfEmptyPrefixes(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	first := at(t, "2020-01-01T00:00:00Z")
	end := first.Add(1_000_000 * time.Minute)
	for _, empty := range []int{3, 59, 1440, 40_000} {
		markers := stream{n: empty, key: func(i int) string { return l.PrefixOf(end.Add(time.Duration(i+1)*time.Minute)) + "/_SUCCESS" }}
		s := &synthetic{streams: []stream{history(l, "", first, 1_000_001, 3, nil), markers}}
		f, err := source(t, s, Options{Layout: l}).Newest(context.Background(), end.Add(time.Duration(empty)*time.Minute), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantNewest(t, f, end)
		if limit := 20 + empty/500; f.Calls > limit {
			t.Errorf("%d empty prefixes: %d calls, want at most %d", empty, f.Calls, limit)
		}
	}
}

func TestNewestAfterTheWatermark(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	end := at(t, "2026-11-30T03:05:00Z")
	s := &synthetic{streams: []stream{history(l, "", end.Add(-999*time.Minute), 1000, 10, nil)}}
	src := source(t, s, Options{Layout: l})
	for _, tc := range []struct {
		name  string
		after time.Time
		found bool
		calls int
	}{
		{"nothing newer", end, false, 1},
		{"one newer", end.Add(-time.Minute), true, 1},
		{"many newer", end.Add(-900 * time.Minute), true, 1},
		{"watermark in the future", end.Add(24 * time.Hour), false, 0},
	} {
		f, err := src.Newest(context.Background(), end, &tc.after)
		if err != nil {
			t.Fatal(err)
		}
		if (f.Newest != nil) != tc.found || f.Calls > tc.calls {
			t.Errorf("%s: newest %v in %d calls", tc.name, f.Newest, f.Calls)
		}
	}
}

func TestNothingThere(t *testing.T) {
	for _, pattern := range []string{fiveLevels, "%Y%m%d", "%d/%m/%Y", "x/%Y/%-m/%-d"} {
		f, err := source(t, &synthetic{}, Options{Layout: layout(t, pattern, partition.LayoutOptions{})}).Newest(context.Background(), at(t, "2026-11-30T00:00:00Z"), nil)
		if err != nil || f.Newest != nil || f.Calls > 10 {
			t.Errorf("%s: %v, %v, %d calls", pattern, f.Newest, err, f.Calls)
		}
	}
}
