package configs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

// failing is what *testing.T and *rapid.T have in common here.
type failing interface {
	Helper()
	Fatal(args ...any)
}

func occurrences(tb failing, spec, zone string) Occurrences {
	tb.Helper()
	o, err := (&Full{Schedule: spec, TimeZone: zone}).Occurrences()
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// between lists the scheduled times in (after, until] from the last to the
// first, as a rebuilder that asks again and again would.
func between(o Occurrences, after, until time.Time) (all []time.Time) {
	for {
		at, ok := o.Latest(after, until)
		if !ok {
			slices.Reverse(all)
			return all
		}
		all, until = append(all, at), at.Add(-time.Nanosecond)
	}
}

// B27: where the clock is changed a scheduled time is neither lost nor doubled.
func TestB27ScheduledTimesAcrossClockChanges(t *testing.T) {
	for _, c := range []struct{ name, spec, zone, from, to, want string }{
		{name: "in a gap: at its end", spec: "30 2 * * *", zone: "America/New_York", from: "2026-03-07", to: "2026-03-10",
			want: "2026-03-07T02:30:00-05:00 2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{name: "in a repeated hour: the first", spec: "30 1 * * *", zone: "America/New_York", from: "2026-10-31", to: "2026-11-03",
			want: "2026-10-31T01:30:00-04:00 2026-11-01T01:30:00-04:00 2026-11-02T01:30:00-05:00"},
		{name: "no midnight", spec: "0 0 * * *", zone: "America/Sao_Paulo", from: "2018-11-03", to: "2018-11-06",
			want: "2018-11-03T00:00:00-03:00 2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"},
		{name: "midnight where 23 o'clock comes twice", spec: "0 0 * * *", zone: "America/Sao_Paulo", from: "2018-02-17", to: "2018-02-19",
			want: "2018-02-17T00:00:00-02:00 2018-02-18T00:00:00-03:00"},
		{name: "three times, one instant", spec: "10,20,30 2 * * *", zone: "America/New_York", from: "2026-03-08", to: "2026-03-09",
			want: "2026-03-08T03:00:00-04:00"},
		{name: "a gap whose end is scheduled too", spec: "0 2,3 * * *", zone: "America/New_York", from: "2026-03-08", to: "2026-03-09",
			want: "2026-03-08T03:00:00-04:00"},
		{name: "hourly over a repeated hour", spec: "@hourly", zone: "Europe/Berlin", from: "2026-10-25 01:00", to: "2026-10-25 04:00",
			want: "2026-10-25T01:00:00+02:00 2026-10-25T02:00:00+02:00 2026-10-25T03:00:00+01:00"},
		{name: "a gap of half an hour", spec: "15 2 * * *", zone: "Australia/Lord_Howe", from: "2026-10-04", to: "2026-10-05",
			want: "2026-10-04T02:30:00+11:00"},
		{name: "a repeated half-hour", spec: "45 1 * * *", zone: "Australia/Lord_Howe", from: "2026-04-05", to: "2026-04-06",
			want: "2026-04-05T01:45:00+11:00"},
		{name: "a day that was skipped", spec: "30 2 * * *", zone: "Pacific/Apia", from: "2011-12-29", to: "2012-01-01",
			want: "2011-12-29T02:30:00-10:00 2011-12-31T00:00:00+14:00 2011-12-31T02:30:00+14:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			loc, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			wall := func(text string) time.Time {
				at, err := time.ParseInLocation("2006-01-02 15:04", (text + " 00:00")[:16], loc)
				if err != nil {
					t.Fatal(err)
				}
				return at.Add(-time.Second)
			}
			var got []string
			for _, at := range between(occurrences(t, c.spec, c.zone), wall(c.from), wall(c.to)) {
				got = append(got, at.In(loc).Format(time.RFC3339))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// Asked within a repeated hour, a scheduled time that was there in the first is
// the latest one, and does not come again.
func TestLatestWithinARepeatedHour(t *testing.T) {
	o := occurrences(t, "*/15 * * * *", "America/New_York")
	for _, c := range []struct{ name, until, latest, next string }{
		{name: "the last second of the first", until: "2026-11-01T01:59:59-04:00", latest: "2026-11-01T01:45:00-04:00", next: "2026-11-01T02:00:00-05:00"},
		{name: "the first of the second", until: "2026-11-01T01:00:00-05:00", latest: "2026-11-01T01:45:00-04:00", next: "2026-11-01T02:00:00-05:00"},
		{name: "the last of the second", until: "2026-11-01T01:59:59-05:00", latest: "2026-11-01T01:45:00-04:00", next: "2026-11-01T02:00:00-05:00"},
		{name: "after it", until: "2026-11-01T02:00:00-05:00", latest: "2026-11-01T02:00:00-05:00", next: "2026-11-01T02:15:00-05:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			until, err := time.Parse(time.RFC3339, c.until)
			if err != nil {
				t.Fatal(err)
			}
			latest, ok := o.Latest(time.Time{}, until)
			if got := latest.In(until.Location()).Format(time.RFC3339); !ok || !sameInstant(t, got, c.latest) {
				t.Errorf("latest: got %s, %v, want %s", got, ok, c.latest)
			}
			if got := o.Next(until).Format(time.RFC3339); !sameInstant(t, got, c.next) {
				t.Errorf("next: got %s, want %s", got, c.next)
			}
		})
	}
}

func sameInstant(t *testing.T, a, b string) bool {
	t.Helper()
	x, errX := time.Parse(time.RFC3339, a)
	y, errY := time.Parse(time.RFC3339, b)
	if errX != nil || errY != nil {
		t.Fatal(errX, errY)
	}
	return x.Equal(y)
}

// B27: a trigger goes on in a repeated hour, and has a time in a gap at its
// end.
func TestB27TriggersAcrossClockChanges(t *testing.T) {
	for _, c := range []struct{ name, spec, zone, from, want string }{
		{name: "in a gap", spec: "30 2 * * *", zone: "America/New_York", from: "2026-03-08T01:00:00-05:00",
			want: "2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{name: "in a repeated hour", spec: "30 1 * * *", zone: "America/New_York", from: "2026-11-01T00:00:00-04:00",
			want: "2026-11-01T01:30:00-04:00 2026-11-01T01:30:00-05:00 2026-11-02T01:30:00-05:00"},
		{name: "throughout a repeated hour", spec: "*/20 * * * *", zone: "America/New_York", from: "2026-11-01T01:30:00-04:00",
			want: "2026-11-01T01:40:00-04:00 2026-11-01T01:00:00-05:00 2026-11-01T01:20:00-05:00"},
		{name: "in a gap that begins at once", spec: "30 2 * * *", zone: "America/New_York", from: "2026-03-08T01:59:59-05:00",
			want: "2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{name: "no midnight", spec: "0 0 * * *", zone: "America/Sao_Paulo", from: "2018-11-03T12:00:00-03:00",
			want: "2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"},
		{name: "at the half-hour of a shifted clock", spec: "*/15 * * * *", zone: "Australia/Lord_Howe", from: "2026-10-04T01:50:00+10:30",
			want: "2026-10-04T02:30:00+11:00 2026-10-04T02:45:00+11:00 2026-10-04T03:00:00+11:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			loc, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ParseCron(c.spec, loc)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Fields(c.want)
			var got []string
			for range want {
				at = s.Next(at.In(loc))
				got = append(got, at.Format(time.RFC3339))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// brute says of each minute in [from, to) which it is of a schedule whose times
// are whole minutes, by going through all of them. listed tells the times.
func brute(loc *time.Location, from, to time.Time, listed func(wall time.Time) bool) (once, every []time.Time) {
	shown := map[time.Time]bool{} // wall-clock times that were there
	wallAt := func(t time.Time) time.Time {
		_, offset := t.In(loc).Zone()
		return t.Add(time.Duration(offset) * time.Second)
	}
	before := wallAt(from.Add(-time.Minute))
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		wall := wallAt(t)
		fires, due := listed(wall), listed(wall) && !shown[wall]
		for w := before.Add(time.Minute); w.Before(wall); w = w.Add(time.Minute) { // a gap
			fires, due = fires || listed(w), due || listed(w) && !shown[w]
			shown[w] = true
		}
		if fires {
			every = append(every, t)
		}
		if due {
			once = append(once, t)
		}
		shown[wall], before = true, wall
	}
	return once, every
}

var clockChanges = []struct{ zone, day string }{
	{"America/New_York", "2026-03-08"}, {"America/New_York", "2026-11-01"}, {"America/New_York", "2040-12-31"},
	{"Europe/Berlin", "2027-03-28"}, {"Europe/Berlin", "2027-10-31"}, {"Europe/Dublin", "2031-10-26"},
	{"America/Sao_Paulo", "2018-11-04"}, {"America/Sao_Paulo", "2018-02-18"},
	{"Australia/Lord_Howe", "2026-10-04"}, {"Australia/Lord_Howe", "2026-04-05"}, {"Australia/Lord_Howe", "2048-12-31"},
	{"Pacific/Apia", "2011-12-30"}, {"Pacific/Kwajalein", "1993-08-21"}, {"Pacific/Kiritimati", "1994-12-31"},
	{"Africa/Casablanca", "2026-02-15"}, {"Africa/Casablanca", "2026-03-22"}, {"Asia/Kathmandu", "1986-01-01"},
	{"Asia/Pyongyang", "2015-08-15"}, {"America/Caracas", "2016-05-01"}, {"Antarctica/Troll", "2026-03-29"},
	{"Antarctica/Troll", "2026-10-25"}, {"America/Scoresbysund", "2024-03-31"}, {"UTC", "2024-02-29"}, {"Asia/Gaza", "2026-03-28"},
}

// A schedule is what a walk through all minutes finds, in every zone and around
// every change of its clock.
func TestScheduleIsTheWalkThroughAllMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom(clockChanges).Draw(t, "place")
		loc, err := time.LoadLocation(place.zone)
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.Parse(time.DateOnly, place.day)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0 {
			day = time.Date(rapid.IntRange(1975, 2060).Draw(t, "year"), 1, rapid.IntRange(1, 366).Draw(t, "day"), 0, 0, 0, 0, time.UTC)
		}
		spec := fmt.Sprintf("%s %s %s * %s",
			rapid.SampledFrom([]string{"0", "30", "*/15", "1-59/7", "10,20,30", "*"}).Draw(t, "minute"),
			rapid.SampledFrom([]string{"0", "1", "2", "3", "*", "23", "*/2", "1-3"}).Draw(t, "hour"),
			rapid.SampledFrom([]string{"*", "*", "*/2", "30", "1"}).Draw(t, "date"),
			rapid.SampledFrom([]string{"*", "*", "mon", "sat,sun"}).Draw(t, "weekday"))
		o := occurrences(t, spec, place.zone)
		utc, err := cron.ParseStandard("TZ=UTC " + spec) // right where no clock is changed
		if err != nil {
			t.Fatal(err)
		}
		// The walk begins well before what is compared, for what was shown before.
		begin, end := day.Add(-5*24*time.Hour), day.Add(3*24*time.Hour)
		once, every := brute(loc, begin, end, func(wall time.Time) bool { return utc.Next(wall.Add(-time.Second)).Equal(wall) })

		change, changes := changeOf(loc, day.Add(-48*time.Hour), end)
		instant := func(label string) time.Time {
			if changes && rapid.Bool().Draw(t, label+" near the change") {
				return change.Add(time.Duration(rapid.Int64Range(int64(-2*time.Hour), int64(2*time.Hour)).Draw(t, label)))
			}
			return day.Add(time.Duration(rapid.Int64Range(int64(-48*time.Hour), int64(72*time.Hour)-1).Draw(t, label)))
		}
		after, until := instant("after"), instant("until")
		var want time.Time
		for _, at := range once {
			if at.After(after) && !at.After(until) {
				want = at
			}
		}
		if got, ok := o.Latest(after, until); ok != !want.IsZero() || !got.Equal(want) {
			t.Fatalf("%s: latest in (%s, %s]: got %s, %v, want %s", o, after, until, got, ok, want)
		}
		checkNext(t, spec+" once", once, after, end, o.Next)
		s, err := ParseCron(spec, loc)
		if err != nil {
			t.Fatal(err)
		}
		checkNext(t, spec+" trigger", every, after, end, s.Next)
	})
}

// changeOf is the first hour after a change of the clock.
func changeOf(loc *time.Location, from, to time.Time) (at time.Time, ok bool) {
	_, before := from.In(loc).Zone()
	for at = from; at.Before(to); at = at.Add(time.Hour) {
		if _, offset := at.In(loc).Zone(); offset != before {
			return at, true
		}
	}
	return at, false
}

func checkNext(t *rapid.T, name string, all []time.Time, after, end time.Time, next func(time.Time) time.Time) {
	t.Helper()
	want := slices.IndexFunc(all, at(after))
	if got := next(after); want < 0 && got.Before(end) || want >= 0 && !got.Equal(all[want]) {
		t.Fatalf("%s: next after %s: got %s, want one of %v", name, after, got, all)
	}
}

func at(after time.Time) func(time.Time) bool {
	return func(t time.Time) bool { return t.After(after) }
}

// With seconds, both directions are each other's inverse.
func TestLatestAndNextAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(clockChanges).Draw(t, "zone").zone
		spec := rapid.SampledFrom([]string{"*/7 59 * * * *", "30 0 2 * * *", "0 0 29 2 *", "59 59 23 31 12 *", "0 0 13 * 5", "* * * 31 * *"}).Draw(t, "spec")
		o := occurrences(t, spec, zone)
		from := time.Unix(0, rapid.Int64Range(0, int64(100*365*24*time.Hour)).Draw(t, "from"))
		next := o.Next(from)
		if !next.After(from) {
			t.Fatalf("next after %s: got %s", from, next)
		}
		if got, ok := o.Latest(from, next); !ok || !got.Equal(next) {
			t.Fatalf("latest in (%s, %s]: got %s, %v", from, next, got, ok)
		}
		if got, ok := o.Latest(from, next.Add(-time.Nanosecond)); ok {
			t.Fatalf("latest before %s, after %s: got %s", next, from, got)
		}
		last, ok := o.Latest(time.Time{}, from)
		if !ok || last.After(from) {
			t.Fatalf("latest until %s: got %s, %v", from, last, ok)
		}
		if got := o.Next(last); !got.Equal(next) {
			t.Fatalf("next after %s: got %s, want %s", last, got, next)
		}
	})
}

