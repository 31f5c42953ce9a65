package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

func (c *cli) baseCommand() *cobra.Command {
	return group("base", "generations of the full index: look at them, promote one, go back, keep one",
		c.baseListCommand(), c.basePromoteCommand(), c.baseRollbackCommand(), c.basePinCommand(), c.baseUnpinCommand())
}

// baseLine is a generation as base list prints it.
type baseLine struct {
	control.Base
	Cut       *string `json:"cut"`
	Supported *string `json:"supported_until"`
	Created   *string `json:"created_at"`
	Finished  *string `json:"finished_at"`
}

func baseLineOf(b control.Base) baseLine {
	return baseLine{b, whenOrNull(b.Cut), whenOrNull(b.Supported), whenOrNull(b.Created), whenOrNull(b.Finished)}
}

// notes says in a few words what there is to know of a generation.
func (l baseLine) notes() string {
	var notes []string
	add := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(l.Live, "live")
	if l.Supported != nil {
		add(true, "supported until %s", *l.Supported)
	}
	add(l.State == watermark.RebuildCandidate && !l.Approved, "waits for promotion")
	add(l.State == watermark.RebuildHeld, "failed %s", strings.Join(l.Failed, ", "))
	add(len(l.Overrides) > 0, "overridden %s", strings.Join(l.Overrides, ", "))
	add(l.Target != "", "rollback to run %s", l.Target)
	add(l.Barred != "", "barred by %s", l.Barred)
	add(len(l.Pinned) > 0, "pinned by %s", strings.Join(l.Pinned, ", "))
	return strings.Join(notes, "; ")
}

