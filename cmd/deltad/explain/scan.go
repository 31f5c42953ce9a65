package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

// remembered looks the key up in the base's accumulators.
func (x *explainer) remembered(ctx context.Context) error {
	b := x.base
	x.out.Base = &Base{Generation: b.ID, Cut: b.Cut}
	for _, f := range b.Manifest.Full.Accumulators {
		run, err := table.Open(&ranged{ctx: ctx, st: x.Out, key: f.Key, size: f.Bytes}, f.Bytes, b.Bound.BaseShape())
		if err != nil {
			return fmt.Errorf("open %s: %w", f.Key, err)
		}
		c := run.Cursor()
		c.Seek(x.key)
		if !c.Next() || !bytes.Equal(c.Key(), x.key) {
			if err := c.Err(); err != nil {
				return fmt.Errorf("read %s: %w", f.Key, err)
			}
			continue
		}
		for j := range b.Bound.BaseShape().Fns {
			x.held = append(x.held, bytes.Clone(c.Acc(j)))
		}
		register := b.Bound.BaseShape().Fns[0].NewColumn()
		register.Grow(1)
		if err := register.Merge(0, x.held[0]); err != nil {
			return fmt.Errorf("read %s: %w", f.Key, err)
		}
		x.out.Base.Holds = true
		if p, ok := register.(combine.Presence); ok {
			x.out.Base.Deleted = p.Deleted(0)
			if when, known := p.When(0); known {
				x.out.Base.Newest = &when
			}
		}
	}
	return nil
}

// ranged reads parts of an object, a block at a time, and keeps the last one.
type ranged struct {
	ctx  context.Context
	st   store.Store
	key  string
	size int64
	off  int64
	data []byte
}

// block is read ahead: a lookup takes a few requests whatever the run's size.
const block = 256 << 10

// ReadAt implements io.ReaderAt.
func (r *ranged) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off < r.size {
		if off < r.off || off >= r.off+int64(len(r.data)) {
			length := min(max(block, int64(len(p)-n)), r.size-off)
			b, _, err := store.ReadAll(r.ctx, r.st, r.key, length, store.GetOptions{Offset: off, Length: length})
			if err != nil {
				return n, err
			}
			if len(b) == 0 {
				return n, io.ErrUnexpectedEOF
			}
			r.off, r.data = off, b
		}
		k := copy(p[n:], r.data[off-r.off:])
		n, off = n+k, off+int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// scan reads the inputs, newest first, and folds the records of the key.
func (x *explainer) scan(ctx context.Context) error {
	program := x.Builder.Program
	if x.out.Layer == reader.InBase {
		program = x.base.Bound.Program()
	}
	builder := x.Builder
	builder.Program = program
	list := x.inputs
	if x.Limit > 0 && len(list) > x.Limit {
		list, x.partial = list[:x.Limit], slices.ContainsFunc(list[x.Limit:], func(in input) bool { return in.pane })
		x.note("%d of %d objects were read, newest first; --limit says how many", x.Limit, len(x.inputs))
	}
	var types, floor []column.Type
	if x.base != nil {
		floor = program.TypesFor(x.base.Bound)
	}
	for {
		inputs := make([]slice.Input, len(list))
		for i, in := range list {
			inputs[i] = slice.Input{Start: in.Partition, Objects: []partition.Object{in.Object}}
		}
		var err error
		if types, err = builder.Observe(ctx, inputs, floor, max(1, x.Workers)); err == nil {
			break
		}
		left, named := x.gone(list, err)
		if !named || !lostOnly(err) {
			return err
		}
		list = left
	}
	if types == nil {
		types = make([]column.Type, len(program.Columns()))
	}
	bound, err := program.Bind(types)
	if err != nil {
		return err
	}
	var join *index.Join
	if x.base != nil {
		j, err := bound.JoinBase(x.base.Bound)
		if err != nil {
			return err
		}
		join = &j
	}
	if x.fold, err = newFold(bound, x.key, join, x.held); err != nil {
		return err
	}
	for i, in := range list {
		x.Progress(i, len(list))
		if err := x.object(ctx, builder, in, types); err != nil {
			return err
		}
		x.out.Scanned++
	}
	x.Progress(len(list), len(list))
	return nil
}

// lostOnly says whether an error is all about objects that are not there as
// they were.
func lostOnly(err error) bool {
	for _, e := range objectErrors(err) {
		if !errors.Is(e.Err, store.ErrNotFound) && !errors.Is(e.Err, source.ErrChanged) {
			return false
		}
	}
	return true
}

// object folds the records of the key that one object has.
func (x *explainer) object(ctx context.Context, builder slice.Builder, in input, types []column.Type) error {
	blob, paths := builder.Open(in.Object)
	req := scan.Request{Format: builder.Format, Row: scan.Reject, Limits: builder.Limits, PathValues: paths}
	columns := builder.Program.Columns()
	for i, c := range columns {
		req.Columns = append(req.Columns, scan.Column{Path: c.Path, Optional: c.Optional, Numeric: c.Numeric, As: types[i]})
	}
	var at []int
	for _, name := range builder.Program.Spec().Key {
		at = append(at, slices.IndexFunc(columns, func(c index.Column) bool { return c.Path == name }))
	}
	o := Object{Object: in.Key, Partition: in.Partition, Pane: in.pane, Base: in.base, Fields: map[string]int64{}}
	rows := int64(0)
	var key []byte
	_, err := scan.Scan(ctx, blob, req, func(b *column.Batch) error {
		for i := range b.Len {
			key = key[:0]
			for _, k := range at {
				key = tuple.Append(key, b.Columns[k], i)
			}
			if !bytes.Equal(key, x.fold.key) {
				continue
			}
			if err := x.record(b, i, in, Place{Object: in.Key, Partition: in.Partition, Row: rows + int64(i) + 1}, &o); err != nil {
				return err
			}
		}
		rows += int64(b.Len)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", in.Key, err)
	}
	if o.Records+o.LeftOut > 0 {
		x.out.Objects = append(x.out.Objects, o)
	}
	return nil
}

// record folds one record of the key.
func (x *explainer) record(b *column.Batch, i int, in input, place Place, o *Object) error {
	accs, err := x.fold.record(b, i, in.Partition, place.Row-1)
	if err != nil {
		return err
	}
	if accs == nil {
		o.LeftOut++
		return nil
	}
	o.Records++
	parts, err := x.fold.add(accs, in, x.at, x.out.Layer == reader.InBase && in.base, place)
	names := folded(x.fold.bound)
	for _, j := range parts {
		o.Fields[names[j]]++
	}
	return err
}

// folded are the names of the fields by fn; the register has none.
func folded(bound *index.Bound) []string {
	names := []string{""}
	for _, f := range bound.Program().Spec().Fields {
		if f.Expr == "" {
			names = append(names, f.Name)
		}
	}
	return names
}
