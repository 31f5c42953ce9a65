package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/deltad/deltad/bench/course"
)

// goals are the project's own figures beside what this run has, course by
// course; a goal that no course measures says so.
func (r Result) goals(b *strings.Builder) {
	b.WriteString("### Goals\n\n| goal | where | measured | |\n|---|---|---|---|\n")
	row := func(goal, where, measured string, reached bool) {
		verdict := "**not reached**"
		if reached {
			verdict = "reached"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", goal, where, measured, verdict)
	}
	for _, c := range r.Courses {
		if f := c.step(course.Cold); f.peered() {
			x := 1 / median(f.ratios())
			row("cold recompute: at most 0.6 × DuckDB's CPU", c.Name, fmt.Sprintf("%.2f ×", x), x <= 0.6)
		}
	}
	for _, c := range r.Courses {
		least := map[int]float64{60: 25, 1440: 100}[c.Window]
		if least == 0 || c.Layered { // the goal is a whole pane's
			continue
		}
		for _, s := range []course.Step{course.Steady, course.Settled} {
			if f := c.step(s); f.peered() {
				x := median(f.ratios())
				row(fmt.Sprintf("%s step: at least %.0f × less CPU than DuckDB's recompute", s, least), c.Name, fmt.Sprintf("%.1f ×", x), x >= least)
			}
		}
	}
	if short, long, ok := r.pair(60, 1440); ok {
		x := float64(median(ours(long, wall))) / float64(median(ours(short, wall)))
		row("steady step: wall at 1,440 slices at most 2 × that at 60", "integer keys", fmt.Sprintf("%.2f ×", x), x <= 2)
	}
	r.memoryGoal(row)
	for _, c := range r.Courses {
		if f := c.step(course.Idle); !f.none() && c.Window == 60 {
			n := f.samples[len(f.samples)-1].Ours.Requests
			row("idle step of 60 partitions: at most 3 requests", c.Name, fmt.Sprint(n), n <= 3)
			break
		}
	}
	for _, f := range r.Freshness {
		where := fmt.Sprintf("%s, a partition of %s rows every %s for %s", f.Server, thousands(f.Rows), f.Every, f.Over)
		row("visible → readable with a trigger of 1 s: p50 at most 1 s", where, fmt.Sprintf("%d ms", f.P50.Milliseconds()), f.P50 <= time.Second)
		row("and p99 at most 2 s", where, fmt.Sprintf("%d ms (worst of %d: %d ms)", f.P99.Milliseconds(), f.Partitions, f.Most.Milliseconds()), f.P99 <= 2*time.Second)
	}
	if len(r.Freshness) == 0 {
		b.WriteString("| visible → readable with a trigger of 1 s: p50 at most 1 s, p99 at most 2 s | | not measured in this run | |\n")
	}
	b.WriteString("\n")
}

// memoryGoal holds the greatest peak of any step to the budget.
func (r Result) memoryGoal(row func(goal, where, measured string, reached bool)) {
	var most int64
	where := ""
	for _, c := range r.Courses {
		for _, s := range c.Samples {
			if s.Ours.Peak > most {
				most, where = s.Ours.Peak, fmt.Sprintf("%s, %s", c.Name, s.Step)
			}
		}
	}
	row(fmt.Sprintf("peak memory within the budget of %s at every step", size(r.Memory)), where, size(most), most <= r.Memory)
}

// pair are the steady steps of the first courses over two windows.
func (r Result) pair(short, long int) (a, b figures, ok bool) {
	for _, c := range r.Courses {
		f := c.step(course.Steady)
		switch {
		case c.Window == short && a.none():
			a = f
		case c.Window == long && b.none():
			b = f
		}
	}
	return a, b, !a.none() && !b.none()
}
