package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
)

func (c *cli) runCommand() *cobra.Command {
	var once, noCache bool
	var now, role string
	cmd := &cobra.Command{
		Use: "run", Short: "run the daemon; with --once take one step and exit", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, wrong := optionalTime("--now", now)
			switch {
			case now == "":
				at = time.Now()
			case !once:
				wrong = errors.Join(wrong, errors.New("--now: only with --once"))
			}
			switch {
			case role != daemon.RoleAll && role != daemon.RoleDelta && role != daemon.RoleFull:
				wrong = errors.Join(wrong, fmt.Errorf("--role: must be all, delta or full, got %q", role))
			case once && role == daemon.RoleFull:
				wrong = errors.Join(wrong, errors.New("--role: full: a single step is one of deltas; `deltad rebuild` makes one full index"))
			}
			if wrong != nil {
				return usage(wrong)
			}
			if !once {
				return c.runDaemon(cmd.Context(), daemon.Options{NoCache: noCache, Role: role})
			}
			a, err := c.open(cmd.Context(), daemon.Options{NoCache: noCache})
			if err != nil {
				return c.unopened(err)
			}
			defer a.Close()
			return c.once(cmd.Context(), a, at)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&once, "once", false, "take one step and exit")
	f.BoolVar(&noCache, "no-cache", false, "read everything anew in every run")
	f.StringVar(&now, "now", "", "the clock of the step, only with --once")
	f.StringVar(&role, "role", daemon.RoleAll, "what this process may lead: all, delta (only deltas) or full (only rebuilds of full indexes)")
	return cmd
}

// stepLine is what run --once prints of a pipeline.
type stepLine struct {
	Pipeline  string  `json:"pipeline"`
	Outcome   string  `json:"outcome"`
	Watermark *string `json:"watermark"`
	RunID     string  `json:"run_id,omitempty"`
	Documents int64   `json:"documents"`
	Manifest  string  `json:"manifest,omitempty"`
	Error     string  `json:"error,omitempty"`
	Why       string  `json:"why,omitempty"`
}

func lineOf(r microbatch.Report) stepLine {
	l := stepLine{Pipeline: r.Pipeline, Outcome: string(r.Outcome), RunID: r.RunID, Documents: r.Documents, Manifest: r.Manifest, Why: r.Why}
	if !r.Watermark.IsZero() {
		s := r.Watermark.UTC().Format(time.RFC3339Nano)
		l.Watermark = &s
	}
	if r.Err != nil {
		l.Error, l.Why = r.Err.Error(), ""
	}
	return l
}

// unopened says in JSON of each pipeline that its step failed, where none could
// be taken because something does not answer. It returns the error.
func (c *cli) unopened(err error) error {
	var coded *exitError
	if c.output != "json" || !errors.As(err, &coded) || coded.code != exitFailed {
		return err
	}
	cfg, loadErr := c.load()
	if loadErr != nil {
		return err
	}
	for _, p := range cfg.Pipelines {
		if c.pipeline != "" && p.Name != c.pipeline {
			continue
		}
		if werr := json.NewEncoder(c.out).Encode(stepLine{Pipeline: p.Name, Outcome: string(microbatch.Failed), Error: err.Error()}); werr != nil {
			return failed(werr)
		}
	}
	return err
}

// once takes one step of each pipeline. The exit code is that of the worst.
func (c *cli) once(ctx context.Context, a *daemon.App, now time.Time) error {
	code := exitDone
	for _, p := range a.Pipes {
		r := p.Pipeline().Once(ctx, now, microbatch.StepOptions{KeepGarbage: true, KeepBase: true})
		l := lineOf(r)
		if c.output == "json" {
			if err := json.NewEncoder(c.out).Encode(l); err != nil {
				return failed(err)
			}
		} else {
			fmt.Fprintf(c.out, "%s: %s", l.Pipeline, l.Outcome)
			if l.Watermark != nil {
				fmt.Fprintf(c.out, " at %s, %d documents", *l.Watermark, l.Documents)
			}
			if l.Why+l.Error != "" {
				fmt.Fprintf(c.out, ": %s%s", l.Why, l.Error)
			}
			fmt.Fprintln(c.out)
		}
		switch {
		case r.Err != nil || r.Outcome == microbatch.WasHeld:
			code = exitFailed
		case r.Outcome == microbatch.Standby && code == exitDone:
			code = exitStandby
		}
	}
	if code != exitDone {
		return &exitError{code: code}
	}
	return nil
}
