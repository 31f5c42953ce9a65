package microbatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// over is what a pane is folded over beside its slices.
type over struct {
	base    *window.Base
	keys    []window.Source // keys that belong to the pane whatever the slices have
	pending []string        // fields over all that the base has no accumulators of
}

// over fetches what a plan's bases lend to a pane.
func (p *Pipeline) over(ctx context.Context, plan Plan, bound *index.Bound) (over, error) {
	var o over
	if len(plan.bases) == 0 {
		return o, nil
	}
	join, err := bound.JoinBase(plan.bases[0].Bound)
	if err != nil {
		return o, fmt.Errorf("join base %s: %w", plan.bases[0].ID, err)
	}
	run, err := p.accumulatorsOf(ctx, plan.bases[0])
	if err != nil {
		return o, err
	}
	o.base = &window.Base{ID: plan.bases[0].ID, Run: run, Join: join}
	o.pending = p.set.Program.Since(plan.bases[0].Bound).Pending
	for _, g := range plan.bases {
		for _, id := range plan.Reseen {
			if id != g.ID {
				continue
			}
			keys, err := p.seenBy(ctx, g)
			if err != nil {
				return o, err
			}
			if keys != nil {
				o.keys = append(o.keys, window.Source{ID: "keys of " + g.ID, Start: g.Cut, Run: keys})
			}
		}
	}
	return o, nil
}

// lineage is the manifest with what follows from the parent's: the bases that
// the pane fits beside its own, and those that were left. The one that a
// promotion leaves is supported by the clock that the plan was made by.
func (p *Pipeline) lineage(m sink.Manifest, plan Plan) sink.Manifest {
	if plan.Promote {
		m = sink.Leave(m, *p.seen.live, p.seen.ref, plan.now, plan.now.Add(p.set.SupportPrevious))
	} else {
		m = sink.Inherit(m, *p.seen.live, time.Time{})
	}
	// The plan says which of them the pane fits, no clock that has gone on since.
	m.Supports = slices.DeleteFunc(m.Supports, func(s sink.Support) bool {
		return !slices.ContainsFunc(plan.bases, func(g *Generation) bool { return g.ID == s.Generation })
	})
	return m
}

// recall fetches the slices of carried objects that the live pane kept, so
// that the objects need not be there any more. What cannot be fetched is read
// from its object.
func (p *Pipeline) recall(ctx context.Context, plan Plan, cache *slice.Cache) {
	if p.seen.live == nil {
		return
	}
	due := false
	for _, in := range plan.Inputs {
		due = due || !plan.Coverage.Contains(in.Start) && cache.Get(slice.IDOf(in.Input)) == nil
	}
	if !due {
		return
	}
	p.spoiled = nil
	for _, f := range p.seen.live.UnreadSlices {
		s, err := p.readSlice(ctx, f)
		if err != nil {
			if p.spoiled == nil {
				p.spoiled = map[string]bool{}
			}
			p.spoiled[f.Key] = true
			p.set.Log.Warn("slice of an unread object not read", zap.String("pipeline", p.set.Name), zap.String("object", f.Key), zap.Error(err))
			continue
		}
		if id := slice.IDOf(s.Input()); cache.Get(id) == nil {
			cache.Put(id, s)
		}
	}
}

func (p *Pipeline) readSlice(ctx context.Context, f sink.StateFile) (*slice.Slice, error) {
	b, err := p.set.Sink.ReadState(ctx, f)
	if err != nil {
		return nil, err
	}
	out := spool.New(p.set.TempDir, p.set.Memory)
	if _, err := out.Write(b); err != nil {
		out.Abort()
		return nil, err
	}
	data, err := out.Seal()
	if err != nil {
		return nil, err
	}
	defer data.Close()
	s, err := slice.Decode(data, data.Size(), p.set.TempDir, p.set.Memory)
	if err == nil && !p.builder.Fits(s) {
		s.Run.Close()
		return nil, errOtherIndex
	}
	return s, err
}

// errOtherIndex is a slice at rest that serves no more.
var errOtherIndex = errors.New("it was built with another configuration of the index")

// keepUnread writes the slices of the inputs outside the coverage, whose
// objects may go before a base has read them.
func (p *Pipeline) keepUnread(ctx context.Context, runID string, plan Plan, built slice.Window) ([]sink.StateFile, error) {
	var files []sink.StateFile
	for i, in := range plan.Inputs {
		if plan.Coverage.Contains(in.Start) {
			continue
		}
		f, err := p.writeSlice(ctx, runID, built.Slices[i])
		if err != nil {
			return nil, fmt.Errorf("keep the slice of %s: %w", in.Objects[0].Key, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// writeSlice puts a slice under a name of this run, unless the live pane keeps
// one of the same bytes that is not known to be damaged or gone.
func (p *Pipeline) writeSlice(ctx context.Context, runID string, s *slice.Slice) (f sink.StateFile, err error) {
	out := spool.New(p.set.TempDir, p.set.Memory)
	sum := sha256.New()
	if err := s.Encode(io.MultiWriter(out, sum)); err != nil {
		out.Abort()
		return f, err
	}
	data, err := out.Seal()
	if err != nil {
		return f, err
	}
	defer data.Close()
	hash := hex.EncodeToString(sum.Sum(nil))
	if live := p.seen.live; live != nil {
		for _, kept := range live.UnreadSlices {
			if kept.SHA256 == hash && kept.Bytes == data.Size() && !p.spoiled[kept.Key] {
				return kept, nil
			}
		}
	}
	f = sink.StateFile{Key: sink.SliceKey(sink.Sum([]byte(hash + runID))), Bytes: data.Size(), SHA256: hash}
	for _, o := range s.Objects {
		f.Rows += o.Rows
	}
	return f, p.set.Sink.PutState(ctx, f.Key, data.Section(), hash)
}

// lose notes the carried objects that a run could not read because they are
// gone: slice and object, so nothing is left of them. again says that there
// are such, and that the step is to start over without them.
func (p *Pipeline) lose(plan Plan, err error) (again bool) {
	for _, f := range blame.Named(err) {
		if plan.Coverage.Contains(f.Object.Partition) || !errors.Is(f.Err, store.ErrNotFound) && !errors.Is(f.Err, source.ErrChanged) {
			continue
		}
		if p.lost == nil {
			p.lost = map[ObjectID]bool{}
		}
		p.lost[idOf(f.Object)], again = true, true
		p.set.Log.Error("unread object lost", zap.String("pipeline", p.set.Name), zap.String("object", f.Object.Key),
			zap.Time("partition", f.Object.Partition), zap.String("why", "it is gone from the source before a base has read it, and so is its slice"))
	}
	return again
}
