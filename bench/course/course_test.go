package course_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
	const window, ticks, late = 8, 2, 3
	set, err := events.Make(t.Context(), t.TempDir(), events.Shape{Window: window, Further: course.Further(window, ticks, true), Rows: 14_000, Files: 2}, late)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []course.Course{
		{Name: "string keys", Key: "item", Fields: course.Plain()},
		{Name: "integer keys, sketches", Key: "item_id", Fields: course.Sketched()},
	} {
		t.Run(c.Name, func(t *testing.T) {
			c.Set, c.Ticks, c.Jump, c.Late = set, ticks, true, late
			samples, err := c.Run(t.Context(), course.Place{Binary: binary, Scratch: t.TempDir(), Threads: 2, Memory: 512 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if len(samples) != len(course.Steps()) {
				t.Fatalf("%d samples, want %d", len(samples), len(course.Steps()))
			}
			for i, s := range samples {
				u := s.Ours
				if s.Step != course.Steps()[i] || u.CPU <= 0 || u.Wall <= 0 || u.Peak <= 0 || u.Requests <= 0 {
					t.Errorf("sample %d is %+v", i, s)
				}
				if idle := s.Step == course.Idle; idle != (s.Peer == nil) || idle != (u.Written == 0) {
					t.Errorf("sample %d is %+v", i, s)
				}
			}
		})
	}
}
