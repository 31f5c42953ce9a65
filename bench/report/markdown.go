package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/bench/course"
)

// The lines between which a document is generated; what stands around them is
// written by people.
const (
	begin = "<!-- measured: written by make bench, do not edit -->"
	end   = "<!-- end of measured -->"
)

// Write puts the tables into a document, in the place of those it has.
func (r Result) Write(path string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the report: %w", err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if found != ended {
		return fmt.Errorf("write the report %s: it has %q without %q", path, begin, end)
	}
	if !found && before != "" {
		before += "\n"
	}
	out := before + begin + "\n\n" + r.Markdown() + "\n" + end + after
	if !found {
		out += "\n"
	}
	if err := os.WriteFile(path, []byte(out), 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// Markdown is the measured part of the document.
func (r Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s at commit %s on %s: %d cores, %s of memory, load %s at the start. Each side has %d threads and %s.\n\n",
		r.When.UTC().Format("2006-01-02 15:04 MST"), r.Source, r.Machine.CPU, r.Machine.Cores, size(r.Machine.Memory), r.Machine.Load, r.Threads, size(r.Memory))
	r.Courses = slices.DeleteFunc(slices.Clone(r.Courses), func(c Course) bool { return len(c.Samples) == 0 })
	if len(r.Courses) > 0 {
		r.ratios(&b)
		r.goals(&b)
	}
	for _, c := range r.Courses {
		c.table(&b)
	}
	r.shares(&b)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// ratios is DuckDB's CPU by deltad's for every course and step.
func (r Result) ratios(b *strings.Builder) {
	b.WriteString("### CPU of DuckDB's recompute by CPU of deltad's step\n\nMedian of the pairs (least to greatest). Above 1 deltad used less.\n\n| |")
	var steps []course.Step
	for _, s := range course.Steps() {
		if s != course.Idle {
			steps = append(steps, s)
			fmt.Fprintf(b, " %s |", s)
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(steps)) + "\n")
	for _, c := range r.Courses {
		fmt.Fprintf(b, "| %s |", c.Name)
		for _, s := range steps {
			f := c.step(s)
			if !f.peered() {
				b.WriteString(" |")
				continue
			}
			x := f.ratios()
			fmt.Fprintf(b, " **%.2f** (%.2f to %.2f) |", median(x), x[0], x[len(x)-1])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func (c Course) table(b *strings.Builder) {
	fmt.Fprintf(b, "### %s\n\n%d partitions of %s rows in %s; CPU and wall: least and median.", c.Name, c.Window, thousands(c.Rows), plural(c.Objects, "object"))
	if c.Source != "" {
		fmt.Fprintf(b, " Of a run at commit %s.", c.Source)
	}
	b.WriteString("\n\n| step | n | deltad: CPU s | wall s | peak memory | requests | read | written | DuckDB: CPU s | wall s | peak memory | ratio |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range course.Steps() {
		f := c.step(s)
		if f.none() {
			continue
		}
		last := f.samples[len(f.samples)-1].Ours
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %d | %s | %s |", s, len(f.samples), seconds(ours(f, cpu)), seconds(ours(f, wall)),
			size(greatest(ours(f, peak))), last.Requests, size(last.Read), size(last.Written))
		if f.peered() {
			fmt.Fprintf(b, " %s | %s | %s | %.2f |\n", seconds(theirs(f, cpu)), seconds(theirs(f, wall)), size(greatest(theirs(f, peak))), median(f.ratios()))
		} else {
			b.WriteString(" | | | |\n")
		}
	}
	b.WriteString("\n")
}

func (r Result) shares(b *strings.Builder) {
	if len(r.Shares) == 0 {
		return
	}
	b.WriteString("### What the time goes to\n\nShares of CPU samples, in a run of its own with the profiler on.\n\n| course | step | CPU s | stages |\n|---|---|---|---|\n")
	for _, s := range r.Shares {
		var stages []string
		for _, x := range s.Stages {
			stages = append(stages, fmt.Sprintf("%s %.0f %%", x.Name, 100*x.Share))
		}
		fmt.Fprintf(b, "| %s | %s | %.2f | %s |\n", s.Course, s.Step, s.CPU.Seconds(), strings.Join(stages, ", "))
	}
}

func greatest(sorted []int64) int64 { return sorted[len(sorted)-1] }

// seconds are the least and the median of durations.
func seconds(sorted []int64) string {
	one := func(d int64) string {
		if s := time.Duration(d).Seconds(); s < 0.1 {
			return fmt.Sprintf("%.4f", s)
		} else {
			return fmt.Sprintf("%.2f", s)
		}
	}
	return one(sorted[0]) + " / " + one(median(sorted))
}

func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
