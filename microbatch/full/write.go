package full

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/datafile"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// write makes the accumulators of what was read, and folds the documents over
// them: the way a pane is folded over a base.
func (r *reader) write(ctx context.Context, g *gathered, m *sink.Manifest, p *progress) error {
	p.phase("merge", 0)
	acc, err := r.accumulators(g)
	if err != nil {
		return err
	}
	defer acc.Close()
	run, err := table.Open(acc, acc.Size(), g.bound.BaseShape())
	if err != nil {
		return fmt.Errorf("open the accumulators: %w", err)
	}
	f, err := r.putState(ctx, m.RunID, "accumulators.run", acc.Section(), acc.Size(), run.Rows())
	if err != nil {
		return err
	}
	m.Full.Accumulators = []sink.StateFile{f}
	if err := r.seen(ctx, g, m); err != nil {
		return err
	}
	r.at("accumulators")
	p.phase("documents", run.Rows())
	return r.documents(ctx, g, run, m, p)
}

// accumulators merges everything into one run of the base's shape.
func (r *reader) accumulators(g *gathered) (*spool.Data, error) {
	shape := g.bound.BaseShape()
	cursors, err := project(g.bound, g.recent)
	if err != nil {
		return nil, err
	}
	for _, level := range g.levels {
		more, err := open(level, shape)
		if err != nil {
			return nil, err
		}
		cursors = append(cursors, more...)
	}
	acc, err := r.merge(shape, cursors)
	if err != nil || r.set.Tombstones == 0 {
		return acc, err
	}
	defer acc.Close()
	return r.forget(acc, shape)
}

// forget leaves out the deleted keys whose newest record is too old to be
// remembered. A record that comes later still starts such a key anew.
func (r *reader) forget(acc *spool.Data, shape table.Shape) (*spool.Data, error) {
	run, err := table.Open(acc, acc.Size(), shape)
	if err != nil {
		return nil, err
	}
	column, ok := shape.Fns[0].NewColumn().(combine.Presence)
	if !ok {
		return nil, fmt.Errorf("fn 0 is %s, not the record register", shape.Fns[0].TypeID())
	}
	out := spool.New(r.builder.Dir, r.builder.Memory)
	w, err := table.NewWriter(out, shape, table.Options{})
	if err != nil {
		out.Abort()
		return nil, err
	}
	before := r.cut.Add(-r.set.Tombstones)
	accs := make([][]byte, len(shape.Fns))
	cursor := run.Cursor()
	for cursor.Next() && err == nil {
		column.Reset()
		column.Grow(1)
		for i := range accs {
			accs[i] = cursor.Acc(i)
		}
		if err = column.Merge(0, accs[0]); err != nil {
			break
		}
		if at, known := column.When(0); column.Deleted(0) && (!known || at.Before(before)) {
			continue
		}
		err = w.Append(cursor.Key(), accs)
	}
	if err == nil {
		err = cursor.Err()
	}
	if err == nil {
		_, err = w.Close()
	}
	if err != nil {
		out.Abort()
		return nil, fmt.Errorf("leave out old tombstones: %w", err)
	}
	return out.Seal()
}

// seen writes the keys with a record in (cut − D, cut].
func (r *reader) seen(ctx context.Context, g *gathered, m *sink.Manifest) error {
	if len(g.recent) == 0 {
		return nil
	}
	cursors, err := project(g.bound, g.recent)
	if err != nil {
		return err
	}
	shape := g.bound.SeenShape() // the first of a base's accumulators
	keys, err := r.merge(shape, cursors)
	if err != nil {
		return err
	}
	defer keys.Close()
	run, err := table.Open(keys, keys.Size(), shape)
	if err != nil {
		return err
	}
	f, err := r.putState(ctx, m.RunID, "seen.run", keys.Section(), keys.Size(), run.Rows())
	m.Full.Seen = []sink.StateFile{f}
	return err
}

