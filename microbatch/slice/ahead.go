package slice

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// Small objects are fetched while those before them are decoded: a store
// answers in tens of milliseconds, a decoder needs about as many for what it
// gets. What is fetched and not decoded stays within a bound in bytes.

const (
	aheadBytes = 8 << 20 // fetched and not asked for, the object in hand apart
	aheadCalls = 4       // at a time
)

// fetched is a blob that may have been read before it is asked for.
type fetched struct {
	scan.Blob
	ready chan struct{} // closed when bytes and err are set; nil: it is not fetched ahead
	bytes []byte
	err   error
}

// ReadAll implements scan.Blob.
func (f *fetched) ReadAll(ctx context.Context) ([]byte, error) {
	if f.ready == nil {
		return f.Blob.ReadAll(ctx)
	}
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	return f.bytes, nil
}

// ReadRange implements scan.Blob.
func (f *fetched) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if f.ready != nil {
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
	return f.Blob.ReadRange(ctx, off, n)
}

func (f *fetched) wait(ctx context.Context) error {
	select {
	case <-f.ready:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ahead opens the objects one by one, in order, and fetches those to come. stop
// ends that and waits for it; it must be called.
func (s *Builder) ahead(ctx context.Context, objects []partition.Object) (next func() (scan.Blob, map[string]string), stop func()) {
	if len(objects) < 2 {
		return s.oneByOne(objects), func() {}
	}
	most := s.Limits.Whole
	if most <= 0 {
		most = scan.DefaultWhole
	}
	budget := int64(aheadBytes)
	if s.TableBytes > 0 {
		budget = min(budget, s.TableBytes/4)
	}
	ctx, cancel := context.WithCancel(ctx)
	room := semaphore.NewWeighted(budget)
	blobs := make([]*fetched, len(objects))
	paths := make([]map[string]string, len(objects))
	for i, o := range objects {
		f := &fetched{}
		f.Blob, paths[i] = s.Open(o)
		// The first is asked for at once.
		if i > 0 && o.Size > 0 && o.Size <= min(most, budget) {
			f.ready = make(chan struct{})
		}
		blobs[i] = f
	}
	fetch := slices.Clone(blobs)
	var all sync.WaitGroup
	calls := semaphore.NewWeighted(aheadCalls)
	all.Go(func() {
		for i, f := range fetch {
			if f.ready == nil {
				continue
			}
			if room.Acquire(ctx, objects[i].Size) != nil || calls.Acquire(ctx, 1) != nil {
				f.err = context.Cause(ctx)
				close(f.ready)
				continue
			}
			fetch[i] = nil // it is the caller's to keep
			all.Go(func() {
				defer close(f.ready)
				defer calls.Release(1)
				defer rescue.Into(&f.err, "read ahead "+f.Key())
				f.bytes, f.err = f.Blob.ReadAll(ctx)
			})
		}
	})
	at := -1
	next = func() (scan.Blob, map[string]string) {
		if at >= 0 && blobs[at].ready != nil {
			<-blobs[at].ready
			room.Release(objects[at].Size)
		}
		if at >= 0 {
			blobs[at] = nil // and what was fetched with it
		}
		at++
		return blobs[at], paths[at]
	}
	return next, func() { cancel(); all.Wait() }
}

// oneByOne opens the objects and fetches nothing.
func (s *Builder) oneByOne(objects []partition.Object) func() (scan.Blob, map[string]string) {
	at := -1
	return func() (scan.Blob, map[string]string) {
		at++
		return s.Open(objects[at])
	}
}
