package combine

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// extremeFn keeps the least or the greatest value by tuple order: NaN is the
// greatest float (max of anything with a NaN is NaN, min is NaN only of
// nothing else), −0 is 0, false is less than true. any is the least under a
// name that promises less. Its accumulator is the value's tuple encoding.
type extremeFn struct {
	base
	greatest bool
}

func buildExtreme(name string, greatest bool) func(Params, []column.Type) (Fn, error) {
	return func(_ Params, args []column.Type) (Fn, error) {
		b := base{id: typeID(name, repr(args[0])), class: Semilattice, args: args, out: args[0]}
		return &extremeFn{base: b, greatest: greatest}, nil
	}
}

func (f *extremeFn) NewColumn() Column {
	switch one, two := fixedWidth(f.out.Kind); {
	case one && f.greatest:
		return &wordColumn{words: words{fn: f}, none: math.MinInt64}
	case one:
		return &wordColumn{words: words{fn: f}, none: math.MaxInt64}
	case two && f.greatest:
		return &pairColumn{words: words{fn: f}, none: pair{math.MinInt64, 0}}
	case two:
		return &pairColumn{words: words{fn: f}, none: pair{math.MaxInt64, math.MaxUint64}}
	}
	before := func(a, b []byte) bool { return bytes.Compare(a, b) < 0 }
	if f.greatest {
		before = func(a, b []byte) bool { return bytes.Compare(a, b) > 0 }
	}
	return &extremeColumn{choice: choice{before: before, validate: f.Validate}, fn: f}
}

func (f *extremeFn) Validate(acc []byte) error {
	if len(acc) == 0 {
		return nil
	}
	if err := checkValue(acc, &f.out, false); err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

var errNull = errors.New("value is null")

// checkValue says whether b is one value of the type and nothing else.
func checkValue(b []byte, t *column.Type, null bool) error {
	if !null && tuple.IsNull(b) {
		return errNull
	}
	rest, err := tuple.Check(b, t)
	if err == nil && len(rest) > 0 {
		err = errLeft
	}
	return err
}

// extractValue appends the value encoded in b, null for no bytes.
func extractValue(b []byte, dst *column.Vector) error {
	if len(b) == 0 {
		dst.AppendNull()
		return nil
	}
	_, err := tuple.Decode(b, dst)
	return err
}

type extremeColumn struct {
	choice
	fn      *extremeFn
	scratch []byte
}

func (c *extremeColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	for _, i := range in.Rows {
		if !arg.Null(int(i)) {
			c.scratch = tuple.Append(c.scratch[:0], arg, int(i))
			c.offer(in.Groups[i], c.scratch)
		}
	}
	return nil
}

func (c *extremeColumn) Extract(g uint32, dst *column.Vector) error {
	return extractValue(c.get(g), dst)
}
