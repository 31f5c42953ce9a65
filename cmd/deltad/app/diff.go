package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

func (c *cli) diffCommand() *cobra.Command {
	d := differ{cli: c}
	cmd := &cobra.Command{
		Use: "diff [A [B]]", Short: "what changed from one pane to another, with their bases",
		Long: `diff prints the keys whose documents differ between two panes, in key order, and counts them.

A and B are run ids, keys of manifests, "live" or "parent". B is the live pane and A its parent where
they are not given. With --bases they are generations of the full index, by themselves: B is the live
base and A the one before it.`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.limit < 0 {
				return usage(fmt.Errorf("--limit: must not be negative, got %d", d.limit))
			}
			return c.one(cmd.Context(), func(_ *daemon.App, p *daemon.Pipe) error { return d.run(cmd.Context(), p, args) })
		},
	}
	cmd.Flags().BoolVar(&d.bases, "bases", false, "A and B are generations of the full index")
	cmd.Flags().IntVar(&d.limit, "limit", 0, "print so many changed keys, and count all; 0 prints all")
	return cmd
}

// differ prints what changed.
type differ struct {
	*cli
	bases bool
	limit int
	out   *json.Encoder
}

// changeLine is one changed key in JSON.
type changeLine struct {
	Change string           `json:"change"`
	Key    []string         `json:"key"`
	Before *reader.Document `json:"before"`
	After  *reader.Document `json:"after"`
}

// diffLine is the last line.
type diffLine struct {
	A       string `json:"a"`
	B       string `json:"b"`
	Added   int64  `json:"added"`
	Removed int64  `json:"removed"`
	Changed int64  `json:"changed"`
}

func (d *differ) run(ctx context.Context, p *daemon.Pipe, args []string) error {
	names := []string{"parent", "live"}
	copy(names, args)
	a, err := d.open(ctx, p, names[0])
	if err != nil {
		return err
	}
	b, err := d.open(ctx, p, names[1])
	if err != nil {
		return err
	}
	d.out = json.NewEncoder(d.cli.out)
	d.out.SetEscapeHTML(false)
	end := diffLine{A: a.Manifest.Key(), B: b.Manifest.Key()}
	printed := 0
	for c, err := range reader.Diff(ctx, a, b) {
		if err != nil {
			return collected(err)
		}
		line := changeLine{Change: "changed", Key: c.Key, Before: c.Before, After: c.After}
		switch {
		case c.Before == nil:
			line.Change, end.Added = "added", end.Added+1
		case c.After == nil:
			line.Change, end.Removed = "removed", end.Removed+1
		default:
			end.Changed++
		}
		if printed++; d.limit > 0 && printed > d.limit {
			continue
		}
		if err := d.change(line); err != nil {
			return err
		}
	}
	if d.output == "json" {
		return d.out.Encode(end)
	}
	_, err = fmt.Fprintf(d.cli.out, "%d added, %d removed, %d changed from %s to %s\n", end.Added, end.Removed, end.Changed, end.A, end.B)
	return err
}

// open is the snapshot that an argument names.
func (d *differ) open(ctx context.Context, p *daemon.Pipe, name string) (s *reader.Snapshot, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, collected(err))
		}
	}()
	o := reader.Options{Lazy: true}
	if name == "live" || name == "parent" {
		live, err := pollOnce(ctx, p, true)
		if err != nil {
			return nil, err
		}
		if d.bases {
			return d.openBase(ctx, p, live, name)
		}
		if name == "live" {
			return live, nil
		}
		if live.Manifest.Parent == nil {
			return nil, errors.New("the live pane is the first one: it has no parent")
		}
		return reader.OpenPane(ctx, p.Out, *live.Manifest.Parent, o)
	}
	switch {
	case strings.HasSuffix(name, ".json"):
		ref, m, err := sink.FindManifest(ctx, p.Out, name)
		if err != nil {
			return nil, err
		}
		if m.Kind == sink.Full {
			return reader.OpenBase(ctx, p.Out, m.RunID, o)
		}
		return reader.OpenPane(ctx, p.Out, ref, o)
	case !sink.ValidID(name):
		return nil, usage(fmt.Errorf(`%q is neither an id nor the key of a manifest, "live" or "parent"`, name))
	case d.bases:
		return reader.OpenBase(ctx, p.Out, name, o)
	}
	return reader.OpenRun(ctx, p.Out, name, o)
}

// openBase is the live base, or the one before it.
func (d *differ) openBase(ctx context.Context, p *daemon.Pipe, live *reader.Snapshot, name string) (*reader.Snapshot, error) {
	base, history := live.Current.Base, live.Manifest.History
	if base == nil {
		return nil, errors.New("the live pane has no base")
	}
	if name == "live" {
		return reader.OpenBase(ctx, p.Out, base.Generation, reader.Options{Lazy: true})
	}
	if len(history) == 0 {
		return nil, fmt.Errorf("base %s is the first one: there is none before it", base.Generation)
	}
	return reader.OpenBase(ctx, p.Out, history[0].Generation, reader.Options{Lazy: true})
}

// collected says what a missing object most likely means.
func collected(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("it is not there, or was collected (output.retain): %w", err)
	}
	return err
}

// change prints one key: added and removed ones with their documents, changed
// ones with a line for each field that differs.
func (d *differ) change(c changeLine) error {
	if d.output == "json" {
		return d.out.Encode(c)
	}
	key := keyText(c.Key)
	if c.Before == nil || c.After == nil {
		sign, doc := "+", c.After
		if doc == nil {
			sign, doc = "-", c.Before
		}
		b, err := doc.MarshalJSON()
		if err == nil {
			_, err = fmt.Fprintf(d.cli.out, "%s %s %s\n", sign, key, b)
		}
		return err
	}
	was, err := values(*c.Before)
	if err != nil {
		return err
	}
	is, err := values(*c.After)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range c.After.Fields {
		names = append(names, f.Name)
	}
	for _, f := range c.Before.Fields {
		if _, there := is[f.Name]; !there {
			names = append(names, f.Name)
		}
	}
	for _, name := range names {
		if before, after := orNull(was[name]), orNull(is[name]); before != after {
			if _, err := fmt.Fprintf(d.cli.out, "~ %s %s: %s → %s\n", key, name, before, after); err != nil {
				return err
			}
		}
	}
	return nil
}

// values are the columns of a document as JSON, by name.
func values(d reader.Document) (map[string]json.RawMessage, error) {
	b, err := d.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var out map[string]json.RawMessage
	return out, json.Unmarshal(b, &out)
}

func orNull(v json.RawMessage) string {
	if v == nil {
		return "null"
	}
	return string(v)
}

// keyText is a key in a line of text: as it is where that is clear.
func keyText(key []string) string {
	if len(key) == 1 && key[0] != "" && !strings.ContainsAny(key[0], " \t\r\n\"") {
		return key[0]
	}
	b, err := json.Marshal(key)
	if err != nil {
		return strings.Join(key, " ")
	}
	return string(b)
}
