package microbatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// Generation is a generation of the full index as a run uses it: what it read,
// and what its accumulators are. It never changes.
type Generation struct {
	ID       string
	Ref      sink.Ref
	Cut      time.Time
	Manifest sink.Manifest
	// Bound is the index it was built with, at its types.
	Bound *index.Bound

	read   map[string]sink.Input // by key
	inputs []sink.Input          // by partition
	// lacking is what lacks has found, by the other's id.
	lacking map[string][]sink.Input
	// accumulators are fetched when a pane is first computed over the
	// generation, seen when the keys are first needed.
	accumulators, seen *table.Run
}

// NewGeneration opens the manifest of a generation, whose inputs are loaded.
func NewGeneration(ref sink.Ref, m sink.Manifest, builders map[string]combine.Builder) (*Generation, error) {
	if m.Kind != sink.Full || m.Full == nil || m.Cut == nil {
		return nil, fmt.Errorf("open base %s: %s is no manifest of a full index", m.RunID, ref.Manifest)
	}
	bound, err := index.DecodeSignature(m.Full.Index, builders)
	if err != nil {
		return nil, fmt.Errorf("open base %s: %w", m.RunID, err)
	}
	g := &Generation{
		ID: m.RunID, Ref: ref, Cut: m.Cut.Time, Manifest: m, Bound: bound,
		read: make(map[string]sink.Input, len(m.Inputs)), inputs: slices.Clone(m.Inputs),
	}
	for _, in := range m.Inputs {
		g.read[in.Key] = in
	}
	slices.SortFunc(g.inputs, func(a, b sink.Input) int { return a.Partition.Compare(b.Partition.Time) })
	return g, nil
}

// Read says whether the generation read an object of this key, in whatever
// version: what replaced it is not unread, but makes the generation stale.
func (g *Generation) Read(o partition.Object) bool {
	_, ok := g.read[o.Key]
	return ok && !o.Partition.After(g.Cut)
}

// exactly says whether the generation read this version of an object.
func (g *Generation) exactly(o partition.Object) bool {
	in, ok := g.read[o.Key]
	return ok && !o.Partition.After(g.Cut) && in.ETag == o.ETag && in.Bytes == o.Size
}

// Unread says that an object lies at or before the cut and was not read.
func (g *Generation) Unread(o partition.Object) bool {
	return !o.Partition.After(g.Cut) && !g.Read(o)
}

// lacks are the objects of before its cut that another generation has read and
// it has not.
func (g *Generation) lacks(other *Generation) []sink.Input {
	if g == other {
		return nil
	}
	if in, ok := g.lacking[other.ID]; ok {
		return in
	}
	var out []sink.Input
	for _, in := range other.inputs {
		if g.Unread(partition.Object{Key: in.Key, Partition: in.Partition.Time}) {
			out = append(out, in)
		}
	}
	if g.lacking == nil {
		g.lacking = map[string][]sink.Input{}
	}
	g.lacking[other.ID] = out
	return out
}

// Within are the objects that it read in a range of partitions.
func (g *Generation) Within(r partition.Range) []sink.Input {
	after := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(g.inputs, t, func(in sink.Input, t time.Time) int {
			if in.Partition.After(t) {
				return 1
			}
			return -1
		})
		return i
	}
	from, to := after(r.From), after(r.To)
	return g.inputs[from:max(from, to)]
}

// base is what CURRENT and the manifests of panes call it.
func (g *Generation) base() *sink.ManifestBase {
	return &sink.ManifestBase{Generation: g.ID, Cut: sink.At(g.Cut), Manifest: g.Ref.Manifest, SHA256: g.Ref.SHA256}
}

// longest is the longest duration of its fields: its documents hold values of
// partitions so long before its cut.
func (g *Generation) longest() time.Duration { return g.Bound.Program().Spec().LongestOver() }

