package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/deltad/deltad/watermark"
)

var errLater = errors.New("not in this store yet")

type (
	rebuilds struct{ c *core }
	bars     struct{ c *core }
	pins     struct{ c *core }
	configs  struct{ c *core }
)

func (rebuilds) CreateRebuild(context.Context, watermark.Rebuild) (r watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) OpenRebuild(context.Context, string) (r watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) StartRebuild(context.Context, watermark.Lease, string) (r watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) ProgressRebuild(context.Context, watermark.Lease, string, watermark.RebuildProgress) (bool, error) {
	return false, errLater
}

func (rebuilds) FinishRebuild(context.Context, watermark.Lease, string, watermark.RebuildResult) error {
	return errLater
}

func (rebuilds) CancelRebuild(context.Context, string, watermark.Change) (r watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) ApproveRebuild(context.Context, string, string, []string, watermark.Change) (r watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) RebuildByID(context.Context, string) (r watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) Rebuilds(context.Context, string, int, string) (r []watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) ReadyRebuild(context.Context, string) (r watermark.Rebuild, err error) {
	return r, errLater
}

func (rebuilds) ScheduleState(context.Context, string, string) (last, since time.Time, err error) {
	return last, since, errLater
}

func (bars) Bars(context.Context, string) (b []watermark.Bar, err error) { return b, errLater }

func (pins) Pin(context.Context, watermark.Pin) error { return errLater }

func (pins) Unpin(context.Context, string, string, string, string) error { return errLater }

func (pins) Pins(context.Context, string) (p []watermark.Pin, err error) { return p, errLater }

func (configs) RegisterConfig(context.Context, string, string, string) (mine, newest watermark.ConfigRegistration, err error) {
	return mine, newest, errLater
}

func (configs) NewestConfig(context.Context, string) (r watermark.ConfigRegistration, err error) {
	return r, errLater
}

func (configs) UnregisterConfig(context.Context, string, string, string) error { return errLater }
