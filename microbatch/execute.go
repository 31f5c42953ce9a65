package microbatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/datafile"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/watermark"
)

// done is what an execution published.
type done struct {
	manifest sink.Manifest
	stateErr error // the pane is live, the state store could not be told
}

// execute carries a plan out: steps 5 to 9 of a run. Before the change of
// CURRENT an error leaves nothing visible; after it the pane is live, whatever
// happens to the state store.
func (p *Pipeline) execute(ctx context.Context, t term, plan Plan, run watermark.Run) (d done, err error) {
	defer p.afterPanic(ctx, t, run, &err)
	if err := p.set.State.PlanRun(ctx, t.lease, run); err != nil {
		return done{}, err // which names the run
	}
	p.at("planned")
	m, err := p.produce(ctx, t, plan, run)
	if err != nil {
		p.giveUp(ctx, t, run, err)
		return done{}, err
	}
	ref, err := p.set.Sink.WriteManifest(ctx, m)
	if err != nil {
		p.giveUp(ctx, t, run, err)
		return done{}, err
	}
	p.at("manifest")
	return p.commit(ctx, t, run, ref, m)
}

// afterPanic settles a run that panicked; it must be deferred itself. Where
// the outcome of its commit is open, the next reconciliation settles it.
func (p *Pipeline) afterPanic(ctx context.Context, t term, run watermark.Run, err *error) {
	v := recover()
	if v == nil {
		return
	}
	*err = rescue.Panicked(v, "run "+run.ID)
	if p.seen.reconciled {
		p.giveUp(ctx, t, run, *err)
	}
}

func (p *Pipeline) journalEntry(t term, plan Plan) watermark.Run {
	run := watermark.Run{
		ID: p.set.NewID(), ChangeID: p.set.NewID(), Pipeline: p.set.Name, Kind: watermark.RunDelta, Reason: string(reasonOf(plan)),
		Epoch: t.lease.Epoch, Instance: p.set.Instance, PreviousWatermark: plan.Previous, Watermark: plan.Watermark,
		CoverageFrom: plan.Coverage.From, ConfigHash: p.set.ConfigHash,
	}
	if p.seen.live != nil {
		run.Parent = watermark.ManifestRef{Key: p.seen.ref.Manifest, SHA256: p.seen.ref.SHA256}
	}
	return run
}

func reasonOf(plan Plan) sink.Reason {
	if plan.Promote {
		return sink.Promote
	}
	if plan.Kind == Advance {
		return sink.Publish
	}
	return sink.Refine
}

