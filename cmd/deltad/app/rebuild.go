package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/watermark"
)

// rebuildLine is what rebuild prints.
type rebuildLine struct {
	Pipeline  string  `json:"pipeline"`
	ID        string  `json:"id"`
	State     string  `json:"state"`
	Cause     string  `json:"cause"`
	Phase     string  `json:"phase"`
	Done      int64   `json:"done"`
	Total     int64   `json:"total"`
	Rows      int64   `json:"rows"`
	Cut       *string `json:"cut"`
	Documents int64   `json:"documents"`
	Manifest  string  `json:"manifest,omitempty"`
	Instance  string  `json:"instance,omitempty"`
	Cancel    bool    `json:"cancel_requested,omitempty"`
	Error     string  `json:"error,omitempty"`
}

func rebuildLineOf(r watermark.Rebuild) rebuildLine {
	cut := r.ActualCut
	if cut.IsZero() {
		cut = r.Cut
	}
	return rebuildLine{
		Pipeline: r.Pipeline, ID: r.ID, State: string(r.State), Cause: r.Cause, Phase: r.Phase, Done: r.Done, Total: r.Total, Rows: r.Rows,
		Cut: whenOrNull(cut), Documents: r.Documents, Manifest: r.Manifest.Key, Instance: r.Instance,
		Cancel: r.CancelRequested && !control.Ended(r), Error: r.Error,
	}
}

func (l rebuildLine) String() string {
	s := fmt.Sprintf("%s: rebuild %s is %s", l.Pipeline, l.ID, l.State)
	switch watermark.RebuildState(l.State) { //nolint:exhaustive // the others have nothing to add
	case watermark.RebuildRunning:
		s += fmt.Sprintf(" at %s: %s", l.Instance, l.Phase)
		if l.Total > 0 {
			s += fmt.Sprintf(" %d of %d", l.Done, l.Total)
		}
	case watermark.RebuildCandidate, watermark.RebuildHeld, watermark.RebuildPromoted:
		s += fmt.Sprintf(", cut at %s, %d documents", *l.Cut, l.Documents)
	}
	if l.Cancel {
		s += ", and is called off"
	}
	if l.Error != "" {
		s += ": " + l.Error
	}
	return s
}

// rebuildFlags are the flags of rebuild.
type rebuildFlags struct {
	cut, reason, cancel string
	wait                bool
}

func (c *cli) rebuildCommand() *cobra.Command {
	var o rebuildFlags
	cmd := &cobra.Command{
		Use: "rebuild", Short: "make the full index anew, here and now", Args: cobra.NoArgs,
		Long: "Makes a new generation of the full index in this process, and leaves it for the leader to promote. While another rebuild is\n" +
			"queued or running it prints that one's id and exits with 1; with --wait it takes over one whose process died. Ctrl-C calls the\n" +
			"rebuild off.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cut, err := optionalTime("--cut", o.cut)
			var both error
			if o.cancel != "" && (o.wait || o.cut != "") {
				both = errors.New("--cancel: calls off one that is there, and goes with neither --cut nor --wait")
			}
			if err := usages(err, both); err != nil {
				return err
			}
			return c.controlled(cmd.Context(), func(_ string, p control.Pipe) error {
				if o.cancel != "" {
					rb, err := p.CancelRebuild(cmd.Context(), o.cancel, control.Change{Actor: actor(), Reason: o.reason})
					if err != nil {
						return refused(err)
					}
					line := rebuildLineOf(rb)
					return c.say(line, line.String())
				}
				return c.rebuild(cmd.Context(), p, cut, o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.cut, "cut", "", "the newest partition to include; without it the watermark of the live pane")
	f.StringVar(&o.reason, "reason", "", "why, for the audit trail")
	f.StringVar(&o.cancel, "cancel", "", "call this rebuild off instead")
	f.BoolVar(&o.wait, "wait", false, "while another one is queued or running, wait for its end instead, and make it where nobody does")
	return cmd
}

// rebuild makes a rebuild in the foreground, or attends to the one that is
// open.
func (c *cli) rebuild(ctx context.Context, p control.Pipe, cut time.Time, o rebuildFlags) error {
	rb, err := p.Rebuild(ctx, control.RebuildRequest{Change: control.Change{Actor: actor(), Reason: o.reason}, Cut: cut})
	var r *control.Refusal
	mine := err == nil
	if errors.As(err, &r) && r.Slug == control.RebuildOpen {
		if rb, err = p.RebuildByID(ctx, r.ID); err == nil && !o.wait {
			line := rebuildLineOf(rb)
			return errors.Join(c.say(line, line.String()), &exitError{code: exitFailed})
		}
	}
	if err != nil {
		return refused(err)
	}
	// A rebuild of this command ends with it; somebody else's goes on.
	bar := newBar(c.errs)
	defer bar.end()
	work := ctx
	if mine {
		var stop func()
		work, stop = c.cancelling(ctx, p, rb.ID)
		defer stop()
	}
	err = attend(work, p, rb.ID, bar)
	end, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	now, ferr := p.RebuildByID(end, rb.ID)
	if ferr != nil {
		return failed(errors.Join(err, ferr))
	}
	bar.end()
	line := rebuildLineOf(now)
	perr := c.say(line, line.String())
	if now.State == watermark.RebuildCandidate || now.State == watermark.RebuildPromoted {
		return perr
	}
	if now.Error != "" {
		err = nil // the line has it
	}
	return errors.Join(perr, &exitError{exitFailed, err})
}

// cancelling returns a context that outlives ctx: when ctx ends the rebuild is
// called off, and whoever makes it, this process or another, ends it within
// seconds. Where that cannot be said the context ends, and the next holder of
// the lease begins the rebuild again.
func (c *cli) cancelling(ctx context.Context, p control.Pipe, id string) (context.Context, func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	called := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(called)
		ask, done := context.WithTimeout(work, 10*time.Second)
		defer done()
		_, err := p.CancelRebuild(ask, id, control.Change{Actor: actor(), Reason: "interrupted"})
		var r *control.Refusal
		if err != nil && !errors.As(err, &r) {
			fmt.Fprintln(c.errs, "deltad: the rebuild is left as it is; the next holder of its lease begins it again:", err)
			cancel(context.Cause(ctx))
		}
	})
	return work, func() {
		if !stop() {
			<-called
		}
		cancel(context.Canceled)
	}
}

// followEvery is how often a rebuild that somebody else makes is looked at.
const followEvery = time.Second

// attend makes a rebuild, or follows it while somebody else does: one whose
// maker died is taken over, for there may be nobody else who would.
func attend(ctx context.Context, p control.Pipe, id string, bar *bar) error {
	for {
		rb, err := p.RebuildByID(ctx, id)
		if err != nil || control.Ended(rb) {
			return err
		}
		bar.show(watermark.RebuildProgress{Phase: rb.Phase, Done: rb.Done, Total: rb.Total, Rows: rb.Rows})
		err = p.Make(ctx, rb, func(r full.Report) { bar.show(r.RebuildProgress) })
		if !errors.Is(err, watermark.ErrHeld) && !errors.Is(err, watermark.ErrConflict) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for rebuild %s, which goes on: %w", id, context.Cause(ctx))
		case <-time.After(followEvery):
		}
	}
}
