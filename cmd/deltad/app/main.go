// Package app is deltad's command line. Programs that bring combine fns of
// their own call Main with them:
//
//	func main() {
//		os.Exit(app.Main(app.Options{
//			Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr,
//			Combiners: []app.Combiner{{Builder: mine.Builder()}},
//		}))
//	}
//
// Such a program is deltad with more combine fns: every command knows them,
// and none runs if one of them is not lawful. See Combiner, docs/combiners.md
// and cmd/deltad/examples.
//
// What every command promises: results on stdout, in text or with -o json
// alone; logs and progress on stderr. Exit codes: 0 done (also idle), 1
// failed, 2 usage or configuration, 3 standby.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/combine"
)

// Exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitStandby = 3
)

// Options are what a program gives to Main.
type Options struct {
	Args           []string
	Stdout, Stderr io.Writer
	// Combiners are combine fns of the program's own, beside the built-in
	// ones. They are checked before any command runs.
	Combiners []Combiner
}

// Main runs one command line and returns the exit code. The first SIGINT or
// SIGTERM asks for a stop, a second one ends the process at once.
func Main(o Options) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal has its default effect
	return Run(ctx, o)
}

// Run is Main without signals.
func Run(ctx context.Context, o Options) int {
	out := &results{w: o.Stdout}
	c := &cli{out: out, errs: o.Stderr}
	var err error
	if c.fns, err = register(o.Combiners); err != nil {
		fmt.Fprintln(o.Stderr, "deltad:", err)
		return exitUsage
	}
	root := c.root()
	root.SetArgs(o.Args)
	root.SetOut(out)
	root.SetErr(o.Stderr)
	err = root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = failed(fmt.Errorf("write the result: %w", out.err))
	}
	if err == nil {
		return exitDone
	}
	var coded *exitError
	if errors.As(err, &coded) {
		if coded.err != nil {
			fmt.Fprintln(o.Stderr, "deltad:", coded.err)
		}
		return coded.code
	}
	fmt.Fprintln(o.Stderr, "deltad:", err)
	return exitUsage // what cobra itself refuses is usage
}

// results is stdout, and remembers that a write failed: a result that did not
// arrive is no success, whichever command wrote it.
type results struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (r *results) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.w.Write(b)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// exitError is an error with its exit code; a nil err was reported already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// failed gives an error the exit code of a failure, unless it has one.
func failed(err error) error {
	var coded *exitError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{exitFailed, err}
}

func usage(err error) error { return &exitError{exitUsage, err} }

// usages is all that is wrong with a command line, nil where nothing is.
func usages(wrong ...error) error {
	if err := errors.Join(wrong...); err != nil {
		return usage(err)
	}
	return nil
}

// cli is what the commands share.
type cli struct {
	out, errs io.Writer
	fns       map[string]combine.Builder

	config   string
	output   string
	pipeline string
	logLevel string
}

// Version is the build's version, set by the linker.
var Version = "0.1.0"

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use: "deltad", Short: "deltad keeps a delta index fresh, one bounded step at a time",
		SilenceUsage: true, SilenceErrors: true, Version: Version,
	}
	f := root.PersistentFlags()
	f.StringVarP(&c.config, "config", "c", "deltad.yaml", "configuration file")
	f.StringVarP(&c.output, "output", "o", "text", "output format: text or json")
	f.StringVar(&c.pipeline, "pipeline", "", "work on this pipeline only")
	f.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if c.output != "text" && c.output != "json" {
			return usage(fmt.Errorf("--output: must be text or json, got %q", c.output))
		}
		return nil
	}
	root.AddCommand(
		c.runCommand(), c.checkCommand(), c.planCommand(), c.statusCommand(), c.runsCommand(), c.partitionsCommand(),
		c.getCommand(), c.lsCommand(), c.gcCommand(), c.recoverCommand(), c.adoptCommand(), c.migrateCommand(), c.versionCommand(), c.objectCommand(),
		c.demoCommand(), c.healthCommand(), c.diffCommand(), c.explainCommand(), c.verifyCommand(),
	)
	root.AddCommand(c.controlCommands()...)
	return root
}

