// Package daemon wires deltad: from a configuration to open stores, pipelines,
// metrics, and a process that serves them. It decides nothing itself; commands
// (package app) and the admin endpoint (package admin) stand on it.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/postgres"
	"github.com/deltad/deltad/watermark/sqlite"
)

// Roles are what a process may lead.
const (
	RoleAll   = "all"
	RoleDelta = "delta" // only deltas
	RoleFull  = "full"  // only rebuilds of full indexes
)

// ErrRestart is the cause that ends Serve where the process goes on as another:
// its place in the order of configurations stays.
var ErrRestart = errors.New("planned restart")

// Options are what a process adds to the configuration. Zero values take the
// defaults.
type Options struct {
	Log *zap.Logger
	// Only names the one pipeline to work on; empty means all.
	Only string
	// Combiners are the combine fns there are; nil means combine.Builtins.
	Combiners map[string]combine.Builder
	NoCache   bool
	Build     string
	LeaseTTL  time.Duration
	// Instance names the process to people; empty means host and process id.
	Instance string
	// Replica names the process over restarts; empty means the host.
	Replica string
	// Role is what Serve does: RoleAll (or empty), RoleDelta or RoleFull.
	Role string
	// Grace is how long a run in hand may go on after a stop was asked for.
	Grace time.Duration
	// Mem are the stores that mem:// URLs name, for tests.
	Mem map[string]store.Store
	// Trace is told where each run stands, for tests.
	Trace func(step string)
}

// App is a configuration with everything opened that it names.
type App struct {
	Config   *configs.Config
	Log      *zap.Logger
	State    watermark.Store
	Pipes    []*Pipe
	Metrics  *Metrics
	Instance string

	options Options
	ids     *ids
	budget  budget
	gate    *gate
	makers  *makers
	// sliceDir keeps slices for the next process; nil without cache.dir.
	sliceDir *shelf.Dir

	mu struct {
		sync.Mutex
		serving map[string]*microbatch.Pipeline // those that Serve runs
		// standing is why a pipeline does not run; those that may have none.
		standing map[string]Standing
	}
}

// NewID returns a ULID that this process never returned before.
func (a *App) NewID() string { return a.ids.next() }

// Open opens the state store, migrates it, and opens every pipeline's stores.
// The configuration must be valid. Close it when done.
func Open(ctx context.Context, c *configs.Config, o Options) (*App, error) {
	a, err := Prepare(ctx, c, o)
	if err != nil {
		return nil, err
	}
	if err := a.migrate(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	for _, p := range a.Pipes {
		a.stand(p, nil)
	}
	return a, nil
}

// Prepare is Open without a word to any server: Serve then waits for those
// that do not answer yet. Only SQLite's file is opened. What fails here is the
// configuration, or the machine.
func Prepare(ctx context.Context, c *configs.Config, o Options) (*App, error) {
	a, err := prepare(c, o)
	if err != nil {
		return nil, err
	}
	if a.State, err = openState(ctx, c.State); err != nil {
		return nil, err
	}
	err = a.openCache()
	if err == nil {
		err = a.openPipes(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.State.Close())
	}
	return a, nil
}

// Look opens the sources and outputs alone, for what reads them and decides
// nothing: there is no state store, State is nil, and nothing is written.
func Look(ctx context.Context, c *configs.Config, o Options) (*App, error) {
	a, err := prepare(c, o)
	if err != nil {
		return nil, err
	}
	return a, a.openPipes(ctx)
}

func prepare(c *configs.Config, o Options) (*App, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Combiners == nil {
		o.Combiners = combine.Builtins()
	}
	if o.LeaseTTL == 0 {
		o.LeaseTTL = 30 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 25 * time.Second
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the host's name: %w", err)
	}
	if o.Instance == "" {
		o.Instance = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if o.Replica == "" {
		o.Replica = host
	}
	a := &App{Config: c, Log: o.Log, Metrics: NewMetrics(), options: o, ids: newIDs(), Instance: o.Instance}
	a.gate, a.makers = newGate(maxYield), &makers{}
	a.budget = divide(c)
	return a, nil
}

// openCache makes the directory of what is kept between processes.
func (a *App) openCache() error {
	dir := a.budget.dir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cache.dir: %w", err)
	}
	a.sliceDir = shelf.NewDir(filepath.Join(dir, "slices"), a.budget.shelf, a.Log)
	a.budget.spools.OnFull(a.sliceDir.MakeRoom)
	return nil
}

func (a *App) openPipes(ctx context.Context) error {
	for _, p := range a.Config.Pipelines {
		if a.options.Only != "" && p.Name != a.options.Only {
			continue
		}
		pipe, err := a.openPipe(ctx, p)
		if err != nil {
			return err
		}
		a.Pipes = append(a.Pipes, pipe)
	}
	if len(a.Pipes) == 0 {
		return fmt.Errorf("there is no pipeline %q in the configuration", a.options.Only)
	}
	for _, p := range a.Pipes {
		a.Metrics.Register(p.Config.Name)
		a.stand(p, &Standing{Waiting: StateStore})
	}
	return nil
}

func (a *App) migrate(ctx context.Context) error {
	if _, err := a.State.Migrate(ctx); err != nil {
		return fmt.Errorf("prepare the state store: %w", err)
	}
	return nil
}

// Pipe returns the pipeline of that name; with an empty name the only one.
func (a *App) Pipe(name string) (*Pipe, error) {
	if name == "" && len(a.Pipes) == 1 {
		return a.Pipes[0], nil
	}
	var names []string
	for _, p := range a.Pipes {
		if p.Config.Name == name {
			return p, nil
		}
		names = append(names, p.Config.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("name one of the pipelines %s with --pipeline", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("there is no pipeline %q; there are %s", name, strings.Join(names, ", "))
}

// Close lets go of the state store.
func (a *App) Close() error {
	if a.State == nil {
		return nil // see Look
	}
	return a.State.Close()
}

// Probe asks the output's store whether it keeps the conditions that
// publishing stands on.
func Probe(ctx context.Context, p *Pipe) error { return store.Probe(ctx, p.Out, "state/") }

// Migrate brings the state store's schema up to date and returns the names of
// what was applied and the version it has then.
func Migrate(ctx context.Context, c *configs.Config) (applied []string, version int, err error) {
	st, err := openState(ctx, c.State)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if applied, err = st.Migrate(ctx); err != nil {
		return nil, 0, err
	}
	version, err = st.SchemaVersion(ctx)
	return applied, version, err
}

func (a *App) serving(name string, p *microbatch.Pipeline) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.serving == nil {
		a.mu.serving = map[string]*microbatch.Pipeline{}
	}
	a.mu.serving[name] = p
}

// Poke makes this process's leader of a pipeline look for resets and requests
// at once. Where another process leads, its own next look finds them.
func (a *App) Poke(pipeline string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.mu.serving[pipeline]; p != nil {
		p.Poke()
	}
}

// openState opens the state store that a URL names.
func openState(ctx context.Context, c configs.State) (watermark.Store, error) {
	if path, ok := strings.CutPrefix(c.URL, "sqlite://"); ok {
		return sqlite.Open(ctx, sqlite.Options{Path: path})
	}
	o := postgres.Options{URL: c.URL}
	if c.PasswordFile != "" {
		o.Password = func(context.Context) (string, error) {
			secret, _, err := c.Password()
			return secret, err
		}
	}
	return postgres.Open(ctx, o)
}
