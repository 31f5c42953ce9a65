package microbatch_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/window"
)

// fuse makes the n-th call of one method of a combine fn's columns panic, once.
type fuse struct {
	method string
	after  int // calls that go through; less than 0 is never
}

func (f *fuse) call(method string) {
	if f.method != method || f.after < 0 {
		return
	}
	if f.after--; f.after < 0 {
		panic("a combine fn of somebody's own, in " + method)
	}
}

// fragile is a combine fn with a fuse.
type fragile struct {
	combine.Fn
	fuse *fuse
}

func (f fragile) NewColumn() combine.Column {
	f.fuse.call("NewColumn")
	c := fragileColumn{f.Fn.NewColumn(), f.fuse}
	if _, ok := c.Column.(combine.Inverter); ok {
		return fragileInverter{c}
	}
	return c
}

type fragileColumn struct {
	combine.Column
	fuse *fuse
}

func (c fragileColumn) Grow(n int) {
	c.fuse.call("Grow")
	c.Column.Grow(n)
}

func (c fragileColumn) Reset() {
	c.fuse.call("Reset")
	c.Column.Reset()
}

func (c fragileColumn) Add(in *combine.Input) error {
	c.fuse.call("Add")
	return c.Column.Add(in)
}

func (c fragileColumn) Merge(g uint32, acc []byte) error {
	c.fuse.call("Merge")
	return c.Column.Merge(g, acc)
}

func (c fragileColumn) AppendAcc(dst []byte, g uint32) []byte {
	c.fuse.call("AppendAcc")
	return c.Column.AppendAcc(dst, g)
}

func (c fragileColumn) Extract(g uint32, dst *column.Vector) error {
	c.fuse.call("Extract")
	return c.Column.Extract(g, dst)
}

func (c fragileColumn) Bytes() int64 {
	c.fuse.call("Bytes")
	return c.Column.Bytes()
}

type fragileInverter struct{ fragileColumn }

func (c fragileInverter) Unmerge(g uint32, acc []byte) error {
	c.fuse.call("Unmerge")
	return c.Column.(combine.Inverter).Unmerge(g, acc)
}

// fragileFns are the built-in fns, each with the fuse.
func fragileFns(f *fuse) map[string]combine.Builder {
	fns := combine.Builtins()
	for _, name := range []string{"count", "sum", "latest"} {
		b := fns[name]
		build := b.Build
		b.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) {
			fn, err := build(p, args)
			if err != nil {
				return nil, err
			}
			return fragile{fn, f}, nil
		}
		fns[name] = b
	}
	return fns
}

// TestB28PanicInAnyMethod: whatever method of a combine fn panics, at whichever
// of its calls, in a run that fills a window or in one that moves it, that run
// fails alone, and the pane of the next is that of a pipeline that met no panic:
// what is kept between runs is not taken half done.
func TestB28PanicInAnyMethod(t *testing.T) {
	const partitions, size = 10, 6 * time.Minute
	spec := clicks()
	for i := range spec.Fields[:4] {
		spec.Fields[i].Over = size
	}
	clock := func(i int) string { return at("03:00").Add(time.Duration(i) * time.Minute).Format("15:04") }
	// history steps through the partitions and returns the documents of each
	// pane; at the given step the fuse is lit, and it ends two steps later.
	history := func(t *testing.T, lit int, f fuse) (panes []map[string]string, blown bool) {
		t.Helper()
		live := &fuse{after: -1}
		b := newBench(t, benchOptions{spec: spec, rule: window.Rule{Size: size, Longest: size, Max: 4 * size, OnGap: window.Skip}, change: func(s *microbatch.Settings) {
			program, err := index.Compile(spec, fragileFns(live))
			if err != nil {
				t.Fatal(err)
			}
			s.Program, s.Workers = program, 1
		}})
		for i := range partitions {
			if lit >= 0 && i > lit+2 {
				break
			}
			var rows []string
			for k := range 3 { // of few keys in each: some come, change and leave, most stay as they are
				rows = append(rows, row(fmt.Sprint("item-", (2*i+k)%12), clock(i), 1+i*10+k, fmt.Sprint("title ", i)))
			}
			b.put(clock(i), "a.ndjson", rows...)
			if i != lit {
				b.step(clock(i), microbatch.Advanced)
				panes = append(panes, b.docs())
				continue
			}
			*live = f
			r := b.p.Once(t.Context(), at(clock(i)), microbatch.StepOptions{})
			if blown = live.after < 0; blown {
				if r.Outcome != microbatch.Failed || !errors.Is(r.Err, microbatch.ErrPanic) {
					t.Fatalf("outcome %s, error %v, want the panic", r.Outcome, r.Err)
				}
				b.step(clock(i), microbatch.Advanced)
			}
			live.method = ""
			panes = append(panes, b.docs())
		}
		b.noPlannedRuns()
		return panes, blown
	}
	want, _ := history(t, -1, fuse{})
	for _, method := range []string{"NewColumn", "Grow", "Reset", "Add", "Merge", "Unmerge", "AppendAcc", "Extract", "Bytes"} {
		t.Run(method, func(t *testing.T) {
			panicked := 0
			for _, lit := range []int{0, 7} {
				for _, after := range []int{0, 5} {
					panes, blown := history(t, lit, fuse{method, after})
					if !blown {
						break // there are not so many calls
					}
					panicked++
					for i := range panes {
						if !maps.Equal(panes[i], want[i]) {
							t.Errorf("a panic in call %d of step %d: pane %d is %v, want %v", after, lit, i, panes[i], want[i])
						}
					}
				}
			}
			if panicked == 0 {
				t.Error("it is never called")
			}
		})
	}
}
