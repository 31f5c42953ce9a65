package partition

import (
	"encoding/json"
	"fmt"
	"iter"
	"sort"
	"time"
)

const (
	day = 24 * time.Hour
	// Offset changes that count as "daylight saving" are looked for in these years. Older ones (Shanghai 1991) do not make a zone
	// unusable today; the arithmetic is right for them all the same.
	zoneFromYear, zoneToYear = 2000, 2101
)

// Calendar is the sequence of partition starts of one granularity in one time zone. A partition's label is its local wall-clock time cut
// to the granularity, counted from local midnight; its start is the first instant that has the label.
type Calendar struct {
	granule time.Duration
	loc     *time.Location
	fixed   bool  // one offset at all times: plain arithmetic
	offset  int64 // seconds east of UTC, if fixed
}

// NewCalendar returns the calendar of a granularity, which must be whole seconds and divide 24 h evenly. A nil location is UTC. In a zone
// with daylight saving a granularity under one hour is refused: a repeated hour would hold every label twice, in disjoint pieces.
func NewCalendar(granularity time.Duration, loc *time.Location) (Calendar, error) {
	if loc == nil {
		loc = time.UTC
	}
	if granularity <= 0 || granularity%time.Second != 0 || day%granularity != 0 {
		return Calendar{}, fmt.Errorf("granularity: must be whole seconds and divide 24h evenly, got %s", granularity)
	}
	c := Calendar{granule: granularity, loc: loc}
	c.offset, c.fixed = fixedOffset(loc)
	if !c.fixed && granularity < time.Hour {
		if at, changes := nextOffsetChange(loc); changes {
			return Calendar{}, fmt.Errorf("granularity: must be at least 1h in time zone %s, whose offset changes (%s); got %s",
				loc, at.UTC().Format(time.RFC3339), granularity)
		}
	}
	return c, nil
}

// fixedOffset reports whether a zone had one offset at all times, and which.
func fixedOffset(loc *time.Location) (int64, bool) {
	t := time.Unix(0, 0).In(loc)
	_, off := t.Zone()
	start, end := zoneBounds(t)
	for !end.IsZero() && end.Year() < zoneToYear {
		if _, o := end.Zone(); o != off {
			return 0, false
		}
		_, end = zoneBounds(end)
	}
	if !start.IsZero() && start.Year() >= 1969 {
		return 0, false
	}
	return int64(off), true
}

// zoneBounds is t.ZoneBounds with an end that is after t. Behind the years that a zone's table spells out, the standard library (1.26) ends
// the last period of a leap year a day early, so that on 31 December of 2040 the end lies in the past.
func zoneBounds(t time.Time) (start, end time.Time) {
	start, end = t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		_, end = t.Add(day).ZoneBounds()
	}
	return start, end
}

// nextOffsetChange finds the first change of offset in the years that count.
func nextOffsetChange(loc *time.Location) (time.Time, bool) {
	t := time.Date(zoneFromYear, 1, 1, 0, 0, 0, 0, time.UTC).In(loc)
	_, off := t.Zone()
	for {
		_, end := zoneBounds(t)
		if end.IsZero() || end.Year() >= zoneToYear {
			return time.Time{}, false
		}
		if _, o := end.Zone(); o != off {
			return end, true
		}
		t = end
	}
}

// Granularity is the nominal length of a partition. Around daylight-saving changes partitions are longer or shorter; At has the truth.
func (c Calendar) Granularity() time.Duration { return c.granule }

// Floor returns the start of the partition that contains t.
func (c Calendar) Floor(t time.Time) time.Time {
	if c.fixed {
		return unix(c.floorWall(t.Unix()+c.offset) - c.offset)
	}
	start, ok := c.first(c.floorWall(c.wall(t)))
	if !ok || start.After(t) {
		// Cannot be: t itself has the label. Kept total for instants outside what the zone data covers.
		return t.UTC().Truncate(time.Second)
	}
	for c.granule < time.Hour { // in a repeated hour of long ago the last label before the change holds the repetition
		next := c.nextLabel(start)
		if next.After(t) {
			return start
		}
		start = next
	}
	return start
}

// Next returns the start of the partition after the one that contains t, which is also that one's end.
func (c Calendar) Next(t time.Time) time.Time {
	return c.after(c.Floor(t))
}

// after is Next for a start.
func (c Calendar) after(start time.Time) time.Time {
	if c.fixed {
		return start.Add(c.granule)
	}
	return c.nextLabel(start)
}

// Prev returns the start of the partition before the one that contains t.
func (c Calendar) Prev(t time.Time) time.Time { return c.Floor(c.Floor(t).Add(-time.Second)) }

// At returns the partition that contains t.
func (c Calendar) At(t time.Time) Partition {
	start := c.Floor(t)
	return Partition{Start: start, End: c.Next(start)}
}

// IsStart reports whether a partition starts at t.
func (c Calendar) IsStart(t time.Time) bool { return c.Floor(t).Equal(t) }

