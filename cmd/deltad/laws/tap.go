package laws

import (
	"bytes"
	"fmt"
	"maps"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/tuple"
)

// tap is a combine fn that keeps what its columns are given.
type tap struct {
	combine.Fn // as the pipeline has it
	live       combine.Fn
	subs       []*tap // of a collect, by Params.Fields
	subNames   []string

	name, fnName string
	records      combinetest.Records
	groups       []uint32
	bytes        int64
	scratch      []byte
}

// tapped are the builders with a tap around each fn they make.
func tapped(fns map[string]combine.Builder) map[string]combine.Builder {
	out := maps.Clone(fns)
	for name, b := range out {
		inner := b.Build
		b.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) { return newTap(inner, p, args) }
		out[name] = b
	}
	return out
}

// newTap builds a fn once as it is, and if others stand within it once more
// over their taps.
func newTap(build func(combine.Params, []column.Type) (combine.Fn, error), p combine.Params, args []column.Type) (combine.Fn, error) {
	t := &tap{}
	plain := p
	plain.Fields = nil
	for _, s := range p.Fields {
		if inner, ok := s.Fn.(*tap); ok {
			t.subs, t.subNames = append(t.subs, inner), append(t.subNames, s.Name)
			s.Fn = inner.Fn
		}
		plain.Fields = append(plain.Fields, s)
	}
	var err error
	if t.Fn, err = build(plain, args); err != nil {
		return nil, err
	}
	t.live = t.Fn
	if len(t.subs) > 0 {
		if t.live, err = build(p, args); err != nil {
			return nil, err
		}
	}
	for _, a := range t.Args() {
		t.records.Args = append(t.records.Args, column.New(a))
	}
	return t, nil
}

// NewColumn returns a column that works, and tells the tap what it is given.
func (t *tap) NewColumn() combine.Column { return &tapColumn{Column: t.live.NewColumn(), tap: t} }

type tapColumn struct {
	combine.Column
	tap *tap
}

func (c *tapColumn) Add(in *combine.Input) error {
	if err := c.tap.keep(in); err != nil {
		return err
	}
	return c.Column.Add(in)
}

// keep copies the records that take part.
func (t *tap) keep(in *combine.Input) error {
	for j, a := range in.Args {
		for _, i := range in.Rows {
			t.scratch = tuple.Append(t.scratch[:0], a, int(i))
			t.bytes += int64(len(t.scratch))
			if err := t.records.Args[j].AppendFrom(a, int(i)); err != nil {
				return fmt.Errorf("argument %d of %s: %w", j+1, t.TypeID(), err)
			}
		}
	}
	for _, i := range in.Rows {
		rank := bytes.Clone(in.Order.Rank(int(i)))
		t.bytes += int64(len(rank))
		t.records.Ranks = append(t.records.Ranks, rank)
		t.groups = append(t.groups, in.Groups[i])
	}
	return nil
}

// tapsOf are the taps of a bound program with the names of their fields, those
// within a collect after it.
func tapsOf(b *index.Bound) []*tap {
	var out []*tap
	var add func(t *tap, name string, f index.FieldSpec)
	add = func(t *tap, name string, f index.FieldSpec) {
		t.name, t.fnName = name, f.Fn
		out = append(out, t)
		for i, sub := range t.subs {
			add(sub, name+"."+t.subNames[i], f.Fields[i])
		}
	}
	fns := b.Shape().Fns[1:] // after the record register
	for _, f := range b.Program().Spec().Fields {
		if f.Expr != "" {
			continue
		}
		if t, ok := fns[0].(*tap); ok {
			add(t, f.Name, f)
		}
		fns = fns[1:]
	}
	return out
}
