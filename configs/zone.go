package configs

import (
	"errors"
	"math"
	"time"
)

// zone is the clock of a time zone: which wall-clock time it shows at which
// instant. Both are in seconds.
type zone struct{ loc *time.Location }

// apart is more than a clock was ever from UTC, and than it was ever set back:
// at an instant this much later it shows only later times, whatever happened.
const apart = 72 * 60 * 60

// period is the offset of the clock at an instant, and since and until when it
// has it: [start, end), all of time where there are no changes.
func (z zone) period(at int64) (offset, start, end int64) {
	t := time.Unix(at, 0).In(z.loc)
	_, seconds := t.Zone()
	from, to := t.ZoneBounds()
	// Behind the years that a zone's table spells out, the standard library (1.26)
	// ends the last period of a leap year a day early, so that on its last day the
	// end lies in the past. The offset goes on into the next year.
	if !to.IsZero() && !to.After(t) {
		_, to = t.Add(24 * time.Hour).ZoneBounds()
	}
	start, end = math.MinInt64, math.MaxInt64
	if !from.IsZero() {
		start = from.Unix()
	}
	if !to.IsZero() {
		end = to.Unix()
	}
	return int64(seconds), start, end
}

// first is the first instant at which the clock shows w or has passed it: the
// first of two that show it, and the end of the gap where none does. A later
// time never comes at an earlier instant.
func (z zone) first(w int64) int64 {
	at := w - apart
	for {
		offset, _, end := z.period(at)
		if shown := max(at, w-offset); shown < end {
			return shown
		}
		at = end
	}
}

// reached is the latest time that the clock has shown until an instant. It is
// later than what the clock shows then, where the clock was set back.
func (z zone) reached(at int64) int64 {
	offset, start, _ := z.period(at)
	latest := at + offset
	for limit := at - apart; start > limit; {
		before := start - 1
		offset, start, _ = z.period(before)
		latest = max(latest, before+offset)
	}
	return latest
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
