package microbatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// ErrOtherConfig says that a pane was made with another configuration than the
// pipeline's: it cannot be computed again.
var ErrOtherConfig = errors.New("made with another configuration")

// Recomputed is what a pane's inputs make when they are read again.
type Recomputed struct {
	// Files and Tombstones are what the pane's manifest should list, under the
	// same keys.
	Files, Tombstones []sink.File
	// Counts has rows, rejected rows, documents and tombstones.
	Counts sink.Counts
	// Kept are the inputs outside the coverage that are gone from the source:
	// the slices served that the pane keeps of them.
	Kept []string
}

// Recompute computes the data files of a pane again, from the objects and the
// base that its manifest names and from nothing that an earlier run has kept,
// and writes nothing. m must have its inputs loaded, and must be of the run
// that made the files: a reset and a rollback name those of another. Where an
// input is not as it was read any more, the error names it; a pane of another
// configuration is ErrOtherConfig.
func (p *Pipeline) Recompute(ctx context.Context, m sink.Manifest) (Recomputed, error) {
	return p.RecomputeRows(ctx, m, nil)
}

// RecomputeRows is Recompute, and hands over documents and keys of tombstones
// as they are computed, each in key order; nil is for nobody. each must not keep
// the batches.
func (p *Pipeline) RecomputeRows(ctx context.Context, m sink.Manifest, each func(docs, tombstones *column.Batch) error) (Recomputed, error) {
	plan, err := p.planOf(ctx, m)
	if err != nil {
		return Recomputed{}, fmt.Errorf("recompute %s: %w", m.RunID, err)
	}
	r, err := p.recompute(ctx, plan, m, each)
	if err != nil {
		return Recomputed{}, fmt.Errorf("recompute %s: %w", m.RunID, err)
	}
	return r, nil
}

func (p *Pipeline) recompute(ctx context.Context, plan Plan, m sink.Manifest, each func(docs, tombstones *column.Batch) error) (Recomputed, error) {
	var r Recomputed
	cache := slice.NewCache(math.MaxInt64)
	inputs, floor := plan.slices(), plan.floor(p.set.Program)
	built, err := p.builder.Window(ctx, inputs, floor, nil, cache, p.set.Workers)
	if r.Kept = goneOutside(plan, err); len(r.Kept) > 0 {
		p.recallThese(ctx, m.UnreadSlices, r.Kept, cache)
		built, err = p.builder.Window(ctx, inputs, floor, nil, cache, p.set.Workers)
	}
	if err != nil {
		return r, err
	}
	defer func() {
		for _, s := range built.Slices {
			s.Run.Close()
		}
	}()
	bound, err := p.set.Program.Bind(built.Types)
	if err != nil {
		return r, err
	}
	over, err := p.over(ctx, plan, bound)
	if err != nil {
		return r, err
	}
	out := sink.Manifest{RunID: m.RunID}
	nowhere := func(_ context.Context, name string, _ io.ReadSeeker, _ string) (string, error) {
		return sink.DataKey(m.RunID, name), nil
	}
	sources, err := p.sources(bound, built, over, plan)
	if err != nil {
		return r, err
	}
	sampler := window.NewSampler(m.RunID)
	fold := func(to window.Receiver) (window.Rolled, error) {
		return window.Rolled{}, window.FoldSampled(bound, sources, over.base, plan.Watermark, sampler, func(out window.Documents) error {
			if each != nil {
				if err := each(out.Docs, out.Tombstones); err != nil {
					return err
				}
			}
			return to.Rows(out)
		})
	}
	if err := p.fold(ctx, bound, &out, nowhere, fold, nil); err != nil {
		return r, err
	}
	if err := p.canary(bound, sources, over.base, plan.Watermark, sampler, &out); err != nil {
		return r, err
	}
	for _, s := range built.Slices {
		out.Counts.Rejected += s.Rejected
		for _, o := range s.Objects {
			out.Counts.Rows += o.Rows
		}
	}
	r.Files, r.Tombstones, r.Counts = out.Files, out.Tombstones, out.Counts
	return r, nil
}