// giveUp journals a failed run. It is best effort on a context of its own: a
// run left planned is settled by the next reconciliation.
func (p *Pipeline) giveUp(ctx context.Context, t term, run watermark.Run, why error) {
	if blame.Fenced(why) || blame.Fenced(context.Cause(ctx)) {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if err := p.set.State.FailRun(ctx, t.lease, run.ID, why.Error()); err != nil {
		p.seen.reconciled = false
	}
}

// produce reads, folds and writes: everything of a pane but its manifest's
// own bytes.
func (p *Pipeline) produce(ctx context.Context, t term, plan Plan, run watermark.Run) (sink.Manifest, error) {
	timings := map[string]int64{}
	lap := stopwatch(timings)
	cache := p.cache
	if p.set.NoCache {
		cache = slice.NewCache(math.MaxInt64) // for this run alone
	}
	inputs := plan.slices()
	p.expect(inputs)
	built, err := p.window(ctx, plan, inputs, cache)
	if err != nil {
		return sink.Manifest{}, err
	}
	cache.Keep(inputs)
	p.observeSlices(built)
	p.types = built.Types
	lap("slices")
	p.at("slices")
	bound, err := p.bind(built.Types)
	if err != nil {
		return sink.Manifest{}, err
	}
	over, err := p.over(ctx, plan, bound)
	if err != nil {
		return sink.Manifest{}, err
	}
	lap("base")
	p.rows.drop() // of a run that failed
	m := p.manifest(t, plan, run, built, bound)
	m.Pending = over.pending
	if err := p.write(ctx, bound, built, over, plan, &m); err != nil {
		return sink.Manifest{}, err
	}
	if m.UnreadSlices, err = p.keepUnread(ctx, run.ID, plan, built); err != nil {
		return sink.Manifest{}, err
	}
	lap("documents")
	p.at("data")
	m.Counts.Late = int64(len(p.late.found) + len(p.late.missed))
	m.TimingsMS = timings
	if err := p.guard(&m, built); err != nil {
		return m, err
	}
	p.telling = built
	return m, p.tellRejects(ctx, built, &m)
}

// bind is the program bound at some types, the same as the run before had where
// the types are: the slices' runs are open at its shape.
func (p *Pipeline) bind(types []column.Type) (*index.Bound, error) {
	if p.bound == nil || !reflect.DeepEqual(types, p.boundAt) {
		bound, err := p.set.Program.Bind(types)
		if err != nil {
			return nil, err
		}
		p.bound, p.boundAt = bound, types
	}
	return p.bound, nil
}

func stopwatch(into map[string]int64) func(string) {
	last := time.Now()
	return func(name string) {
		now := time.Now()
		into[name] = now.Sub(last).Milliseconds()
		last = now
	}
}

// manifest is the pane's manifest, but for what writing the files tells.
func (p *Pipeline) manifest(t term, plan Plan, run watermark.Run, built slice.Window, bound *index.Bound) sink.Manifest {
	m := sink.Manifest{
		Pipeline: p.set.Name, Kind: sink.Delta, Version: p.seen.head.Version + 1, RunID: run.ID,
		Writer: sink.Writer{Epoch: t.me.Epoch, Nonce: t.me.Nonce, Build: p.set.Build},
		Timing: "on_time", Reason: reasonOf(plan), Watermark: sink.AtPtr(plan.Watermark),
		PreviousWatermark: p.seen.head.Watermark,
		Coverage:          &sink.Range{From: sink.At(plan.Coverage.From), To: sink.At(plan.Coverage.To)},
		Schema:            parquet.SchemaFields(bound.Schema()), ConfigHash: p.set.ConfigHash,
		Quarantined: plan.Quarantined, Skipped: plan.Skipped, CreatedAt: sink.At(time.Now()),
	}
	if plan.Kind == Refine {
		m.Timing = "late"
	}
	if !plan.Progress.Equal(plan.Watermark) {
		m.Progress = sink.AtPtr(plan.Progress)
	}
	if p.seen.live != nil {
		ref := p.seen.ref
		m.Parent = &ref
	}
	if len(plan.bases) > 0 {
		m.Base = plan.bases[0].base()
		staleness(m.Base, plan.Stale)
	}
	if p.seen.live != nil {
		m = p.lineage(m, plan)
	}
	for _, j := range plan.Coverage.Jumps {
		m.Jumps = append(m.Jumps, sink.Jump{From: sink.At(j.From), At: sink.At(j.At)})
	}
	for _, g := range plan.Coverage.Gaps {
		m.Gap = append(m.Gap, sink.Range{From: sink.At(g.From), To: sink.At(g.To)})
	}
	var timeless int64
	m.Inputs = slices.Grow(m.Inputs, len(built.Slices)) // an object in each, at least
	for _, s := range built.Slices {
		m.Counts.Rejected += s.Rejected
		timeless += s.NullEventTimes
		for _, o := range s.Objects {
			m.Counts.Rows += o.Rows
			m.Inputs = append(m.Inputs, sink.Input{
				Key: o.Key, Partition: sink.At(o.Partition), ETag: o.ETag, Bytes: o.Size, Rows: o.Rows,
			})
		}
	}
	sink.SortInputs(m.Inputs)
	if timeless > 0 {
		m.Checks = append(m.Checks, sink.CheckResult{
			Name: "null_event_times", Passed: true, Detail: fmt.Sprintf("%d of %d rows sort first, without an event time", timeless, m.Counts.Rows),
		})
	}
	return m
}

// write folds the window and writes its files into the run's own prefix.
func (p *Pipeline) write(ctx context.Context, bound *index.Bound, built slice.Window, over over, plan Plan, m *sink.Manifest) error {
	put := func(ctx context.Context, name string, body io.ReadSeeker, hash string) (string, error) {
		return p.set.Sink.PutData(ctx, m.RunID, name, body, hash)
	}
	sources, err := p.sources(bound, built, over, plan)
	if err != nil {
		return err
	}
	sampler := window.NewSampler(m.RunID)
	fold := func(to window.Receiver) (window.Rolled, error) {
		if p.set.NoCache {
			return window.Rolled{}, window.FoldSampled(bound, sources, over.base, plan.Watermark, sampler, to.Rows)
		}
		did, err := p.rolling.FoldInto(func() error { return context.Cause(ctx) }, bound, sources, over.base, plan.Watermark, sampler, to)
		p.set.Log.Debug("window folded", zap.String("pipeline", p.set.Name), zap.Bool("complete", did.Complete), zap.Bool("told", did.Told), zap.Int64("rows", did.Rows),
			zap.Int64("refolded", did.Refolded), zap.Int64("nodes", did.Nodes), zap.Int64("bytes", p.rolling.Bytes()))
		return did, err
	}
	if err := p.fold(ctx, bound, m, put, fold, p.layering(m)); err != nil {
		return err
	}
	return p.canary(bound, sources, over.base, plan.Watermark, sampler, m)
}

// sources are what the window of a plan is folded of.
func (p *Pipeline) sources(bound *index.Bound, built slice.Window, over over, plan Plan) ([]window.Source, error) {
	sources := make([]window.Source, len(built.Slices), len(built.Slices)+len(over.keys))
	for i, s := range built.Slices {
		run, err := s.Open(bound.Shape())
		if err != nil {
			return nil, fmt.Errorf("%w: open slice of %s: %w", window.ErrUnreadable, text(s.Start), err)
		}
		in := &plan.Inputs[i]
		sources[i] = window.Source{ID: string(built.IDs[i][:]), Start: s.Start, Run: run, All: !in.Read, Windowed: true, Read: in.Exact}
	}
	return append(sources, over.keys...), nil
}

// folding emits a window in key order.
type folding func(to window.Receiver) (window.Rolled, error)

// fold writes what a window is folded to into the files of documents and
// tombstones that m then lists and counts, as l decided; see paneWriter.
func (p *Pipeline) fold(ctx context.Context, bound *index.Bound, m *sink.Manifest, put datafile.Put, fold folding, l *layering) error {
	w, err := p.paneWriter(ctx, bound, m, put, l)
	if err != nil {
		return err
	}
	defer w.abort()
	to := w.receiver(ctx)
	rows := to.Rows
	to.Rows = func(out window.Documents) error {
		m.Counts.Documents += int64(out.Docs.Len)
		m.Counts.Tombstones += int64(out.Tombstones.Len)
		return rows(out)
	}
	did, err := fold(to)
	if err != nil {
		return err
	}
	if did.Told {
		m.Counts.Documents, m.Counts.Tombstones = did.Documents, did.Tombstones
	}
	return p.endPane(ctx, w, did.Mark, m)
}

// writer writes files of one kind and lists them in files. frames may be nil.
func (p *Pipeline) writer(name string, fields []column.Field, put datafile.Put, files *[]sink.File, frames *parquet.Frames) (*parquet.Writer, error) {
	return datafile.NewWriter(datafile.Options{
		Fields: fields, Name: name, Dir: p.set.TempDir, Memory: p.set.Memory, Waiting: p.waiting, Frames: frames, Workers: p.set.Workers,
		Put: put, Files: files,
	})
}

// commit makes the pane live and tells the state store.
func (p *Pipeline) commit(ctx context.Context, t term, run watermark.Run, ref sink.Ref, m sink.Manifest) (done, error) {
	parent := p.seen.live
	// From here on the outcome may be open: only CURRENT and its ancestors can tell.
	p.seen.reconciled, p.seen.unsettled = false, p.seen.head.Version
	head, err := p.set.Sink.Commit(ctx, t.me, p.seen.head, ref, m, sink.CommitOptions{Now: time.Now(), ChangeID: run.ChangeID, Condemn: p.condemn(ctx, m.Reason)})
	if err != nil {
		if !errors.Is(err, sink.ErrUnsettled) {
			p.seen.unsettled = 0
			if !blame.Fenced(err) {
				p.giveUp(ctx, t, run, err)
			}
		}
		return done{}, err
	}
	p.seen.unsettled = 0
	p.seen.head, p.seen.live, p.seen.ref = head, &m, ref
	p.at("current")
	p.rows.replace(ref)
	for _, s := range p.telling.Slices {
		s.Told = true
	}
	d := done{manifest: m}
	pub := p.publication(run, ref, m, parent, head.Version)
	pub.Late, pub.Ledger = p.late.publish(pub.Ledger, run.ID)
	if parent != nil {
		pub.Follows = parent.RunID
	}
	_, err = p.set.State.PublishRun(ctx, t.lease, pub)
	switch {
	case errors.Is(err, watermark.ErrForgotten):
		// It is told all it missed, this run included, instead of being built
		// upon.
		if err := p.reconcile(ctx, t); err != nil {
			d.stateErr = fmt.Errorf("tell the state store what it forgot (the pane is live; the next step goes on): %w", err)
			return d, nil
		}
		p.seen.reconciled = true
		return d, nil
	case err != nil:
		d.stateErr = fmt.Errorf("the pane is live, the next step tells the state store: %w", err)
		return d, nil
	}
	p.seen.reconciled = true
	p.late.settle()
	p.at("committed")
	return d, nil
}
