//go:build crashtest

package app

import (
	"syscall"
	"testing"
)

func TestBreakpoint(t *testing.T) {
	for _, c := range []struct {
		name, text string
		steps      []string
		left       int
		bad        bool
	}{
		{name: "another step", text: "planned", steps: []string{"data", "current"}, left: 1},
		{name: "the first time", text: "reset planned", steps: []string{"planned", "reset planned"}, left: 0},
		{name: "the third time", text: "data:3", steps: []string{"data", "data"}, left: 1},
		{name: "once only", text: "data:2", steps: []string{"data", "data", "data"}, left: 0},
		{name: "no count", text: "data:", bad: true},
		{name: "a count of nothing", text: "data:0", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := newBreakpoint(c.text, syscall.Signal(0)) // the signal that does nothing
			if (err != nil) != c.bad {
				t.Fatalf("%q: %v", c.text, err)
			}
			if c.bad {
				return
			}
			for _, s := range c.steps {
				b.pass(s)
			}
			if b.left != c.left {
				t.Errorf("%d times left, want %d", b.left, c.left)
			}
		})
	}
}
