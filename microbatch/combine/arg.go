package combine

import (
	"bytes"
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// argFn keeps the value of its first argument from the record whose second is
// the least or the greatest by tuple order. Of several such records the newest
// wins, of equally new ones the greatest value. A record without the second
// argument takes no part, nor does one without the first unless nulls are
// kept. Its accumulator is the second argument's tuple encoding, the rank's
// length as a uvarint, the rank, and the value's tuple encoding.
type argFn struct {
	base
	greatest, keepNulls bool
}

func buildArg(name string, greatest bool) func(Params, []column.Type) (Fn, error) {
	return func(p Params, args []column.Type) (Fn, error) {
		nulls, err := nullsOption(p)
		if err != nil {
			return nil, err
		}
		b := base{id: typeID(name, repr(args[0]), repr(args[1]), "nulls="+nulls), class: Semilattice, args: args, out: args[0]}
		return &argFn{base: b, greatest: greatest, keepNulls: nulls == "keep"}, nil
	}
}

// nullsOption reads nulls: skip, which is the default, or keep.
func nullsOption(p Params) (string, error) {
	v, ok := p.Options["nulls"]
	if !ok {
		return "skip", nil
	}
	nulls, ok := v.(string)
	if !ok || nulls != "skip" && nulls != "keep" {
		return "", fmt.Errorf("option nulls: want skip or keep, got %v", v)
	}
	return nulls, nil
}

func (f *argFn) NewColumn() Column {
	return &argColumn{choice: choice{before: f.before, validate: f.Validate}, fn: f}
}

func (f *argFn) Validate(acc []byte) error {
	if len(acc) == 0 {
		return nil
	}
	rest, err := checkNext(acc, &f.args[1])
	var value []byte
	if err == nil {
		_, value, err = splitRank(rest)
	}
	if err == nil {
		err = checkValue(value, &f.args[0], f.keepNulls)
	}
	if err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

// checkNext reads a value of the type that is not null from the front of b.
func checkNext(b []byte, t *column.Type) (rest []byte, err error) {
	if tuple.IsNull(b) {
		return nil, errNull
	}
	return tuple.Check(b, t)
}

// byLength is the length of the value at the front of a valid accumulator.
func byLength(acc []byte) int {
	rest, err := tuple.Skip(acc)
	if err != nil {
		return 0
	}
	return len(acc) - len(rest)
}

func (f *argFn) before(a, b []byte) bool {
	na, nb := byLength(a), byLength(b)
	if c := bytes.Compare(a[:na], b[:nb]); c != 0 {
		return c > 0 == f.greatest
	}
	return newer(a[na:], b[nb:])
}

type argColumn struct {
	choice
	fn      *argFn
	scratch []byte
}

func (c *argColumn) Add(in *Input) error {
	if err := c.fn.checkOrder(in); err != nil {
		return err
	}
	arg, by := in.Args[0], in.Args[1]
	for _, i := range in.Rows {
		if by.Null(int(i)) || arg.Null(int(i)) && !c.fn.keepNulls {
			continue
		}
		g := in.Groups[i]
		c.scratch = tuple.Append(c.scratch[:0], by, int(i))
		if have := c.get(g); have != nil {
			// No encoding begins another: equal fronts are equal values.
			d := bytes.Compare(c.scratch, have[:min(len(have), len(c.scratch))])
			if d != 0 && d > 0 != c.fn.greatest {
				continue
			}
		}
		c.scratch = tuple.Append(appendRanked(c.scratch, in.Order.Rank(int(i))), arg, int(i))
		c.offer(g, c.scratch)
	}
	return nil
}

func (c *argColumn) Extract(g uint32, dst *column.Vector) error {
	have := c.get(g)
	if have == nil {
		dst.AppendNull()
		return nil
	}
	_, value, err := splitRank(have[byLength(have):])
	if err != nil {
		return err
	}
	return extractValue(value, dst)
}
