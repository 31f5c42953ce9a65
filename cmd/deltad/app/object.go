package app

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// objectCommand is what a person does about one object that cannot be read.
func (c *cli) objectCommand() *cobra.Command {
	return group("object", "leave an object out by hand, or take it in again", c.skipCommand(true), c.skipCommand(false))
}

// skippedLine is what object skip and unskip print.
type skippedLine struct {
	Pipeline string `json:"pipeline"`
	Key      string `json:"key"`
	ETag     string `json:"etag"`
	Skipped  bool   `json:"skipped"`
}

// skipCommand skips the version of an object that is there now, or undoes it.
// The leader sees it at its next trigger and refines the pane. Another version
// of the object is due as ever.
func (c *cli) skipCommand(skip bool) *cobra.Command {
	var reason string
	use, short := "skip KEY", "leave this version of an object out of every pane"
	if !skip {
		use, short = "unskip KEY", "take a skipped object in again"
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			return c.one(cmd.Context(), func(a *daemon.App, p *daemon.Pipe) error {
				info, err := p.Raw.Head(cmd.Context(), args[0])
				if errors.Is(err, store.ErrNotFound) {
					return usage(fmt.Errorf("there is no object %q at the source; keys are relative to %s", args[0], p.Config.Source.URL))
				}
				if err != nil {
					return err
				}
				do := a.State.UnskipObject
				if skip {
					do = a.State.SkipObject
				}
				ref := watermark.ObjectRef{Key: info.Key, ETag: info.ETag}
				change := watermark.Change{ID: a.NewID(), Actor: actor(), Reason: reason}
				if err := do(cmd.Context(), p.Config.Name, ref, change); err != nil {
					return err
				}
				line := skippedLine{Pipeline: p.Config.Name, Key: info.Key, ETag: info.ETag, Skipped: skip}
				text := "is skipped; the next step leaves it out"
				if !skip {
					text = "is due again; the next step reads it"
				}
				return c.say(line, fmt.Sprintf("%s: %s (etag %s) %s", line.Pipeline, line.Key, line.ETag, text))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail; at least ten characters")
	return cmd
}
