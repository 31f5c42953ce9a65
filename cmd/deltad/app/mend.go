package app

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// actor names who runs a command, for the audit trail.
func actor() string {
	u, err := user.Current()
	if err != nil {
		return "command line"
	}
	return "command line, " + u.Username
}

// led explains that a command needs the pipeline without a leader.
func led(err error) error {
	var held *watermark.HeldError
	if errors.As(err, &held) {
		return &exitError{exitStandby, fmt.Errorf("%w; stop it first", err)}
	}
	return err
}

func (c *cli) gcCommand() *cobra.Command {
	var dry bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "gc", Short: "collect what no kept pane needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.one(cmd.Context(), func(a *daemon.App, p *daemon.Pipe) (err error) {
				var plan sink.Collection
				if dry {
					plan, err = p.Pipeline().PlanCollection(cmd.Context())
				} else {
					plan, err = control.Of(a, p).Collect(cmd.Context(), control.CollectRequest{Change: control.Change{Actor: actor()}, Wait: wait})
				}
				if err != nil {
					return err
				}
				return c.print(plan, func() error {
					verb := "deleted"
					if dry {
						verb = "would delete"
					}
					_, err := fmt.Fprintf(c.out, "keeps %d panes; %s the data of %d runs (%d bytes), %d records and %d slices; condemns %d more\n",
						len(plan.Keep), verb, len(plan.Delete), plan.Bytes(), len(plan.Records), len(plan.Slices)+len(plan.Cached), len(plan.Condemn))
					return err
				})
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	cmd.Flags().DurationVar(&wait, "wait", leaderWait, "how long to wait for the leader, where one lives")
	return cmd
}

func (c *cli) recoverCommand() *cobra.Command {
	var dry bool
	var reason string
	cmd := &cobra.Command{
		Use: "recover", Short: "write a lost CURRENT again from the manifests", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason != "" {
				if err := needReason(reason); err != nil {
					return err
				}
			}
			return c.one(cmd.Context(), func(_ *daemon.App, p *daemon.Pipe) error {
				plan, err := p.Pipeline().Recover(cmd.Context(), actor(), reason, dry)
				if err != nil {
					return led(err)
				}
				return c.print(map[string]any{
					"manifest": plan.Ref.Manifest, "proven": plan.Proven, "version": plan.Version, "passed": listed(plan.Passed), "dry_run": dry,
				}, func() error {
					how := "journalled as published"
					if !plan.Proven {
						how = "the newest whose files all exist and verify; whether readers ever saw it is not known"
					}
					_, err := fmt.Fprintf(c.out, "CURRENT version %d names %s (%s)\n", plan.Version, plan.Ref.Manifest, how)
					return err
				})
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	cmd.Flags().StringVar(&reason, "reason", "", "allows a manifest that is not known as published; at least ten characters")
	return cmd
}

func (c *cli) adoptCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "adopt", Short: "take over an output that another state store wrote", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			return c.one(cmd.Context(), func(_ *daemon.App, p *daemon.Pipe) error {
				return led(p.Pipeline().Under(cmd.Context(), func(ctx context.Context, t microbatch.Term) error {
					head, err := t.Adopt(ctx, actor(), reason)
					if err != nil {
						return err
					}
					return c.print(map[string]any{"version": head.Version, "epoch": head.Owner.Epoch, "state": head.Owner.State}, func() error {
						_, err := fmt.Fprintf(c.out, "adopted at version %d, epoch %d\n", head.Version, head.Owner.Epoch)
						return err
					})
				}))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail; at least ten characters")
	return cmd
}

func (c *cli) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "bring the state store's schema up to date", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			applied, version, err := daemon.Migrate(cmd.Context(), cfg)
			if err != nil {
				return failed(err)
			}
			return c.print(map[string]any{"applied": listed(applied), "schema_version": version}, func() error {
				_, err := fmt.Fprintf(c.out, "schema version %d, applied: %s\n", version, orNone(applied))
				return err
			})
		},
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "the build's version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.print(map[string]any{"version": Version}, func() error {
				_, err := fmt.Fprintln(c.out, "deltad", Version)
				return err
			})
		},
	}
}
