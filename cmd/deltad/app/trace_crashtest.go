//go:build crashtest

package app

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/deltad/deltad/cmd/deltad/daemon"
)

// What a build for crash tests takes from its environment. A step is one that
// the engine names; with ":n" it is the n-th time that this process comes to
// it, in whichever pipeline.
const (
	envCrashAt  = "DELTAD_CRASH_AT"  // the process kills itself there, as kill -9 would
	envStopAt   = "DELTAD_STOP_AT"   // it stops there, once, until somebody sends SIGCONT
	envLeaseTTL = "DELTAD_LEASE_TTL" // how long its leases live, instead of 30 s
)

// instrument makes a process that can be stopped at a named step.
func instrument(o *daemon.Options) error {
	if ttl := os.Getenv(envLeaseTTL); ttl != "" {
		d, err := time.ParseDuration(ttl)
		if err != nil {
			return fmt.Errorf("%s: %w", envLeaseTTL, err)
		}
		o.LeaseTTL = d
	}
	var points []*breakpoint
	for _, e := range []struct {
		name string
		sig  syscall.Signal
	}{{envCrashAt, syscall.SIGKILL}, {envStopAt, syscall.SIGSTOP}} {
		b, err := newBreakpoint(os.Getenv(e.name), e.sig)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if b != nil {
			points = append(points, b)
		}
	}
	if len(points) > 0 {
		o.Trace = func(step string) {
			for _, b := range points {
				b.pass(step)
			}
		}
	}
	return nil
}

// breakpoint is a step at which the process gets a signal.
type breakpoint struct {
	step string
	sig  syscall.Signal

	mu   sync.Mutex
	left int // times to come to the step, the fatal one included; 0: done
}

// newBreakpoint reads "step" or "step:n"; nothing is no breakpoint.
func newBreakpoint(text string, sig syscall.Signal) (*breakpoint, error) {
	if text == "" {
		return nil, nil
	}
	step, count, counted := strings.Cut(text, ":")
	b := &breakpoint{step: step, sig: sig, left: 1}
	if counted {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want a step and a count, such as planned:2, got %q", text)
		}
		b.left = n
	}
	return b, nil
}

// settle is longer than a signal to oneself takes to arrive.
const settle = 200 * time.Millisecond

// pass is the process coming to a step.
func (b *breakpoint) pass(step string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if step != b.step || b.left == 0 {
		return
	}
	if b.left--; b.left > 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), b.sig) // to oneself it cannot fail
	time.Sleep(settle)                   // nothing may happen between it and its effect
}
