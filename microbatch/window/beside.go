package window

import (
	"sync"
	"sync/atomic"
)

// sideBySide does the jobs 0 to n-1 on so many goroutines, of which this is one,
// and returns when all are done. Those that begin first are the first. A panic of
// one of them is one of the caller's.
func sideBySide(workers, n int, do func(i int)) {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var (
		begun    atomic.Int64
		all      sync.WaitGroup
		panicked = make([]any, workers)
	)
	work := func(w int) {
		defer func() { panicked[w] = recover() }() // for who waits
		for i := begun.Add(1) - 1; i < int64(n); i = begun.Add(1) - 1 {
			do(int(i))
		}
	}
	for w := 1; w < workers; w++ {
		all.Go(func() { work(w) })
	}
	work(0)
	all.Wait()
	for _, v := range panicked {
		if v != nil {
			panic(v) //nolint:forbidigo // it is one of a job, passed on
		}
	}
}
