package configs

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a time_zone means the same on a machine without zone files

	"github.com/robfig/cron/v3"
)

// Two schedules are made of cron expressions, and differ where the clock is
// changed. A rebuild is for a day or a week, so each wall-clock time of
// full.schedule is one scheduled time, whatever the clock does (Occurrences). A
// trigger is for freshness, so it fires whenever the clock shows one of its
// times: in a repeated hour it goes on, because one run too many is an idle run
// and an hour without runs is an hour of old data. In neither is a time lost in
// a gap of the clock: it comes at the end of the gap.

// ParseCron reads the cron expression of a trigger, of five fields, of six with
// seconds first, or a descriptor such as @hourly, to be read on the location's
// wall clock. It fires whenever that shows one of the times, and at the end of a
// gap in which one lies. The error is the rule that was broken. The zone is a
// setting of its own, so a TZ= prefix is refused, and so is a time that never
// comes, such as 30 February.
func ParseCron(spec string, loc *time.Location) (cron.Schedule, error) {
	t, err := parseTimes(spec)
	if err != nil {
		return nil, err
	}
	return fires{t, zone{loc}}, nil
}

// fires are the instants of a trigger.
type fires struct {
	times times
	zone  zone
}

// Next implements [cron.Schedule].
func (f fires) Next(t time.Time) time.Time {
	at := t.Unix() // its period, for a gap may begin right after it
	for from := at + 1; ; from = at {
		offset, _, end := f.zone.period(at)
		w, ok := f.times.next(from + offset)
		if !ok {
			return time.Time{}
		}
		if fire := w - offset; fire < end {
			return time.Unix(fire, 0).In(t.Location())
		}
		if after, _, _ := f.zone.period(end); w < end+after {
			return time.Unix(end, 0).In(t.Location()) // w lies in the gap
		}
		at = end
	}
}

// Occurrences are the scheduled times of full rebuilds. Each wall-clock time of
// full.schedule in full.time_zone is one of them and exists once: of a repeated
// hour it is the first, and in a gap of the clock it is the first instant after
// the gap. Times that fall on one instant in this way are one scheduled time.
type Occurrences struct {
	times times
	zone  zone
	text  string
}

// Occurrences are the scheduled times of the full index. It is for a Schedule
// that Validate accepts: rebuilds by hand have none, which is an error.
func (f *Full) Occurrences() (Occurrences, error) {
	loc, err := location(f.TimeZone)
	if err != nil {
		return Occurrences{}, fmt.Errorf("full.time_zone: %w, got %s", err, f.TimeZone)
	}
	t, err := parseTimes(f.Schedule)
	if err != nil {
		return Occurrences{}, fmt.Errorf("full.schedule: %w, got %s", err, f.Schedule)
	}
	return Occurrences{times: t, zone: zone{loc}, text: strings.Join(strings.Fields(f.Schedule), " ") + " in " + f.TimeZone}, nil
}

// Latest is the last scheduled instant in (after, until]; ok is false where
// there is none. Its cost does not grow with the time between the two.
func (o Occurrences) Latest(after, until time.Time) (at time.Time, ok bool) {
	w, ok := o.times.previous(o.zone.reached(until.Unix()))
	if !ok {
		return time.Time{}, false
	}
	if at = time.Unix(o.zone.first(w), 0).UTC(); !at.After(after) {
		return time.Time{}, false
	}
	return at, true
}

// Next is the first scheduled instant after t.
func (o Occurrences) Next(t time.Time) time.Time {
	w, ok := o.times.next(o.zone.reached(t.Unix()) + 1)
	if !ok {
		return time.Time{}
	}
	return time.Unix(o.zone.first(w), 0).UTC()
}

// String is the schedule as configured, with its zone.
func (o Occurrences) String() string { return o.text }

// epoch is the instant from which schedules are measured: fixed, so that what
// is said of a configuration does not change with the day.
func epoch() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) }

// unscheduled is the interval that arithmetic takes for rebuilds by hand.
const unscheduled = 24 * time.Hour

// ScheduleInterval is the longest time between two scheduled full rebuilds, a
// day where they are by hand, and 0 without a full section. It is measured in
// wall-clock time, with one hour more where the zone changes its offset, for the
// day that is longer. It walks through years of the schedule, which takes
// milliseconds: take it, and what follows from it (WindowMax, RetentionNeed),
// once and not in each run.
func (p *Pipeline) ScheduleInterval() time.Duration {
	if p.Full == nil {
		return 0
	}
	t, err := parseTimes(p.Full.Schedule)
	if err != nil { // Validate says what is wrong with it
		return unscheduled
	}
	interval := t.longestPause()
	if loc, err := location(p.Full.TimeZone); err == nil && changesOffset(loc) {
		interval += time.Hour
	}
	return interval
}
