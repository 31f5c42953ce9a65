package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LayoutOptions are what a layout needs beside its pattern.
type LayoutOptions struct {
	// Granularity is the length of a partition; 0 means what the finest placeholder counts. It may be coarser: a partition then has
	// several prefixes. It must be a whole multiple of the finest placeholder and divide 24 h evenly.
	Granularity time.Duration
	// Location is the zone in which the layout is written; nil is UTC.
	Location *time.Location
}

// Layout maps partitions to prefixes and back. It embeds the calendar of its partitions.
type Layout struct {
	Calendar
	pattern  string
	segments [][]token
	unit     time.Duration // what the finest placeholder counts
	epochal  bool          // labels are instants, not wall-clock times
	lexical  bool
	padded   bool      // every number is
	oldest   time.Time // nothing the layout can spell starts before
}

// ParseLayout reads a pattern of strftime placeholders and literal text, such as "year=%Y/month=%m/day=%d/hour=%H". The error is a
// *PatternError with all problems.
func ParseLayout(pattern string, o LayoutOptions) (*Layout, error) {
	segments, problems := scan(pattern)
	l := &Layout{pattern: strings.TrimSuffix(pattern, "/"), segments: segments}
	if len(problems) == 0 {
		l.unit, problems = resolve(segments)
	}
	if len(problems) == 0 {
		for _, s := range segments {
			l.epochal = l.epochal || slices.ContainsFunc(s, func(t token) bool { return t.placeholder && t.field == epoch })
		}
		l.lexical, l.padded = lexical(segments), padded(segments)
	}
	granularity := o.Granularity
	switch {
	case granularity == 0 && l.unit == 0:
		granularity = day // only to check the rest
	case granularity == 0:
		granularity = l.unit
	case l.unit > 0 && granularity%l.unit != 0:
		problems = append(problems, fmt.Sprintf("granularity: must be a whole multiple of %s, which the finest placeholder counts; got %s", l.unit, granularity))
	}
	var err error
	if l.Calendar, err = NewCalendar(granularity, o.Location); err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		return nil, &PatternError{Pattern: pattern, Problems: problems}
	}
	l.oldest = l.Floor(l.oldestLabel())
	return l, nil
}

func (l *Layout) oldestLabel() time.Time {
	if l.epochal {
		lo, _ := limits(epoch)
		return unix(lo)
	}
	y, _ := limits(year)
	for _, s := range l.segments {
		for _, tok := range s {
			if tok.placeholder && tok.field == year && tok.width == 2 {
				y = 2000
			}
		}
	}
	return time.Date(int(y), 1, 1, 0, 0, 0, 0, l.loc).UTC()
}

// Oldest is the start of the first partition that the layout can spell.
func (l *Layout) Oldest() time.Time { return l.oldest }

// String is the layout as written, without a trailing slash.
func (l *Layout) String() string { return l.pattern }

// Lexical reports whether byte order of keys below one configured prefix is time order of their partitions.
func (l *Layout) Lexical() bool { return l.lexical }

// OneSpelling reports that no partition's prefix can be spelled in two ways.
func (l *Layout) OneSpelling() bool { return l.padded }

// Depth is the number of path segments of a prefix.
func (l *Layout) Depth() int { return len(l.segments) }

// Unit is the length of what the finest placeholder counts: one prefix stands for that much of a partition.
func (l *Layout) Unit() time.Duration { return l.unit }

// Warnings are what people should know before they use the layout.
func (l *Layout) Warnings() []string {
	var out []string
	if at, changes := nextOffsetChange(l.loc); changes && !l.epochal {
		if l.unit < day {
			out = append(out, fmt.Sprintf("time zone %s changes its offset (daylight saving; for one at %s): a local hour that repeats is one partition of two hours, "+
				"a local hour that is skipped does not exist and its prefix is quarantined; UTC has neither", l.loc, at.UTC().Format(time.RFC3339)))
		} else {
			out = append(out, fmt.Sprintf("time zone %s changes its offset (daylight saving): a day has 23 or 25 hours then", l.loc))
		}
	}
	if !l.lexical {
		out = append(out, fmt.Sprintf("byte order of %s is not time order: partitions are found by listing directory by directory, not by one ranged listing; "+
			"padded numbers from year to minute would make it so", l.pattern))
	}
	return out
}

