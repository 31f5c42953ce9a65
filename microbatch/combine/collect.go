package combine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// collectFn is a map from a sub-key to the accumulators of fields of its own:
// a sub-entity exists as soon as a record names it, and records without a
// sub-key take no part. Extracted, it is a list of structs in the order of the
// sub-key: the sub-key under its own name, then the fields.
//
// Its arguments are the sub-key, then each field's arguments in turn. Its
// accumulator is a sequence in strictly ascending order of sub-key: the tuple
// encoding of the sub-key, then for each field the length of its accumulator
// as a uvarint and the accumulator.
type collectFn struct {
	base
	fields []Sub
}

func buildCollect(p Params, args []column.Type) (Fn, error) {
	if p.By == "" {
		return nil, errors.New("by: want the name of the sub-key")
	}
	if len(p.Fields) == 0 {
		return nil, errors.New("fields: want at least one")
	}
	// The existence of a sub-entity only grows: with it, groups are no more
	// than monoids, semilattices stay what they are.
	class := Semilattice
	names := map[string]bool{p.By: true}
	parts := []string{"by=" + repr(args[0])}
	out := []column.Field{{Name: p.By, Type: args[0]}}
	rest := args[1:]
	for _, s := range p.Fields {
		if names[s.Name] || s.Name == "" {
			return nil, fmt.Errorf("fields: name %q is empty or taken", s.Name)
		}
		names[s.Name] = true
		want := s.Fn.Args()
		if len(rest) < len(want) {
			return nil, fmt.Errorf("field %s: %d arguments given, it takes %d", s.Name, len(rest), len(want))
		}
		for i, t := range want {
			if !t.SameRepr(rest[i]) {
				return nil, fmt.Errorf("field %s: argument %d is %s, not %s", s.Name, i+1, rest[i], t)
			}
		}
		rest = rest[len(want):]
		if s.Fn.Class() != Semilattice {
			class = Monoid
		}
		parts = append(parts, strconv.Quote(s.Name)+":"+s.Fn.TypeID())
		out = append(out, column.Field{Name: s.Name, Type: s.Fn.Output()})
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d arguments belong to no field", len(rest))
	}
	b := base{id: typeID("collect", parts...), class: class, args: args, out: column.ListOf(column.StructOf(out...))}
	return &collectFn{base: b, fields: p.Fields}, nil
}

func (f *collectFn) NewColumn() Column {
	c := &collectColumn{members: newMembers(), fn: f}
	for _, s := range f.fields {
		c.subs = append(c.subs, s.Fn.NewColumn())
	}
	return c
}

func (f *collectFn) Validate(acc []byte) error {
	err := f.walk(acc, nil, func(j int, sub []byte) error {
		if err := f.fields[j].Fn.Validate(sub); err != nil {
			return fmt.Errorf("field %s: %w", f.fields[j].Name, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

// walk calls entry for each sub-key and field for each accumulator after it.
func (f *collectFn) walk(acc []byte, entry func(key []byte), field func(j int, sub []byte) error) error {
	var last []byte
	for len(acc) > 0 {
		rest, err := tuple.Check(acc, &f.args[0])
		if err != nil {
			return err
		}
		key := acc[:len(acc)-len(rest)]
		switch {
		case tuple.IsNull(key):
			return errors.New("sub-key is null")
		case bytes.Compare(key, last) <= 0:
			return errors.New("sub-keys are not in strictly ascending order")
		}
		if entry != nil {
			entry(key)
		}
		last, acc = key, rest
		for j := range f.fields {
			n, rest, err := uvarint(acc)
			if err != nil {
				return err
			}
			if n > uint64(len(rest)) {
				return errors.New("field is cut short")
			}
			if err := field(j, rest[:n]); err != nil {
				return err
			}
			acc = rest[n:]
		}
	}
	return nil
}

type collectColumn struct {
	members
	fn     *collectFn
	subs   []Column // their groups are the ids of members
	groups []uint32
	rows   []int32
	acc    []byte
}

func (c *collectColumn) Reset() {
	c.members.Reset()
	for _, s := range c.subs {
		s.Reset()
	}
}

func (c *collectColumn) Bytes() int64 {
	n := c.members.Bytes() + int64(4*(cap(c.groups)+cap(c.rows))+cap(c.acc))
	for _, s := range c.subs {
		n += s.Bytes()
	}
	return n
}

func (c *collectColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	by := in.Args[0]
	c.groups = grow(c.groups[:0], len(in.Groups))
	c.rows = c.rows[:0]
	for _, i := range in.Rows {
		if g := in.Groups[i]; !by.Null(int(i)) {
			c.groups[i], _ = c.put(g, tuple.Append(c.begin(g), by, int(i)))
			c.rows = append(c.rows, i)
		}
	}
	args := in.Args[1:]
	for j, s := range c.subs {
		n := len(c.fn.fields[j].Fn.Args())
		s.Grow(c.ids.Len())
		if err := s.Add(&Input{Groups: c.groups, Rows: c.rows, Args: args[:n], Order: in.Order}); err != nil {
			return fmt.Errorf("field %s: %w", c.fn.fields[j].Name, err)
		}
		args = args[n:]
	}
	return nil
}

func (c *collectColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	id := uint32(0)
	return c.fn.walk(acc, func(key []byte) {
		id, _ = c.put(g, append(c.begin(g), key...))
		for _, s := range c.subs {
			s.Grow(c.ids.Len())
		}
	}, func(j int, sub []byte) error { return c.subs[j].Merge(id, sub) })
}

func (c *collectColumn) AppendAcc(dst []byte, g uint32) []byte {
	for _, id := range c.sorted(g) {
		dst = append(dst, c.member(id)...)
		for _, s := range c.subs {
			c.acc = s.AppendAcc(c.acc[:0], id)
			dst = append(binary.AppendUvarint(dst, uint64(len(c.acc))), c.acc...)
		}
	}
	return dst
}

func (c *collectColumn) Extract(g uint32, dst *column.Vector) error {
	if c.n[g] == 0 {
		dst.AppendNull()
		return nil
	}
	for _, id := range c.sorted(g) {
		if _, err := tuple.Decode(c.member(id), dst.Elem.Fields[0]); err != nil {
			return err
		}
		for j, s := range c.subs {
			if err := s.Extract(id, dst.Elem.Fields[j+1]); err != nil {
				return fmt.Errorf("field %s of sub-entity %x: %w", c.fn.fields[j].Name, c.member(id), err)
			}
		}
		dst.Elem.EndStruct()
	}
	dst.EndList()
	return nil
}
