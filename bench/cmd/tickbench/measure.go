//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deltad/deltad/bench/course"
	"github.com/deltad/deltad/bench/events"
	"github.com/deltad/deltad/bench/profile"
	"github.com/deltad/deltad/bench/report"
)

// window is a length of the window and how its events are cut.
type window struct {
	partitions, files int
	jump, settles     bool // what its courses may have
}

func (w window) late() int { return w.partitions - 5 }

// maxTicks is how many steady steps the events suffice for, and how many settled
// ones.
const maxTicks = 10

func (w window) set(ctx context.Context, o options) (events.Set, error) {
	further := course.Course{Ticks: maxTicks, Jump: w.jump}.Further(w.partitions)
	if w.settles {
		further = max(further, course.Course{Settled: maxTicks}.Further(w.partitions))
	}
	return events.Make(ctx, o.cache, events.Shape{Window: w.partitions, Further: further, Rows: o.rows / w.partitions, Files: w.files}, w.late())
}

// plan is a course and the window that it is over.
type plan struct {
	course  course.Course
	window  window
	settles bool // whether it is also taken for settled steps, which takes long
}

// planned are the courses.
func planned() []plan {
	hour, five, day := window{60, 4, true, true}, window{300, 1, false, true}, window{1440, 1, false, false}
	return []plan{
		{course.Course{Name: "60 slices, integer keys", Key: "item_id", Fields: course.Plain()}, hour, true},
		{course.Course{Name: "60 slices, string keys", Key: "item", Fields: course.Plain()}, hour, false},
		{course.Course{Name: "60 slices, integer keys, with sketches", Key: "item_id", Fields: course.Sketched()}, hour, false},
		{course.Course{Name: "300 slices, integer keys", Key: "item_id", Fields: course.Plain()}, five, true},
		{course.Course{Name: "1,440 slices, integer keys", Key: "item_id", Fields: course.Plain()}, day, false},
		{course.Course{Name: "1,440 slices, integer keys, in layers", Key: "item_id", Fields: course.Plain(), Layers: 1 << 20}, day, false},
	}
}

// result measures, or reads what was measured.
func (o options) result(ctx context.Context, only *regexp.Regexp) (r report.Result, err error) {
	if o.from == "" {
		r, err = o.measure(ctx, only)
	} else {
		r, err = join(strings.Split(o.from, ","))
	}
	if err == nil && o.fresh != "" {
		err = decode(o.fresh, &r.Freshness)
	}
	return r, err
}

// join puts together what several runs measured, each of some courses. The
// last of them says when and where; courses of other commits say so.
func join(paths []string) (r report.Result, err error) {
	for _, path := range paths {
		var one report.Result
		if err := decode(path, &one); err != nil {
			return r, err
		}
		for i := range one.Courses {
			one.Courses[i].Source = one.Source
		}
		one.Courses, one.Shares = append(r.Courses, one.Courses...), append(r.Shares, one.Shares...)
		r = one
	}
	for i := range r.Courses {
		if r.Courses[i].Source == r.Source {
			r.Courses[i].Source = ""
		}
	}
	return r, nil
}

func decode(path string, v any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func (o options) measure(ctx context.Context, only *regexp.Regexp) (r report.Result, err error) {
	if o.cache, err = filepath.Abs(o.cache); err != nil {
		return r, fmt.Errorf("find the cache: %w", err)
	}
	if err := os.MkdirAll(o.cache, 0o755); err != nil {
		return r, fmt.Errorf("make the cache: %w", err)
	}
	// Beside the events: objects are made visible as links, which do not leave a
	// file system.
	scratch, err := os.MkdirTemp(o.cache, "scratch-")
	if err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	place := course.Place{Binary: o.deltad, Scratch: scratch, Threads: o.threads, Memory: o.memory}
	place.Tell = func(s course.Sample) { say("  %-8s %s", s.Step, line(s)) }
	if place.Binary == "" {
		place.Binary = filepath.Join(scratch, "deltad")
		if err := build(ctx, place.Binary); err != nil {
			return r, err
		}
	}
	var courses []course.Course
	var settled []int // of each
	for _, p := range planned() {
		if !only.MatchString(p.course.Name) {
			continue
		}
		c := p.course
		say("events of %d slices", p.window.partitions)
		if c.Set, err = p.window.set(ctx, o); err != nil {
			return r, err
		}
		c.Ticks, c.Jump, c.Late = o.ticks, p.window.jump, p.window.late()
		courses, settled = append(courses, c), append(settled, 0)
		if p.settles {
			settled[len(settled)-1] = o.settled
		}
		r.Courses = append(r.Courses, report.Course{Name: c.Name, Window: c.Set.Window, Rows: c.Set.Rows, Objects: c.Set.Files, Layered: c.Layers > 0})
	}
	r.When, r.Source, r.Machine, r.Threads, r.Memory = time.Now(), o.source(ctx), machine(), o.threads, o.memory
	take := func(i int, c course.Course) error {
		samples, err := c.Run(ctx, place)
		if err != nil {
			return err
		}
		r.Courses[i].Samples = append(r.Courses[i].Samples, samples...)
		return o.keep(r)
	}
	for n := range o.repeats {
		for i, c := range courses {
			say("run %d of %d: %s", n+1, o.repeats, c.Name)
			if err := take(i, c); err != nil {
				return r, err
			}
		}
	}
	for i, c := range courses {
		if c.Settled = settled[i]; c.Settled > 0 {
			say("a window of steps: %s", c.Name)
			if err := take(i, c); err != nil {
				return r, err
			}
		}
	}
	if o.profiled > 0 && len(courses) > 0 {
		c := courses[0]
		c.Ticks, c.Jump = o.profiled, false
		if r.Shares, err = o.shares(ctx, c, settled[0], place); err != nil {
			return r, err
		}
	}
	return r, o.keep(r)
}

// keep keeps what was measured so far.
func (o options) keep(r report.Result) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(o.json, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what was measured: %w", err)
	}
	return nil
}

