package combine

import (
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// boolFn says whether all booleans were true, or any was. Nulls take no part.
// Its accumulator is the tuple encoding of the answer.
type boolFn struct {
	base
	decides bool // the value of which one decides: false for all_of
}

func buildBool(name string, decides bool) func(Params, []column.Type) (Fn, error) {
	return func(_ Params, args []column.Type) (Fn, error) {
		if k := args[0].Kind; k != column.Bool && k != column.Null {
			return nil, fmt.Errorf("%s is not a boolean", args[0])
		}
		b := base{id: typeID(name, repr(args[0])), class: Semilattice, args: args, out: column.Of(column.Bool)}
		return &boolFn{base: b, decides: decides}, nil
	}
}

func (f *boolFn) NewColumn() Column { return &boolColumn{fn: f} }

func (f *boolFn) Validate(acc []byte) error {
	if len(acc) == 0 {
		return nil
	}
	if err := checkValue(acc, &f.out, false); err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

type boolColumn struct {
	fn *boolFn
	at []verdict
}

// verdict is what the booleans of a group say: nothing, that none of them
// decides, or that one does. The greater of two is their union's.
type verdict uint8

const (
	undecided verdict = iota + 1
	decided
)

func (c *boolColumn) Len() int     { return len(c.at) }
func (c *boolColumn) Grow(n int)   { c.at = grow(c.at, n) }
func (c *boolColumn) Reset()       { c.at = c.at[:0] }
func (c *boolColumn) Bytes() int64 { return int64(cap(c.at)) }

func (c *boolColumn) verdict(b bool) verdict {
	if b == c.fn.decides {
		return decided
	}
	return undecided
}

func (c *boolColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	if arg.Type.Kind == column.Null {
		return nil
	}
	for _, i := range in.Rows {
		if !arg.Null(int(i)) {
			g := in.Groups[i]
			c.at[g] = max(c.at[g], c.verdict(arg.Bools[i]))
		}
	}
	return nil
}

func (c *boolColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	if len(acc) > 0 {
		c.at[g] = max(c.at[g], c.verdict(tuple.IsTrue(acc)))
	}
	return nil
}

// value is what a verdict means.
func (c *boolColumn) value(v verdict) bool { return (v == decided) == c.fn.decides }

func (c *boolColumn) AppendAcc(dst []byte, g uint32) []byte {
	if c.at[g] == 0 {
		return dst
	}
	return tuple.AppendBool(dst, c.value(c.at[g]))
}

func (c *boolColumn) Extract(g uint32, dst *column.Vector) error {
	if c.at[g] == 0 {
		dst.AppendNull()
	} else {
		dst.AppendBool(c.value(c.at[g]))
	}
	return nil
}
