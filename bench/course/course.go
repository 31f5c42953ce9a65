// Package course takes a pipeline and DuckDB through what happens to an index
// in its life, in turn and on the same files: the first pane, a partition after
// the other, a late object, a jump, a restart; or a window that moves by its own
// length.
//
// No cost is returned of a step whose results differ: after each step that both
// sides took, and a few times among those that nobody measures, the live pane and
// what DuckDB wrote are compared key by key and field by field.
package course

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/deltad/deltad/bench/events"
	"github.com/deltad/deltad/bench/meter"
	"github.com/deltad/deltad/bench/side"
)

// Step is something that happens to an index.
type Step string

// The steps, in the order of a course. Settled is of courses of its own.
const (
	Cold    Step = "cold"    // the first pane, over a whole window that was never read
	First   Step = "first"   // one new partition, and what later steps stand on has to be made
	Steady  Step = "steady"  // one new partition
	Idle    Step = "idle"    // nothing is new
	Late    Step = "late"    // one more object in a partition of the window
	Jump    Step = "jump"    // half a window is new
	Restart Step = "restart" // a new process, one new partition
	Settled Step = "settled" // one new partition, as Steady, after a whole window of such steps
)

// Steps are all of them.
func Steps() []Step { return []Step{Cold, First, Steady, Idle, Late, Jump, Restart, Settled} }

// Course is a pipeline over a set of events and what it goes through.
type Course struct {
	Name   string
	Key    string // column
	Fields []Field
	Set    events.Set
	Ticks  int  // steps of one new partition in a row, the first of which is First
	Jump   bool // whether half a window comes at once
	Late   int  // index of the partition that gets a late object
	// Settled, if it is not 0, makes it another course: the window moves by its own
	// length, a partition at a time, and so many steps after that are all that is
	// measured.
	Settled int
	Layers  int64 // bytes from which a pane is one of layers; 0 for what deltad has by default
}

// Further is how many partitions behind the window the course needs.
func (c Course) Further(window int) int {
	if c.Settled > 0 {
		return window + c.Settled
	}
	n := c.Ticks + 1 // and one for the restart
	if c.Jump {
		n += window / 2
	}
	return n
}

// Place is where and with what a course is run.
type Place struct {
	Binary  string // deltad
	Scratch string // directory of everything that is written
	Threads int
	Memory  int64    // bytes, for each side
	Env     []string // of deltad, beside this process's
	// Alone leaves DuckDB out, and with it the comparison: for what is no
	// measurement, such as a profile.
	Alone bool
	// Before is called ahead of each step of deltad's and returns what is to be
	// called behind it; nil for nothing.
	Before func(ctx context.Context, s Step) (after func() error, err error)
	// Tell is told each sample at once; nil for nobody.
	Tell func(Sample)
}

// Sample is what one step cost. Peer is DuckDB's recompute of the same window,
// nil of a step that it has no counterpart for.
type Sample struct {
	Step      Step
	Ours      meter.Usage
	Peer      *meter.Usage
	Documents int64
}

// run is a course under way.
type run struct {
	Course
	place  Place
	daemon *side.Daemon
	newest int // index of the newest visible partition
	late   bool
	out    []Sample
}

// Run takes the course once, with a new daemon and a new output.
func (c Course) Run(ctx context.Context, p Place) (samples []Sample, err error) {
	dir, err := os.MkdirTemp(p.Scratch, "course-")
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p.Scratch = dir
	d, err := side.NewDaemon(ctx, side.Setup{
		Binary: p.Binary, Dir: filepath.Join(dir, "deltad"), Threads: p.Threads, Memory: p.Memory, Window: c.Set.Window,
		Further: c.Further(c.Set.Window), Index: c.index(), Layers: c.Layers, Env: p.Env,
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Name, err)
	}
	if err := d.Start(ctx); err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Name, err)
	}
	r := &run{Course: c, place: p, daemon: d, newest: -1}
	steps := r.steps
	if c.Settled > 0 {
		steps = r.settle
	}
	if err := errors.Join(steps(ctx), d.Stop()); err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Name, err)
	}
	return r.out, nil
}

func (r *run) steps(ctx context.Context) error {
	if err := r.advance(ctx, Cold, r.Set.Window); err != nil {
		return err
	}
	for n := range r.Ticks {
		s := Steady
		if n == 0 {
			s = First
		}
		if err := r.advance(ctx, s, 1); err != nil {
			return err
		}
	}
	if err := r.step(ctx, Idle, "idle", func() error { return nil }); err != nil {
		return err
	}
	err := r.step(ctx, Late, "refined", func() error {
		r.late = true
		return r.daemon.ShowLate(r.Set, r.Late)
	})
	if err != nil {
		return err
	}
	if r.Jump {
		if err := r.advance(ctx, Jump, r.Set.Window/2); err != nil {
			return err
		}
	}
	return r.step(ctx, Restart, "", func() error { return r.show(1) })
}

