package full

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/blame"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tenure"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// together is how many partitions are read before what they make is merged,
// and how many merged runs before those are merged in turn: the runs that are
// open at a time grow with the logarithm of the history.
const together = 32

// gathered is everything that was read: what is kept for the accumulators,
// and what the manifest says of it.
type gathered struct {
	types []column.Type
	bound *index.Bound
	// recent are the slices in (cut − D, cut], by partition; levels are merged
	// runs of everything before, of the base's shape, each level of runs made of
	// together of the one below.
	recent []*slice.Slice
	levels [][]*spool.Data

	inputs   []sink.Input
	skipped  []sink.Passed
	rows     int64
	rejected int64
	timeless int64
}

func (g *gathered) close() {
	for _, level := range g.levels {
		for _, d := range level {
			d.Close()
		}
	}
	for _, s := range g.recent {
		s.Run.Close()
	}
}

// reader reads the objects of one rebuild.
type reader struct {
	*Rebuilder
	cut     time.Time
	builder slice.Builder
	tell    func(done int64, rows int64)
	out     files
	patient bool // waits for outages to end
	asked   bool // the types are those of all objects
}

// forecast is the types to read at, where objects beyond the cut need wider ones
// than the newest before it; nil where they do not. Without it a column that
// widens would end an index: no pane over the base could have such an object,
// and no base could be cut beyond it.
func (r *reader) forecast(ctx context.Context, inputs []slice.Input, later []partition.Object) []column.Type {
	if len(inputs) == 0 || len(later) == 0 {
		return nil
	}
	types, err := r.builder.Observe(ctx, inputs[len(inputs)-1:], nil, r.set.Workers)
	if err != nil {
		return nil // reading says what is wrong
	}
	if wider := r.builder.Widen(ctx, types, later, r.set.Workers); !slice.SameTypes(wider, types) {
		return wider
	}
	return nil
}

// read reads every object once at types that all of them widen to, no narrower
// than the given ones. Where none are given the newest
// partitions tell the types that the others most likely have; where they do
// not, all objects are asked for theirs, and reading begins again.
func (r *reader) read(ctx context.Context, inputs []slice.Input, types []column.Type) (*gathered, error) {
	var skipped []sink.Passed
	for {
		g, wider, err := r.attempt(ctx, inputs, types)
		switch {
		case err == nil && wider == nil:
			g.skipped = append(skipped, g.skipped...)
			return g, nil
		case r.mayYield(err):
			wider = types
		case err != nil:
			return nil, err
		}
		r.asked = true
		if types, err = r.builder.Observe(ctx, inputs, wider, r.set.Workers); err != nil {
			left, passed := r.leaveOut(inputs, err)
			if len(passed) == 0 {
				return nil, err
			}
			inputs, skipped, types = left, append(skipped, passed...), wider
		}
	}
}

// mayYield says that an object clashes with the types of the newest partitions,
// of which it may be that no value has them: then they yield to those of all objects.
func (r *reader) mayYield(err error) bool {
	return !r.asked && r.builder.Format == scan.Parquet && errors.Is(err, slice.ErrFloor)
}

// leaveOut takes out the objects that were replaced or removed after they were
// listed, which what is there now makes unread, and those that an error blames,
// where that is allowed.
func (r *reader) leaveOut(inputs []slice.Input, err error) (left []slice.Input, passed []sink.Passed) {
	var out []*slice.ObjectError
	if r.patient {
		out = blame.Changed(err)
	}
	if r.set.SkipObjects {
		out = append(out, blame.Objects(err)...)
	}
	if len(out) == 0 {
		return inputs, nil
	}
	bad := map[string]bool{}
	for _, f := range out {
		if !bad[f.Object.Key] {
			bad[f.Object.Key] = true
			passed = append(passed, sink.Passed{
				Key: f.Object.Key, Partition: sink.AtPtr(f.Object.Partition), ETag: f.Object.ETag, Bytes: f.Object.Size, Reason: f.Err.Error(),
			})
			r.set.Log.Error("object left out of the rebuild", zap.String("pipeline", r.set.Name), zap.String("object", f.Object.Key), zap.Error(f.Err))
		}
	}
	for _, in := range inputs {
		in.Objects = slices.DeleteFunc(slices.Clone(in.Objects), func(o partition.Object) bool { return bad[o.Key] })
		if len(in.Objects) > 0 {
			left = append(left, in)
		}
	}
	return left, passed
}

// attempt reads everything at the given types (nil: those of the newest). It
// returns the wider types that some objects need, and nothing else, where the
// given ones do not do.
func (r *reader) attempt(ctx context.Context, inputs []slice.Input, types []column.Type) (g *gathered, wider []column.Type, err error) {
	g = &gathered{types: types}
	defer func() {
		if err != nil || wider != nil {
			g.close()
			g = nil
		}
	}()
	recentFrom := r.cut.Add(-r.set.Program.Spec().LongestOver())
	for to := len(inputs); to > 0; to -= together {
		batch := inputs[max(0, to-together):to]
		w, passed, err := r.readable(ctx, batch, g.types)
		if err != nil {
			return g, nil, err
		}
		if g.skipped = append(g.skipped, passed...); len(w.Slices) == 0 {
			continue
		}
		if g.types != nil && !slice.SameTypes(w.Types, g.types) {
			closeAll(w.Slices)
			return g, w.Types, nil
		}
		if g.types == nil {
			g.types = w.Types
		}
		if g.bound, err = r.set.Program.Bind(g.types); err != nil {
			return g, nil, err
		}
		var old []*slice.Slice
		for _, s := range slices.Backward(w.Slices) {
			g.note(s)
			r.tell(int64(len(s.Objects)), g.rows)
			if s.Start.After(recentFrom) {
				g.recent = append(g.recent, s)
			} else {
				old = append(old, s)
			}
		}
		if err := r.roll(g, old); err != nil {
			return g, nil, err
		}
	}
	if g.bound == nil { // nothing was there
		g.types = make([]column.Type, len(r.set.Program.Columns()))
		g.bound, err = r.set.Program.Bind(g.types)
	}
	slices.Reverse(g.recent)
	return g, nil, err
}

