package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// status is what status prints of a pipeline.
type status struct {
	Pipeline    string           `json:"pipeline"`
	Watermark   *string          `json:"watermark"`
	Progress    *string          `json:"progress"`
	DataAge     *float64         `json:"data_age_seconds"`
	Documents   int64            `json:"documents"`
	Version     int64            `json:"version"`
	RunID       string           `json:"run_id,omitempty"`
	PublishedAt *string          `json:"published_at"`
	Leader      string           `json:"leader,omitempty"`
	Epoch       int64            `json:"epoch"`
	Paused      bool             `json:"paused"`
	PausedBy    string           `json:"paused_by,omitempty"`
	PauseReason string           `json:"pause_reason,omitempty"`
	Partitions  map[string]int64 `json:"partitions"`
	// Late are the objects that the state store has as late, and those of the
	// source that wait for a publication to be entered there.
	Late int64 `json:"late_objects"`
	// SourceError says why the source could not be asked for these.
	SourceError string `json:"source_error,omitempty"`
	// Skipped are the objects that the live pane leaves out.
	Skipped []sink.Passed `json:"skipped_objects"`
	// OutputError says why CURRENT or the live pane could not be read: watermark,
	// progress, version and run are those that the state store has then.
	OutputError string `json:"output_error,omitempty"`
	// Lost says that there is no CURRENT although there was a pane.
	Lost bool `json:"current_lost,omitempty"`
	// Prefixes are those of the configuration, as the live pane read them.
	Prefixes []prefixStatus `json:"prefixes"`
	// LastRun is the newest of the journal; runs that found nothing are not in it.
	LastRun *runLine `json:"last_run"`
	// Full is where the full index stands; null where there is none.
	Full *fullStatus `json:"full"`
	// Config says which configuration replicas run.
	Config configStatus `json:"config"`

	stored string // the run whose pane the state store has
}

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "where each pipeline stands", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var unread []error
			err := c.each(cmd.Context(), func(a *daemon.App, p *daemon.Pipe) error {
				s, err := statusOf(cmd.Context(), a, p)
				if err != nil {
					return err
				}
				if s.OutputError != "" {
					unread = append(unread, fmt.Errorf("pipeline %s: %s", s.Pipeline, s.OutputError))
				}
				return c.print(s, func() error { return c.statusText(s) })
			})
			if err != nil {
				return err
			}
			return failed(errors.Join(unread...))
		},
	}
}

// outputTime bounds what status asks of an output: in an outage what the state
// store knows is worth more than the last attempt.
const outputTime = 10 * time.Second

func statusOf(ctx context.Context, a *daemon.App, p *daemon.Pipe) (status, error) {
	s := status{Pipeline: p.Config.Name, Prefixes: []prefixStatus{}, Skipped: []sink.Passed{}}
	asking, stop := context.WithTimeout(ctx, outputTime)
	defer stop()
	live, err := s.outputOf(asking, a, p)
	if err != nil {
		if ctx.Err() != nil {
			return s, err
		}
		s.OutputError = err.Error()
	}
	if err := s.stateOf(ctx, a, p); err != nil {
		return s, err
	}
	if live != nil {
		listing, stop := context.WithTimeout(ctx, outputTime)
		defer stop()
		if err := s.waitingOf(listing, p); err != nil && ctx.Err() != nil {
			return s, err
		} else if err != nil {
			s.SourceError = err.Error()
		}
	}
	return s, s.fullOf(ctx, a, p, live)
}

// outputOf fills in what CURRENT and the live pane say.
func (s *status) outputOf(ctx context.Context, a *daemon.App, p *daemon.Pipe) (*sink.Manifest, error) {
	head, live, err := control.Of(a, p).Live(ctx)
	if err != nil {
		return nil, err
	}
	s.Version = head.Version
	if live == nil {
		return nil, nil
	}
	s.at(head.Watermark.Time, head.Progress.Time)
	s.PublishedAt, s.Documents, s.RunID = whenOrNull(head.PublishedAt.Time), head.Delta.Documents, head.RunID
	s.Skipped = append(s.Skipped, live.Skipped...)
	return live, s.prefixesOf(ctx, p, live)
}

func (s *status) at(watermark, progress time.Time) {
	s.Watermark, s.Progress = whenOrNull(watermark), whenOrNull(progress)
	age := time.Since(watermark).Seconds()
	s.DataAge = &age
}

// stateOf fills in what the state store says.
func (s *status) stateOf(ctx context.Context, a *daemon.App, p *daemon.Pipe) error {
	row, err := control.Of(a, p).Row(ctx)
	if err != nil {
		return err
	}
	s.stored = row.RunID
	s.Paused, s.PausedBy, s.PauseReason = row.Paused, row.PausedBy, row.PauseReason
	s.Config = configStatus{Here: p.Hash, Live: row.ConfigHash}
	switch {
	case s.OutputError != "" && !row.Watermark.IsZero():
		s.at(row.Watermark, row.Progress)
		s.Version, s.RunID = row.CurrentVersion, row.RunID
	case s.OutputError == "" && s.Version == 0 && row.RunID != "":
		s.Lost = true
	}
	newest, err := a.State.NewestConfig(ctx, s.Pipeline)
	switch {
	case err == nil:
		s.Config.Newest, s.Config.Replica, s.Config.Since = newest.Hash, newest.Replica, whenOrNull(newest.At)
	case !errors.Is(err, watermark.ErrNotFound):
		return err
	}
	lease, err := a.State.LeaseStatus(ctx, s.Pipeline, watermark.RoleDelta)
	switch {
	case err == nil:
		s.Epoch = lease.Epoch
		if lease.Live {
			s.Leader = lease.Holder
		}
	case !errors.Is(err, watermark.ErrNotFound):
		return err
	}
	if s.Partitions, err = a.State.LedgerCounts(ctx, s.Pipeline); err != nil {
		return err
	}
	if s.Late, err = a.State.CountLate(ctx, s.Pipeline); err != nil {
		return err
	}
	runs, err := a.State.Runs(ctx, s.Pipeline, 1, "")
	if err == nil && len(runs) > 0 {
		line := lineOfRun(runs[0])
		s.LastRun = &line
	}
	return err
}

