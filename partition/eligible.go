package partition

import (
	"fmt"
	"time"
)

// Standing is what the time rule says of a partition.
type Standing uint8

const (
	// Eligible partitions may be progress.
	Eligible Standing = iota
	// Unsettled partitions will be eligible later, when they have ended for as long as settle asks.
	Unsettled
	// Future partitions start further ahead of the clock than allowed: quarantined.
	Future
)

func (s Standing) String() string {
	switch s {
	case Eligible:
		return "eligible"
	case Unsettled:
		return "unsettled"
	case Future:
		return "future"
	}
	return fmt.Sprintf("standing(%d)", uint8(s))
}

// Eligibility is the time rule: start <= now + max future skew and, only if Settle is set, end <= now - Settle.
type Eligibility struct {
	// Granule is the granularity; it only serves the default of MaxFutureSkew.
	Granule time.Duration
	// MaxFutureSkew is how far ahead of now a partition may start; nil means the smaller of one granule and one minute.
	MaxFutureSkew *time.Duration
	// Settle, if positive, is how long ago a partition must have ended.
	Settle time.Duration
}

// Skew is MaxFutureSkew with its default.
func (e Eligibility) Skew() time.Duration {
	if e.MaxFutureSkew != nil {
		return *e.MaxFutureSkew
	}
	return min(e.Granule, time.Minute)
}

// Eligible judges the partition [start, end) at now.
func (e Eligibility) Eligible(start, end, now time.Time) Standing {
	switch {
	case start.After(now.Add(e.Skew())):
		return Future
	case e.Settle > 0 && end.After(now.Add(-e.Settle)):
		return Unsettled
	}
	return Eligible
}

// Newest is the start of the newest partition of the calendar that is eligible at now, whether or not anything is in it. Every later
// partition is unsettled or future, every earlier one eligible.
func (e Eligibility) Newest(c Calendar, now time.Time) time.Time {
	newest := c.Floor(now.Add(e.Skew()))
	if e.Settle > 0 {
		// The last one to end at or before the settle point is the one before that which contains it.
		if settled := c.Prev(now.Add(-e.Settle)); settled.Before(newest) {
			newest = settled
		}
	}
	return newest
}
