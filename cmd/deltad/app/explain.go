package app

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/cmd/deltad/explain"
)

func (c *cli) explainCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "explain KEY…", Short: "the partitions, objects and records that made a document, or why there is none", Args: cobra.MinimumNArgs(1),
		Long: `explain reads the inputs of the live pane again, and those of the base where it has a part in the key, newest
first, and says which records made each field. A key of several columns is given column by column.
"delta" counts the records that the delta adds, "base" those that the base read.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usage(fmt.Errorf("--limit: must not be negative, got %d", limit))
			}
			return c.one(cmd.Context(), func(_ *daemon.App, p *daemon.Pipe) error {
				line := newBar(c.errs)
				defer line.end()
				e, err := explain.Key(cmd.Context(), explain.Subject{
					Out: p.Out, ConfigHash: p.Hash, Builder: p.Pipeline().Builder(), Combiners: c.fns, Workers: 2,
				}, explain.Options{Limit: limit, Progress: func(done, total int) {
					line.draw(fmt.Sprintf("read %d of %d objects", done, total))
				}}, args...)
				if err != nil {
					return misnamed(err)
				}
				line.draw("")
				return c.print(e, func() error { return c.explainText(e) })
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 1000, "read so many objects at most, newest first; 0 reads all")
	return cmd
}

func (c *cli) explainText(e explain.Explanation) error {
	where := "no document"
	if e.Document != nil {
		where = "a document of the " + string(e.Layer)
	} else if e.Layer != "" {
		where = "a " + string(e.Layer)
	}
	fmt.Fprintf(c.out, "%s: %s: %s\n", keyText(e.Key), where, e.Why)
	if e.Document != nil {
		fmt.Fprintf(c.out, "  %s\n", e.Document)
	}
	if e.File != "" {
		fmt.Fprintf(c.out, "  in %s\n", e.File)
	}
	if b := e.Base; b != nil && b.Holds {
		fmt.Fprintf(c.out, "  base %s, cut at %s, has it", b.Generation, when(b.Cut))
		if b.Newest != nil {
			fmt.Fprintf(c.out, "; its newest record there is of %s", when(*b.Newest))
		}
		fmt.Fprintln(c.out)
	}
	if e.Newest != nil {
		fmt.Fprintf(c.out, "  the newest record is %s\n", e.Newest)
	}
	for _, n := range e.Notes {
		fmt.Fprintf(c.out, "  note: %s\n", n)
	}
	if e.Document != nil {
		fmt.Fprintln(c.out)
		rows := make([][]string, len(e.Fields))
		for i, f := range e.Fields {
			rows[i] = fieldRow(f)
		}
		if err := c.table([]string{"FIELD", "OVER", "VALUE", "DELTA", "BASE", "FROM"}, rows); err != nil {
			return err
		}
	}
	if len(e.Objects) > 0 {
		fmt.Fprintln(c.out)
		rows := make([][]string, len(e.Objects))
		for i, o := range e.Objects {
			rows[i] = []string{when(o.Partition), o.Object, inputOf(o), strconv.FormatInt(o.Records, 10), strconv.FormatInt(o.LeftOut, 10)}
		}
		if err := c.table([]string{"PARTITION", "OBJECT", "INPUT OF", "RECORDS", "LEFT OUT"}, rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(c.out, "\nread %d of %d objects\n", e.Scanned, e.Inputs)
	return err
}

func fieldRow(f explain.Field) []string {
	if f.Expr != "" {
		return []string{f.Name, "-", string(f.Value), "-", "-", f.Expr}
	}
	from, base := "", strconv.FormatInt(f.BaseRecords, 10)
	switch {
	case f.Pending:
		from = "pending: the base does not have it yet"
	case f.From != nil:
		from = f.From.String()
	}
	if f.Base && f.BaseRecords == 0 {
		base = "yes" // its records were not among those that were read
	}
	return []string{f.Name, f.Over, string(f.Value), strconv.FormatInt(f.Records, 10), base, from}
}

func inputOf(o explain.Object) string {
	switch {
	case o.Pane && o.Base:
		return "both"
	case o.Base:
		return "base"
	}
	return "pane"
}
