package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/deltad/deltad/configs"
)

// Where a container's memory limit stands, cgroup v2 and v1.
var memoryLimits = [...]string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// fallbackMemory is the budget where nothing says more.
const fallbackMemory = 2 << 30

// Memory is limits.memory with auto resolved: 80 % of the cgroup's limit,
// else a default.
func Memory(c *configs.Config) int64 {
	if c.Limits.Memory > 0 {
		return int64(c.Limits.Memory)
	}
	for _, path := range memoryLimits {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// v2 says "max" for none, v1 a number beyond any machine.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && n < 1<<50 {
			return n / 10 * 8
		}
	}
	return fallbackMemory
}

// budget divides the process's limits: workers of each pipeline, bytes of its
// slice cache.
func budget(c *configs.Config) (workers int, cacheBytes int64) {
	workers = c.Limits.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0) // the runtime heeds the cgroup's CPU limit
	}
	return workers, Memory(c) / 4 / int64(max(1, len(c.Pipelines)))
}

// LimitHeap tells the runtime the memory budget, so that the collector works
// harder before the kernel ends the process. An explicit GOMEMLIMIT wins.
func LimitHeap(c *configs.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(Memory(c))
	}
}