// settle moves the window by its own length before it measures: what the first
// pane was made of has left then, and what was made in stock is used up. Both
// sides are compared a few times on the way.
func (r *run) settle(ctx context.Context) error {
	pass := func(partitions int, compared bool) error {
		err := r.show(partitions)
		if err == nil {
			err = r.daemon.Step(ctx, "advanced")
		}
		if err == nil && compared && !r.place.Alone {
			_, _, err = r.compare(ctx)
		}
		if err != nil {
			return fmt.Errorf("settle at partition %d: %w", r.newest, err)
		}
		return nil
	}
	if err := pass(r.Set.Window, false); err != nil {
		return err
	}
	for n := range r.Set.Window {
		if err := pass(1, n%max(1, r.Set.Window/3) == 0); err != nil {
			return err
		}
	}
	for range r.Settled {
		if err := r.advance(ctx, Settled, 1); err != nil {
			return err
		}
	}
	return nil
}

// advance measures a step over the next n partitions.
func (r *run) advance(ctx context.Context, s Step, n int) error {
	return r.step(ctx, s, "advanced", func() error { return r.show(n) })
}

// show makes the next n partitions visible.
func (r *run) show(n int) error {
	for range n {
		r.newest++
		if err := r.daemon.Show(r.Set, r.newest); err != nil {
			return err
		}
	}
	return nil
}

// step lets something happen and measures both sides.
func (r *run) step(ctx context.Context, s Step, outcome string, happens func() error) error {
	err := r.measure(ctx, s, outcome, happens)
	if err != nil {
		return fmt.Errorf("step %s at partition %d: %w", s, r.newest, err)
	}
	return nil
}

func (r *run) measure(ctx context.Context, s Step, outcome string, happens func() error) (err error) {
	if err := happens(); err != nil {
		return err
	}
	sample := Sample{Step: s}
	after := func() error { return nil }
	if r.place.Before != nil {
		if after, err = r.place.Before(ctx, s); err != nil {
			return err
		}
	}
	if s == Restart {
		sample.Ours, err = r.daemon.Restart(ctx)
	} else {
		sample.Ours, err = r.daemon.Run(ctx, outcome)
	}
	if err = errors.Join(err, after()); err != nil {
		return err
	}
	if s != Idle && !r.place.Alone {
		peer, documents, err := r.compare(ctx)
		if err != nil {
			return err
		}
		sample.Peer, sample.Documents = &peer, documents
	}
	r.out = append(r.out, sample)
	if r.place.Tell != nil {
		r.place.Tell(sample)
	}
	return nil
}

// compare has DuckDB recompute the window and returns what that cost and how
// many documents both sides have; that they differ is an error.
func (r *run) compare(ctx context.Context) (peer meter.Usage, documents int64, err error) {
	theirs := filepath.Join(r.place.Scratch, "duckdb.parquet")
	if peer, err = side.DuckDB(ctx, r.question(theirs, Field.sql)); err != nil {
		return peer, 0, err
	}
	documents, err = r.agree(ctx, theirs)
	return peer, documents, err
}

// question is the recompute of the window as of now, written to a file.
func (r *run) question(to string, value func(Field) string) side.Question {
	var list []string
	for _, f := range r.Fields {
		list = append(list, value(f)+" AS "+f.Name)
	}
	return side.Question{
		Threads: r.place.Threads, Memory: r.place.Memory, Temp: r.place.Scratch,
		SQL: fmt.Sprintf("COPY (SELECT %[1]s, %[2]s FROM read_parquet([%[3]s]) GROUP BY %[1]s ORDER BY %[1]s) TO '%[4]s' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)",
			r.Key, strings.Join(list, ", "), quoted(r.window()), to),
	}
}

// window are the visible objects of the window.
func (r *run) window() []string {
	var out []string
	for i := r.newest - r.Set.Window + 1; i <= r.newest; i++ {
		out = append(out, r.Set.Objects(i)...)
		if r.late && i == r.Late {
			out = append(out, r.Set.Late(i))
		}
	}
	return out
}

func quoted(paths []string) string {
	var b strings.Builder
	for i, p := range paths {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + strings.ReplaceAll(p, "'", "''") + "'")
	}
	return b.String()
}
