// Package report turns samples into the tables of docs/performance.md: ratios
// first, since they alone mean something on another machine, and the goals
// beside what was measured, reached or not.
package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/deltad/deltad/bench/course"
	"github.com/deltad/deltad/bench/meter"
)

// Result is all that one run of the benchmark measured.
type Result struct {
	When    time.Time
	Source  string // the commit that deltad was built from
	Machine Machine
	Threads int
	Memory  int64
	Courses []Course
	// Shares are of CPU time, by step and stage; nil where no profile was made.
	Shares []Shares
	// Freshness is by server; nil where it was not measured.
	Freshness []Freshness
}

// Machine is what it was measured on.
type Machine struct {
	CPU    string
	Cores  int
	Memory int64 // bytes
	Load   string
}

// Course is a course and its samples over all repetitions.
type Course struct {
	Name    string
	Source  string // as Result's, where it is another
	Window  int
	Rows    int
	Objects int
	Layered bool // a step writes what differs and not the whole pane
	Samples []course.Sample
}

// Freshness is the time from a partition being visible to its pane being
// readable.
type Freshness struct {
	Server              string
	Partitions, Rows    int           // how many, and the rows of each
	Every, Over         time.Duration // a partition every so often, for how long
	P50, P90, P99, Most time.Duration
}

// Shares are the stages of a step, by CPU time, the largest first.
type Shares struct {
	Step   course.Step
	Course string
	CPU    time.Duration
	Stages []Stage
}

// Stage is a share of a step's CPU time, 0 to 1.
type Stage struct {
	Name  string
	Share float64
}

// figures sum a step up over its repetitions.
type figures struct {
	samples []course.Sample
}

func (c Course) step(s course.Step) figures {
	var f figures
	for _, x := range c.Samples {
		if x.Step == s {
			f.samples = append(f.samples, x)
		}
	}
	return f
}

// of are the values of all samples in ascending order.
func of[T cmp.Ordered](f figures, value func(course.Sample) T) []T {
	var out []T
	for _, s := range f.samples {
		out = append(out, value(s))
	}
	slices.Sort(out)
	return out
}

// median is the middle one, of an even number the lower.
func median[T any](sorted []T) T { return sorted[(len(sorted)-1)/2] }

func (f figures) none() bool { return len(f.samples) == 0 }

// peered says whether DuckDB has a counterpart.
func (f figures) peered() bool { return !f.none() && f.samples[0].Peer != nil }

func ours(f figures, value func(meter.Usage) int64) []int64 {
	return of(f, func(s course.Sample) int64 { return value(s.Ours) })
}

func theirs(f figures, value func(meter.Usage) int64) []int64 {
	return of(f, func(s course.Sample) int64 { return value(*s.Peer) })
}

func cpu(u meter.Usage) int64  { return int64(u.CPU) }
func wall(u meter.Usage) int64 { return int64(u.Wall) }
func peak(u meter.Usage) int64 { return u.Peak }

// ratios are DuckDB's CPU by deltad's of the same step, pair by pair.
func (f figures) ratios() []float64 {
	return of(f, func(s course.Sample) float64 { return float64(s.Peer.CPU) / float64(s.Ours.CPU) })
}