// waitingOf adds the late objects that nobody has told the state store of yet.
func (s *status) waitingOf(ctx context.Context, p *daemon.Pipe) error {
	late, err := p.Pipeline().LateWaiting(ctx, time.Now(), s.stored)
	s.Late += int64(len(late))
	return err
}

// prefixStatus is the newest partition that the live pane read of a prefix.
// One that lags is more than half a window behind the pane's watermark.
type prefixStatus struct {
	Prefix  string  `json:"prefix"`
	Newest  *string `json:"newest"`
	Lagging bool    `json:"lagging"`
}

func (s *status) prefixesOf(ctx context.Context, p *daemon.Pipe, m *sink.Manifest) error {
	if len(p.Config.Source.Prefixes) == 0 {
		return nil
	}
	if err := p.Sink.LoadInputs(ctx, m); err != nil {
		return fmt.Errorf("read the live pane: %w", err)
	}
	for _, prefix := range p.Config.Source.Prefixes {
		var newest time.Time
		for _, in := range m.Inputs {
			if strings.HasPrefix(in.Key, strings.Trim(prefix, "/")+"/") && in.Partition.After(newest) {
				newest = in.Partition.Time
			}
		}
		s.Prefixes = append(s.Prefixes, prefixStatus{prefix, whenOrNull(newest), m.Watermark.Sub(newest) > p.Config.Window.Size/2})
	}
	return nil
}

func (c *cli) statusText(s status) error {
	c.standing(s)
	c.standingFull(s)
	if r := s.LastRun; r != nil && r.Error != "" {
		fmt.Fprintf(c.out, "  last run %s: %s: %s\n", r.RunID, r.Status, r.Error)
	}
	return nil
}

// standing prints where a pipeline stands.
func (c *cli) standing(s status) {
	switch {
	case s.Lost:
		fmt.Fprintf(c.out, "%s: CURRENT is gone although there was a pane: stop the daemons, then `deltad recover --dry-run`\n", s.Pipeline)
	case s.Watermark == nil && s.OutputError != "":
		fmt.Fprintf(c.out, "%s: the output cannot be read, and the state store knows of no pane\n", s.Pipeline)
	case s.Watermark == nil:
		fmt.Fprintf(c.out, "%s: no index yet\n", s.Pipeline)
	default:
		c.standingPane(s)
	}
	if s.Paused {
		fmt.Fprintf(c.out, "  paused by %s: %s\n", s.PausedBy, s.PauseReason)
	}
	if s.Watermark == nil && !s.Lost {
		return
	}
	fmt.Fprintf(c.out, "  partitions: %d covered, %d skipped then covered, %d never covered, %d late; %d late objects\n",
		s.Partitions[partition.Covered.String()], s.Partitions[partition.SkippedThenCovered.String()],
		s.Partitions[partition.NeverCovered.String()], s.Partitions[partition.Late.String()], s.Late)
	if s.SourceError != "" {
		fmt.Fprintf(c.out, "  the source cannot be asked for more late objects: %s\n", s.SourceError)
	}
	if n := len(s.Skipped); n > 0 {
		fmt.Fprintf(c.out, "  %d objects skipped, %s among them: %s\n", n, s.Skipped[0].Key, s.Skipped[0].Reason)
	}
	for _, p := range s.Prefixes {
		newest, lag := "none in the coverage", ""
		if p.Newest != nil {
			newest = *p.Newest
		}
		if p.Lagging {
			lag = ", more than half a window behind"
		}
		fmt.Fprintf(c.out, "  prefix %s: newest partition %s%s\n", p.Prefix, newest, lag)
	}
}

// standingPane prints what there is of a pane.
func (c *cli) standingPane(s status) {
	age := (time.Duration(*s.DataAge) * time.Second).String()
	if s.OutputError != "" {
		fmt.Fprintf(c.out, "%s: watermark %s (data %s old), version %d as the state store has it: the output cannot be read\n", s.Pipeline, *s.Watermark, age, s.Version)
	} else {
		fmt.Fprintf(c.out, "%s: watermark %s (data %s old), %d documents, version %d\n", s.Pipeline, *s.Watermark, age, s.Documents, s.Version)
	}
	if *s.Progress != *s.Watermark {
		fmt.Fprintf(c.out, "  progress %s after a reset\n", *s.Progress)
	}
	leader := s.Leader
	if leader == "" {
		leader = "nobody"
	}
	published := ""
	if s.PublishedAt != nil {
		published = " " + *s.PublishedAt
	}
	fmt.Fprintf(c.out, "  led by %s at epoch %d, published%s by run %s\n", leader, s.Epoch, published, s.RunID)
}
