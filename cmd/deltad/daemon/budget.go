package daemon

import (
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/deltad/deltad/cmd/deltad/cgroup"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/spool"
)

// fallbackMemory is the budget where nothing says more.
const fallbackMemory = 2 << 30

// machine is the file system that says what the cgroup allows.
func machine() fs.FS { return os.DirFS("/") }

// memory is limits.memory with auto resolved: 80 % of what the cgroup
// allows, else a default.
func memory(c *configs.Config, root fs.FS) int64 {
	if c.Limits.Memory > 0 {
		return int64(c.Limits.Memory)
	}
	if n, ok := cgroup.Memory(root); ok {
		return n / 10 * 8
	}
	return fallbackMemory
}

// budget is how the process's limits are divided.
type budget struct {
	// workers is how many slices of a pipeline are built at a time.
	workers int
	// spools is what slices and digests of all pipelines hold in memory.
	spools *spool.Budget
	// table and scan bound one slice being built; scan.Ahead is what all of the
	// process share of objects that are read before they are needed.
	table int64
	scan  scan.Limits
	// window is what a pipeline's window may always hold between runs (its
	// accumulators, its documents and the compressed pages of its pane), build what
	// the slices of a pipeline take while they are built: half of that the window
	// may have until they do.
	window, build int64
	// slices bounds those of each pipeline that a process keeps, in memory or in
	// nameless files of dir; shelf those of all that stay in dir for the next.
	slices int64
	shelf  int64
	dir    string
}

// divide gives an eighth of the memory to what is kept, as much to windows, an
// eighth to the tables of slices being built (which hold twice that while they
// are written out), a quarter to the decoders that feed them, with what lies idle
// until the next slice, and a thirty-second to objects that are read ahead of
// those; the rest is for merging, writing and the runtime. Half of the share of
// tables and decoders a window may have too, until they need it: most steps build
// one small slice.
func divide(c *configs.Config) budget {
	total, pipelines := memory(c, machine()), int64(max(1, len(c.Pipelines)))
	b := budget{workers: c.Limits.Workers, spools: spool.NewBudget(total / 8), dir: c.Cache.Dir}
	if b.workers == 0 {
		b.workers = runtime.GOMAXPROCS(0) // the runtime heeds the cgroup's CPU limit
	}
	builders := pipelines
	for _, p := range c.Pipelines {
		if p.Full != nil {
			builders++ // a rebuild goes on beside the deltas
		}
	}
	share := total / 4 / (int64(b.workers) * builders)
	b.table = max(share/2, 1<<20)
	b.scan.RowGroup = min(max(share, 16<<20), 512<<20)
	b.scan.Ahead = scan.NewAhead(min(max(total/32, 1<<20), 256<<20))
	b.scan.Page = int(min(max(share/2, 8<<20), 64<<20))
	b.window = total / 8 / pipelines
	b.build = min(total/2/builders, int64(b.workers)*(2*b.table+b.scan.RowGroup))
	b.slices = int64(c.Cache.Size) / pipelines
	if b.dir != "" {
		b.shelf = int64(c.Cache.Size) / 2
		b.slices /= 2
	}
	return b
}

// LimitHeap tells the runtime seven eighths of the memory budget (what is read
// of the binary counts too, and the limit is a soft one), so that the collector works
// harder before the kernel ends the process. An explicit GOMEMLIMIT wins.
func LimitHeap(c *configs.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory(c, machine()) / 8 * 7)
	}
}