// planOf is the plan that a pane was made by, as far as its bytes depend on it.
func (p *Pipeline) planOf(ctx context.Context, m sink.Manifest) (Plan, error) {
	if m.Kind != sink.Delta || m.Watermark == nil || m.Coverage == nil {
		return Plan{}, fmt.Errorf("its manifest is of kind %s, not of a pane", m.Kind)
	}
	if m.ConfigHash != p.set.ConfigHash {
		return Plan{}, fmt.Errorf("%w: %s, the pipeline has %s", ErrOtherConfig, m.ConfigHash, p.set.ConfigHash)
	}
	plan := Plan{
		Watermark: m.Watermark.Time,
		Coverage:  window.Coverage{Range: partition.Range{From: m.Coverage.From.Time, To: m.Coverage.To.Time}},
	}
	var err error
	if plan.bases, err = p.basesOf(ctx, &m); err != nil {
		return Plan{}, err
	}
	groups, there := &grouping{}, map[ObjectID]bool{}
	for _, in := range m.Inputs {
		o := partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time}
		plan.add(groups, o)
		there[idOf(o)] = true
	}
	for _, s := range m.Skipped {
		there[ObjectID{s.Key, s.ETag, s.Bytes}] = true
	}
	plan.order(groups)
	for _, g := range plan.bases {
		// What the run listed of (cut − D, cut] is in the manifest.
		if g.reseen(p.set.Since, func(in sink.Input) bool { return there[ObjectID{in.Key, in.ETag, in.Bytes}] }) {
			plan.Reseen = append(plan.Reseen, g.ID)
		}
	}
	return plan, nil
}

// goneOutside are the inputs outside the coverage that an error says are gone
// or replaced.
func goneOutside(plan Plan, err error) (keys []string) {
	for _, f := range blame.Named(err) {
		if !plan.Coverage.Contains(f.Object.Partition) && (errors.Is(f.Err, store.ErrNotFound) || errors.Is(f.Err, source.ErrChanged)) {
			keys = append(keys, f.Object.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// recallThese fetches the kept slices of some objects. What cannot be fetched
// is missed when the object is read.
func (p *Pipeline) recallThese(ctx context.Context, kept []sink.StateFile, keys []string, cache *slice.Cache) {
	for _, f := range kept {
		s, err := p.readSlice(ctx, f)
		if err != nil {
			p.set.Log.Warn("slice of an unread object not read", zap.String("pipeline", p.set.Name), zap.String("object", f.Key), zap.Error(err))
			continue
		}
		if in := s.Input(); slices.ContainsFunc(in.Objects, func(o partition.Object) bool { return slices.Contains(keys, o.Key) }) {
			cache.Put(slice.IDOf(in), s)
		}
	}
}

// RecomputeBase computes the files of a generation again, from the objects
// that its manifest says were read, and writes nothing. It returns what the
// manifest should list: documents, accumulators and keys. tombstones is
// full.tombstones. The generation's own index is used, so a configuration that
// has got other fields since makes no difference.
func (p *Pipeline) RecomputeBase(ctx context.Context, m sink.Manifest, tombstones time.Duration) (sink.Manifest, error) {
	return p.RecomputeBaseRows(ctx, m, tombstones, nil)
}

// RecomputeBaseRows is RecomputeBase, and hands over the documents as they are
// computed, in key order; nil is for nobody. each must not keep the batches.
func (p *Pipeline) RecomputeBaseRows(ctx context.Context, m sink.Manifest, tombstones time.Duration, each func(docs *column.Batch) error) (sink.Manifest, error) {
	g, err := NewGeneration(sink.Ref{Manifest: m.Key()}, m, p.set.Combiners)
	if err != nil {
		return sink.Manifest{}, err
	}
	builder := p.builder
	builder.Program = g.Bound.Program()
	r := full.New(full.Settings{
		Name: p.set.Name, Calendar: p.set.Calendar, ConfigHash: m.ConfigHash, Program: builder.Program,
		Since: p.set.Since, Tombstones: tombstones, Builder: builder, Workers: p.set.Workers, Sink: p.set.Sink, Log: p.set.Log,
		Documents: each,
	})
	return r.Recompute(ctx, m, g.Bound.Signature().Types)
}

// Builder reads objects the way the pipeline does.
func (p *Pipeline) Builder() slice.Builder { return p.builder }

// Unnoted returns, of objects outside the coverage of a pane without a base,
// those that came late and that no publication has entered into the ledger
// yet.
func Unnoted(outside []partition.Object, ledger Ledger) []partition.Object {
	return lateAmong(outside, ledger)
}
