//go:build integration

// Package memory holds the real binary to limits.memory.
package memory

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/deltad/deltad/e2e/binary"
)

// deltad is the binary under test, set once by TestMain.
var deltad string

func TestMain(m *testing.M) {
	os.Exit(binary.Rig{Name: "memory", Builds: map[*string]binary.Build{&deltad: {}}}.Main(m))
}

const (
	mib    = 1 << 20
	budget = 128 * mib
	// beyond is what a process may take over its budget.
	beyond = 64 * mib

	partitions = 60
	rows       = 45_000 // of a partition
	title      = 240    // bytes
)

// TestWindowTenTimesTheBudget folds a window whose slices take more than ten
// times limits.memory, from nothing, in one process that stays within it: a
// title alone stands in a slice once as a value and once in the record that
// orders it. So do a rebuild of the full index over the same objects, and the
// run that promotes it, which joins the accumulators of every key.
func TestWindowTenTimesTheBudget(t *testing.T) {
	if size := int64(partitions) * rows * 2 * title; size < 9*budget {
		t.Fatalf("the window has only %d MiB", size/mib)
	}
	dir := t.TempDir()
	for p := range partitions {
		write(t, filepath.Join(dir, "in/2026/11/30/03", fmt.Sprintf("%02d", p)), uint64(p))
	}
	file := filepath.Join(dir, "deltad.yaml")
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
limits: {memory: %[2]d, workers: 2}
cache: {dir: "%[1]s/cache", size: 20GiB}
pipelines:
  m:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: csv}
    window: {size: 1h}
    index: {key: [k], fields: {n: {count: "*", over: 1h}, v: {sum: v, over: 1h}, s: {latest: s}}}
    full: {schedule: ""}
    output: {url: "file://%[1]s/out"}
`, dir, budget)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"a run of the delta", []string{"run", "--once", "--now", "2026-11-30T03:59:30Z"}, "advanced"},
		{"a rebuild", []string{"rebuild"}, "candidate"},
		{"the promotion", []string{"base", "promote"}, "promoted"},
	} {
		if !t.Run(c.name, func(t *testing.T) { within(t, dir, c.want, append(c.args, "-c", file, "-o", "json")) }) {
			return
		}
	}
}

// within runs the binary and holds it to the budget.
func within(t *testing.T, dir, want string, args []string) {
	cmd := exec.Command(deltad, args...)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=") // the binary's own
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var line struct {
		Outcome   string
		State     string
		Documents int64
	}
	if err := json.Unmarshal(out, &line); err != nil || line.Outcome != want && line.State != want {
		t.Fatalf("%s, %v", out, err)
	}
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	if runtime.GOOS == "linux" {
		peak *= 1024
	}
	t.Logf("%d documents of %d rows, %s of CPU, peak %d MiB under a budget of %d MiB", line.Documents, partitions*rows, cmd.ProcessState.UserTime(), peak/mib, budget/mib)
	if peak > budget+beyond {
		t.Errorf("peak memory %d MiB, allowed are %d", peak/mib, (budget+beyond)/mib)
	}
	// Slices stay for the next process, whole ones; nothing else does.
	err = filepath.WalkDir(filepath.Join(dir, "cache"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !(strings.HasPrefix(path, filepath.Join(dir, "cache", "slices")+"/") && strings.HasSuffix(path, ".run")) {
			t.Errorf("%s is left in the cache directory", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, dir string, seed uint64) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "a.csv"))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, mib)
	r := rand.New(rand.NewPCG(seed, 1))
	_, _ = fmt.Fprintln(w, "k,v,s") // Flush reports what went wrong
	for range rows {
		_, _ = fmt.Fprintf(w, "%d,%d,%016x%s\n", r.IntN(1_000_000), r.IntN(1000), r.Uint64(), strings.Repeat("t", title-16))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
