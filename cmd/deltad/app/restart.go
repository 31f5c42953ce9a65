package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/watermark"
)

// restartAfter is how long the process lives: restart.every and an even share
// of the jitter, so that replicas do not restart together. 0 is for ever.
func restartAfter(r configs.Restart, random *rand.Rand) time.Duration {
	if r.Every <= 0 {
		return 0
	}
	d := r.Every
	if r.Jitter > 0 {
		d += time.Duration(random.Int64N(int64(r.Jitter)))
	}
	return d
}

// restartMode resolves auto: a supervisor that watches this very process
// starts it again, anywhere else the process does it itself.
func restartMode(mode string, pid int, env func(string) (string, bool)) string {
	if mode != configs.RestartAuto {
		return mode
	}
	if _, kubernetes := env("KUBERNETES_SERVICE_HOST"); kubernetes || pid == 1 {
		return configs.RestartExit
	}
	return configs.RestartExec
}

// runDaemon is the daemon's life: it starts, serves until a stop is asked for
// or its time is up (or SIGUSR2 says that it is), finishes the runs in hand,
// gives its leases back, and in the latter case goes on as the binary now on
// disk. Before a planned restart it waits for a rebuild under way, for another
// restart.every at most; a second SIGUSR2 does not wait.
func (c *cli) runDaemon(ctx context.Context, o daemon.Options) error {
	if o.Replica == "" {
		replica, err := c.replica()
		if err != nil {
			return failed(err)
		}
		o.Replica = replica
	}
	a, err := c.openPatiently(ctx, o)
	if err != nil {
		return err
	}
	if o.Role == daemon.RoleFull && !anyFull(a.Pipes) {
		return usage(errors.Join(errors.New("--role: full: no pipeline has a full section"), a.Close()))
	}
	life, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	restart := sync.OnceFunc(func() {
		go func() {
			a.Retire(life, cmp.Or(a.Config.Restart.Every, longestRetirement))
			stop(daemon.ErrRestart)
		}()
	})
	after := restartAfter(a.Config.Restart, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(os.Getpid()))))
	if after > 0 {
		timer := time.AfterFunc(after, restart)
		defer timer.Stop()
	}
	asked := 0
	defer onSignal(func() {
		if asked++; asked > 1 {
			stop(daemon.ErrRestart)
		}
		restart()
	}, syscall.SIGUSR2)()
	a.Log.Info("started", zap.String("build", "deltad "+Version), zap.Int("pid", os.Getpid()), zap.Duration("restart_in", after))
	err = c.withAdmin(life, a)
	if cerr := a.Close(); err == nil {
		err = cerr
	}
	if err != nil || !errors.Is(context.Cause(life), daemon.ErrRestart) {
		return failed(err)
	}
	if restartMode(a.Config.Restart.Mode, os.Getpid(), os.LookupEnv) == configs.RestartExit {
		a.Log.Info("planned restart: exiting for the supervisor")
		return nil
	}
	a.Log.Info("planned restart: running the binary on disk")
	return failed(reexec())
}

// longestRetirement bounds the wait for a rebuild where restarts have no
// schedule.
const longestRetirement = 24 * time.Hour

// onSignal calls do at each signal; what it returns ends the watch.
func onSignal(do func(), sig os.Signal) (end func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, sig)
	go func() {
		for {
			select {
			case <-signals:
				do()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// replica names this daemon over restarts: the host, and the file, as there may
// be several daemons on one.
func (c *cli) replica() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host's name: %w", err)
	}
	path, err := filepath.Abs(c.config)
	if err != nil {
		return "", fmt.Errorf("find the configuration's path: %w", err)
	}
	return host + ":" + path, nil
}

func anyFull(pipes []*daemon.Pipe) bool {
	return slices.ContainsFunc(pipes, func(p *daemon.Pipe) bool { return p.Config.Full != nil })
}

// reexec replaces the process by the binary now on disk, with the same
// arguments and environment. It returns only on failure.
func reexec() error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the binary for a planned restart: %w", err)
	}
	return fmt.Errorf("run %s for a planned restart: %w", path, syscall.Exec(path, os.Args, os.Environ()))
}

// openPatiently opens what the configuration names without a word to any
// server; SQLite's file may be out of reach for a while, as a disk that is full.
func (c *cli) openPatiently(ctx context.Context, o daemon.Options) (*daemon.App, error) {
	log, err := c.logger()
	if err != nil {
		return nil, usage(err)
	}
	var a *daemon.App
	again := func(err error) bool { return errors.Is(err, watermark.ErrUnavailable) }
	err = daemon.Patiently(ctx, log.With(zap.String("doing", "open the state store")), again, func() (err error) {
		a, err = c.openBy(ctx, daemon.Prepare, o)
		return err
	})
	return a, err
}
