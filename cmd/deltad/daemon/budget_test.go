package daemon

import (
	"fmt"
	"testing"

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
