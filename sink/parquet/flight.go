package parquet

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/deltad/deltad/microbatch/rescue"
)

// flight is a file on its way to the store, beside the writing of the next.
type flight struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

func fly(ctx context.Context, name string, put func(context.Context) error) *flight {
	ctx, cancel := context.WithCancel(ctx)
	f := &flight{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		defer rescue.Into(&f.err, "put "+name)
		f.err = put(ctx)
	}()
	return f
}

func (f *flight) wait() error {
	<-f.done
	f.cancel()
	return f.err
}

// hire makes the pagers of the workers.
func (w *Writer) hire() error {
	if len(w.pagers) > 0 {
		return nil
	}
	w.order = slices.Clone(w.leaves)
	for range max(1, min(w.o.Workers, len(w.leaves))) {
		p, err := newPager(w.o.Frames)
		if err != nil {
			return err
		}
		w.pagers = append(w.pagers, p)
	}
	return nil
}

// encode ends the page of every leaf. No leaf knows of another, so that workers may take them in any order.
func (w *Writer) encode() error {
	if len(w.pagers) == 1 || w.page.rows < w.size.pageRows/4 { // too little to share
		for _, l := range w.leaves {
			if err := w.pagers[0].page(l); err != nil {
				return err
			}
		}
		return nil
	}
	// What was long the last time goes first, lest it be left to one worker at the end.
	slices.SortStableFunc(w.order, func(a, b *leaf) int { return cmp.Compare(b.labour, a.labour) })
	var next atomic.Int32
	var all sync.WaitGroup
	errs := make([]error, len(w.order))
	work := func(p *pager) {
		for i := next.Add(1) - 1; int(i) < len(w.order); i = next.Add(1) - 1 {
			func() {
				defer rescue.Into(&errs[i], "encode column "+w.order[i].path)
				errs[i] = p.page(w.order[i])
			}()
		}
	}
	for _, p := range w.pagers[1:] {
		all.Go(func() { work(p) })
	}
	work(w.pagers[0])
	all.Wait()
	for _, l := range w.leaves { // the first in order of the schema
		if err := errs[slices.Index(w.order, l)]; err != nil {
			return err
		}
	}
	return nil
}
