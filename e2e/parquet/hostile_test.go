//go:build integration

package parquet_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/binary"
)

const (
	mib = 1 << 20
	// budget is the least limits.memory there is.
	budget = 64 * mib
	// beyond is what a hostile object may take more than a good one.
	beyond = 64 * mib
)

// deltad is the binary under test, set once by TestMain.
var deltad string

func TestMain(m *testing.M) {
	os.Exit(binary.Rig{Name: "parquet", Builds: map[*string]binary.Build{&deltad: {}}}.Main(m))
}

// hostile is an object that tries to take memory.
type hostile struct {
	name   string
	file   string // its last part tells how it is compressed
	fields string // of the index
	write  func(t *testing.T, f *os.File)
	wants  []string // parts of the error, besides the object's name
}

func (h hostile) format() string {
	return strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(h.file, ".gz"), ".zst")), ".")
}

// TestHostileObjects runs one step of the real binary on each: it fails, says
// which object it was, and its peak of resident memory is at most 64 MiB above
// that of a step on a small good object of the same format, whatever the
// budget.
func TestHostileObjects(t *testing.T) {
	base := map[string]int64{}
	for _, format := range []string{"parquet", "ndjson", "csv"} {
		good := hostile{name: "good", file: "good." + format, write: goodObject(format)}
		code, log, peak := step(t, good)
		if code != 0 {
			t.Fatalf("%s: exit %d\n%s", good.file, code, log)
		}
		base[format] = peak
		t.Logf("%-60s %4d MiB", good.file, peak/mib)
	}
	var most int64
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			code, log, peak := step(t, h)
			over := peak - base[h.format()]
			most = max(most, over)
			t.Logf("%4d MiB, %4d MiB above a good one", peak/mib, over/mib)
			if over > beyond {
				t.Errorf("peak of %d MiB, a good object has %d MiB", peak/mib, base[h.format()]/mib)
			}
			if code != 1 {
				t.Errorf("exit %d, want 1\n%s", code, log)
			}
			for _, want := range append([]string{h.file}, h.wants...) {
				if !strings.Contains(log, want) {
					t.Errorf("%q is not in\n%s", want, log)
				}
			}
			if strings.Contains(log, "malformed: runtime error") || strings.Contains(log, "goroutine ") {
				t.Errorf("a panic:\n%s", log)
			}
		})
	}
	t.Logf("at most %d MiB above a good object of the format", most/mib)
}

// step gives a daemon the object alone and lets it take one step. It returns
// the exit code, all that it said, and the peak of its resident memory.
func step(t *testing.T, h hostile) (code int, log string, peak int64) {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in/2026/11/30/03/04")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(in, h.file))
	if err != nil {
		t.Fatal(err)
	}
	h.write(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
limits: {memory: %[2]d, workers: 2}
cache: {dir: "%[1]s/cache", size: 20GiB}
pipelines:
  m:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: %[3]s}
    window: {size: 1h}
    index: {key: [k], fields: {n: {count: "*"}%[4]s}}
    output: {url: "file://%[1]s/out"}
`, dir, budget, h.format(), h.fields)
	config := filepath.Join(dir, "deltad.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(deltad, "run", "-c", config, "--once", "--now", "2026-11-30T03:05:30Z", "-o", "json")
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=") // the binary's own
	var out strings.Builder
	cmd.Stdout = &out
	p := binary.Start(t, cmd)
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for {
		peak = max(peak, highWater(status))
		select {
		case <-p.Done:
			if peak == 0 { // it was over before it was looked at
				return step(t, h)
			}
			return cmd.ProcessState.ExitCode(), out.String() + p.Log(), peak
		case <-limit:
			t.Fatalf("not done after two minutes\n%s", p.Log())
		case <-tick.C:
		}
	}
}

// highWater reads the peak of resident memory from /proc; 0 when the process
// has ended. The rusage of a child will not do: it begins with the memory of
// the process that started it.
func highWater(status string) int64 {
	text, err := os.ReadFile(status)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return kib << 10
}
