package index

import (
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/column"
)

// readTimes sets times to the event times of the batch's records. Where values
// of the column's type may be no time it leaves that to eventTime, record by
// record, and returns false.
func (l *Lifter) readTimes(batch *column.Batch) bool {
	l.times = l.own
	l.own.Reset()
	if l.timeAt < 0 {
		for range batch.Len {
			l.own.AppendTimestamp(l.start.Ints[0], l.start.Nanos[0])
		}
		return true
	}
	v := batch.Columns[l.timeAt]
	switch per := perSecond(l.bound.program.spec.EventTime.Unit); {
	case v.Type.Kind == column.Timestamp:
		l.times = v
	case v.Type.Kind == column.Null:
		for range batch.Len {
			l.own.AppendNull()
		}
	case v.Type.IsInt() && per > 0:
		for i := range batch.Len {
			if v.Null(i) {
				l.own.AppendNull()
			} else {
				l.own.AppendTimestamp(split(v.Ints[i], per))
			}
		}
	default:
		return false
	}
	return true
}

// eventTime appends the record's event time to times, or says why it is bad.
func (l *Lifter) eventTime(batch *column.Batch, i int) (why string) {
	v := batch.Columns[l.timeAt]
	if v.Null(i) {
		l.own.AppendNull()
		return ""
	}
	et := l.bound.program.spec.EventTime
	seconds, nanos, err := instant(v, i, et.Unit)
	if err != nil {
		l.own.AppendNull()
		return fmt.Sprintf("event time %s: %v", et.Column, err)
	}
	l.own.AppendTimestamp(seconds, nanos)
	return ""
}

// perSecond is how many of the unit are a second, 0 for no unit.
func perSecond(unit string) int64 {
	switch unit {
	case "s":
		return 1
	case "ms":
		return 1e3
	case "us":
		return 1e6
	case "ns":
		return 1e9
	}
	return 0
}

// split parts an integer time into seconds and nanoseconds.
func split(n, per int64) (seconds int64, nanos int32) {
	seconds, rest := n/per, n%per
	if rest < 0 {
		seconds, rest = seconds-1, rest+per
	}
	return seconds, int32(rest * (1e9 / per))
}

// instant reads a value as an event time.
func instant(v *column.Vector, i int, unit string) (seconds int64, nanos int32, err error) {
	switch {
	case v.Type.Kind == column.Timestamp:
		return v.Ints[i], v.Nanos[i], nil
	case v.Type.Kind == column.Date:
		return v.Ints[i] * 86400, 0, nil
	case v.Type.Kind == column.String:
		t, err := time.Parse(time.RFC3339Nano, v.Strings[i])
		if err != nil {
			return 0, 0, fmt.Errorf("%.40q is not an RFC 3339 time", v.Strings[i])
		}
		return t.Unix(), int32(t.Nanosecond()), nil
	case v.Type.IsInt() && unit != "":
		per := perSecond(unit)
		if per == 0 {
			return 0, 0, fmt.Errorf("unit %q is none of s, ms, us, ns", unit)
		}
		seconds, nanos = split(v.Ints[i], per)
		return seconds, nanos, nil
	case v.Type.IsInt():
		return 0, 0, errors.New("an integer needs a unit: event_time: {column: …, unit: s, ms, us or ns}")
	}
	return 0, 0, fmt.Errorf("a %s is not a time", v.Type)
}
