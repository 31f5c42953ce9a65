package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/combine"
)

// finding is what check says of a configuration.
type finding struct {
	Level   string `json:"level"` // error, warning, info
	Message string `json:"message"`
}

func (c *cli) checkCommand() *cobra.Command {
	var online, laws bool
	cmd := &cobra.Command{
		Use: "check", Short: "lint the configuration; with --online try permissions and the stores too", Args: cobra.NoArgs,
		Long: `check says everything that is wrong with the configuration and what follows from it, asking nobody.

With --online it lists the sources and probes the outputs. With --laws it reads the first records of the
newest objects of each pipeline, up to 10,000 records of 16 objects, and checks on them that every combine
fn keeps the laws of its class. Nothing is published.

It exits with 2 if the configuration or a store is at fault, with 1 if a law is broken or nothing could be
sampled.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings, cfg := c.lint()
			ok := cfg != nil
			if ok && online {
				more, err := c.tryStores(cmd.Context())
				if err != nil {
					return err
				}
				findings = append(findings, more...)
			}
			for _, f := range findings {
				ok = ok && f.Level != "error"
			}
			if !laws || cfg == nil {
				return c.checked(ok, findings, nil)
			}
			found, err := c.checkLaws(cmd.Context())
			if err != nil {
				return err
			}
			return c.checked(ok, findings, found)
		},
	}
	cmd.Flags().BoolVar(&online, "online", false, "ask the stores and the state store too")
	cmd.Flags().BoolVar(&laws, "laws", false, "check the combiner laws on sampled records of each pipeline")
	return cmd
}

// checked prints what check has found. Laws are nil where they were not asked
// for.
func (c *cli) checked(usable bool, findings []finding, laws []pipelineLaws) error {
	lawful := true
	for _, p := range laws {
		lawful = lawful && p.ok()
	}
	out := map[string]any{"ok": usable && lawful, "findings": listed(findings)}
	if laws != nil {
		out["laws"] = laws
	}
	err := c.print(out, func() error {
		for _, f := range findings {
			fmt.Fprintf(c.out, "%s: %s\n", f.Level, f.Message)
		}
		for _, p := range laws {
			if err := c.lawsText(p); err != nil {
				return err
			}
		}
		if usable && lawful {
			fmt.Fprintln(c.out, "ok")
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !usable:
		return &exitError{code: exitUsage}
	case !lawful:
		return &exitError{code: exitFailed}
	}
	return nil
}

// lint collects everything there is to say without asking anybody. The
// configuration is nil where it cannot be used.
func (c *cli) lint() ([]finding, *configs.Config) {
	var out []finding
	cfg, err := configs.LoadValid(c.config, os.LookupEnv, c.fnNames())
	var problems configs.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			out = append(out, finding{"error", p.String()})
		}
	} else if err != nil {
		return append(out, finding{"error", c.named(err).Error()}), nil
	}
	wrong := c.uncompiled(cfg, err)
	for _, e := range wrong {
		out = append(out, finding{"error", e.Error()})
	}
	if err != nil {
		return out, nil
	}
	for _, w := range cfg.Warnings() {
		out = append(out, finding{"warning", w.String()})
	}
	for _, p := range cfg.Pipelines {
		for _, line := range configs.Explain(p) {
			out = append(out, finding{"info", fmt.Sprintf("pipelines.%s: %s", p.Name, line)})
		}
	}
	if len(wrong) > 0 {
		return out, nil
	}
	return out, cfg
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, flatten(e)...)
		}
		return out
	}
	if inner := errors.Unwrap(err); inner != nil {
		if _, ok := inner.(interface{ Unwrap() []error }); ok {
			return flatten(inner)
		}
	}
	return []error{err}
}

func (c *cli) fnNames() configs.Fns {
	names := make([]string, 0, len(c.fns))
	for name := range c.fns {
		names = append(names, name)
	}
	return configs.Fns{Names: names, Refused: combine.Refused}
}

// quarantinedShown is how many quarantined folders check names.
const quarantinedShown = 5

// tryStores lists each source and probes each output.
func (c *cli) tryStores(ctx context.Context) ([]finding, error) {
	a, err := c.open(ctx, daemon.Options{})
	if err != nil {
		return []finding{{"error", err.Error()}}, nil
	}
	defer a.Close()
	var out []finding
	for _, p := range a.Pipes {
		name := "pipelines." + p.Config.Name
		found, err := p.Source.Newest(ctx, time.Now(), nil)
		switch {
		case err != nil:
			out = append(out, finding{"error", fmt.Sprintf("%s.source: %v", name, err)})
		case found.Newest == nil:
			out = append(out, finding{"warning", fmt.Sprintf("%s.source: no visible eligible partition below %s with layout %s",
				name, p.Config.Source.URL, p.Config.Source.Layout)})
		default:
			out = append(out, finding{"info", fmt.Sprintf("%s.source: the newest partition is %s, listing calls: %d", name, when(*found.Newest), found.Calls)})
		}
		for i, q := range found.Quarantined {
			if i == quarantinedShown {
				out = append(out, finding{"warning", fmt.Sprintf("%s.source: %d more are quarantined", name, len(found.Quarantined)-i)})
				break
			}
			out = append(out, finding{"warning", fmt.Sprintf("%s.source: %s is quarantined: %s", name, q.Path, q.Reason)})
		}
		if err := daemon.Probe(ctx, p); err != nil {
			out = append(out, finding{"error", fmt.Sprintf("%s.output: %v", name, err)})
		} else {
			out = append(out, finding{"info", name + ".output: the store keeps the conditions that publishing needs"})
		}
	}
	return out, nil
}
