package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/watermark"
)

// RebuildRequest asks for a rebuild of the full index.
type RebuildRequest struct {
	Change
	// Cut is the newest partition it is to include; zero is the watermark of the
	// live pane.
	Cut time.Time
}

// Rebuild queues a rebuild for whoever gets the lease of rebuilds. While one is
// queued or running it is a RebuildOpen refusal with that one's id.
func (p Pipe) Rebuild(ctx context.Context, r RebuildRequest) (watermark.Rebuild, error) {
	if err := p.hasFull(); err != nil {
		return watermark.Rebuild{}, err
	}
	ch, err := p.change(r.Change)
	if err != nil {
		return watermark.Rebuild{}, err
	}
	if r.ID == "" || !p.queued(ctx, ch.ID) {
		if err := p.cut(ctx, r.Cut); err != nil {
			return watermark.Rebuild{}, err
		}
	}
	rb, err := p.app.State.CreateRebuild(ctx, watermark.Rebuild{
		ID: ch.ID, Pipeline: p.name, Cause: watermark.RebuildManual, Cut: r.Cut, Actor: ch.Actor, Reason: ch.Reason,
	})
	var open *watermark.RebuildOpenError
	switch {
	case errors.As(err, &open):
		return rb, &Refusal{Slug: RebuildOpen, Detail: fmt.Sprintf("rebuild %s of %s is queued or running already", open.ID, p.name), ID: open.ID}
	case errors.Is(err, watermark.ErrConflict):
		return rb, refuse(KeyReused, "idempotency_key", "%s is the id of another rebuild", ch.ID)
	case err != nil:
		return rb, fmt.Errorf("queue a rebuild of %s: %w", p.name, err)
	}
	return rb, nil
}

// queued says whether the rebuild of an id is there already: asked for again,
// what it was checked for may hold no longer.
func (p Pipe) queued(ctx context.Context, id string) bool {
	_, err := p.app.State.RebuildByID(ctx, id)
	return err == nil
}

// cut checks what a rebuild is asked to include, so that one that cannot be made
// is refused at once and not hours later.
func (p Pipe) cut(ctx context.Context, cut time.Time) error {
	row, err := p.Row(ctx)
	if err != nil {
		return err
	}
	if row.Watermark.IsZero() {
		return refuse(NoPane, "", "pipeline %s has published nothing yet: a full index is cut at the watermark of a pane", p.name)
	}
	if cut.IsZero() {
		return nil
	}
	c, since := p.pipe.Source.Layout().Calendar, p.pipe.Config.Full.Since
	switch {
	case !c.IsStart(cut):
		return refuse(NotAStart, "cut", "no partition starts at %s; the nearest are %s and %s", text(cut), text(c.Floor(cut)), text(c.Next(cut)))
	case cut.After(row.Watermark):
		return refuse(InTheFuture, "cut", "%s lies beyond the watermark %s: no pane could be made over the base", text(cut), text(row.Watermark))
	case cut.Before(since):
		return refuse(InvalidField, "cut", "%s lies before full.since %s", text(cut), text(since))
	}
	return nil
}

func (p Pipe) hasFull() error {
	if p.pipe.Config.Full == nil {
		return refuse(NoFull, "", "pipeline %s has no full index: its configuration has no full section", p.name)
	}
	return nil
}

// Make makes a rebuild in this process, under the lease of rebuilds. ErrHeld of
// package watermark says that somebody else makes it. A rebuild that does not
// pass the gate is no error.
func (p Pipe) Make(ctx context.Context, rb watermark.Rebuild, observe func(full.Report)) error {
	r, err := p.pipe.Rebuilder(observe)
	if err != nil {
		return err
	}
	_, err = r.Run(ctx, rb)
	return err
}

// RebuildByID finds a rebuild of this pipeline.
func (p Pipe) RebuildByID(ctx context.Context, id string) (watermark.Rebuild, error) {
	rb, err := p.app.State.RebuildByID(ctx, id)
	if errors.Is(err, watermark.ErrNotFound) || err == nil && rb.Pipeline != p.name {
		return watermark.Rebuild{}, refuse(NotFound, "id", "pipeline %s has no rebuild %q", p.name, clip(id))
	}
	if err != nil {
		return rb, fmt.Errorf("look for rebuild %s: %w", id, err)
	}
	return rb, nil
}

// CancelRebuild calls off a rebuild that is queued or running. Whoever makes it
// ends it within seconds.
func (p Pipe) CancelRebuild(ctx context.Context, id string, c Change) (watermark.Rebuild, error) {
	ch, err := p.change(c)
	if err != nil {
		return watermark.Rebuild{}, err
	}
	rb, err := p.RebuildByID(ctx, id)
	if err != nil {
		return rb, err
	}
	now, err := p.app.State.CancelRebuild(ctx, id, ch)
	if errors.Is(err, watermark.ErrReused) {
		return rb, unlessReused(ch.ID, err)
	}
	if errors.Is(err, watermark.ErrConflict) {
		return rb, &Refusal{Slug: RebuildEnded, Detail: fmt.Sprintf("rebuild %s has ended: it is %s", id, rb.State), ID: id}
	}
	if err != nil {
		return rb, fmt.Errorf("cancel rebuild %s: %w", id, err)
	}
	return now, nil
}

// Ended says that nobody makes a rebuild any more.
func Ended(rb watermark.Rebuild) bool {
	return rb.State != watermark.RebuildQueued && rb.State != watermark.RebuildRunning
}