// group is a command that is nothing without one of others: what is misspelt or
// left out is a wrong command line, and not a wish for help that ends with 0.
func group(name, short string, others ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name + " COMMAND", Short: short, DisableFlagsInUseLine: true}
	cmd.AddCommand(others...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, o := range cmd.Commands() {
			names = append(names, o.Name())
		}
		list := strings.Join(names, ", ")
		if len(args) == 0 {
			return usage(fmt.Errorf("%s: name one of the commands %s", cmd.CommandPath(), list))
		}
		return usage(fmt.Errorf("unknown command %q for %q; there are %s", args[0], cmd.CommandPath(), list))
	}
	return cmd
}

// load reads the configuration; whatever is wrong with it is a usage error.
func (c *cli) load() (*configs.Config, error) {
	cfg, err := configs.LoadValid(c.config, os.LookupEnv, c.fnNames())
	if err != nil {
		err = c.named(err)
	}
	if wrong := errors.Join(append([]error{err}, c.uncompiled(cfg, err)...)...); wrong != nil {
		return nil, usage(wrong)
	}
	return cfg, nil
}

// uncompiled are the problems of indexes that only compiling them shows, such
// as those of expressions, in what problems found before do not reach. cfg may
// be nil.
func (c *cli) uncompiled(cfg *configs.Config, found error) (wrong []error) {
	if cfg == nil {
		return nil
	}
	var problems configs.Problems
	errors.As(found, &problems)
	for _, p := range cfg.Pipelines {
		at := "pipelines." + p.Name + "."
		sound, ok := soundPart(p, at, problems)
		if !ok {
			continue
		}
		if _, err := daemon.Compile(sound, c.fns); err != nil {
			for _, e := range flatten(err) {
				wrong = append(wrong, fmt.Errorf("%s%w", at, e))
			}
		}
	}
	return wrong
}

// soundPart is the pipeline without the fields in which there are problems and
// the expr fields that may read them, whose problems would follow from those.
// It is not ok where a problem reaches further in the index.
func soundPart(p *configs.Pipeline, at string, problems configs.Problems) (_ *configs.Pipeline, ok bool) {
	broken := map[string]bool{}
	for _, o := range problems {
		switch field, inField := strings.CutPrefix(o.Path, at+"index.fields."); {
		case inField:
			field, _, _ = strings.Cut(field, ".")
			broken[field] = true
		case strings.HasPrefix(o.Path+".", at+"index.") || strings.HasPrefix(at, o.Path+"."):
			return nil, false
		}
	}
	sound := *p
	sound.Index.Fields = nil
	for _, f := range p.Index.Fields {
		for _, name := range slices.Sorted(maps.Keys(broken)) {
			broken[f.Name] = broken[f.Name] || strings.Contains(f.Expr, name)
		}
		if !broken[f.Name] {
			sound.Index.Fields = append(sound.Index.Fields, f)
		}
	}
	return &sound, true
}

// named says how to name a configuration that is not where it was looked for.
func (c *cli) named(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (-c names the configuration file)", err)
	}
	return err
}

// open loads the configuration and opens what it names.
func (c *cli) open(ctx context.Context, o daemon.Options) (*daemon.App, error) {
	return c.openBy(ctx, daemon.Open, o)
}

func (c *cli) openBy(ctx context.Context, by func(context.Context, *configs.Config, daemon.Options) (*daemon.App, error), o daemon.Options) (*daemon.App, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	daemon.LimitHeap(cfg)
	if o.Log, err = c.logger(); err != nil {
		return nil, usage(err)
	}
	o.Only, o.Combiners, o.Build = c.pipeline, c.fns, "deltad "+Version
	if err := instrument(&o); err != nil {
		return nil, usage(err)
	}
	if _, known := cfg.Pipeline(c.pipeline); c.pipeline != "" && !known {
		return nil, usage(fmt.Errorf("--pipeline: there is no pipeline %q in %s", c.pipeline, c.config))
	}
	a, err := by(ctx, cfg, o)
	return a, failed(err)
}
