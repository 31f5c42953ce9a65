package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/cmd/deltad/laws"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// pipelineLaws are the laws of one pipeline in JSON.
type pipelineLaws struct {
	laws.Report
	// Error says why nothing could be sampled.
	Error string `json:"error,omitempty"`
}

// ok says whether nothing was found broken.
func (p pipelineLaws) ok() bool {
	for _, f := range p.Fields {
		if f.Violation != nil {
			return false
		}
	}
	return p.Error == ""
}

// checkLaws checks the combine fns of every selected pipeline on records of its
// source. Nothing but the sources is asked, no state store either.
func (c *cli) checkLaws(ctx context.Context) (out []pipelineLaws, err error) {
	line := newBar(c.errs)
	defer line.end()
	a, err := c.openBy(ctx, daemon.Look, daemon.Options{})
	if err != nil {
		return nil, err
	}
	for _, p := range a.Pipes {
		line.draw(p.Config.Name + ": combiner laws on sampled records")
		report, err := laws.Run(ctx, laws.Subject{
			Name: p.Config.Name, Source: p.Source, Window: p.Config.Window.Size, Builder: p.Pipeline().Builder(), Combiners: c.fns,
		}, laws.Options{Now: time.Now(), Records: laws.DefaultRecords, Objects: laws.DefaultObjects, Bytes: laws.DefaultBytes})
		found := pipelineLaws{Report: report}
		if err != nil {
			found.Error = err.Error()
		}
		out = append(out, found)
		line.draw("")
		if err := ctx.Err(); err != nil {
			return out, failed(fmt.Errorf("pipeline %s: %w", p.Config.Name, err))
		}
	}
	return out, nil
}

// lawsText prints a line for each field.
func (c *cli) lawsText(p pipelineLaws) error {
	switch {
	case p.Error != "":
		_, err := fmt.Fprintf(c.out, "laws: %s: nothing could be checked: %s\n", p.Pipeline, p.Error)
		return err
	case p.From == nil:
		_, err := fmt.Fprintf(c.out, "laws: %s: no data: there is no visible eligible partition, nothing was checked\n", p.Pipeline)
		return err
	}
	fmt.Fprintf(c.out, "laws: %s: %d records of %d objects, partitions %s to %s\n", p.Pipeline, p.Records, len(p.Objects), when(*p.From), when(*p.To))
	if p.Cut {
		fmt.Fprintf(c.out, "laws: %s: values are large: fewer records were read than allowed\n", p.Pipeline)
	}
	rows := make([][]string, len(p.Fields))
	for i, f := range p.Fields {
		rows[i] = []string{f.Name, f.Fn, f.TypeID, f.Class, strconv.Itoa(f.Records), lawsHeld(f)}
	}
	if err := c.table([]string{"FIELD", "FN", "TYPE ID", "CLASS", "RECORDS", "LAWS"}, rows); err != nil {
		return err
	}
	for _, f := range p.Fields {
		if f.Violation != nil {
			fmt.Fprintf(c.out, "error: pipelines.%s.index.fields.%s: %s\n", p.Pipeline, f.Name, strings.TrimSpace(f.Violation.Text))
		}
	}
	return nil
}

func lawsHeld(f laws.Field) string {
	switch {
	case f.Violation != nil:
		return f.Violation.Law + " BROKEN"
	case f.Records == 0:
		return "not checked: no record has a part in it"
	}
	return fmt.Sprintf("all %d held", len(combinetest.Laws()))
}
