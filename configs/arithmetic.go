package configs

import (
	"time"

	"github.com/deltad/deltad/partition"
)

// Layout compiles source.layout with its granularity and time zone; what else
// asks for the layout here compiles it again. The error
// is a *partition.PatternError, or the rule that the time zone breaks.
func (p *Pipeline) Layout() (*partition.Layout, error) {
	loc, err := location(p.Source.TimeZone)
	if err != nil {
		return nil, err
	}
	return partition.ParseLayout(p.Source.Layout, partition.LayoutOptions{Granularity: p.Source.Granularity, Location: loc})
}

// Granule is the length of a partition: source.granularity, else what the
// layout's finest placeholder counts. It is source.granularity, which may be
// 0, for a layout that cannot be used.
func (p *Pipeline) Granule() time.Duration {
	if l, err := p.Layout(); err == nil {
		return l.Granularity()
	}
	return p.Source.Granularity
}

// Eligibility is the time rule of the pipeline's partitions.
func (p *Pipeline) Eligibility() partition.Eligibility {
	return partition.Eligibility{Granule: p.Granule(), MaxFutureSkew: p.Source.MaxFutureSkew, Settle: p.Source.Settle}
}

// FutureSkew is how far ahead of the clock a partition may start.
func (p *Pipeline) FutureSkew() time.Duration { return p.Eligibility().Skew() }

// LongestOver is D of the coverage rule: the longest over of any field, 0 if
// none has a duration.
func (p *Pipeline) LongestOver() time.Duration {
	f, _ := p.longestField()
	return f.Over
}

// longestField is the first field with the longest over.
func (p *Pipeline) longestField() (longest Field, found bool) {
	for _, f := range p.Index.Fields {
		if f.Over > longest.Over {
			longest, found = f, true
		}
	}
	return longest, found
}

// Reach is max(W, D): how far behind the newest partition a delta reaches at
// the least.
func (p *Pipeline) Reach() time.Duration { return max(p.Window.Size, p.LongestOver()) }

// WindowMax is window.max or its default: with a base the longest over and
// three schedule intervals, without one four times the reach.
func (p *Pipeline) WindowMax() time.Duration {
	switch {
	case p.Window.Max > 0:
		return p.Window.Max
	case p.Full != nil:
		// Never below the reach, which a small schedule interval could be.
		return max(p.LongestOver()+3*p.ScheduleInterval(), p.Reach())
	}
	return 4 * p.Reach()
}

// GapPolicy is window.on_gap or its default: rebuild with a base, skip
// without one.
func (p *Pipeline) GapPolicy() string {
	switch {
	case p.Window.OnGap != "":
		return p.Window.OnGap
	case p.Full != nil:
		return GapRebuild
	}
	return GapSkip
}

// RetentionNeed is how long objects must stay at the source: 2 W + D and three
// schedule intervals.
func (p *Pipeline) RetentionNeed() time.Duration {
	return 2*p.Window.Size + p.LongestOver() + 3*p.ScheduleInterval()
}

// baseAge is how old the cut of the live base can be: the time between two
// rebuilds, and until the new one serves. How long a rebuild takes is unknown
// here; the window is taken for it, which is what a window is sized for.
func (p *Pipeline) baseAge() time.Duration { return p.ScheduleInterval() + p.Window.Size }

// previousAge is how old the cut of the base before can be while deltas still
// fit it: full.support_previous_for after the promotion that replaced it, and no
// longer than to the next one. It is 0 where only the live base is supported.
func (p *Pipeline) previousAge() time.Duration {
	if s := p.Full.SupportPreviousFor; s > 0 {
		return p.baseAge() + min(s, p.ScheduleInterval())
	}
	return 0
}

// OrdinaryCoverage is how far behind the newest partition a delta reaches at
// the most while nothing is amiss: the longest over and the age of the oldest
// base that it fits, and without a base the reach.
func (p *Pipeline) OrdinaryCoverage() time.Duration {
	if p.Full == nil {
		return p.Reach()
	}
	// Never less than the reach: the age is at least the window.
	return p.LongestOver() + max(p.baseAge(), p.previousAge())
}

// listed is how far back a run lists, so that late objects are seen.
func (p *Pipeline) listed() time.Duration { return p.OrdinaryCoverage() + 2*p.Window.Size }

// changesOffset reports whether a zone has daylight saving or will change its
// offset otherwise.
func changesOffset(loc *time.Location) bool {
	_, err := partition.NewCalendar(time.Minute, loc)
	return err != nil
}