// Starts iterates over the starts in (r.From, r.To], oldest first.
func (c Calendar) Starts(r Range) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for s := c.Next(r.From); r.Contains(s); s = c.after(s) {
			if !yield(s) {
				return
			}
		}
	}
}

// Count is the number of starts in (r.From, r.To]. It does not iterate over them.
func (c Calendar) Count(r Range) int {
	if r.Empty() {
		return 0
	}
	from, to := c.Floor(r.From), c.Floor(r.To)
	g := int64(c.granule / time.Second)
	if c.fixed {
		return int((to.Unix() - from.Unix()) / g)
	}
	n := (c.floorWall(c.wall(to)) - c.floorWall(c.wall(from))) / g
	for t := from.In(c.loc); ; {
		_, end := zoneBounds(t)
		if end.IsZero() || end.After(to) {
			return int(n)
		}
		if gapFrom, gapTo := c.wall(end.Add(-time.Second))+1, c.wall(end); gapTo > gapFrom {
			if first, last := -floorDiv(-gapFrom, g), floorDiv(gapTo, g); last > first {
				n -= last - first // labels that daylight saving skipped whole
			}
		}
		t = end
	}
}

// wall is the local wall-clock time of t in seconds, as if the clock were UTC's.
func (c Calendar) wall(t time.Time) int64 {
	if c.fixed {
		return t.Unix() + c.offset
	}
	_, off := t.In(c.loc).Zone()
	return t.Unix() + int64(off)
}

func (c Calendar) floorWall(w int64) int64 {
	g := int64(c.granule / time.Second)
	return floorDiv(w, g) * g
}

// first is the first instant whose wall-clock time lies in the label [w, w+granule), if there is one.
func (c Calendar) first(w int64) (time.Time, bool) { return firstInstant(c.loc, w, c.granule) }

func firstInstant(loc *time.Location, w int64, length time.Duration) (time.Time, bool) {
	// Far from a change of offset there is one answer.
	_, off := time.Unix(w, 0).In(loc).Zone()
	near := time.Unix(w-int64(off), 0).In(loc)
	if _, o := near.Zone(); o == off {
		if from, _ := near.ZoneBounds(); from.IsZero() || near.Sub(from) > 2*day {
			return near.UTC(), true
		}
	}
	end := w + int64(length/time.Second)
	// No offset exceeds a day, so the label's instants, if any, lie within a day of w read as UTC.
	for t := time.Unix(w, 0).Add(-day).In(loc); t.Unix() < end+int64(day/time.Second); {
		_, off := t.Zone()
		from, to := zoneBounds(t)
		at := w - int64(off)
		if !from.IsZero() {
			at = max(at, from.Unix())
		}
		if at < end-int64(off) && (to.IsZero() || at < to.Unix()) {
			return unix(at), true
		}
		if to.IsZero() {
			break
		}
		t = to
	}
	return time.Time{}, false
}

// nextLabel is the start of the first existing label after that of start.
func (c Calendar) nextLabel(start time.Time) time.Time {
	g := int64(c.granule / time.Second)
	w := c.floorWall(c.wall(start))
	for i := int64(0); i <= 3*int64(day/time.Second)/g; i++ { // the longest gap ever was a day
		w += g
		if s, ok := c.first(w); ok && s.After(start) {
			return s
		}
	}
	return start.Add(c.granule)
}

func unix(sec int64) time.Time { return time.Unix(sec, 0).UTC() }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Partition is one half-open interval [Start, End), named by its start.
type Partition struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Range is the partitions whose starts lie in (From, To].
type Range struct {
	From time.Time
	To   time.Time
}

// Contains reports whether start lies in (From, To].
func (r Range) Contains(start time.Time) bool { return start.After(r.From) && !start.After(r.To) }

// Empty reports whether nothing can lie in the range.
func (r Range) Empty() bool { return !r.From.Before(r.To) }

// Intersect is what lies in both; possibly empty.
func (r Range) Intersect(o Range) Range {
	if o.From.After(r.From) {
		r.From = o.From
	}
	if o.To.Before(r.To) {
		r.To = o.To
	}
	return r
}

// Union returns the same partitions as the given ranges together, as disjoint, non-touching, non-empty ranges in time order.
func Union(ranges ...Range) []Range {
	var in []Range
	for _, r := range ranges {
		if !r.Empty() {
			in = append(in, r)
		}
	}
	sort.Slice(in, func(i, j int) bool { return in[i].From.Before(in[j].From) })
	var out []Range
	for _, r := range in {
		if n := len(out); n > 0 && !r.From.After(out[n-1].To) {
			if r.To.After(out[n-1].To) {
				out[n-1].To = r.To
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

func (r Range) String() string {
	return "(" + r.From.UTC().Format(time.RFC3339) + ", " + r.To.UTC().Format(time.RFC3339) + "]"
}

// MarshalJSON writes {"from": …, "to": …}, RFC 3339 in UTC.
func (r Range) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		From time.Time `json:"from"`
		To   time.Time `json:"to"`
	}{r.From.UTC(), r.To.UTC()})
}