func (c *cli) baseListCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "the newest generations and what may be done with them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive("--limit", limit); err != nil {
				return err
			}
			return c.controlled(cmd.Context(), func(_ string, p control.Pipe) error {
				bases, err := p.Bases(cmd.Context(), time.Now(), limit)
				if err != nil {
					return refused(err)
				}
				lines, rows := make([]baseLine, len(bases)), make([][]string, len(bases))
				for i, b := range bases {
					lines[i] = baseLineOf(b)
					passed := fmt.Sprintf("%d of %d", len(b.Checks)-len(b.Failed), len(b.Checks))
					rows[i] = []string{b.Generation, when(b.Cut), string(b.State), strconv.FormatInt(b.Documents, 10), passed, lines[i].notes()}
				}
				return c.print(lines, func() error {
					return c.table([]string{"GENERATION", "CUT", "STATE", "DOCUMENTS", "CHECKS PASSED", "NOTES"}, rows)
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many rebuilds are looked at, newest first")
	return cmd
}

// promotedLine is what base promote prints.
type promotedLine struct {
	Pipeline string `json:"pipeline"`
	control.Promoted
}

func (c *cli) basePromoteCommand() *cobra.Command {
	var overrides []string
	var reason string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "promote [GENERATION]", Short: "make a generation the base; without one the newest candidate", Args: cobra.MaximumNArgs(1),
		Long: "Lets a generation be promoted and has the leader take a run that promotes it. One that the gate holds takes --override with\n" +
			"every check that failed, and one that a rollback left is barred no longer; both take a reason.",
		RunE: func(cmd *cobra.Command, args []string) error {
			r := control.PromoteRequest{
				Change: control.Change{Actor: actor(), Reason: reason}, Overrides: overrides, Wait: wait,
			}
			if len(args) > 0 {
				r.Generation = args[0]
			}
			return c.controlled(cmd.Context(), func(name string, p control.Pipe) error {
				done, err := p.Promote(cmd.Context(), r)
				if err != nil {
					return refused(err)
				}
				text := fmt.Sprintf("%s: base %s is live", name, done.Generation)
				if !done.Live {
					text = fmt.Sprintf("%s: base %s is approved and not live yet: %s", name, done.Generation, waitingFor(done.Run, wait))
				}
				if err := c.say(promotedLine{name, done}, text); err != nil || done.Live {
					return err
				}
				return &exitError{code: exitFailed}
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&overrides, "override", nil, "checks of the gate to pass over, comma-separated: exactly those that failed")
	f.StringVar(&reason, "reason", "", "why, for the audit trail; at least ten characters where a check or a bar is passed over")
	f.DurationVar(&wait, "wait", leaderWait, "how long to wait for the leader")
	return cmd
}

// waitingFor is why the run that was asked for has not done it.
func waitingFor(t control.Triggered, wait time.Duration) string {
	if !t.Finished() {
		return fmt.Sprintf("the leader has not answered within %s", wait)
	}
	return fmt.Sprintf("the run was %s: %s", t.Outcome, t.Why)
}

// rollbackLine is what base rollback prints. Intent is null in a dry run.
type rollbackLine struct {
	Plan   control.RollbackPlan `json:"plan"`
	DryRun bool                 `json:"dry_run"`
	Intent *resetIntent         `json:"intent"`
	Now    *watermarkLine       `json:"now"`
}

// rollbackFlags are the flags of base rollback.
type rollbackFlags struct {
	pane, reason, digest string
	dryRun               bool
	wait                 time.Duration
}

func (c *cli) baseRollbackCommand() *cobra.Command {
	var o rollbackFlags
	cmd := &cobra.Command{
		Use: "rollback [GENERATION | --pane RUN]", Short: "go back to a former base, or to a former pane", Args: cobra.MaximumNArgs(1),
		Long: "Publishes the last pane over a former base again, base and pane at once. The base that is left may not be promoted again until\n" +
			"`base promote` says so. With --pane it publishes the pane of a run again and pauses the pipeline. Without either it goes back\n" +
			"to the newest former base. --dry-run says what that means and changes nothing.",
		RunE: func(cmd *cobra.Command, args []string) error {
			t := control.Target{Run: o.pane}
			if len(args) > 0 {
				t.Generation = args[0]
			}
			if t.Run != "" && t.Generation != "" {
				return besides(usage(errors.New("--pane: a rollback goes to a base or to a pane, not to both")), o.dryRun, o.reason)
			}
			return c.controlled(cmd.Context(), func(_ string, p control.Pipe) error { return c.rollback(cmd.Context(), p, t, o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.pane, "pane", "", "go back to the pane of this run; the pipeline is paused")
	f.StringVar(&o.reason, "reason", "", "why, for the audit trail; at least ten characters")
	f.StringVar(&o.digest, "digest", "", "go on only if the plan still has this digest, from an earlier --dry-run")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what it would do")
	f.DurationVar(&o.wait, "wait", leaderWait, "how long to wait for the leader")
	return cmd
}

func (c *cli) rollback(ctx context.Context, p control.Pipe, t control.Target, o rollbackFlags) error {
	plan, err := p.PlanRollback(ctx, time.Now(), t)
	if err != nil {
		return besides(refused(err), o.dryRun, o.reason)
	}
	line := rollbackLine{Plan: plan, DryRun: o.dryRun}
	if o.dryRun {
		return c.say(line, describeRollback(plan))
	}
	if o.digest == "" {
		o.digest = plan.Digest
	}
	in, err := p.Rollback(ctx, time.Now(), control.RollbackRequest{
		Change: control.Change{Actor: actor(), Reason: o.reason}, Target: t, Digest: o.digest, Version: &plan.Version, Wait: o.wait,
	})
	if in.ID == "" {
		return refused(err)
	}
	line.Intent = &resetIntent{in.ID, in.State, in.Note}
	if row, rerr := p.Row(ctx); rerr == nil {
		now := watermarkLineOf(row)
		line.Now = &now
	}
	done := "done"
	if plan.Pause {
		done += fmt.Sprintf("; %s stays paused until it is resumed", plan.Pipeline)
	}
	return c.decided(line, describeRollback(plan), done, in, o.wait, err)
}

// describeRollback says a plan to people.
func describeRollback(p control.RollbackPlan) string {
	var b strings.Builder
	side := func(s microbatch.RollbackPane) string {
		out := fmt.Sprintf("run %s at %s, %d documents", s.RunID, when(s.Watermark), s.Documents)
		if s.Generation != "" {
			out += fmt.Sprintf(", over base %s cut at %s", s.Generation, when(*s.Cut))
		}
		return out
	}
	fmt.Fprintf(&b, "%s: from %s\n  to %s, published %s\n", p.Pipeline, side(p.From), side(p.To), when(p.To.CreatedAt))
	fmt.Fprintf(&b, "the data gets %s older", time.Duration(p.Back*float64(time.Second)).Round(time.Second))
	if p.Bar != "" {
		fmt.Fprintf(&b, "; base %s may not be promoted until `base promote` says so", p.Bar)
	}
	if p.Pause {
		b.WriteString("; the pipeline is paused")
	}
	b.WriteString("\n")
	after := "next run"
	if p.Pause || p.Paused {
		after = "next run, once it is resumed"
	}
	switch p.Next.Kind {
	case microbatch.Advance, microbatch.Refine:
		fmt.Fprintf(&b, "%s: %s to %s over %s: reads %d partitions, %d objects, %d bytes (%s)\n", after,
			p.Next.Kind, when(p.Next.Watermark), p.Next.Coverage, p.Recomputed.Partitions, p.Recomputed.Objects, p.Recomputed.Bytes, p.Next.Why)
	default:
		fmt.Fprintf(&b, "%s: %s (%s)\n", after, p.Next.Kind, p.Next.Why)
	}
	fmt.Fprintf(&b, "digest %s", p.Digest)
	return b.String()
}

// pinLine is what base pin and unpin print.
type pinLine struct {
	Pipeline string `json:"pipeline"`
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Owner    string `json:"owner"`
	Pinned   bool   `json:"pinned"`
}

func (c *cli) basePinCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "pin GENERATION|RUN", Short: "keep a generation, or the pane of a run, from being collected", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			return c.controlled(cmd.Context(), func(name string, p control.Pipe) error {
				pin, err := p.Pin(cmd.Context(), args[0], control.Change{Actor: actor(), Reason: reason})
				if err != nil {
					return refused(err)
				}
				return c.say(pinLine{name, pin.Kind, pin.ID, pin.Owner, true}, fmt.Sprintf("%s: %s %s is kept until it is unpinned", name, pin.Kind, pin.ID))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail; at least ten characters")
	return cmd
}

func (c *cli) baseUnpinCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "unpin GENERATION|RUN", Short: "let go of what was pinned", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.controlled(cmd.Context(), func(name string, p control.Pipe) error {
				pins, err := p.Unpin(cmd.Context(), args[0], control.Change{Actor: actor(), Reason: reason})
				if err != nil {
					return refused(err)
				}
				lines := make([]pinLine, len(pins))
				for i, pin := range pins {
					lines[i] = pinLine{name, pin.Kind, pin.ID, pin.Owner, false}
				}
				return c.print(lines, func() error {
					_, err := fmt.Fprintf(c.out, "%s: %s is not pinned any more\n", name, args[0])
					return err
				})
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	return cmd
}
