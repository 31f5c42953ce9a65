package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// proc is one server program: its command line, its log file and, while it
// runs, its process.
type proc struct {
	name    string
	dir     string   // working directory, removed by cleanup
	log     string   // stdout and stderr of every start, appended
	strays  []string // files it leaves outside dir, removed by cleanup
	command func() *exec.Cmd

	mu struct {
		sync.Mutex
		cmd  *exec.Cmd
		done chan struct{} // closed when the process has been waited for
	}
}

func newProc(name, dir string, command func() *exec.Cmd) *proc {
	return &proc{name: name, dir: dir, log: filepath.Join(dir, "log"), command: command}
}

// start launches the program and returns at once; it does not wait for it to
// be ready.
func (p *proc) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.name, err)
	}
	defer log.Close()
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit status of a server that is killed says nothing
		close(done)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.cmd, p.mu.done = cmd, done
	return nil
}

// exited returns a channel that is closed once the process is gone.
func (p *proc) exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.done
}

// signal sends sig to the process, to it alone, never to a group.
func (p *proc) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.cmd != nil {
		_ = p.mu.cmd.Process.Signal(sig) // already gone is what we want
	}
}

// end sends sig, waits up to grace for the process to leave, then kills it.
func (p *proc) end(sig syscall.Signal, grace time.Duration) {
	done := p.exited()
	if done == nil {
		return
	}
	p.signal(sig)
	select {
	case <-done:
	case <-time.After(grace):
		p.signal(syscall.SIGKILL)
		<-done
	}
}

// cleanup removes the server's files.
func (p *proc) cleanup() error {
	var errs []error
	for _, path := range append(p.strays, p.dir) {
		if err := os.RemoveAll(path); err != nil {
			errs = append(errs, fmt.Errorf("remove files of %s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

// ready asks probe again and again until it answers nil. It gives up when the
// process exits or ctx ends; the error carries the end of the log.
func (p *proc) ready(ctx context.Context, probe func(context.Context) error) error {
	last := errors.New("no attempt was made")
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := probe(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // the reason, not the deadline that ended the waiting
		}
		select {
		case <-p.exited():
			return fmt.Errorf("%s exited before it was ready: %w\n%s", p.name, last, p.logTail(4096))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w\n%s", p.name, context.Cause(ctx), last, p.logTail(4096))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// logTail returns about the last n bytes of the log, from a line's start.
func (p *proc) logTail(n int64) string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > n {
		if _, err := f.Seek(-n, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	s := string(b)
	if int64(len(s)) >= n {
		if _, rest, ok := strings.Cut(s, "\n"); ok {
			s = rest
		}
	}
	return s
}

// freePorts returns n ports of 127.0.0.1 that nothing listens on. They lie
// below the range the kernel takes client ports from (32768 and up on Linux):
// a server that was killed must find its port still free when it restarts.
func freePorts(ctx context.Context, n int) ([]int, error) {
	const low, high, tries = 15000, 32000, 1000
	var (
		ports []int
		held  []net.Listener // until all are found, so that none is found twice
		lc    net.ListenConfig
	)
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for range tries {
		if len(ports) == n {
			return ports, nil
		}
		port := low + rand.IntN(high-low)
		l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held, ports = append(held, l), append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports in [%d, %d) of 127.0.0.1: %d tries were not enough", n, low, high, tries)
}
