package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// controlCommands are those that change what a running pipeline does. They
// work on the state store: a living leader is asked and waited for, without
// one the command takes the lease itself.
func (c *cli) controlCommands() []*cobra.Command {
	return []*cobra.Command{c.pauseCommand(), c.resumeCommand(), c.triggerCommand(), c.watermarkCommand(), c.rebuildCommand(), c.baseCommand()}
}

// leaderWait is how long a command waits for a leader: longer than a dead
// leader's lease lives.
const leaderWait = time.Minute

// controlled opens the configuration and calls do with the control of the one
// selected pipeline. The error of do keeps its exit code.
func (c *cli) controlled(ctx context.Context, do func(name string, p control.Pipe) error) error {
	a, err := c.open(ctx, daemon.Options{})
	if err != nil {
		return err
	}
	defer a.Close()
	p, err := a.Pipe("")
	if err != nil {
		return usage(err)
	}
	return do(p.Config.Name, control.Of(a, p))
}

// refused gives a refusal its exit code: what the caller wrote is usage, what
// the pipeline's state forbids is a failure.
func refused(err error) error {
	var r *control.Refusal
	if !errors.As(err, &r) {
		return failed(err)
	}
	switch r.Slug { //nolint:exhaustive // the others are failures
	case control.InvalidField, control.ReasonTooShort, control.NotAStart, control.InTheFuture:
		if r.Field == "" || r.Field == "generation" || r.Field == "id" { // arguments
			return usage(err)
		}
		return usage(fmt.Errorf("--%s: %w", flagOf(r.Field), err))
	case control.NoFull:
		return usage(err)
	}
	return failed(err)
}

// needReason refuses a reason that the audit trail would not be served by.
func needReason(reason string) error { return refused(control.Reasoned(reason)) }

// besides adds to a wrong command line what is wrong with its reason too. Any
// other error says by itself what comes first.
func besides(err error, dry bool, reason string) error {
	var coded *exitError
	if dry || !errors.As(err, &coded) || coded.code != exitUsage {
		return err
	}
	return usages(err, needReason(reason))
}

func flagOf(field string) string {
	if field == "accept_data_loss" {
		return "accept-data-loss"
	}
	return field
}

// toggledLine is what pause and resume print.
type toggledLine struct {
	Pipeline string `json:"pipeline"`
	Paused   bool   `json:"paused"`
	Reason   string `json:"reason,omitempty"`
	Version  int64  `json:"version"`
}

func (c *cli) pauseCommand() *cobra.Command {
	cmd := c.toggleCommand("pause", control.Pipe.Pause)
	cmd.Short = "stop the runs of a pipeline until it is resumed"
	return cmd
}

func (c *cli) resumeCommand() *cobra.Command {
	cmd := c.toggleCommand("resume", control.Pipe.Resume)
	cmd.Short = "end a pause"
	return cmd
}

func (c *cli) toggleCommand(name string, do func(control.Pipe, context.Context, control.Change) (watermark.Pipeline, error)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: name, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if err := control.Stated(reason); err != nil {
			return refused(err)
		}
		return c.controlled(cmd.Context(), func(_ string, p control.Pipe) error {
			row, err := do(p, cmd.Context(), control.Change{Actor: actor(), Reason: reason})
			if err != nil {
				return refused(err)
			}
			line := toggledLine{Pipeline: row.Name, Paused: row.Paused, Reason: row.PauseReason, Version: row.Version}
			state := "running"
			if row.Paused {
				state = "paused"
			}
			return c.say(line, row.Name+": "+state)
		})
	}}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	return cmd
}

// say prints a value as JSON, or a line for people.
func (c *cli) say(v any, line string) error {
	return c.print(v, func() error {
		_, err := fmt.Fprintln(c.out, line)
		return err
	})
}

// triggeredLine is what trigger prints.
type triggeredLine struct {
	Pipeline string `json:"pipeline"`
	control.Triggered
}

func (c *cli) triggerCommand() *cobra.Command {
	var acceptLoss bool
	var reason string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "trigger", Short: "take one step now", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if acceptLoss {
				if err := needReason(reason); err != nil {
					return err
				}
			}
			return c.controlled(cmd.Context(), func(name string, p control.Pipe) error {
				done, err := p.Trigger(cmd.Context(), control.TriggerRequest{
					Change: control.Change{Actor: actor(), Reason: reason}, AcceptLoss: acceptLoss, Wait: wait,
				})
				if err != nil {
					return refused(err)
				}
				text := fmt.Sprintf("%s: %s", name, done.Outcome)
				if !done.Finished() {
					text = fmt.Sprintf("%s: request %s is %s; the leader has not answered within %s", name, done.ID, done.State, wait)
				} else if done.Why != "" {
					text += ": " + done.Why
				}
				if err := c.say(triggeredLine{name, done}, text); err != nil {
					return err
				}
				if done.Outcome == microbatch.Advanced || done.Outcome == microbatch.Refined || done.Outcome == microbatch.WasIdle {
					return nil
				}
				return &exitError{code: exitFailed}
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&acceptLoss, "accept-loss", false, "publish although many inputs vanished at once; needs --reason")
	f.StringVar(&reason, "reason", "", "why, for the audit trail; with --accept-loss at least ten characters")
	f.DurationVar(&wait, "wait", leaderWait, "how long to wait for the leader")
	return cmd
}
