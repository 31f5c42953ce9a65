package configs

import (
	"fmt"
	"time"
)

// Explain returns, a line each, what follows from the settings of a pipeline
// that Validate accepts: how far coverage reaches and why, what a run lists,
// when the full index is rebuilt, what happens on a gap.
func Explain(p *Pipeline) []string {
	granule := p.Granule()
	lines := []string{
		fmt.Sprintf("partitions of %s in %s, eligible %s", spoken(granule), p.Source.TimeZone, p.eligibleText()),
		p.triggerText(),
	}
	coverage, text := p.coverageText()
	lines = append(lines, text)
	if f := p.Full; f != nil && f.SupportPreviousFor > 0 {
		lines = append(lines, fmt.Sprintf("after a promotion up to %s, while the base before is supported for %s", spoken(coverage+f.SupportPreviousFor), spoken(f.SupportPreviousFor)))
		coverage += f.SupportPreviousFor
	}
	listed := coverage + 2*p.Window.Size
	line := "a run lists up to " + spoken(listed)
	if granule > 0 {
		line += fmt.Sprintf(", %d partitions", (listed+granule-1)/granule)
		if n := len(p.Source.Prefixes); n > 1 {
			line += fmt.Sprintf(" in each of %d prefixes", n)
		}
	}
	lines = append(lines, line, p.gapText(), p.fullText())
	need := "objects must stay at the source for " + spoken(p.RetentionNeed())
	if r := p.Source.Retention; r > 0 {
		need += ", they do for " + spoken(r)
	} else {
		need += ", source.retention does not say for how long they do"
	}
	return append(lines, need)
}

func (p *Pipeline) eligibleText() string {
	text := fmt.Sprintf("from %s before their start", spoken(p.FutureSkew()))
	if p.FutureSkew() == 0 {
		text = "from their start"
	}
	if p.Source.Settle > 0 {
		text += fmt.Sprintf(", once %s have passed since their end", spoken(p.Source.Settle))
	}
	return text
}

func (p *Pipeline) triggerText() string {
	if p.Trigger.Cron != "" {
		return fmt.Sprintf("a run at each %q in %s, ended after %s", p.Trigger.Cron, p.Trigger.TimeZone, spoken(p.Trigger.Timeout))
	}
	return fmt.Sprintf("a run every %s, ended after %s", spoken(p.Trigger.Every), spoken(p.Trigger.Timeout))
}

// coverageText is how far coverage reaches in steady state, and the reason.
func (p *Pipeline) coverageText() (time.Duration, string) {
	longest, windowed := p.longestField()
	d, w := longest.Over, p.Window.Size
	why := "window.size is " + spoken(w)
	if windowed {
		why = longest.Name + " is over " + spoken(d)
	}
	if p.Full != nil {
		// Never less than max(W, D): D + the age, which is at least W.
		coverage := d + p.baseAge()
		age := "the base is up to " + spoken(p.baseAge()) + " old"
		if windowed {
			age = why + " and " + age
		}
		return coverage, fmt.Sprintf("coverage up to %s because %s", spoken(coverage), age)
	}
	if d < w {
		why = "window.size is " + spoken(w)
	}
	return p.Reach(), fmt.Sprintf("coverage of %s because %s", spoken(p.Reach()), why)
}

func (p *Pipeline) gapText() string {
	most := spoken(p.WindowMax())
	switch p.GapPolicy() {
	case GapRebuild:
		return fmt.Sprintf("coverage beyond %s is published whole, raises an alarm and starts one full rebuild", most)
	case GapSkip:
		return fmt.Sprintf("after a longer absence coverage reaches back up to %s; what lies before is never covered, and manifest and ledger say so", most)
	}
	return fmt.Sprintf("coverage beyond %s is not published: the last pane stays until somebody decides", most)
}

func (p *Pipeline) fullText() string {
	switch f := p.Full; {
	case f == nil:
		return "no full index: documents hold what coverage holds"
	case f.Schedule == "":
		return "the full index is rebuilt by hand, taken here for once in " + spoken(p.ScheduleInterval())
	default:
		return fmt.Sprintf("the full index is rebuilt at each %q in %s, at most %s apart; until it serves as long as the window, %s, is allowed for",
			f.Schedule, f.TimeZone, spoken(p.ScheduleInterval()), spoken(p.Window.Size))
	}
}

// spoken writes a duration for people: 53 h, 30 d, 90 min, 30 s.
func spoken(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 5*day && d%day == 0:
		return fmt.Sprintf("%d d", d/day)
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d >= time.Second && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.String()
}
