package configs

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a time_zone means the same on a machine without zone files

	"github.com/robfig/cron/v3"
)

// ParseCron reads a cron expression of five fields, of six with seconds first,
// or a descriptor such as @daily, to be read in the location's wall clock. The
// error is the rule that was broken. The zone is a setting of its own, so a
// TZ= prefix is refused, and so is a time that never comes, such as
// 30 February.
func ParseCron(spec string, loc *time.Location) (cron.Schedule, error) {
	if strings.Contains(spec, "=") {
		return nil, errors.New("must not name a time zone (time_zone is a setting of its own)")
	}
	if strings.HasPrefix(strings.TrimSpace(spec), "@every") {
		return nil, errors.New("must be a cron expression (trigger.every takes an interval)")
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	schedule, err := parser.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression of five or six fields (%w)", err)
	}
	s, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("must be a cron expression of five or six fields")
	}
	s.Location = time.UTC
	if s.Next(epoch()).IsZero() {
		return nil, errors.New("must come at some time")
	}
	s.Location = loc
	return s, nil
}

// epoch is the instant from which schedules are measured: fixed, so that what
// is said of a configuration does not change with the day.
func epoch() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) }

// longestInterval is the longest time between two fires of a schedule. It is
// measured in wall-clock time and, where the zone changes its offset, one hour
// is added for the day that is longer.
func longestInterval(spec string, loc *time.Location) (time.Duration, error) {
	s, err := ParseCron(spec, time.UTC)
	if err != nil {
		return 0, err
	}
	const fires = 20_000 // the longest pause within a day of fires every second shows within 3,600
	var longest time.Duration
	end := epoch().Add(400 * 24 * time.Hour)
	last := s.Next(epoch().Add(-time.Second))
	for i := 0; i < fires && (i == 0 || last.Before(end)); i++ {
		next := s.Next(last)
		if next.IsZero() {
			break
		}
		longest = max(longest, next.Sub(last))
		last = next
	}
	if changesOffset(loc) {
		longest += time.Hour
	}
	return longest, nil
}

// unscheduled is the interval that arithmetic takes for rebuilds by hand.
const unscheduled = 24 * time.Hour

// ScheduleInterval is the longest time between two scheduled full rebuilds, a
// day where they are by hand, and 0 without a full section. It walks through a
// year of the schedule, which takes milliseconds: take it, and what follows
// from it (WindowMax, RetentionNeed), once and not in each run.
func (p *Pipeline) ScheduleInterval() time.Duration {
	if p.Full == nil {
		return 0
	}
	if p.Full.Schedule == "" {
		return unscheduled
	}
	loc, err := location(p.Full.TimeZone)
	if err != nil {
		loc = time.UTC
	}
	interval, err := longestInterval(p.Full.Schedule, loc)
	if err != nil {
		return unscheduled // Validate says what is wrong with it
	}
	return interval
}

// location loads an IANA zone; the error is the rule that was broken. Local is
// refused: it is a different zone on each machine.
func location(name string) (*time.Location, error) {
	rule := errors.New("must be an IANA time zone such as UTC or Europe/Berlin")
	if name == "" || name == "Local" {
		return nil, rule
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, rule
	}
	return loc, nil
}
