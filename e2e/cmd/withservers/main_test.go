//go:build integration

package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/servers"
)

// asCommand makes the test binary behave as withservers itself.
const asCommand = "WITHSERVERS_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// withservers returns the command, with a temporary directory of its own.
func withservers(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	env, err := servers.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	// PostgreSQL runs as another user and must be able to enter.
	for _, dir := range []string{tmp, filepath.Dir(tmp)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), exe, append([]string{"-bin", env.BinDir}, args...)...)
	c.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+tmp)
	c.Stderr = os.Stderr
	return c
}

func TestExitCodeIsTheCommands(t *testing.T) {
	t.Parallel()
	c := withservers(t, "sh", "-c", `test -n "$DELTAD_TEST_PG" && exit 7`)
	if err := c.Run(); c.ProcessState.ExitCode() != 7 {
		t.Errorf("exit code %d, want that of the command, 7 (%v)", c.ProcessState.ExitCode(), err)
	}
}

// Whatever ends withservers, its servers end too.
func TestServersEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		sig   syscall.Signal
		clean bool // temporary files are removed
	}{
		{"interrupt", syscall.SIGINT, true},
		{"terminate", syscall.SIGTERM, true},
		{"kill", syscall.SIGKILL, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := withservers(t, "sh", "-c", `echo "$DELTAD_TEST_PG,$DELTAD_TEST_S3"; exec sleep 60`)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatalf("read where the servers are: %v", err)
			}
			hosts := addresses(t, line)
			t.Cleanup(func() { removeDeadSockets(t) })
			for _, h := range hosts {
				if !listens(h) {
					t.Errorf("nothing listens on %s", h)
				}
			}
			if err := c.Process.Signal(tt.sig); err != nil {
				t.Fatal(err)
			}
			state, err := c.Process.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if state.ExitCode() == 0 {
				t.Error("exit code 0 after a signal")
			}
			for _, h := range hosts {
				for end := time.Now().Add(15 * time.Second); listens(h); time.Sleep(20 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("the server on %s outlived withservers", h)
					}
				}
			}
			if tt.clean {
				left, err := filepath.Glob(filepath.Join(strings.TrimPrefix(c.Env[len(c.Env)-1], "TMPDIR="), "*"))
				if err != nil || len(left) > 0 {
					t.Errorf("files left behind: %v, err %v", left, err)
				}
				// The command has ended too, so its pipe is closed.
				if _, err := io.ReadAll(out); err != nil && !strings.Contains(err.Error(), "closed") {
					t.Errorf("read to the end of the command's output: %v", err)
				}
			}
		})
	}
}

// addresses returns host:port of each server that line tells of.
func addresses(t *testing.T, line string) []string {
	t.Helper()
	var all []string
	for part := range strings.SplitSeq(strings.TrimSpace(line), ",") {
		if name, rest, ok := strings.Cut(part, "="); ok && !strings.Contains(name, ":") {
			part = rest
		}
		u, err := url.Parse(part)
		if err != nil || u.Port() == "" {
			t.Fatalf("read %q of %q: port missing, err %v", part, line, err)
		}
		all = append(all, u.Host)
	}
	if len(all) != 3 {
		t.Fatalf("read %q: %d servers, want 3", line, len(all))
	}
	return all
}

// removeDeadSockets removes what SeaweedFS leaves in /tmp when nobody is there
// to tidy up after it.
func removeDeadSockets(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("/tmp/seaweedfs-*-grpc-*.sock")
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		c, err := net.Dial("unix", f)
		if err == nil {
			_ = c.Close() // alive, another's
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(f)
		}
	}
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
