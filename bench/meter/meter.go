// Package meter reads what a process cost: CPU time to the nanosecond and the
// most memory it had, from the kernel's own accounts. Linux only.
package meter

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the CPU time that a process has used since it started, user and
// system, of all its threads.
func CPU(pid int) (time.Duration, error) {
	var ts unix.Timespec
	// The number of a process's CPU clock is made of its id, see
	// clock_getcpuclockid(3): the id inverted above three bits, of which 2 is
	// "what the scheduler gave it".
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Peak is the most resident memory, in bytes, that a process had since it
// started or since ForgetPeak.
func Peak(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read the memory of process %d: it has none any more", pid)
}

// ForgetPeak makes the memory that a process has now its peak.
func ForgetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("forget the peak memory of process %d: %w", pid, err)
	}
	return nil
}

// ErrBusy says that a process did not come to rest.
var ErrBusy = errors.New("it does not come to rest")

// Rest waits until a process uses next to no CPU for a while, so that what it
// did before is not charged to what it does next: at most limit, which then is
// ErrBusy. On a busy machine a process may have to wait for its turn, hence
// more than one look.
func Rest(pid int, limit time.Duration) error {
	const look, quiet, looks = 100 * time.Millisecond, 2 * time.Millisecond, 3
	was, err := CPU(pid)
	still := 0
	for began := time.Now(); err == nil && still < looks; {
		if time.Since(began) > limit {
			return fmt.Errorf("wait %s for process %d: %w", limit, pid, ErrBusy)
		}
		time.Sleep(look)
		var is time.Duration
		if is, err = CPU(pid); is-was < quiet {
			still++
		} else {
			still = 0
		}
		was = is
	}
	return err
}

// Usage is what something cost.
type Usage struct {
	CPU, Wall time.Duration
	Peak      int64 // bytes of memory
	Requests  int64 // of object stores
	Read      int64 // bytes read from them
	Written   int64 // bytes offered to them
}