// Whoever was away for decades pays no more for the latest time than others.
func TestLatestDoesNotWalkForward(t *testing.T) {
	o := occurrences(t, "* * * * * *", "America/New_York")
	rare := occurrences(t, "0 0 29 2 *", "America/New_York")
	until := time.Date(2099, 12, 31, 0, 0, 0, 0, time.UTC)
	began := time.Now()
	for range 100 {
		if at, ok := o.Latest(time.Time{}, until); !ok || !at.Equal(until) {
			t.Fatalf("got %s, %v", at, ok)
		}
		if at, ok := rare.Latest(time.Time{}, until); !ok || at.Format(time.RFC3339) != "2096-02-29T05:00:00Z" {
			t.Fatalf("got %s, %v", at, ok)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("200 answers took %s", took)
	}
}

func TestOccurrencesNameTheirSchedule(t *testing.T) {
	if got := occurrences(t, " 0  3 * * * ", "Europe/Berlin").String(); got != "0 3 * * * in Europe/Berlin" {
		t.Errorf("got %q", got)
	}
	for _, c := range []struct{ name, spec, zone, err string }{
		{name: "by hand", zone: "UTC", err: "full.schedule: must be a cron expression of five or six fields"},
		{name: "zone", spec: "@daily", zone: "Nowhere", err: "full.time_zone: must be an IANA time zone"},
		{name: "never", spec: "0 0 31 2 *", zone: "UTC", err: "full.schedule: must come at some time"},
		{name: "no second at all", spec: ", * * * * *", zone: "UTC", err: "full.schedule: must come at some time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := (&Full{Schedule: c.spec, TimeZone: c.zone}).Occurrences(); err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}
