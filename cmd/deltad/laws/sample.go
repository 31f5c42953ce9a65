package laws

import (
	"context"
	"errors"
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/partition"
)

// sample is what was read.
type sample struct {
	taps    []*tap
	objects []partition.Object // that were read
	rows    int64
	cut     bool
}

// sampler reads the first records of objects into taps.
type sampler struct {
	Subject
	program *index.Program
	bytes   int64
	out     sample
}

// read samples the objects: first their types, then, at the types that all of
// them widen to, their records.
func (s Subject) read(ctx context.Context, objects []partition.Object, o Options) (sample, error) {
	program, err := index.Compile(s.Builder.Program.Spec(), tapped(s.Combiners))
	if err != nil {
		return sample{}, err
	}
	r := &sampler{Subject: s, program: program, bytes: o.Bytes}
	types := make([]column.Type, len(program.Columns()))
	shares := make([]int64, len(objects))
	left := int64(o.Records)
	for i, ob := range objects {
		// What an object has not goes to those after it.
		others := int64(len(objects) - i)
		shares[i] = (left + others - 1) / others
		seen, observed, err := r.look(ctx, ob, shares[i])
		if err != nil {
			return sample{}, err
		}
		left -= seen
		if types, err = r.widen(types, observed); err != nil {
			return sample{}, fmt.Errorf("object %s and those before it: %w", ob.Key, err)
		}
	}
	bound, err := program.Bind(types)
	if err != nil {
		return sample{}, err
	}
	r.out.taps = tapsOf(bound)
	into := table.New(bound.Shape())
	for i, ob := range objects {
		if err := r.lift(ctx, bound, into, ob, types, shares[i]); err != nil {
			return sample{}, err
		}
	}
	return r.out, nil
}

// errEnough ends a scan that has yielded what was asked for.
var errEnough = errors.New("enough")

// look finds the types of the first rows of an object, at most so many.
func (r *sampler) look(ctx context.Context, o partition.Object, most int64) (rows int64, types []column.Type, err error) {
	if most == 0 {
		return 0, make([]column.Type, len(r.program.Columns())), nil
	}
	blob, paths := r.Builder.Open(o)
	result, err := scan.Scan(ctx, blob, r.request(paths, nil), func(b *column.Batch) error {
		types = types[:0]
		for _, v := range b.Columns {
			types = append(types, v.Type)
		}
		if rows += int64(b.Len); rows >= most {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return min(rows, most), types, nil
	case err == nil, errors.Is(err, scan.ErrRetype):
		return min(rows, most), result.Observed, nil
	}
	return 0, nil, err
}

// lift adds the first rows of an object, at most so many.
func (r *sampler) lift(ctx context.Context, bound *index.Bound, into *table.Table, o partition.Object, types []column.Type, most int64) error {
	if most == 0 || r.out.cut {
		return nil
	}
	lifter, err := bound.NewLifter(into, o.Partition)
	if err != nil {
		return err
	}
	if r.Builder.Row == scan.Reject {
		lifter.Reject = func(index.BadRow) {}
	}
	blob, paths := r.Builder.Open(o)
	rows := int64(0)
	_, err = scan.Scan(ctx, blob, r.request(paths, types), func(b *column.Batch) error {
		take := &column.Batch{Len: int(min(int64(b.Len), most-rows)), Columns: b.Columns}
		if _, err := lifter.Add(take, rows); err != nil {
			return err
		}
		rows += int64(take.Len)
		r.out.cut = r.held() > r.bytes
		if rows == most || r.out.cut {
			return errEnough
		}
		return nil
	})
	r.out.rows += rows
	r.out.objects = append(r.out.objects, o)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// held is the size of the values in the taps.
func (r *sampler) held() (n int64) {
	for _, t := range r.out.taps {
		n += t.bytes
	}
	return n
}

// request asks for the program's columns as a run does; of types without
// values, or nil, as they are in the object.
func (r *sampler) request(paths map[string]string, as []column.Type) scan.Request {
	req := scan.Request{Format: r.Builder.Format, Row: r.Builder.Row, Limits: r.Builder.Limits, PathValues: paths}
	for i, c := range r.program.Columns() {
		col := scan.Column{Path: c.Path, Optional: c.Optional, Numeric: c.Numeric}
		if as != nil {
			col.As = as[i]
		}
		req.Columns = append(req.Columns, col)
	}
	return req
}

// widen joins types as slices do.
func (r *sampler) widen(a, b []column.Type) ([]column.Type, error) {
	out := make([]column.Type, len(b))
	for i := range b {
		t, err := scan.Widen(r.Builder.Format, a[i], b[i])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", r.program.Columns()[i].Path, err)
		}
		out[i] = t.Canonical()
	}
	return out, nil
}
