// Package profile tells what the CPU time of a step goes to. The daemon is then
// this program itself, which is deltad with a profiler that is switched on and
// off from outside.
package profile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	pp "github.com/google/pprof/profile"

	"github.com/deltad/deltad/bench/report"
	"github.com/deltad/deltad/cmd/deltad/app"
)

// asDaemon is the variable that makes the program a deltad; its value is the
// directory of the profiles.
const asDaemon = "DELTAD_BENCH_PROFILES"

// Env is what a process of the program needs to be a deltad that writes its
// profiles to a directory.
func Env(dir string) []string { return []string{asDaemon + "=" + dir} }

// Daemon runs deltad's command line where the process was started for that.
func Daemon() (code int, is bool) {
	dir := os.Getenv(asDaemon)
	if dir == "" {
		return 0, false
	}
	go switching(dir)
	return app.Main(app.Options{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr}), true
}

// The files through which a profile is asked for and answered. deltad has
// meanings of its own for signals.
const (
	wanted  = "wanted"  // while it is there, a profile is made
	running = "running" // while one is
	ended   = "ended"   // it, whole
)

// look is how often either side looks for the other's files.
const look = 20 * time.Millisecond

// switching starts and ends profiles as the directory's files say.
func switching(dir string) {
	var file *os.File
	for ; ; time.Sleep(look) {
		_, err := os.Stat(filepath.Join(dir, wanted))
		switch want := err == nil; {
		case want && file == nil:
			if file, err = os.Create(filepath.Join(dir, running)); err == nil {
				err = pprof.StartCPUProfile(file)
			}
		case !want && file != nil:
			pprof.StopCPUProfile()
			if err = file.Close(); err == nil {
				err = os.Rename(file.Name(), filepath.Join(dir, ended))
			}
			file = nil
		default:
			err = nil
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
			return
		}
	}
}

// Start has the daemon that watches a directory profiled; the function it
// returns ends that and leaves the profile at a path.
func Start(ctx context.Context, dir string) (stop func(to string) error, err error) {
	want := filepath.Join(dir, wanted)
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		return nil, fmt.Errorf("start a profile: %w", err)
	}
	if err := await(ctx, filepath.Join(dir, running)); err != nil {
		return nil, fmt.Errorf("start a profile: %w", err)
	}
	return func(to string) error {
		if err := os.Remove(want); err != nil {
			return fmt.Errorf("end a profile: %w", err)
		}
		err := await(ctx, filepath.Join(dir, ended))
		if err == nil {
			err = os.Rename(filepath.Join(dir, ended), to)
		}
		if err != nil {
			return fmt.Errorf("end a profile: %w", err)
		}
		return nil
	}, nil
}

// await waits for a file to appear.
func await(ctx context.Context, path string) error {
	for range 500 {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(look):
		}
	}
	return fmt.Errorf("%s has not appeared", path)
}

// Stages sums profiles up by the stages of a step: how much CPU time they hold,
// and the share of each stage, the largest first. Shares below one in a
// hundred are put together.
func Stages(paths []string) (total time.Duration, stages []report.Stage, err error) {
	sums := map[string]int64{}
	var all int64
	for _, path := range paths {
		p, err := read(path)
		if err != nil {
			return 0, nil, err
		}
		for _, s := range p.Sample {
			ns := s.Value[len(s.Value)-1]
			sums[stageOf(s)] += ns
			all += ns
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		share := float64(sums[name]) / float64(max(1, all))
		if share < 0.01 {
			name = other
		}
		i := slices.IndexFunc(stages, func(s report.Stage) bool { return s.Name == name })
		if i < 0 {
			stages, i = append(stages, report.Stage{Name: name}), len(stages)
		}
		stages[i].Share += share
	}
	slices.SortStableFunc(stages, func(a, b report.Stage) int { return cmp.Compare(b.Share, a.Share) })
	return time.Duration(all), stages, nil
}

func read(path string) (*pp.Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read a profile: %w", err)
	}
	defer f.Close()
	p, err := pp.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", path, err)
	}
	return p, nil
}

const (
	module  = "github.com/deltad/deltad/"
	other   = "other"
	garbage = "garbage collection"
)

// rules name the stage that a function belongs to, by the beginning of its
// name. The innermost frame of a stack that a rule knows decides: packages
// without a rule (table, combine, tuple, codecs) belong to who calls them.
func rules() [][2]string {
	return [][2]string{
		{"runtime.gcBgMarkWorker", garbage},
		{"runtime.gcAssistAlloc", garbage},
		{"runtime.bgsweep", garbage},
		{"runtime.bgscavenge", garbage},
		{module + "sink/parquet.", "write"},
		{module + "microbatch/datafile.", "write"},
		{module + "microbatch/scan.", "decode"},
		{module + "microbatch/slice.", "aggregate"},
		{module + "microbatch/index.", "aggregate"},
		{module + "microbatch/window.", "merge"},
		{module + "microbatch/source.", "list"},
		{module + "store", "store"},
		{module + "watermark", "state store"},
		{module + "sink.", "publish"},
		{module + "microbatch.", "run"},
		{module + "cmd/deltad/admin.", "admin"},
	}
}

func stageOf(s *pp.Sample) string {
	for _, l := range s.Location { // innermost first
		for _, line := range l.Line {
			for _, r := range rules() {
				if strings.HasPrefix(line.Function.Name, r[0]) {
					return r[1]
				}
			}
		}
	}
	return other
}
