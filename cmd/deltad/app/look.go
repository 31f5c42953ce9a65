package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/watermark"
)

// each opens the configuration and calls do with every selected pipeline.
func (c *cli) each(ctx context.Context, do func(a *daemon.App, p *daemon.Pipe) error) error {
	a, err := c.open(ctx, daemon.Options{})
	if err != nil {
		return err
	}
	defer a.Close()
	for _, p := range a.Pipes {
		if err := do(a, p); err != nil {
			return failed(fmt.Errorf("pipeline %s: %w", p.Config.Name, err))
		}
	}
	return nil
}

// one opens the configuration and calls do with the one selected pipeline.
func (c *cli) one(ctx context.Context, do func(a *daemon.App, p *daemon.Pipe) error) error {
	a, err := c.open(ctx, daemon.Options{})
	if err != nil {
		return err
	}
	defer a.Close()
	p, err := a.Pipe("")
	if err != nil {
		return usage(err)
	}
	return failed(do(a, p))
}

func (c *cli) planCommand() *cobra.Command {
	return &cobra.Command{
		Use: "plan", Short: "what the next run would do, and of how much; writes nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.each(cmd.Context(), func(a *daemon.App, p *daemon.Pipe) error {
				plan, err := p.Pipeline().Plan(cmd.Context(), time.Now())
				if err != nil {
					return err
				}
				row, err := control.Of(a, p).Row(cmd.Context())
				if err != nil {
					return err
				}
				line := planOf(p.Config.Name, plan)
				line.Paused = row.Paused
				return c.print(line, func() error { return c.planText(p, row, plan) })
			})
		},
	}
}

// planLine is a plan in JSON: what there is not yet is null, and of what there
// may be several there is a list.
type planLine struct {
	Pipeline string `json:"pipeline"`
	microbatch.Plan
	// These stand before the plan's own.
	Watermark   *string          `json:"watermark"`
	Previous    *string          `json:"previous_watermark"`
	Progress    *string          `json:"progress"`
	Coverage    *window.Coverage `json:"coverage"`
	Inputs      []planInput      `json:"inputs"`
	Skipped     []sink.Passed    `json:"skipped"`
	Quarantined []sink.Passed    `json:"quarantined"`
	Skips       []time.Time      `json:"skips"`
	Vanished    []string         `json:"vanished"`
	Bases       []string         `json:"bases"`
	Stale       []string         `json:"stale"`
	Reseen      []string         `json:"reseen"`
	Cost        planCost         `json:"cost"`
	// Paused says that no run comes before somebody resumes the pipeline.
	Paused bool `json:"paused"`
}

// planInput is objects of one partition that the run is made of.
type planInput struct {
	Start   string       `json:"start"`
	Objects []planObject `json:"objects"`
	Read    bool         `json:"read,omitempty"`
}

// planObject has the names that a manifest's inputs have.
type planObject struct {
	Key       string `json:"key"`
	Partition string `json:"partition"`
	ETag      string `json:"etag"`
	Bytes     int64  `json:"bytes"`
}

// planCost is what the run is made of. It reads less where slices are kept.
type planCost struct {
	Partitions int   `json:"partitions"`
	Objects    int   `json:"objects"`
	Bytes      int64 `json:"bytes"`
}

func costOf(plan microbatch.Plan) planCost {
	c := planCost{Partitions: len(plan.Inputs)}
	for _, in := range plan.Inputs {
		c.Objects += len(in.Objects)
		for _, o := range in.Objects {
			c.Bytes += o.Size
		}
	}
	return c
}

