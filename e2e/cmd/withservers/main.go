// Command withservers runs a command with real servers to test against: a
// throw-away PostgreSQL and two S3 servers, versitygw and SeaweedFS.
//
//	withservers [-bin DIR] COMMAND [ARG...]
//
// The command finds them in DELTAD_TEST_PG, DELTAD_TEST_S3 and so on (package
// servers names them all). Its exit code becomes withservers' own. When it
// ends, or withservers is interrupted or told to terminate, the servers are
// stopped by their process ids and their data is removed. Should the command
// fail, the ends of the servers' logs follow.
//
// Without a command it prints the variables as shell exports and keeps the
// servers running until Ctrl-C: for running single tests from another shell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/deltad/deltad/e2e/servers"
)

// grace is how long the command may take to leave after a signal.
const grace = 20 * time.Second

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: withservers [-bin DIR] [COMMAND [ARG...]]\n")
		flag.PrintDefaults()
	}
	bin := flag.String("bin", ".cache/bin", "directory of the binaries versitygw and weed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code, err := run(ctx, *bin, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "withservers: %v\n", err)
	}
	os.Exit(code)
}

// run starts the servers, runs the command and stops the servers. It returns
// the exit code.
func run(ctx context.Context, bin string, command []string) (code int, err error) {
	began := time.Now()
	set, err := servers.StartAll(ctx, bin)
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := set.Stop(); stopErr != nil {
			code, err = max(code, 1), errors.Join(err, stopErr)
		}
	}()
	fmt.Fprintf(os.Stderr, "withservers: postgres, versitygw and seaweedfs are up after %s\n", time.Since(began).Round(100*time.Millisecond))
	if len(command) == 0 {
		for _, kv := range set.Env() {
			fmt.Printf("export %q\n", kv)
		}
		<-ctx.Done()
		return 0, nil
	}
	code, err = runCommand(ctx, command, set.Env())
	if code != 0 && ctx.Err() == nil {
		fmt.Fprint(os.Stderr, set.LogTails(2048))
	}
	return code, err
}

// runCommand runs the command in a process group of its own, so that a signal
// to us can be passed on to all its descendants: `go test` does not pass them
// on to its test binaries.
func runCommand(ctx context.Context, command, env []string) (int, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = servers.ProcAttr(syscall.SIGKILL, nil)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		// Whatever of the group is left; usually nothing, which is no error.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), nil
	case ctx.Err() != nil:
		return 130, fmt.Errorf("run %s: %w", command[0], context.Cause(ctx))
	default:
		return 1, fmt.Errorf("run %s: %w", command[0], err)
	}
}