// documents folds the documents of every key over the accumulators, with the
// recent slices for the fields that have a duration.
func (r *reader) documents(ctx context.Context, g *gathered, acc *table.Run, m *sink.Manifest, p *progress) error {
	join, err := g.bound.JoinBase(g.bound)
	if err != nil {
		return err
	}
	sources := []window.Source{{Start: r.cut, Run: acc}} // every key, and nothing else
	for _, s := range g.recent {
		run, err := table.Open(s.Run, s.Run.Size(), g.bound.Shape())
		if err != nil {
			return fmt.Errorf("open slice of %s: %w", s.Start.Format(time.RFC3339), err)
		}
		sources = append(sources, window.Source{Start: s.Start, Run: run, Windowed: true, Read: true})
	}
	m.Schema = parquet.SchemaFields(g.bound.Schema())
	put := func(ctx context.Context, name string, body io.ReadSeeker, hash string) (string, error) {
		return r.out.PutFull(ctx, m.RunID, name, body, hash)
	}
	w, err := datafile.NewWriter(datafile.Options{
		Fields: g.bound.Schema(), Name: "part", Dir: r.builder.Dir, Memory: r.builder.Memory, Workers: r.set.Workers, Put: put, Files: &m.Files,
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	keys := len(g.bound.Shape().Keys)
	sorted := &order{keys: keys}
	sampler := window.NewSampler(m.RunID)
	err = window.FoldSampled(g.bound, sources, &window.Base{Run: acc, Join: join}, r.cut, sampler, func(out window.Documents) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.set.Yield(ctx)
		m.Counts.Documents += int64(out.Docs.Len)
		m.Counts.Tombstones += int64(out.Tombstones.Len)
		sorted.add(out.Docs)
		countNulls(m.Full.Nulls, g.bound, out.Docs, keys)
		p.add(int64(out.Docs.Len+out.Tombstones.Len), m.Counts.Rows)
		if r.set.Documents != nil {
			if err := r.set.Documents(out.Docs); err != nil {
				return err
			}
		}
		return w.Write(ctx, out.Docs)
	})
	if err != nil {
		return err
	}
	canary, err := r.canary(g, sources[1:], join, sampler.Samples())
	if err != nil {
		return err
	}
	if _, err = w.Close(ctx); err != nil {
		return err
	}
	rows := int64(0)
	for _, f := range m.Files {
		rows += f.Rows
	}
	m.Checks = append(m.Checks, sorted.result(rows), canary)
	return nil
}

// countNulls counts the nulls of the fields over all. How often a field with a
// duration is null depends on the hour.
func countNulls(nulls map[string]int64, bound *index.Bound, docs *column.Batch, keys int) {
	for i, f := range bound.Schema()[keys:] {
		if !slices.Contains(bound.BaseFields(), f.Name) {
			continue
		}
		n := int64(0)
		for row := range docs.Len {
			if docs.Columns[keys+i].Null(row) {
				n++
			}
		}
		nulls[f.Name] += n
	}
}

// order checks that documents come in strictly ascending order of key, and
// all of them.
type order struct {
	keys      int
	last, key []byte
	documents int64
	problem   string
}

func (o *order) add(b *column.Batch) {
	for i := range b.Len {
		o.key = o.key[:0]
		for _, v := range b.Columns[:o.keys] {
			o.key = tuple.Append(o.key, v, i)
		}
		if o.documents > 0 && bytes.Compare(o.key, o.last) <= 0 && o.problem == "" {
			o.problem = fmt.Sprintf("document %d does not come after the one before it", o.documents+1)
		}
		o.last = append(o.last[:0], o.key...)
		o.documents++
	}
}

func (o *order) result(want int64) sink.CheckResult {
	c := sink.CheckResult{Name: CheckKeys, Passed: o.problem == "" && o.documents == want, Detail: fmt.Sprintf("%d documents", o.documents)}
	switch {
	case o.problem != "":
		c.Detail = o.problem
	case o.documents != want:
		c.Detail = fmt.Sprintf("%d documents were made, the files have %d rows", o.documents, want)
	}
	return c
}