func planOf(pipeline string, plan microbatch.Plan) planLine {
	l := planLine{
		Pipeline: pipeline, Plan: plan, Watermark: whenOrNull(plan.Watermark), Previous: whenOrNull(plan.Previous), Progress: whenOrNull(plan.Progress),
		Inputs: make([]planInput, 0, len(plan.Inputs)), Skipped: listed(plan.Skipped), Quarantined: listed(plan.Quarantined),
		Skips: listed(plan.Skips), Vanished: listed(plan.Vanished),
		Bases: listed(plan.Bases), Stale: listed(plan.Stale), Reseen: listed(plan.Reseen), Cost: costOf(plan),
	}
	if !plan.Coverage.To.IsZero() {
		l.Coverage = &plan.Coverage
	}
	for _, in := range plan.Inputs {
		out := planInput{Start: when(in.Start), Objects: make([]planObject, 0, len(in.Objects)), Read: in.Read}
		for _, o := range in.Objects {
			out.Objects = append(out.Objects, planObject{Key: o.Key, Partition: when(o.Partition), ETag: o.ETag, Bytes: o.Size})
		}
		l.Inputs = append(l.Inputs, out)
	}
	return l
}

// listed makes nothing an empty list and not null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (c *cli) planText(p *daemon.Pipe, row watermark.Pipeline, plan microbatch.Plan) error {
	fmt.Fprintf(c.out, "%s: %s: %s\n", p.Config.Name, plan.Kind, plan.Why)
	if row.Paused {
		fmt.Fprintf(c.out, "  paused by %s: %s; no run before `deltad resume`\n", row.PausedBy, row.PauseReason)
	}
	if plan.Kind == microbatch.Idle {
		return nil
	}
	cost := costOf(plan)
	fmt.Fprintf(c.out, "  watermark %s, progress before %s\n  covers %s: %d partitions, %d objects, %d bytes\n",
		when(plan.Watermark), when(plan.Previous), plan.Coverage.Range, cost.Partitions, cost.Objects, cost.Bytes)
	fmt.Fprintf(c.out, "  skips %d partitions, leaves out %d objects, %d quarantined, %d inputs gone\n",
		len(plan.Skips), len(plan.Skipped), len(plan.Quarantined), len(plan.Vanished))
	for _, g := range plan.Coverage.Gaps {
		fmt.Fprintf(c.out, "  never covered: %s\n", g)
	}
	c.planBases(plan)
	return nil
}

