package daemon

import (
	"fmt"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/deltad/deltad/configs"
)

// TestSharesAreNoMoreThanTheMemory: what all parts may hold at a time is what the
// comment of divide says, and leaves a fifth for merging, writing and the runtime.
func TestSharesAreNoMoreThanTheMemory(t *testing.T) {
	for _, memory := range []int64{128 << 20, 256 << 20, 2 << 30, 64 << 30} {
		for _, workers := range []int{1, 2, 8} {
			for _, pipelines := range []int{1, 3} {
				t.Run(fmt.Sprintf("%dMiB/%d/%d", memory>>20, workers, pipelines), func(t *testing.T) {
					c := &configs.Config{Limits: configs.Limits{Memory: configs.Size(memory), Workers: workers}}
					for range pipelines {
						c.Pipelines = append(c.Pipelines, &configs.Pipeline{})
					}
					b := divide(c)
					builders := int64(workers * pipelines)
					if share := memory / 4 / builders; share < 16<<20 {
						return // the floors of a worker are more than its share
					}
					tables, decoders := 2*builders*b.table, builders*b.scan.RowGroup
					if building := int64(pipelines) * b.build; building > tables+decoders {
						t.Errorf("windows may share %d bytes with slices that take but %d", building, tables+decoders)
					}
					kept, windows := memory/8, int64(pipelines)*b.window
					if all := kept + windows + tables + decoders + b.scan.Ahead.Most(); all > memory/5*4 {
						t.Errorf("%d of %d bytes: %d kept, %d for windows, %d for tables, %d for decoders, %d ahead",
							all, memory, kept, windows, tables, decoders, b.scan.Ahead.Most())
					}
					if b.scan.Ahead.Most() < 1<<20 {
						t.Errorf("%d bytes ahead", b.scan.Ahead.Most())
					}
				})
			}
		}
	}
}

// TestB26MemoryIsTheCgroups: without a number of its own the budget is four
// fifths of what the cgroup allows, wherever it says so.
func TestB26MemoryIsTheCgroups(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tt := range []struct {
		name string
		set  int64
		root fstest.MapFS
		want int64
	}{
		{"v2", 0, fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/memory.max": file("536870912\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n")}, 536870912 / 10 * 8},
		{"v1", 0, fstest.MapFS{"proc/self/cgroup": file("4:memory:/x\n"), "sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("1073741824\n")}, 1073741824 / 10 * 8},
		{"a container", 0, fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("268435456\n")}, 268435456 / 10 * 8},
		{"no limit", 0, fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n")}, 2 << 30},
		{"no cgroups", 0, fstest.MapFS{}, 2 << 30},
		{"set", 128 << 20, fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("268435456\n")}, 128 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &configs.Config{Limits: configs.Limits{Memory: configs.Size(tt.set)}}
			if got := memory(c, tt.root); got != tt.want {
				t.Errorf("%d bytes, want %d", got, tt.want)
			}
		})
	}
}

// TestB26HeapIsLimited: the runtime is told, unless the environment told it.
func TestB26HeapIsLimited(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	c := &configs.Config{Limits: configs.Limits{Memory: 512 << 20}}
	for _, tt := range []struct {
		name, env string
		want      int64
	}{
		{"by the budget", "", 448 << 20},
		{"by the environment", "300MiB", before},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", tt.env)
			debug.SetMemoryLimit(before)
			LimitHeap(c)
			if got := debug.SetMemoryLimit(-1); got != tt.want {
				t.Errorf("the heap's limit is %d, want %d", got, tt.want)
			}
		})
	}
}
