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
// With deletes, the newest record of a sub-entity that says whether it deletes
// decides whether the list has it; of equally new ones a delete wins. A delete
// hides and forgets nothing, and adds nothing to the fields.
//
// Its arguments are the sub-key; with deletes, the verdict of each record, a
// boolean; then for each field, if it is filtered, whether it takes the record,
// a boolean, and the field's own arguments. Its accumulator is a sequence in
// strictly ascending order of sub-key: the tuple encoding of the sub-key; then,
// with deletes before all fields, the length of a part as a uvarint and the
// part. That of a field is its accumulator. That of deletes is nothing while
// there is no verdict, else the tuple encodings of the event time and of the
// greatest verdict of the newest records with one.
type collectFn struct {
	base
	fields  []Sub
	deletes bool
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
	if p.Deletes {
		var err error
		if rest, err = takeBool(rest); err != nil {
			return nil, fmt.Errorf("deletes: %w", err)
		}
		parts = append(parts, "deletes")
	}
	for _, s := range p.Fields {
		if names[s.Name] || s.Name == "" {
			return nil, fmt.Errorf("fields: name %q is empty or taken", s.Name)
		}
		names[s.Name] = true
		if s.Filtered {
			var err error
			if rest, err = takeBool(rest); err != nil {
				return nil, fmt.Errorf("field %s: its filter: %w", s.Name, err)
			}
		}
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
	return &collectFn{base: b, fields: p.Fields, deletes: p.Deletes}, nil
}

// takeBool takes a boolean off the front of arguments.
func takeBool(args []column.Type) (rest []column.Type, err error) {
	switch {
	case len(args) == 0:
		return nil, errors.New("no argument given")
	case args[0].Kind != column.Bool && args[0].Kind != column.Null:
		return nil, fmt.Errorf("%s is not a boolean", args[0])
	}
	return args[1:], nil
}

func (f *collectFn) NewColumn() Column {
	c := &collectColumn{members: newMembers(), fn: f, verdicts: choice{before: greater}}
	for _, s := range f.fields {
		c.subs = append(c.subs, s.Fn.NewColumn())
	}
	return c
}

func (f *collectFn) Validate(acc []byte) error {
	err := f.walk(acc, nil, func(j int, sub []byte) error {
		if j == verdictPart {
			if err := checkVerdict(sub); err != nil {
				return fmt.Errorf("deletes: %w", err)
			}
			return nil
		}
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

// verdictPart stands for the part of deletes among the numbers of fields.
const verdictPart = -1

// checkVerdict says whether b is an event time and a boolean, or nothing.
func checkVerdict(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	at, flag := column.Of(column.Timestamp), column.Of(column.Bool)
	rest, err := tuple.Check(b, &at)
	if err != nil {
		return err
	}
	return checkValue(rest, &flag, false)
}

func greater(a, b []byte) bool { return bytes.Compare(a, b) > 0 }

// walk calls entry for each sub-key and part for each part after it.
func (f *collectFn) walk(acc []byte, entry func(key []byte), part func(j int, sub []byte) error) error {
	first := 0
	if f.deletes {
		first = verdictPart
	}
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
		for j := first; j < len(f.fields); j++ {
			n, rest, err := uvarint(acc)
			if err != nil {
				return err
			}
			if n > uint64(len(rest)) {
				return errors.New("field is cut short")
			}
			if err := part(j, rest[:n]); err != nil {
				return err
			}
			acc = rest[n:]
		}
	}
	return nil
}

type collectColumn struct {
	members
	fn       *collectFn
	subs     []Column // their groups are the ids of members
	verdicts choice   // likewise; only with deletes
	groups   []uint32
	rows     []int32 // that a field takes, unless it is filtered
	chosen   []int32
	acc      []byte
}

func (c *collectColumn) Reset() {
	c.members.Reset()
	c.verdicts.Reset()
	for _, s := range c.subs {
		s.Reset()
	}
}

func (c *collectColumn) Bytes() int64 {
	n := c.members.Bytes() + c.verdicts.Bytes() + int64(4*(cap(c.groups)+cap(c.rows)+cap(c.chosen))+cap(c.acc))
	for _, s := range c.subs {
		n += s.Bytes()
	}
	return n
}

func (c *collectColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	by, args := in.Args[0], in.Args[1:]
	c.groups = grow(c.groups[:0], len(in.Groups))
	c.rows = c.rows[:0]
	for _, i := range in.Rows {
		if g := in.Groups[i]; !by.Null(int(i)) {
			c.groups[i], _ = c.put(g, tuple.Append(c.begin(g), by, int(i)))
			c.rows = append(c.rows, i)
		}
	}
	if c.fn.deletes {
		if err := c.judge(args[0], in.Order); err != nil {
			return fmt.Errorf("%s: deletes: %w", c.fn.id, err)
		}
		args = args[1:]
	}
	for j, s := range c.subs {
		rows, field := c.rows, &c.fn.fields[j]
		if field.Filtered {
			rows = c.take(args[0])
			args = args[1:]
		}
		n := len(field.Fn.Args())
		s.Grow(c.ids.Len())
		if err := s.Add(&Input{Groups: c.groups, Rows: rows, Args: args[:n], Order: in.Order}); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
		args = args[n:]
	}
	return nil
}

// judge offers the verdicts of the rows and leaves those rows that do not
// delete.
func (c *collectColumn) judge(verdict *column.Vector, order Order) error {
	c.verdicts.Grow(c.ids.Len())
	alive := c.rows[:0]
	for _, i := range c.rows {
		if verdict.Null(int(i)) {
			alive = append(alive, i)
			continue
		}
		if order == nil {
			return errors.New("records have no order")
		}
		rank := order.Rank(int(i))
		rest, err := tuple.Skip(rank)
		if err != nil {
			return fmt.Errorf("read the event time of rank %x: %w", rank, err)
		}
		c.acc = tuple.AppendBool(append(c.acc[:0], rank[:len(rank)-len(rest)]...), verdict.Bools[i])
		c.verdicts.offer(c.groups[i], c.acc)
		if !verdict.Bools[i] {
			alive = append(alive, i)
		}
	}
	c.rows = alive
	return nil
}

// take returns the rows that a filter is true of.
func (c *collectColumn) take(filter *column.Vector) []int32 {
	c.chosen = c.chosen[:0]
	for _, i := range c.rows {
		if !filter.Null(int(i)) && filter.Bools[i] {
			c.chosen = append(c.chosen, i)
		}
	}
	return c.chosen
}

func (c *collectColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	id := uint32(0)
	return c.fn.walk(acc, func(key []byte) {
		id, _ = c.put(g, append(c.begin(g), key...))
		if c.fn.deletes {
			c.verdicts.Grow(c.ids.Len())
		}
		for _, s := range c.subs {
			s.Grow(c.ids.Len())
		}
	}, func(j int, sub []byte) error {
		if j != verdictPart {
			return c.subs[j].Merge(id, sub)
		}
		if len(sub) > 0 {
			c.verdicts.offer(id, sub)
		}
		return nil
	})
}

func (c *collectColumn) AppendAcc(dst []byte, g uint32) []byte {
	part := func(b []byte) { dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...) }
	for _, id := range c.sorted(g) {
		dst = append(dst, c.member(id)...)
		if c.fn.deletes {
			part(c.verdicts.get(id))
		}
		for _, s := range c.subs {
			c.acc = s.AppendAcc(c.acc[:0], id)
			part(c.acc)
		}
	}
	return dst
}

// deleted says whether the newest verdict on a member was a delete.
func (c *collectColumn) deleted(id uint32) bool {
	if !c.fn.deletes {
		return false
	}
	have := c.verdicts.get(id)
	return have != nil && tuple.IsTrue(have[len(have)-1:])
}

func (c *collectColumn) Extract(g uint32, dst *column.Vector) error {
	none := true
	for _, id := range c.sorted(g) {
		if c.deleted(id) {
			continue
		}
		none = false
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
	if none {
		dst.AppendNull()
	} else {
		dst.EndList()
	}
	return nil
}
