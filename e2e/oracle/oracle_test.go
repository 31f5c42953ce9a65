package oracle

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// TestHistories lives random histories and holds every version that readers
// see against the oracle.
func TestHistories(t *testing.T) {
	first, last := uint64(1), uint64(number1(t, "ORACLE_HISTORIES", 300))
	if seed := number1(t, "ORACLE_SEED", 0); seed > 0 {
		first, last = uint64(seed), uint64(seed)
	}
	empty := template(t)
	var mu sync.Mutex
	total, ran := map[string]int{}, 0
	t.Run("all", func(t *testing.T) {
		workers := uint64(runtime.GOMAXPROCS(0))
		for worker := range min(workers, last-first+1) {
			t.Run(fmt.Sprintf("worker-%d", worker), func(t *testing.T) {
				t.Parallel()
				for seed := first + worker; seed <= last; seed += workers {
					counts := map[string]int{}
					t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
						h := newHistory(t, seed, empty, counts)
						h.run()
						if first == last {
							for _, line := range h.log {
								t.Log(line)
							}
						}
					})
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

func number1(t *testing.T, name string, otherwise int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s: want a number from 1, got %q", name, v)
	}
	return n
}
