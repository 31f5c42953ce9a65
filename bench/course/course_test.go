package course_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/deltad/deltad/bench/course"
	"github.com/deltad/deltad/bench/events"
	"github.com/deltad/deltad/bench/side"
)

func TestMain(m *testing.M) {
	if side.Child() {
		return
	}
	os.Exit(m.Run())
}

// TestCourses: on a small set of events both sides have the same documents
// after every step, whatever the key, and every figure is there.
func TestCourses(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "deltad")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./cmd/deltad")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build deltad: %v\n%s", err, out)
	}
	const window, late = 8, 3
	further := max(course.Course{Ticks: 2, Jump: true}.Further(window), course.Course{Settled: 2}.Further(window))
	set, err := events.Make(t.Context(), t.TempDir(), events.Shape{Window: window, Further: further, Rows: 14_000, Files: 2}, late)
	if err != nil {
		t.Fatal(err)
	}
	life := slices.DeleteFunc(course.Steps(), func(s course.Step) bool { return s == course.Settled })
	for _, c := range []struct {
		course course.Course
		steps  []course.Step
	}{
		{course.Course{Name: "string keys", Key: "item", Fields: course.Plain(), Ticks: 2, Jump: true}, life},
		{course.Course{Name: "integer keys, sketches", Key: "item_id", Fields: course.Sketched(), Ticks: 2, Jump: true}, life},
		{course.Course{Name: "a window of steps", Key: "item_id", Fields: course.Plain(), Settled: 2}, []course.Step{course.Settled, course.Settled}},
	} {
		t.Run(c.course.Name, func(t *testing.T) {
			c.course.Set, c.course.Late = set, late
			p := course.Place{Binary: binary, Scratch: t.TempDir(), Threads: 2, Memory: 512 << 20}
			var visible []int // partitions, at each step
			p.Before = func(context.Context, course.Step) (func() error, error) {
				paths, err := filepath.Glob(filepath.Join(p.Scratch, "course-*", "deltad", "in", "*", "*", "*", "*", "*"))
				visible = append(visible, len(paths))
				return func() error { return nil }, err
			}
			samples, err := c.course.Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			var steps []course.Step
			for i, s := range samples {
				steps = append(steps, s.Step)
				u := s.Ours
				if u.CPU <= 0 || u.Wall <= 0 || u.Peak <= 0 || u.Requests <= 0 {
					t.Errorf("sample %d is %+v", i, s)
				}
				if idle := s.Step == course.Idle; idle != (s.Peer == nil) || idle != (u.Written == 0) {
					t.Errorf("sample %d is %+v", i, s)
				}
			}
			if !slices.Equal(steps, c.steps) {
				t.Errorf("the steps are %v, want %v", steps, c.steps)
			}
			if c.course.Settled > 0 && !slices.Equal(visible, []int{2*window + 1, 2*window + 2}) {
				t.Errorf("settled steps have %v partitions behind them, not a window and what follows it one at a time", visible)
			}
		})
	}
}