// oldestCut is that of the bases that a pane must fit, zero without any. A base
// whose durations are longer than the pane's counts as so much older: what they
// hold of (cut − D, cut] the pane hides.
func oldestCut(bases []*Generation, longest time.Duration) time.Time {
	var t time.Time
	for _, g := range bases {
		if cut := g.Cut.Add(-max(0, g.longest()-longest)); t.IsZero() || cut.Before(t) {
			t = cut
		}
	}
	return t
}

// generations are those opened; what no pane names any more is let go of.
type generations map[sink.Ref]*Generation

// generation opens a base, or returns the one opened before.
func (p *Pipeline) generation(ctx context.Context, id string, ref sink.Ref) (*Generation, error) {
	if g := p.bases[ref]; g != nil {
		return g, nil
	}
	m, err := p.set.Sink.ReadManifest(ctx, ref)
	if err == nil {
		err = p.set.Sink.LoadInputs(ctx, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("read base %s: %w", id, err)
	}
	g, err := NewGeneration(ref, m, p.set.Combiners)
	if err != nil {
		return nil, err
	}
	if p.bases == nil {
		p.bases = generations{}
	}
	p.bases[ref] = g
	return g, nil
}

// basesOf opens the bases that a pane over the live pane's must fit: the live
// pane's own first, then those still supported at now. A refinement keeps what
// the live pane supports, however late it is.
func (p *Pipeline) basesOf(ctx context.Context, live *sink.Manifest) ([]*Generation, error) {
	if live == nil || live.Base == nil {
		return nil, nil
	}
	g, err := p.generation(ctx, live.Base.Generation, sink.Ref{Manifest: live.Base.Manifest, SHA256: live.Base.SHA256})
	if err != nil {
		return nil, err
	}
	out := []*Generation{g}
	for _, s := range live.Supports {
		if g, err = p.generation(ctx, s.Generation, sink.Ref{Manifest: s.Manifest, SHA256: s.SHA256}); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// keep lets go of the bases that are not among these.
func (gs generations) keep(bases []*Generation) {
	for ref, g := range gs {
		if !slices.Contains(bases, g) {
			delete(gs, ref)
		}
	}
}

// accumulatorsOf are the base's, fetched once.
func (p *Pipeline) accumulatorsOf(ctx context.Context, g *Generation) (*table.Run, error) {
	if g.accumulators != nil {
		return g.accumulators, nil
	}
	run, err := p.fetch(ctx, g.Manifest.Full.Accumulators, g.Bound.BaseShape())
	if err != nil {
		return nil, fmt.Errorf("fetch the accumulators of base %s: %w", g.ID, err)
	}
	if run == nil {
		return nil, fmt.Errorf("fetch the accumulators of base %s: its manifest names none", g.ID)
	}
	g.accumulators = run
	return run, nil
}

// seenBy are the keys with a record in (cut − D, cut], fetched once; nil if the
// base has none.
func (p *Pipeline) seenBy(ctx context.Context, g *Generation) (*table.Run, error) {
	if g.seen != nil {
		return g.seen, nil
	}
	run, err := p.fetch(ctx, g.Manifest.Full.Seen, g.Bound.SeenShape())
	if err != nil {
		return nil, fmt.Errorf("fetch the keys of base %s: %w", g.ID, err)
	}
	g.seen = run
	return run, nil
}

// fetch downloads a private run and verifies it.
func (p *Pipeline) fetch(ctx context.Context, files []sink.StateFile, shape table.Shape) (*table.Run, error) {
	switch len(files) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, errors.New("more than one file")
	}
	in, err := p.set.Sink.OpenState(ctx, files[0])
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := spool.New(p.set.TempDir, p.set.Memory)
	if _, err := io.Copy(out, in); err != nil {
		out.Abort()
		return nil, err
	}
	data, err := out.Seal()
	if err != nil {
		return nil, err
	}
	return table.Open(data, data.Size(), shape)
}