func (c *cli) runsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "runs", Short: "the newest runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive("--limit", limit); err != nil {
				return err
			}
			return c.one(cmd.Context(), func(a *daemon.App, p *daemon.Pipe) error {
				runs, err := a.State.Runs(cmd.Context(), p.Config.Name, limit, "")
				if err != nil {
					return err
				}
				lines := make([]runLine, len(runs))
				rows := make([][]string, len(runs))
				for i, r := range runs {
					lines[i] = lineOfRun(r)
					rows[i] = []string{r.ID, r.Reason, string(r.Status), when(r.Watermark), strconv.FormatInt(r.Documents, 10), when(r.PlannedAt), r.Error}
				}
				return c.print(lines, func() error {
					return c.table([]string{"RUN", "REASON", "STATUS", "WATERMARK", "DOCUMENTS", "PLANNED", "ERROR"}, rows)
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many")
	return cmd
}

// runLine is a run of the journal as commands print it.
type runLine struct {
	RunID             string  `json:"run_id"`
	Reason            string  `json:"reason"`
	Status            string  `json:"status"`
	Watermark         *string `json:"watermark"`
	PreviousWatermark *string `json:"previous_watermark"`
	CoverageFrom      *string `json:"coverage_from"`
	Epoch             int64   `json:"epoch"`
	Instance          string  `json:"instance"`
	Version           int64   `json:"version"`
	Documents         int64   `json:"documents"`
	Late              int64   `json:"late"`
	Manifest          string  `json:"manifest,omitempty"`
	PlannedAt         *string `json:"planned_at"`
	FinishedAt        *string `json:"finished_at"`
	Error             string  `json:"error,omitempty"`
}

// lineOfRun is a run of the journal as commands print it.
func lineOfRun(r watermark.Run) runLine {
	return runLine{
		RunID: r.ID, Reason: r.Reason, Status: string(r.Status), Watermark: whenOrNull(r.Watermark),
		PreviousWatermark: whenOrNull(r.PreviousWatermark), CoverageFrom: whenOrNull(r.CoverageFrom), Epoch: r.Epoch,
		Instance: r.Instance, Version: r.CurrentVersion, Documents: r.Documents, Late: r.Late, Manifest: r.Manifest.Key,
		PlannedAt: whenOrNull(r.PlannedAt), FinishedAt: whenOrNull(r.FinishedAt), Error: r.Error,
	}
}

func (c *cli) partitionsCommand() *cobra.Command {
	var limit int
	var from, to string
	cmd := &cobra.Command{
		Use: "partitions", Short: "what became of each partition", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			after, err1 := optionalTime("--from", from)
			through, err2 := optionalTime("--to", to)
			if err := usages(err1, err2, positive("--limit", limit)); err != nil {
				return err
			}
			return c.one(cmd.Context(), func(a *daemon.App, p *daemon.Pipe) error {
				if !after.IsZero() {
					after = after.Add(-time.Microsecond) // --from is inclusive
				}
				lines, err := a.State.LedgerRange(cmd.Context(), p.Config.Name, "", after, through, limit)
				if err != nil {
					return err
				}
				out := make([]partitionLine, len(lines))
				rows := make([][]string, len(lines))
				for i, l := range lines {
					out[i] = partitionLine{when(l.Partition), l.State, l.Objects, l.Fingerprint, l.RunID, l.Note}
					rows[i] = []string{when(l.Partition), l.State, strconv.Itoa(l.Objects), l.RunID, l.Note}
				}
				return c.print(out, func() error { return c.table([]string{"PARTITION", "STATE", "OBJECTS", "RUN", "NOTE"}, rows) })
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&limit, "limit", 1000, "how many, oldest first")
	f.StringVar(&from, "from", "", "from this partition start on")
	f.StringVar(&to, "to", "", "up to this partition start")
	return cmd
}

// partitionLine is a line of the ledger as commands print it.
type partitionLine struct {
	Partition   string `json:"partition"`
	State       string `json:"state"`
	Objects     int    `json:"objects"`
	Fingerprint string `json:"fingerprint"`
	RunID       string `json:"run_id"`
	Note        string `json:"note,omitempty"`
}

func positive(flag string, n int) error {
	if n > 0 {
		return nil
	}
	return usage(fmt.Errorf("%s: must be at least 1, got %d", flag, n))
}

func optionalTime(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, fmt.Errorf("%s: must be an RFC 3339 time such as 2026-11-30T10:00:00Z, got %q", flag, s)
	}
	return t, nil
}

func (c *cli) getCommand() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use: "get KEY…", Short: "one document of the live index; a key of several columns is given column by column", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.one(cmd.Context(), func(_ *daemon.App, p *daemon.Pipe) error {
				snapshot, err := pollOnce(cmd.Context(), p, true)
				if err != nil {
					return err
				}
				found, err := snapshot.Find(cmd.Context(), args...)
				switch {
				case err != nil:
					return misnamed(err)
				case found.Layer == reader.Tombstone:
					return fmt.Errorf("there is no document with key %q: the delta has a tombstone for it; `deltad explain` says why", args)
				case !found.Found:
					return fmt.Errorf("there is no document with key %q", args)
				}
				b, err := found.MarshalJSON()
				if err != nil {
					return err
				}
				if !origin {
					_, err = fmt.Fprintf(c.out, "%s\n", b)
					return err
				}
				line := originOf(snapshot, found)
				line.Document = b
				return c.print(line, func() error {
					_, err := fmt.Fprintf(c.out, "%s\n  from the %s: %s, of %s\n", b, line.Layer, line.File, line.Manifest)
					return err
				})
			})
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "say where the document is: in the delta or the base, in which file")
	return cmd
}

// misnamed makes an error of what was given for a key one of usage.
func misnamed(err error) error {
	if errors.Is(err, reader.ErrKey) {
		return usage(err)
	}
	return err
}

// originLine is a document and where it came from.
type originLine struct {
	Document json.RawMessage `json:"document"`
	Layer    reader.Layer    `json:"layer"`
	File     string          `json:"file"`
	Manifest string          `json:"manifest"`
	// RunID is the pane's, or the base's generation.
	RunID   string `json:"run_id"`
	Version int64  `json:"version"` // of CURRENT
}

func originOf(s *reader.Snapshot, f reader.Found) originLine {
	m := &s.Manifest
	if f.Layer == reader.InBase {
		m = s.BaseManifest
	}
	return originLine{Layer: f.Layer, File: f.File, Manifest: m.Key(), RunID: m.RunID, Version: s.Current.Version}
}

func pollOnce(ctx context.Context, p *daemon.Pipe, lazy bool) (*reader.Snapshot, error) {
	r := p.Reader(reader.Options{Lazy: lazy})
	if _, err := r.Poll(ctx); err != nil {
		return nil, err
	}
	return r.Snapshot(), nil
}

func (c *cli) lsCommand() *cobra.Command {
	var sql bool
	cmd := &cobra.Command{
		Use: "ls", Short: "the live files; with --sql as a table expression for DuckDB", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.one(cmd.Context(), func(_ *daemon.App, p *daemon.Pipe) error {
				snapshot, err := pollOnce(cmd.Context(), p, true)
				if err != nil {
					return err
				}
				if sql {
					expression := snapshot.SQL(p.Config.Output.URL)
					return c.print(map[string]any{"manifest": snapshot.Manifest.Key(), "sql": expression}, func() error {
						_, err := fmt.Fprintln(c.out, expression)
						return err
					})
				}
				line := filesOf(snapshot)
				return c.print(line, func() error {
					return c.table([]string{"FILE", "ROWS", "BYTES", "SHA-256", "LAYER"}, line.rows())
				})
			})
		},
	}
	cmd.Flags().BoolVar(&sql, "sql", false, "print read_parquet([…]) over exactly the live files")
	return cmd
}

// filesLine is the live files in JSON.
type filesLine struct {
	Manifest   string      `json:"manifest"`
	Files      []sink.File `json:"files"`
	Tombstones []sink.File `json:"tombstones"`
	Left       []sink.File `json:"left"`
	Base       *baseFiles  `json:"base"`
}

type baseFiles struct {
	Generation string      `json:"generation"`
	Cut        string      `json:"cut"`
	Manifest   string      `json:"manifest"`
	Files      []sink.File `json:"files"`
}

func filesOf(s *reader.Snapshot) filesLine {
	l := filesLine{
		Manifest: s.Manifest.Key(), Files: listed(s.Manifest.Files), Tombstones: listed(s.Manifest.Tombstones), Left: listed(s.Manifest.Left),
	}
	if b := s.BaseManifest; b != nil {
		l.Base = &baseFiles{Generation: b.RunID, Cut: when(b.Cut.Time), Manifest: b.Key(), Files: listed(b.Files)}
	}
	return l
}

func (l filesLine) rows() (rows [][]string) {
	add := func(files []sink.File, what string) {
		for _, f := range files {
			layer := what
			if f.Layer > 0 {
				layer += " " + strconv.Itoa(f.Layer)
			}
			rows = append(rows, []string{f.Key, strconv.FormatInt(f.Rows, 10), strconv.FormatInt(f.Bytes, 10), f.SHA256, layer})
		}
	}
	add(l.Files, "delta")
	add(l.Tombstones, "tombstones")
	add(l.Left, "left")
	if l.Base != nil {
		add(l.Base.Files, "base")
	}
	return rows
}
