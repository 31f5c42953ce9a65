package binary

import (
	"bytes"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/servers"
)

// logTail is how much of a process' log a failed test shows.
const logTail = 8000

// Process is a running deltad. It is killed when its test ends, and with the
// test process should that end first.
type Process struct {
	Cmd *exec.Cmd
	// Done is closed when the process has ended; Cmd.ProcessState says how.
	Done chan struct{}

	t   *testing.T
	log struct {
		sync.Mutex
		bytes.Buffer
	}
}

// Start starts a command and keeps its stderr, which is copied to each of
// also. A failed test shows the end of it.
func Start(t *testing.T, cmd *exec.Cmd, also ...io.Writer) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Done: make(chan struct{}), t: t}
	cmd.Stderr = io.MultiWriter(append([]io.Writer{p}, also...)...)
	cmd.SysProcAttr = servers.ProcAttr(syscall.SIGKILL, nil)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait() // how it ended is asked of ProcessState
	}()
	t.Cleanup(func() {
		p.Kill()
		if log := p.Log(); t.Failed() {
			t.Logf("the end of what %v said:\n%s", cmd.Args, log[max(0, len(log)-logTail):])
		}
	})
	return p
}

// Write takes the process' stderr.
func (p *Process) Write(b []byte) (int, error) {
	p.log.Lock()
	defer p.log.Unlock()
	return p.log.Write(b)
}

// Log is what the process wrote to stderr so far.
func (p *Process) Log() string {
	p.log.Lock()
	defer p.log.Unlock()
	return p.log.String()
}

// Signal sends a signal; one that has ended gets none.
func (p *Process) Signal(sig syscall.Signal) { _ = p.Cmd.Process.Signal(sig) } // that it has ended is what some tests want

// Kill is kill -9, and waits for the end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Done
}

// Wait waits for the process to end by itself and returns its exit code; -1
// is a signal. One that does not fails the test.
func (p *Process) Wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.Done:
		return p.Cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("process %d has not ended after %s", p.Cmd.Process.Pid, limit)
		return 0
	}
}

// Stop is SIGTERM; the process must leave with exit code 0 within the limit.
// It returns how long that took.
func (p *Process) Stop(limit time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(limit); code != 0 {
		p.t.Errorf("process %d ended with %v after SIGTERM", p.Cmd.Process.Pid, p.Cmd.ProcessState)
	}
	return time.Since(began)
}
