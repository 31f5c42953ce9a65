package oracle

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// TestHistories lives random histories and holds every version that readers
// see against the oracle.
func TestHistories(t *testing.T) {
	first, last := setting(t, "ORACLE_FIRST", 1), setting(t, "ORACLE_HISTORIES", usual)
	last += first - 1
	if seed := setting(t, "ORACLE_SEED", 0); seed > 0 {
		first, last = seed, seed
	}
	empty := template(t)
	// Histories are small and many: collected less often they take a quarter less.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var mu sync.Mutex
	total, ran := map[string]int{}, 0
	var failed atomic.Int32 // after ten of them there is enough to read
	t.Run("all", func(t *testing.T) {
		workers := uint64(runtime.GOMAXPROCS(0))
		for worker := range min(workers, last-first+1) {
			t.Run(fmt.Sprintf("worker-%d", worker), func(t *testing.T) {
				t.Parallel()
				for seed := first + worker; seed <= last && failed.Load() < 10; seed += workers {
					counts := map[string]int{}
					ok := t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
						h := newHistory(t, seed, empty, counts)
						h.run()
						if first == last {
							for _, line := range h.log {
								t.Log(line)
							}
						}
					})
					if !ok {
						failed.Add(1)
					}
					mu.Lock()
					ran++
					for k, n := range counts {
						total[k] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d histories", ran)
	for _, k := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%8d %s", total[k], k)
	}
}

// setting is a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n < 1 {
		t.Fatalf("%s: want a number from 1, got %q", name, v)
	}
	return n
}
