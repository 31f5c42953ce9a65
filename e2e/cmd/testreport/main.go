// Command testreport runs `go test -json` in one or more modules and says in
// few lines what came of it.
//
//	testreport [-modules DIR,DIR...] [-log FILE] -- [GO TEST FLAG OR PACKAGE...]
//
// It prints one line per package, then everything that the failed tests wrote,
// then the names of the skipped ones, and last the line
//
//	N passed, N failed
//
// Only tests without subtests of their own are counted. The exit code is 1 if a
// test failed, if a package did not build, if a run ended without saying why,
// if nothing ran at all, or if a test was skipped: a test that is skipped where
// everything it needs has been started is a test that nobody runs.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	modules := flag.String("modules", ".", "comma-separated directories of the modules to test")
	logPath := flag.String("log", "", "file to keep the whole output of go test -json in")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: testreport [-modules DIR,DIR...] [-log FILE] -- [GO TEST FLAG OR PACKAGE...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, strings.Split(*modules, ","), *logPath, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "testreport: %v\n", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run tests every module, prints the report and says whether all is well.
func run(ctx context.Context, modules []string, logPath string, args []string) (bool, error) {
	log := io.Discard
	if logPath != "" {
		f, err := os.Create(logPath)
		if err != nil {
			return false, fmt.Errorf("create log: %w", err)
		}
		defer f.Close()
		log = f
	}
	began := time.Now()
	r := newReport(os.Stdout)
	for _, dir := range modules {
		if err := goTest(ctx, dir, args, log, r); err != nil {
			return false, err
		}
	}
	r.finish(time.Since(began))
	return r.ok(), nil
}

// goTest runs go test in one module and feeds its events to the report.
func goTest(ctx context.Context, dir string, args []string, log io.Writer, r *report) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test in %s: %w", dir, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test in %s: %w", dir, err)
	}
	lines := bufio.NewReader(io.TeeReader(out, log))
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read output of go test in %s: %w", dir, err)
		}
	}
	r.endModule(dir, cmd.Wait())
	return nil
}
