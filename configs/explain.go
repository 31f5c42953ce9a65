package configs

import (
	"fmt"
	"strings"
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
	lines = append(lines, p.coverageText())
	if p.Full != nil && p.previousAge() > 0 {
		lines = append(lines, fmt.Sprintf("after a promotion up to %s because the base before is supported for %s and up to %s old by then",
			spoken(p.OrdinaryCoverage()), spoken(p.Full.SupportPreviousFor), spoken(p.previousAge())))
	}
	lines = append(lines, p.listingText(granule)...)
	lines = append(lines, p.gapText(), p.fullText())
	lines = append(lines, p.baseText()...)
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
func (p *Pipeline) coverageText() string {
	longest, windowed := p.longestField()
	over := longest.Name + " is over " + spoken(longest.Over)
	if p.Full != nil {
		age := "the base is up to " + spoken(p.baseAge()) + " old"
		if windowed {
			age = over + " and " + age
		}
		return fmt.Sprintf("coverage up to %s because %s", spoken(longest.Over+p.baseAge()), age)
	}
	if !windowed || longest.Over < p.Window.Size {
		over = "window.size is " + spoken(p.Window.Size)
	}
	return fmt.Sprintf("coverage of %s because %s", spoken(p.Reach()), over)
}

// listingText is what a run lists, and what that costs where calls are paid for.
func (p *Pipeline) listingText(granule time.Duration) []string {
	line := "a run lists up to " + spoken(p.listed())
	if granule <= 0 {
		return []string{line}
	}
	partitions, prefixes := (p.listed()+granule-1)/granule, max(1, len(p.Source.Prefixes))
	line += fmt.Sprintf(", %d partitions", partitions)
	if prefixes > 1 {
		line += fmt.Sprintf(" in each of %d prefixes", prefixes)
	}
	layout, err := p.Layout()
	if err != nil || !strings.HasPrefix(p.Source.URL, SchemeS3+":") {
		return []string{line}
	}
	if !layout.Lexical() {
		return []string{line, fmt.Sprintf("an idle run makes up to about %d LIST calls, one for each partition, because the layout does not sort by time", int(partitions)*prefixes)}
	}
	const page = 1000 // objects that one call lists
	calls := func(objects int) int { return (int(partitions)*objects + page - 1) / page * prefixes }
	return []string{line, fmt.Sprintf("an idle run makes up to %s with one object in each partition, %d with ten: one call lists %d objects",
		counted(calls(1), "LIST call"), calls(10), page)}
}

// counted is 1 call, 2 calls.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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

// baseText is what having a base means for documents.
func (p *Pipeline) baseText() (lines []string) {
	f := p.Full
	if f == nil {
		return nil
	}
	promotion := "a base that passes the gate is promoted by the next run"
	if f.Promote == PromoteManual {
		promotion = "a base that passes the gate waits until somebody promotes it; coverage grows meanwhile"
	}
	lines = append(lines, promotion, "until the first base is promoted documents hold what coverage holds, up to "+spoken(p.WindowMax()))
	if all := p.overAll(); len(all) > 0 {
		lines = append(lines, "over: all ("+named(all)+") is what the bucket held when the base was built, plus what came since")
	}
	if !f.Since.IsZero() {
		lines = append(lines, "partitions before "+f.Since.UTC().Format(time.RFC3339)+" do not exist for the pipeline")
	}
	stale := "raises an alarm"
	if f.OnStale == StaleRebuild {
		stale = "starts one full rebuild"
	}
	return append(lines, "an object that the base read and that is replaced or gone since "+stale)
}

// overAll names the fields that reach back to the beginning.
func (p *Pipeline) overAll() (names []string) {
	for _, f := range p.Index.Fields {
		if f.Over == 0 && f.Fn != FnExpr {
			names = append(names, f.Name)
		}
	}
	return names
}

// named lists the first of many names.
func named(names []string) string {
	const most = 5
	if n := len(names) - most; n > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
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
