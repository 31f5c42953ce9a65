package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

func (c *cli) watermarkCommand() *cobra.Command {
	return group("watermark", "look at progress, or move it", c.watermarkShowCommand(), c.watermarkResetCommand())
}

// watermarkLine is what watermark show prints. Version is that of the state
// store's row, which If-Match takes; to people CURRENT's is the version.
type watermarkLine struct {
	Pipeline       string  `json:"pipeline"`
	Watermark      *string `json:"watermark"`
	Progress       *string `json:"progress"`
	Version        int64   `json:"version"`
	CurrentVersion int64   `json:"current_version"`
	RunID          string  `json:"run_id,omitempty"`
	Paused         bool    `json:"paused"`
	PausedBy       string  `json:"paused_by,omitempty"`
	PauseReason    string  `json:"pause_reason,omitempty"`
}

func watermarkLineOf(row watermark.Pipeline) watermarkLine {
	return watermarkLine{
		Pipeline: row.Name, Watermark: whenOrNull(row.Watermark), Progress: whenOrNull(row.Progress), Version: row.Version,
		CurrentVersion: row.CurrentVersion, RunID: row.RunID, Paused: row.Paused, PausedBy: row.PausedBy, PauseReason: row.PauseReason,
	}
}

func (l watermarkLine) String() string {
	told := func(t *string) string {
		if t == nil {
			return "none yet"
		}
		return *t
	}
	s := fmt.Sprintf("%s: watermark %s, progress %s, version %d", l.Pipeline, told(l.Watermark), told(l.Progress), l.CurrentVersion)
	if l.Paused {
		s += fmt.Sprintf(", paused by %s: %s", l.PausedBy, l.PauseReason)
	}
	return s
}

func (c *cli) watermarkShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "print watermark and progress", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.controlled(cmd.Context(), func(_ string, p control.Pipe) error {
				row, err := p.Row(cmd.Context())
				if err != nil {
					return failed(err)
				}
				line := watermarkLineOf(row)
				return c.say(line, line.String())
			})
		},
	}
}

// resetLine is what watermark reset prints. Intent is null in a dry run.
type resetLine struct {
	Plan   control.Plan   `json:"plan"`
	DryRun bool           `json:"dry_run"`
	Intent *resetIntent   `json:"intent"`
	Now    *watermarkLine `json:"now"`
}

type resetIntent struct {
	ID    string                `json:"id"`
	State watermark.IntentState `json:"state"`
	Note  string                `json:"note,omitempty"`
}

// resetFlags are the flags of watermark reset.
type resetFlags struct {
	to, reason, digest string
	dryRun, acceptLoss bool
	wait               time.Duration
}

func (c *cli) watermarkResetCommand() *cobra.Command {
	var o resetFlags
	cmd := &cobra.Command{
		Use: "reset", Short: "move the progress of a paused pipeline", Args: cobra.NoArgs,
		Long: "Moves progress to a partition start. The pipeline must be paused and stays so. The next run after it still goes to the newest\n" +
			"partition, and its coverage reaches back to there. --dry-run says what that means and changes nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := time.Parse(time.RFC3339, o.to)
			if err != nil {
				return besides(usage(fmt.Errorf("--to: must be an RFC 3339 time such as 2026-11-30T10:00:00Z, got %q", o.to)), o.dryRun, o.reason)
			}
			return c.controlled(cmd.Context(), func(_ string, p control.Pipe) error { return c.reset(cmd.Context(), p, to, o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "the new progress, a partition start such as 2026-11-30T10:00:00Z")
	f.StringVar(&o.reason, "reason", "", "why, for the audit trail; at least ten characters")
	f.StringVar(&o.digest, "digest", "", "go on only if the plan still has this digest, from an earlier --dry-run")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what it would do")
	f.BoolVar(&o.acceptLoss, "accept-data-loss", false, "pass over partitions that were never read")
	f.DurationVar(&o.wait, "wait", leaderWait, "how long to wait for the leader")
	return cmd
}

func (c *cli) reset(ctx context.Context, p control.Pipe, to time.Time, o resetFlags) error {
	plan, err := p.PlanReset(ctx, time.Now(), to)
	if err != nil {
		return besides(refused(err), o.dryRun, o.reason)
	}
	line := resetLine{Plan: plan, DryRun: o.dryRun}
	if o.dryRun {
		return c.say(line, describe(plan))
	}
	if o.digest == "" {
		o.digest = plan.Digest
	}
	in, err := p.Reset(ctx, time.Now(), control.ResetRequest{
		Change: control.Change{Actor: actor(), Reason: o.reason}, To: to, Digest: o.digest, Version: &plan.Version,
		AcceptDataLoss: o.acceptLoss, Wait: o.wait,
	})
	if in.ID == "" {
		return refused(err)
	}
	line.Intent = &resetIntent{in.ID, in.State, in.Note}
	if row, rerr := p.Row(ctx); rerr == nil {
		now := watermarkLineOf(row)
		line.Now = &now
	}
	return c.decided(line, describe(plan), fmt.Sprintf("done; %s stays paused until it is resumed", plan.Pipeline), in, o.wait, err)
}

// decided prints what was planned and what has become of the intent that it led
// to: done, where that was applied. err is of the wait for it.
func (c *cli) decided(line any, plan, done string, in watermark.Intent, wait time.Duration, err error) error {
	switch in.State {
	case watermark.IntentApplied:
	case watermark.IntentFailed:
		done = "given up: " + in.Note
	default:
		done = fmt.Sprintf("decided as %s, and no leader has carried it out within %s; the next one will", in.ID, wait)
		err = errors.Join(err, fmt.Errorf("%s %s is still pending", in.Kind, in.ID))
	}
	perr := c.say(line, plan+"\n"+done)
	if err == nil && in.State == watermark.IntentApplied {
		return perr
	}
	return failed(errors.Join(err, perr))
}

// describe says a plan to people.
func describe(p control.Plan) string {
	var b strings.Builder
	t := when
	fmt.Fprintf(&b, "%s: progress %s -> %s (the live pane stays at %s)\n", p.Pipeline, t(p.From), t(p.To), t(p.Watermark))
	switch p.Next.Kind {
	case microbatch.Advance, microbatch.Refine:
		fmt.Fprintf(&b, "next run: %s to %s over %s: reads %d partitions, %d objects, %d bytes; jumps over %d of them\n",
			p.Next.Kind, t(p.Next.Watermark), p.Next.Coverage, p.Recomputed.Partitions, p.Recomputed.Objects, p.Recomputed.Bytes, p.Skipped.Partitions)
	default:
		fmt.Fprintf(&b, "next run: %s (%s)\n", p.Next.Kind, p.Next.Why)
	}
	if p.Unread.Partitions > 0 {
		fmt.Fprintf(&b, "never read: %d partitions from %s to %s, of which %d stay unread\n",
			p.Unread.Partitions, t(*p.Unread.First), t(*p.Unread.Last), p.Lost.Partitions)
	}
	if p.Gap != nil {
		fmt.Fprintf(&b, "not covered: %d partitions in %s, beyond window.max\n", p.GapPartitions, *p.Gap)
	}
	if p.NeedsAcceptance {
		b.WriteString("it takes --accept-data-loss\n")
	}
	fmt.Fprintf(&b, "digest %s", p.Digest)
	return b.String()
}