func closeAll(list []*slice.Slice) {
	for _, s := range list {
		s.Run.Close()
	}
}

// note adds what the manifest says of a slice.
func (g *gathered) note(s *slice.Slice) {
	g.rejected += s.Rejected
	g.timeless += s.NullEventTimes
	for _, o := range s.Objects {
		g.rows += o.Rows
		g.inputs = append(g.inputs, sink.Input{Key: o.Key, Partition: sink.At(o.Partition), ETag: o.ETag, Bytes: o.Size, Rows: o.Rows})
	}
}

// outages is how often an outage is waited for, each time twice as long.
const outages = 8

// readable builds the slices of some partitions without the objects that are
// left out, which it returns. What else was read, here and before, stays: in a
// source that changes all the time a rebuild would never end otherwise.
func (r *reader) readable(ctx context.Context, batch []slice.Input, types []column.Type) (w slice.Window, passed []sink.Passed, err error) {
	cache := slice.NewCache(1 << 62) // what was built is not built again
	for len(batch) > 0 {
		if w, err = r.window(ctx, batch, types, cache); err == nil || r.mayYield(err) {
			return w, passed, err
		}
		left, out := r.leaveOut(batch, err)
		if len(out) == 0 {
			return w, nil, err
		}
		batch, passed = left, append(passed, out...)
	}
	return slice.Window{}, passed, nil
}

// window builds the slices of some partitions, waiting for outages to end.
func (r *reader) window(ctx context.Context, batch []slice.Input, types []column.Type, cache *slice.Cache) (slice.Window, error) {
	for attempt := 0; ; attempt++ {
		r.set.Yield(ctx)
		w, err := r.builder.Window(ctx, batch, types, types, cache, r.set.Workers)
		if err == nil || !blame.Outage(err) || len(blame.Changed(err)) > 0 || ctx.Err() != nil || !r.patient || attempt == outages {
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return w, err
		}
		wait := min(time.Second<<attempt, time.Minute)
		r.set.Log.Warn("rebuild waits for an outage to end", zap.String("pipeline", r.set.Name), zap.Duration("wait", wait), zap.Error(err))
		if !tenure.Sleep(ctx, wait) {
			return w, errors.Join(context.Cause(ctx), err)
		}
	}
}

// roll merges the slices of old partitions into a run of the base's shape, and
// together runs of a level into one of the next.
func (r *reader) roll(g *gathered, old []*slice.Slice) error {
	if len(old) == 0 {
		return nil
	}
	cursors, err := project(g.bound, old)
	if err != nil {
		return err
	}
	run, err := r.merge(g.bound.BaseShape(), cursors)
	if err != nil {
		return err
	}
	closeAll(old)
	for level := 0; ; level++ {
		if level == len(g.levels) {
			g.levels = append(g.levels, nil)
		}
		g.levels[level] = append(g.levels[level], run)
		if len(g.levels[level]) < together {
			return nil
		}
		if cursors, err = open(g.levels[level], g.bound.BaseShape()); err != nil {
			return err
		}
		if run, err = r.merge(g.bound.BaseShape(), cursors); err != nil {
			return err
		}
		for _, d := range g.levels[level] {
			d.Close()
		}
		g.levels[level] = nil
	}
}

// merge writes the merge of cursors into a run.
func (r *reader) merge(shape table.Shape, cursors []table.Cursor) (*spool.Data, error) {
	out := spool.New(r.builder.Dir, r.builder.Memory)
	if _, err := table.MergeRuns(out, shape, table.Options{}, cursors...); err != nil {
		out.Abort()
		return nil, fmt.Errorf("merge runs: %w", err)
	}
	return out.Seal()
}

func open(runs []*spool.Data, shape table.Shape) ([]table.Cursor, error) {
	var cursors []table.Cursor
	for _, d := range runs {
		run, err := table.Open(d, d.Size(), shape)
		if err != nil {
			return nil, err
		}
		cursors = append(cursors, run.Cursor())
	}
	return cursors, nil
}

// projected is a cursor of a slice that shows the accumulators of a base.
type projected struct {
	table.Cursor
	at []int
}

// Acc implements table.Cursor.
func (p projected) Acc(f int) []byte { return p.Cursor.Acc(p.at[f]) }

// project opens slices as cursors of the base's shape: the record register and
// the fields over all.
func project(bound *index.Bound, list []*slice.Slice) ([]table.Cursor, error) {
	var at []int
	for j, over := range bound.Overs() {
		if over == 0 {
			at = append(at, j)
		}
	}
	var cursors []table.Cursor
	for _, s := range list {
		run, err := table.Open(s.Run, s.Run.Size(), bound.Shape())
		if err != nil {
			return nil, fmt.Errorf("open slice of %s: %w", s.Start.Format(time.RFC3339), err)
		}
		cursors = append(cursors, projected{run.Cursor(), at})
	}
	return cursors, nil
}
