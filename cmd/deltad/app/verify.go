package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/cmd/deltad/verify"
)

// checkLine is one check of a pipeline in JSON.
type checkLine struct {
	Pipeline string `json:"pipeline"`
	verify.Check
}

func (c *cli) verifyCommand() *cobra.Command {
	var o verify.Options
	cmd := &cobra.Command{
		Use: "verify", Short: "prove the live index against the buckets; writes nothing", Args: cobra.NoArgs,
		Long: `verify reads everything that CURRENT leads to, compares hashes, keys and counts with what the manifests
say, and compares what pane, base and ledger say with a listing of the source. It prints a line for each
check and exits with 1 if one fails. It may run beside a daemon.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Fresh < 0 {
				return usage(fmt.Errorf("--fresh: must not be negative, got %s", o.Fresh))
			}
			all := true
			err := c.each(cmd.Context(), func(a *daemon.App, p *daemon.Pipe) error {
				ok, err := c.verify(cmd.Context(), a, p, o)
				all = all && ok
				return err
			})
			if err == nil && !all {
				return &exitError{code: exitFailed}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Recompute, "recompute", false, "compute the live pane again from its inputs, without any cache, and compare the bytes of its files")
	f.BoolVar(&o.RecomputeBase, "recompute-base", false, "compute the live base again from its inputs, and compare the bytes of its files")
	f.BoolVar(&o.All, "all", false, "list the source's whole history, not only as far back as runs do")
	f.DurationVar(&o.Fresh, "fresh", 0, "objects written so lately may be unread: a run has not come to them yet")
	return cmd
}

// verify makes the checks of one pipeline and prints each.
func (c *cli) verify(ctx context.Context, a *daemon.App, p *daemon.Pipe, o verify.Options) (ok bool, err error) {
	line := newBar(c.errs)
	defer line.end()
	o.Now = time.Now()
	o.Progress = func(what string, done, total int64) {
		text := p.Config.Name + ": " + what
		if total > 0 {
			text += fmt.Sprintf(" %d/%d", done, total)
		}
		line.draw(text)
	}
	s := verify.Subject{
		Name: p.Config.Name, Out: p.Out, Raw: p.Raw, Source: p.Source, State: a.State,
		Window: p.Config.Window.Size, Retention: p.Config.Source.Retention, Combiners: c.fns, Engine: p.Pipeline(),
	}
	if f := p.Config.Full; f != nil {
		s.Since, s.Tombstones = f.Since, f.Tombstones
	}
	return verify.Run(ctx, s, o, func(check verify.Check) error {
		line.draw("")
		return c.print(checkLine{p.Config.Name, check}, func() error { return c.checkText(p.Config.Name, check) })
	})
}

func (c *cli) checkText(pipeline string, check verify.Check) error {
	status := string(check.Status)
	if check.Status == verify.Failed {
		status = "FAILED"
	}
	if _, err := fmt.Fprintf(c.out, "%s: %-8s  %-14s  %s\n", pipeline, status, check.Name, check.Detail); err != nil {
		return err
	}
	for _, f := range check.Findings {
		if _, err := fmt.Fprintf(c.out, "    %s\n", f); err != nil {
			return err
		}
	}
	if more := check.Found - len(check.Findings); more > 0 {
		fmt.Fprintf(c.out, "    and %d more\n", more)
	}
	return nil
}
