package combine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// DefaultSetCap is the largest set that set keeps unless cap says otherwise.
const DefaultSetCap = 1000

// setFn keeps the distinct non-null values. set extracts them in order; a set
// that ever exceeds its cap is over it for good (the cap absorbs, which keeps
// it a semilattice: sizes only grow) and extracts null. distinct_exact has no
// cap and extracts the number.
//
// Its accumulator is a byte 1 and the tuple encodings in strictly ascending
// order, or the one byte 2 for a set over its cap.
type setFn struct {
	base
	cap   int
	count bool
}

const (
	setListed = 1
	setOver   = 2
)

func buildSet(p Params, args []column.Type) (Fn, error) {
	limit, err := intOption(p, "cap", DefaultSetCap, 1, 1<<20)
	if err != nil {
		return nil, err
	}
	b := base{
		id:    typeID("set", repr(args[0]), "cap="+strconv.FormatInt(limit, 10)),
		class: Semilattice, args: args, out: column.ListOf(args[0]),
	}
	return &setFn{base: b, cap: int(limit)}, nil
}

func buildDistinct(_ Params, args []column.Type) (Fn, error) {
	b := base{id: typeID("distinct_exact", repr(args[0])), class: Semilattice, args: args, out: column.Of(column.Int64)}
	return &setFn{base: b, cap: math.MaxInt, count: true}, nil
}

func (f *setFn) NewColumn() Column { return &setColumn{members: newMembers(), fn: f} }

func (f *setFn) Validate(acc []byte) error {
	if err := f.validate(acc); err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

func (f *setFn) validate(acc []byte) error {
	switch {
	case len(acc) == 0, len(acc) == 1 && acc[0] == setOver && !f.count:
		return nil
	case acc[0] != setListed || len(acc) == 1:
		return errors.New("neither a list of values nor over the cap")
	}
	var last []byte
	n := 0
	for rest := acc[1:]; len(rest) > 0; n++ {
		after, err := tuple.Check(rest, &f.args[0])
		if err != nil {
			return err
		}
		value := rest[:len(rest)-len(after)]
		switch {
		case tuple.IsNull(value):
			return errors.New("value is null")
		case bytes.Compare(value, last) <= 0:
			return errors.New("values are not in strictly ascending order")
		}
		last, rest = value, after
	}
	if n > f.cap {
		return fmt.Errorf("%d values exceed the cap", n)
	}
	return nil
}

type setColumn struct {
	members
	fn   *setFn
	over []bool
}

func (c *setColumn) Grow(n int)   { c.members.Grow(n); c.over = grow(c.over, n) }
func (c *setColumn) Reset()       { c.members.Reset(); c.over = c.over[:0] }
func (c *setColumn) Bytes() int64 { return c.members.Bytes() + int64(cap(c.over)) }

func (c *setColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	for _, i := range in.Rows {
		if g := in.Groups[i]; !arg.Null(int(i)) && !c.over[g] {
			c.include(g, tuple.Append(c.begin(g), arg, int(i)))
		}
	}
	return nil
}

func (c *setColumn) include(g uint32, key []byte) {
	if c.put(g, key); int(c.n[g]) > c.fn.cap {
		c.over[g] = true
	}
}

func (c *setColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	if len(acc) == 0 || c.over[g] {
		return nil
	}
	if acc[0] == setOver {
		c.over[g] = true
		return nil
	}
	for rest := acc[1:]; len(rest) > 0 && !c.over[g]; {
		after, err := tuple.Skip(rest)
		if err != nil {
			return err
		}
		c.include(g, append(c.begin(g), rest[:len(rest)-len(after)]...))
		rest = after
	}
	return nil
}

func (c *setColumn) AppendAcc(dst []byte, g uint32) []byte {
	switch {
	case c.over[g]:
		return append(dst, setOver)
	case c.n[g] == 0:
		return dst
	}
	dst = append(dst, setListed)
	for _, id := range c.sorted(g) {
		dst = append(dst, c.member(id)...)
	}
	return dst
}

func (c *setColumn) Extract(g uint32, dst *column.Vector) error {
	switch {
	case c.over[g] || c.n[g] == 0:
		dst.AppendNull()
		return nil
	case c.fn.count:
		dst.AppendInt(int64(c.n[g]))
		return nil
	}
	for _, id := range c.sorted(g) {
		if _, err := tuple.Decode(c.member(id), dst.Elem); err != nil {
			return err
		}
	}
	dst.EndList()
	return nil
}
