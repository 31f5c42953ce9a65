//go:build linux

// Command tickbench measures what a step of deltad costs, beside DuckDB's
// recompute of the same window, and writes docs/performance.md.
//
//	tickbench [-o FILE] [-only REGEXP] [-repeats N] [-profile] ...
//
// Events are made once and kept in the cache directory. Every course is run
// with the real binary as a daemon; DuckDB runs in a process of its own. The
// two take turns, and repetitions of all courses follow each other, so that
// what else the machine does falls on both. What was measured is also kept as
// JSON, from which -from writes the document again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"

	"github.com/deltad/deltad/bench/profile"
	"github.com/deltad/deltad/bench/side"
)

func main() {
	if side.Child() {
		return
	}
	code, is := profile.Daemon()
	if !is {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		if err := run(ctx, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "tickbench:", err)
			code = 1
		}
		stop()
	}
	os.Exit(code) //nolint:forbidigo // main
}

// options are the flags.
type options struct {
	deltad, commit           string
	cache, only              string
	rows, settled            int
	repeats, ticks, profiled int
	threads                  int
	memory                   int64
	json, from, out, fresh   string
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("tickbench", flag.ContinueOnError)
	flags.StringVar(&o.deltad, "deltad", "", "the `binary` to measure; built from this checkout by default")
	flags.StringVar(&o.commit, "commit", "", "what the report says -deltad was built from; default: this checkout's `commit`")
	flags.StringVar(&o.cache, "cache", filepath.Join("..", ".cache", "bench"), "`directory` that events are kept in")
	flags.StringVar(&o.only, "only", ".", "run the courses whose names match this `regexp`")
	flags.IntVar(&o.rows, "rows", 14_000_000, "rows of a window, of each length")
	flags.IntVar(&o.repeats, "repeats", 3, "how often each course is run")
	flags.IntVar(&o.ticks, "ticks", 4, "steps of one new partition in each run; the first counts apart")
	flags.IntVar(&o.settled, "settled", 10, "`steps` that are measured after a whole window of steps, once for each course that has them; 0: none")
	flags.IntVar(&o.profiled, "profile", 10, "as -ticks, of one further run of the first course, to be profiled; 0: none")
	flags.IntVar(&o.threads, "threads", runtime.NumCPU(), "threads of each side")
	memory := flags.Int("memory", 2048, "MiB of each side")
	flags.StringVar(&o.json, "json", filepath.Join("..", ".cache", "bench", "last.json"), "`file` for what was measured")
	flags.StringVar(&o.from, "from", "", "measure nothing: take what these `files` of -json have, separated by commas")
	flags.StringVar(&o.fresh, "freshness", "", "`file` with what e2e/acceptance measured of freshness")
	flags.StringVar(&o.out, "o", "", "document to write; default: stdout")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	o.memory = int64(*memory) << 20
	if o.ticks > maxTicks || o.profiled > maxTicks || o.settled > maxTicks {
		return fmt.Errorf("-ticks, -profile and -settled: at most %d", maxTicks)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	r, err := o.result(ctx, only)
	if err != nil {
		return err
	}
	if o.out == "" {
		_, err := fmt.Fprint(os.Stdout, r.Markdown())
		return err
	}
	return r.Write(o.out)
}
