package configs

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A wall-clock time is counted here in seconds since 1970-01-01 00:00 on that
// clock, as if it were in UTC. Which instants have it is for zone to say.

// times are the wall-clock times of a cron expression: bit n of each set is
// the value n.
type times struct {
	seconds, minutes, hours, dates, months, weekdays uint64
	// both: a day must be among dates and weekdays; else one of them is enough.
	both bool
}

const (
	daySeconds = 24 * 60 * 60
	// rarest is longer than the longest time between two of any cron expression,
	// which is that of 29 February around 2100.
	rarest = 9 * 366 * daySeconds
)

// parseTimes reads a cron expression of five fields, of six with seconds
// first, or a descriptor such as @daily. The error is the rule that was broken.
func parseTimes(spec string) (times, error) {
	if strings.Contains(spec, "=") {
		return times{}, errors.New("must not name a time zone (time_zone is a setting of its own)")
	}
	if strings.HasPrefix(strings.TrimSpace(spec), "@every") {
		return times{}, errors.New("must be a cron expression (only trigger.every takes an interval)")
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	schedule, err := parser.Parse(spec)
	if err != nil {
		return times{}, fmt.Errorf("must be a cron expression of five or six fields (%w)", err)
	}
	s, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return times{}, errors.New("must be a cron expression of five or six fields")
	}
	const star = 1 << 63 // marks a field that was written as a star
	t := times{
		seconds: s.Second &^ star, minutes: s.Minute &^ star, hours: s.Hour &^ star,
		dates: s.Dom &^ star, months: s.Month &^ star, weekdays: s.Dow &^ star,
		both: (s.Dom|s.Dow)&star != 0,
	}
	never := t.seconds == 0 || t.minutes == 0 || t.hours == 0
	if !never {
		_, comes := t.next(epoch().Unix())
		never = !comes
	}
	if never {
		return times{}, errors.New("must come at some time")
	}
	return t, nil
}

// next is the first of the times at or after w; ok is false where there is none
// for so long that there is none ever.
func (t times) next(w int64) (at int64, ok bool) {
	day, clock := splitDay(w)
	for last := day + rarest; day <= last; clock = 0 {
		date := time.Unix(day, 0).UTC()
		if !has(t.months, int(date.Month())) {
			day = time.Date(date.Year(), date.Month()+1, 1, 0, 0, 0, 0, time.UTC).Unix()
			continue
		}
		if t.on(date) {
			if at, ok := t.from(clock); ok {
				return day + int64(at), true
			}
		}
		day += daySeconds
	}
	return 0, false
}

// previous is the last of the times at or before w; ok as in next.
func (t times) previous(w int64) (at int64, ok bool) {
	day, clock := splitDay(w)
	for last := day - rarest; day >= last; clock = daySeconds - 1 {
		date := time.Unix(day, 0).UTC()
		if !has(t.months, int(date.Month())) {
			day = time.Date(date.Year(), date.Month(), 0, 0, 0, 0, 0, time.UTC).Unix() // the last day of the month before
			continue
		}
		if t.on(date) {
			if at, ok := t.upTo(clock); ok {
				return day + int64(at), true
			}
		}
		day -= daySeconds
	}
	return 0, false
}

// on reports whether there are times on a date whose month is right.
func (t times) on(date time.Time) bool {
	d, w := has(t.dates, date.Day()), has(t.weekdays, int(date.Weekday()))
	if t.both {
		return d && w
	}
	return d || w
}

// from is the first time of a day at or after a second of the day.
func (t times) from(clock int) (at int, ok bool) {
	h, m, s := clock/3600, clock/60%60, clock%60
	if has(t.hours, h) {
		if has(t.minutes, m) {
			if at, ok := lowest(t.seconds, s); ok {
				return h*3600 + m*60 + at, true
			}
		}
		if at, ok := lowest(t.minutes, m+1); ok {
			s, _ := lowest(t.seconds, 0)
			return h*3600 + at*60 + s, true
		}
	}
	if at, ok = lowest(t.hours, h+1); !ok {
		return 0, false
	}
	m, _ = lowest(t.minutes, 0)
	s, _ = lowest(t.seconds, 0)
	return at*3600 + m*60 + s, true
}

// upTo is the last time of a day at or before a second of the day.
func (t times) upTo(clock int) (at int, ok bool) {
	h, m, s := clock/3600, clock/60%60, clock%60
	if has(t.hours, h) {
		if has(t.minutes, m) {
			if at, ok := highest(t.seconds, s); ok {
				return h*3600 + m*60 + at, true
			}
		}
		if at, ok := highest(t.minutes, m-1); ok {
			s, _ := highest(t.seconds, 59)
			return h*3600 + at*60 + s, true
		}
	}
	if at, ok = highest(t.hours, h-1); !ok {
		return 0, false
	}
	m, _ = highest(t.minutes, 59)
	s, _ = highest(t.seconds, 59)
	return at*3600 + m*60 + s, true
}

// longestPause is the longest time between two of the times on a clock that is
// never changed, looked for in years enough for every weekday and leap day.
func (t times) longestPause() time.Duration {
	first, _ := t.from(0)
	last, _ := t.upTo(daySeconds - 1)
	longest := 0
	for at := first; at < last; {
		next, _ := t.from(at + 1)
		longest, at = max(longest, next-at), next
	}
	end := epoch().AddDate(5, 0, 0).Unix()
	for day := epoch().Unix(); day < end; {
		at, _ := t.next(day)
		at, _ = splitDay(at)
		next, _ := t.next(at + daySeconds)
		next, _ = splitDay(next)
		longest = max(longest, int(next-at)-last+first)
		day = next
	}
	return time.Duration(longest) * time.Second
}

// splitDay is a wall-clock time as its midnight and the second of the day.
func splitDay(w int64) (midnight int64, clock int) {
	clock = int(w % daySeconds)
	if clock < 0 {
		clock += daySeconds
	}
	return w - int64(clock), clock
}

func has(set uint64, n int) bool { return set>>n&1 == 1 }

// lowest is the least member that is at least n.
func lowest(set uint64, n int) (member int, ok bool) {
	set = set >> n << n
	return bits.TrailingZeros64(set), set != 0
}

// highest is the greatest member that is at most n, which may be -1.
func highest(set uint64, n int) (member int, ok bool) {
	set &= 1<<(n+1) - 1
	return bits.Len64(set) - 1, set != 0
}