// shares takes a course with a deltad that can be profiled, and once more for
// settled steps if there are any. The profiles stay in the cache.
func (o options) shares(ctx context.Context, c course.Course, settled int, p course.Place) ([]report.Shares, error) {
	say("profile: %s", c.Name)
	dir := filepath.Join(o.cache, "profiles")
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if p.Binary, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	p.Env, p.Alone = profile.Env(dir), true
	files := map[course.Step][]string{}
	p.Before = func(ctx context.Context, s course.Step) (func() error, error) {
		if s == course.Restart || s == course.Idle {
			return func() error { return nil }, nil // another process, and next to nothing
		}
		stop, err := profile.Start(ctx, dir)
		if err != nil {
			return nil, err
		}
		to := filepath.Join(dir, fmt.Sprintf("%s-%d", s, len(files[s])))
		files[s] = append(files[s], to)
		return func() error { return stop(to) }, nil
	}
	_, err = c.Run(ctx, p)
	if c.Settled = settled; err == nil && settled > 0 {
		_, err = c.Run(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	var out []report.Shares
	for _, s := range course.Steps() {
		if len(files[s]) == 0 {
			continue
		}
		total, stages, err := profile.Stages(files[s])
		if err != nil {
			return nil, err
		}
		out = append(out, report.Shares{Step: s, Course: c.Name, CPU: total / time.Duration(len(files[s])), Stages: stages})
	}
	return out, nil
}

// build builds the deltad of this checkout.
func build(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, "./cmd/deltad")
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build deltad: %w", err)
	}
	return nil
}

// source is the commit of this checkout, with a plus where files differ from
// it, or what is said of a binary that was given.
func (o options) source(ctx context.Context) string {
	if o.commit != "" {
		return o.commit
	}
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=+").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func machine() report.Machine {
	m := report.Machine{CPU: "an unknown processor", Cores: runtime.NumCPU(), Load: "unknown"}
	for _, l := range fields("/proc/cpuinfo", ":") {
		if l[0] == "model name" {
			m.CPU = l[1]
			break
		}
	}
	for _, l := range fields("/proc/meminfo", ":") {
		if kib, err := strconv.ParseInt(strings.TrimSuffix(l[1], " kB"), 10, 64); err == nil && l[0] == "MemTotal" {
			m.Memory = kib << 10
		}
	}
	if l := fields("/proc/loadavg", " "); len(l) > 0 {
		m.Load = l[0][0]
	}
	return m
}

// fields are the lines of a file, each cut in two.
func fields(path, at string) (out [][2]string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for l := range bytes.Lines(text) {
		if a, b, ok := strings.Cut(string(l), at); ok {
			out = append(out, [2]string{strings.TrimSpace(a), strings.TrimSpace(b)})
		}
	}
	return slices.Clip(out)
}

// line is a sample for people who wait.
func line(s course.Sample) string {
	text := fmt.Sprintf("deltad %.3f s CPU, %.3f s wall, %d MiB, %d requests", s.Ours.CPU.Seconds(), s.Ours.Wall.Seconds(), s.Ours.Peak>>20, s.Ours.Requests)
	if p := s.Peer; p != nil {
		text += fmt.Sprintf("; duckdb %.3f s CPU, %.3f s wall, %d MiB; ratio %.2f", p.CPU.Seconds(), p.Wall.Seconds(), p.Peak>>20, p.CPU.Seconds()/s.Ours.CPU.Seconds())
	}
	return text
}

// say tells how far it is.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
