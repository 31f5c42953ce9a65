package source

import (
	"container/heap"
	"context"
	"time"

	"github.com/deltad/deltad/partition"
)

// search finds the newest where byte order is not time order: best first over directories, by the latest label that each may hold. A
// directory is listed only if it may hold something newer than every partition found visible; levels are listed whole.
func (r *run) search(ctx context.Context, base string, _ *time.Time) (*time.Time, error) {
	q := frontier{{}}
	for len(q) > 0 {
		d := heap.Pop(&q).(candidate).dir
		if d.Level == r.layout.Depth() {
			visible, err := r.visible(ctx, base, d)
			if err != nil {
				return nil, err
			}
			if visible {
				start := r.layout.Floor(d.Label())
				return &start, nil
			}
			continue
		}
		err := r.directories(ctx, base, d, "", func(kids []partition.Dir, _ string, _ bool) bool {
			for _, kid := range kids {
				if order, some := r.layout.Latest(kid, r.last); some {
					heap.Push(&q, candidate{kid, order})
				}
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// candidate is a directory and a bound on the labels below it.
type candidate struct {
	dir   partition.Dir
	order int64
}

// frontier is a heap, latest first; at equal bounds the deeper directory, then the smaller path, so that the order of calls is fixed.
type frontier []candidate

func (f frontier) Len() int      { return len(f) }
func (f frontier) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f frontier) Less(i, j int) bool {
	a, b := f[i], f[j]
	if a.order != b.order {
		return a.order > b.order
	}
	if a.dir.Level != b.dir.Level {
		return a.dir.Level > b.dir.Level
	}
	return a.dir.Path < b.dir.Path
}
func (f *frontier) Push(x any) { *f = append(*f, x.(candidate)) }
func (f *frontier) Pop() any {
	old := *f
	last := old[len(old)-1]
	*f = old[:len(old)-1]
	return last
}
