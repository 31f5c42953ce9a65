package partition

import (
	"fmt"
	"strings"
	"time"
)

// field is what a placeholder stands for, most significant first.
type field uint8

const (
	year field = iota
	month
	dayOfMonth
	dayOfYear
	hour
	minute
	second
	epoch
	fields
)

var fieldNames = [fields]string{"year", "month", "day", "day of year", "hour", "minute", "second", "epoch"}

func (f field) String() string { return fieldNames[f] }

// token is a piece of a segment: a placeholder, or literal text.
type token struct {
	literal     string // if not a placeholder
	placeholder bool
	field       field
	verb        byte // the strftime letter
	width       int  // digits when padded
	padded      bool
}

func (t token) String() string {
	switch {
	case !t.placeholder:
		return t.literal
	case t.padded:
		return "%" + string(t.verb)
	}
	return "%-" + string(t.verb)
}

// verbs are the placeholders.
var verbs = map[byte]token{
	'Y': {field: year, width: 4}, 'y': {field: year, width: 2},
	'm': {field: month, width: 2}, 'd': {field: dayOfMonth, width: 2}, 'j': {field: dayOfYear, width: 3},
	'H': {field: hour, width: 2}, 'M': {field: minute, width: 2}, 'S': {field: second, width: 2},
	's': {field: epoch, width: 10},
}

// PatternError lists everything that is wrong with a layout.
type PatternError struct {
	Pattern  string
	Problems []string
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("layout %q: %s", e.Pattern, strings.Join(e.Problems, "; "))
}

// scan cuts a pattern into segments of tokens and reports what it cannot read.
func scan(pattern string) (segments [][]token, problems []string) {
	pattern = strings.TrimSuffix(pattern, "/") // a partition is a directory either way
	if pattern == "" {
		return nil, []string{"empty"}
	}
	for _, text := range strings.Split(pattern, "/") {
		segment, bad := scanSegment(text)
		segments, problems = append(segments, segment), append(problems, bad...)
	}
	if strings.HasPrefix(pattern, "/") {
		problems = append(problems, `begins with "/": it is relative to the source and its prefixes`)
	} else if strings.Contains(pattern, "//") {
		problems = append(problems, `holds an empty segment "//"`)
	}
	return segments, problems
}

func scanSegment(text string) (segment []token, problems []string) {
	literal := func(s string) {
		if n := len(segment); n > 0 && !segment[n-1].placeholder {
			segment[n-1].literal += s
			return
		}
		segment = append(segment, token{literal: s})
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			literal(text[i : i+1])
			continue
		}
		i++
		padded := true
		if i < len(text) && text[i] == '-' {
			padded = false
			i++
		}
		switch {
		case i >= len(text):
			problems = append(problems, "ends in the middle of a placeholder")
		case text[i] == '%' && padded:
			literal("%")
		default:
			t, known := verbs[text[i]]
			if !known || !padded && (t.field == epoch || t.field == year) {
				problems = append(problems, fmt.Sprintf("unknown placeholder %s (known: %%Y %%y %%m %%d %%j %%H %%M %%S %%s, %%-m and the like for unpadded, %%%%)",
					text[i-1-btoi(!padded):i+1]))
				continue
			}
			t.placeholder, t.padded, t.verb = true, padded, text[i]
			segment = append(segment, t)
		}
	}
	if text == "." || text == ".." {
		problems = append(problems, fmt.Sprintf("holds the segment %q", text))
	}
	return segment, append(problems, ambiguities(segment)...)
}

// ambiguities reports unpadded numbers whose end cannot be seen.
func ambiguities(segment []token) (problems []string) {
	for i, t := range segment {
		if !t.placeholder || t.padded || i+1 == len(segment) {
			continue
		}
		if next := segment[i+1]; next.placeholder || isDigit(next.literal[0]) {
			problems = append(problems, fmt.Sprintf("%s is unpadded and followed by %s, so it has no visible end", t, next))
		}
	}
	return problems
}

// resolve checks that the placeholders name a time and returns the length of what the finest one counts.
func resolve(segments [][]token) (unit time.Duration, problems []string) {
	var have [fields]bool
	for _, s := range segments {
		for _, t := range s {
			if t.placeholder {
				have[t.field] = true
			}
		}
	}
	if have[epoch] {
		return time.Second, nil
	}
	dated := have[month] && have[dayOfMonth] || have[dayOfYear]
	need := func(f field, name string, present bool) {
		if have[f] && !present {
			problems = append(problems, fmt.Sprintf("has a %s but no %s", f, name))
		}
	}
	switch {
	case !have[year] && !dated && !have[month] && !have[dayOfMonth] && !have[hour] && !have[minute] && !have[second]:
		return 0, []string{"has no placeholder"}
	case !have[year]:
		problems = append(problems, "has no year (%Y or %y) and no epoch (%s)")
	case !dated && !have[month] && !have[dayOfMonth]:
		problems = append(problems, "names no day: %m and %d, or %j, are needed; partitions longer than a day are not supported")
	}
	if !dated {
		need(dayOfMonth, "month", have[month])
		if have[month] && !have[dayOfMonth] {
			problems = append(problems, "names a month but no day: partitions longer than a day are not supported")
		}
		need(hour, "day", have[dayOfMonth] || have[month])
	}
	need(minute, "hour", have[hour])
	need(second, "minute", have[minute])
	switch {
	case have[second]:
		unit = time.Second
	case have[minute]:
		unit = time.Minute
	case have[hour]:
		unit = time.Hour
	default:
		unit = day
	}
	return unit, problems
}

// lexical reports whether byte order of the text is time order: every number padded, and each first named after everything coarser.
func lexical(segments [][]token) bool {
	var have [fields]bool
	for _, s := range segments {
		for _, t := range s {
			if !t.placeholder {
				continue
			}
			if !t.padded {
				return false
			}
			ready := have[epoch]
			switch t.field {
			case year, epoch:
				ready = true
			case month, dayOfYear:
				ready = ready || have[year]
			case dayOfMonth:
				ready = ready || have[month] && have[year]
			case hour:
				ready = ready || have[year] && (have[month] && have[dayOfMonth] || have[dayOfYear])
			case minute:
				ready = ready || have[hour]
			case second:
				ready = ready || have[minute]
			}
			if !ready {
				return false
			}
			have[t.field] = true
		}
	}
	return true
}

// padded reports whether every number has a fixed count of digits.
func padded(segments [][]token) bool {
	for _, s := range segments {
		for _, t := range s {
			if t.placeholder && !t.padded {
				return false
			}
		}
	}
	return true
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
