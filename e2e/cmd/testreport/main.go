// Command testreport runs `go test -json` in one step or more and says in few
// lines what came of it.
//
//	testreport [-log FILE] STEP [-- STEP...]
//	STEP: [NAME=VALUE...] MODULE[,MODULE...] [GO TEST FLAG OR PACKAGE...]
//
// A step is a go test in each of its modules, which are directories, with the
// variables in its environment; nothing comes from the cache. It prints one
// line per package, then everything that the failed tests wrote, then the names
// of the skipped ones, and last the line
//
//	N passed, N failed
//
// Only tests without subtests of their own are counted, in every step that they
// ran in. The exit code is 1 if a test failed, if a package did not build, if a
// run ended without saying why, if a step ran no test in one of its modules, or
// if a test was skipped: a test that is skipped where everything it needs has
// been started is a test that nobody runs.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	logPath := flag.String("log", "", "file to keep the whole output of go test -json in")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: testreport [-log FILE] STEP [-- STEP...]\n"+
			"STEP: [NAME=VALUE...] MODULE[,MODULE...] [GO TEST FLAG OR PACKAGE...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	steps, err := stepsOf(flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "testreport: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, steps, *logPath)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "testreport: %v\n", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// step is a go test in some modules.
type step struct {
	env     []string // NAME=VALUE
	modules []string
	args    []string
}

func (s step) String() string {
	return strings.Join(slices.Concat(s.env, []string{strings.Join(s.modules, ",")}, s.args), " ")
}

// stepsOf parses the command line.
func stepsOf(args []string) ([]step, error) {
	var out []step
	for more := true; more; {
		own := args
		end := slices.Index(args, "--")
		if more = end >= 0; more {
			own, args = args[:end], args[end+1:]
		}
		var s step
		for len(own) > 0 && strings.Contains(own[0], "=") && !strings.HasPrefix(own[0], "-") {
			s.env, own = append(s.env, own[0]), own[1:]
		}
		if len(own) == 0 || strings.HasPrefix(own[0], "-") {
			return nil, errors.New("a step names no module")
		}
		s.modules, s.args = strings.Split(own[0], ","), own[1:]
		out = append(out, s)
	}
	return out, nil
}

// run tests every step, prints the report and says whether all is well.
func run(ctx context.Context, steps []step, logPath string) (bool, error) {
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
	for _, s := range steps {
		at := time.Now()
		fmt.Printf("--- %s\n", s)
		for _, dir := range s.modules {
			if err := s.goTest(ctx, dir, log, r); err != nil {
				return false, err
			}
		}
		fmt.Printf("--- took %s\n", time.Since(at).Round(time.Second))
	}
	r.finish(time.Since(began))
	return r.ok(), nil
}

// goTest runs go test in one module and feeds its events to the report.
func (s step) goTest(ctx context.Context, dir string, log io.Writer, r *report) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-count=1"}, s.args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), s.env...)
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