// PrefixOf is the canonical prefix of the partition that starts at start, without a trailing slash; the first one if granularity is
// coarser than the layout.
func (l *Layout) PrefixOf(start time.Time) string { return l.format(start, len(l.segments)) }

// PrefixesOf are the canonical prefixes of the partition that contains start, in time order.
func (l *Layout) PrefixesOf(start time.Time) []string {
	p := l.At(start)
	if l.unit == l.granule {
		return []string{l.PrefixOf(p.Start)}
	}
	var out []string
	for t := p.Start; t.Before(p.End); {
		out = append(out, l.PrefixOf(t))
		t = l.nextUnit(t)
	}
	return out
}

// DirOf is the canonical path of the first level segments of the prefix for the instant t, without a trailing slash. Level 0 is "".
func (l *Layout) DirOf(t time.Time, level int) string { return l.format(t, level) }

// nextUnit is the first instant of the first label of one unit after that of t.
func (l *Layout) nextUnit(t time.Time) time.Time {
	if l.epochal || l.fixed {
		return t.Add(l.unit)
	}
	fine := Calendar{granule: l.unit, loc: l.loc}
	return fine.nextLabel(t)
}

// Canonical is the path of d as the layout would spell it, without a trailing slash.
func (l *Layout) Canonical(d Dir) string {
	return l.write(d.Level, func(f field) int64 { return d.value[f] })
}

// Fixed reports whether the segment below a directory of this level is literal text only, and which: it needs no listing.
func (l *Layout) Fixed(level int) (name string, ok bool) {
	s := l.segments[level]
	return s[0].literal, len(s) == 1 && !s[0].placeholder
}

// Head is the literal text with which every directory below one of this level begins.
func (l *Layout) Head(level int) string { return l.segments[level][0].literal }

// Fanout bounds how many directories a directory of this level can hold.
func (l *Layout) Fanout(level int) int {
	n := 1
	for _, tok := range l.segments[level] {
		if tok.placeholder {
			lo, hi := limits(tok.field)
			n *= int(min(hi-lo+1, 1_000_000))
		}
	}
	return n
}

// format writes the first level segments for the label of an instant.
func (l *Layout) format(t time.Time, level int) string {
	local := unix(l.wall(t)) // reads as UTC what the local clock shows
	return l.write(level, func(f field) int64 { return valueOf(f, t, local) })
}

func (l *Layout) write(level int, value func(field) int64) string {
	var b []byte
	for i, segment := range l.segments[:level] {
		if i > 0 {
			b = append(b, '/')
		}
		for _, tok := range segment {
			if !tok.placeholder {
				b = append(b, tok.literal...)
				continue
			}
			v := value(tok.field)
			if tok.field == year && tok.width == 2 {
				v %= 100
			}
			b = appendNumber(b, v, tok)
		}
	}
	return string(b)
}

func valueOf(f field, t, local time.Time) int64 {
	switch f {
	case year:
		return int64(local.Year())
	case month:
		return int64(local.Month())
	case dayOfMonth:
		return int64(local.Day())
	case dayOfYear:
		return int64(local.YearDay())
	case hour:
		return int64(local.Hour())
	case minute:
		return int64(local.Minute())
	case second:
		return int64(local.Second())
	}
	return t.Unix()
}

func appendNumber(b []byte, v int64, tok token) []byte {
	digits := strconv.AppendInt(make([]byte, 0, 20), v, 10)
	for n := len(digits); tok.padded && n < tok.width; n++ {
		b = append(b, '0')
	}
	return append(b, digits...)
}
