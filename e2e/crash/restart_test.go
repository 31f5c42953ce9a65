//go:build integration

package crash_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// replaceBinary puts another build where a daemon's binary is, as an update
// does: by a rename.
func replaceBinary(t *testing.T, at, by string) {
	t.Helper()
	body, err := os.ReadFile(by)
	if err == nil {
		err = os.WriteFile(at+".new", body, 0o755)
	}
	if err == nil {
		err = os.Rename(at+".new", at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rss is the resident memory of a process in MiB.
func rss(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("no VmRSS of process %d", pid)
	return 0
}

// descriptors counts a process' open files.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestPlannedRestartUnderLoad restarts a daemon ten times by exec while
// partitions come in five times a second, and its binary on disk is replaced
// by another build each time. No trigger is missed (a busy machine may cost
// one or two), and memory does not grow.
//
//nolint:tparallel // it measures, and so runs before those that are side by side
func TestPlannedRestartUnderLoad(t *testing.T) {
	const restarts = 10
	for _, p := range []string{"file", "versitygw"} {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, placeOf(t, p), options{window: "{size: 30m}", over: "30m", restart: "{every: 24h, jitter: 0s, mode: exec}", leaseTTL: 30 * time.Second})
			w := r.watch("p")
			bin := r.dir + "/deltad"
			replaceBinary(t, bin, first)
			load := r.produce("p")
			d := r.start(bin, nil)
			var before, after []int // MiB
			var gaps []time.Duration
			for i := range restarts {
				panes := len(d.said("pane published"))
				await(t, 30*time.Second, "two panes of this life", func() bool { return len(d.said("pane published")) >= panes+2 })
				before = append(before, rss(t, d.pid))
				build := firstVersion
				if i%2 == 0 {
					build = otherVersion
					replaceBinary(t, bin, other)
				} else {
					replaceBinary(t, bin, first)
				}
				d.Signal(syscall.SIGUSR2)
				await(t, 30*time.Second, "the next life", func() bool { return len(d.said("started")) == i+2 })
				if got := d.said("started")[i+1].Build; got != "deltad "+build {
					t.Errorf("life %d is of build %q, want %q", i+2, got, build)
				}
				at := d.said("started")[i+1].at
				await(t, 30*time.Second, "a pane of the next life", func() bool {
					for _, l := range d.said("pane published") {
						if l.at.After(at) {
							return true
						}
					}
					return false
				})
				after = append(after, rss(t, d.pid))
			}
			fds := descriptors(t, d.pid)
			load.stop()
			r.caughtUp(w, load.count())
			missed := 0
			panes := d.said("pane published")
			for i := 1; i < len(panes); i++ {
				gap := panes[i].at.Sub(panes[i-1].at)
				gaps = append(gaps, gap)
				// A pane at every trigger: two that are two triggers apart have
				// missed one.
				if gap >= 2*trigger {
					missed++
				}
			}
			d.stop()
			t.Logf("%d restarts, %d panes, at most %s apart, %d triggers missed; RSS before each %v MiB, after %v MiB; %d descriptors",
				restarts, len(panes), maxOf(gaps).Round(10*time.Millisecond), missed, before, after, fds)
			if missed > restarts/5 {
				t.Errorf("%d triggers missed over %d restarts, want none", missed, restarts)
			}
			if n := len(after); after[n-1] > 2*after[0]+16 {
				t.Errorf("memory grows over restarts: %v MiB", after)
			}
			if len(d.said("run failed")) > 0 {
				t.Errorf("failed runs: %v", d.said("run failed"))
			}
		})
	}
}
