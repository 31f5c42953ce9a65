package app

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/cmd/deltad/admin"
	"github.com/deltad/deltad/cmd/deltad/daemon"
)

// withAdmin serves the pipelines and, if one is configured, the admin
// endpoint, until ctx ends. The endpoint opens at once: what the pipelines
// still wait for is said there.
func (c *cli) withAdmin(ctx context.Context, a *daemon.App) error {
	listen := a.Config.Admin.Listen
	if listen == "" {
		return a.Serve(ctx)
	}
	token, warning, err := a.Config.Admin.Token()
	if err != nil {
		return usage(err)
	}
	if warning != "" {
		a.Log.Warn(warning)
	}
	srv := admin.New(admin.Options{App: a, Token: token, Log: a.Log, Build: "deltad " + Version})
	l, err := srv.Listen(ctx, listen)
	taken := errors.Is(err, syscall.EADDRINUSE)
	switch {
	case errors.Is(err, admin.ErrOpen):
		return usage(err)
	case err != nil && !taken:
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Serve(ctx) })
	g.Go(func() error {
		if taken {
			l = waitForPort(ctx, a.Log, func() (net.Listener, error) { return srv.Listen(ctx, listen) }, err)
		}
		if l == nil {
			return nil
		}
		return srv.Serve(ctx, l)
	})
	return g.Wait()
}

// portEvery is how often a port that is taken is tried again.
const portEvery = 2 * time.Second

// waitForPort listens as soon as a port is free. Fresh data does not wait for
// it: a second daemon on this machine, or the predecessor of a planned
// restart, holds it for now. It returns nil when ctx ends.
func waitForPort(ctx context.Context, log *zap.Logger, listen func() (net.Listener, error), err error) net.Listener {
	log.Error("admin endpoint cannot listen yet; the pipelines run without it", zap.Error(err))
	ticker := time.NewTicker(portEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if l, err := listen(); err == nil {
				return l
			}
		}
	}
}
