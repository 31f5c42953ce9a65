package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
)

var errLeft = errors.New("bytes are left over")

// uvarint reads a number of minimal length from the front of b.
func uvarint(b []byte) (x uint64, rest []byte, err error) {
	x, n := binary.Uvarint(b)
	switch {
	case n <= 0:
		return 0, nil, errors.New("number is cut short or too large")
	case n > 1 && b[n-1] == 0:
		return 0, nil, errors.New("number is not of minimal length")
	}
	return x, b[n:], nil
}

// countFn counts records, or the non-null values of its argument. Its
// accumulator is the count as a uvarint, never 0.
type countFn struct{ base }

func buildCount(_ Params, args []column.Type) (Fn, error) {
	id := typeID("count", "*")
	if len(args) == 1 {
		id = typeID("count", "values")
	}
	return &countFn{base{id: id, class: Group, args: args, out: column.Of(column.Int64)}}, nil
}

func (f *countFn) NewColumn() Column { return &countColumn{fn: f} }

func (f *countFn) Validate(acc []byte) error {
	_, err := f.parse(acc)
	return err
}

func (f *countFn) parse(acc []byte) (uint64, error) {
	if len(acc) == 0 {
		return 0, nil
	}
	n, err := countOnly(acc)
	if err != nil {
		return 0, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return n, nil
}

// countOnly reads a count that is all of b.
func countOnly(b []byte) (uint64, error) {
	n, rest, err := uvarint(b)
	switch {
	case err != nil:
		return 0, err
	case len(rest) > 0:
		return 0, errLeft
	case n == 0:
		return 0, errors.New("count is zero")
	}
	return n, nil
}

type countColumn struct {
	fn *countFn
	n  []uint64
}

func (c *countColumn) Len() int     { return len(c.n) }
func (c *countColumn) Grow(n int)   { c.n = grow(c.n, n) }
func (c *countColumn) Reset()       { c.n = c.n[:0] }
func (c *countColumn) Bytes() int64 { return int64(8 * cap(c.n)) }

func (c *countColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	if len(in.Args) == 0 {
		countRows(c.n, in)
		return nil
	}
	arg := in.Args[0]
	if arg.Valid == nil && arg.Type.Kind != column.Null {
		countRows(c.n, in)
		return nil
	}
	for _, i := range in.Rows {
		if !arg.Null(int(i)) {
			c.n[in.Groups[i]]++
		}
	}
	return nil
}

// countRows counts the records of each group.
func countRows(n []uint64, in *Input) {
	if in.whole() {
		for _, g := range in.Groups {
			n[g]++
		}
		return
	}
	for _, i := range in.Rows {
		n[in.Groups[i]]++
	}
}

func (c *countColumn) Merge(g uint32, acc []byte) error {
	n, err := c.fn.parse(acc)
	if err != nil {
		return err
	}
	sum, carry := bits.Add64(c.n[g], n, 0)
	if carry != 0 {
		return fmt.Errorf("%s accumulator: the count exceeds 64 bits", c.fn.id)
	}
	c.n[g] = sum
	return nil
}

func (c *countColumn) Unmerge(g uint32, acc []byte) error {
	n, err := c.fn.parse(acc)
	if err != nil {
		return err
	}
	if n > c.n[g] {
		return fmt.Errorf("%s: %d taken out of a count of %d", c.fn.id, n, c.n[g])
	}
	c.n[g] -= n
	return nil
}

func (c *countColumn) AppendAcc(dst []byte, g uint32) []byte {
	if c.n[g] == 0 {
		return dst
	}
	return binary.AppendUvarint(dst, c.n[g])
}

func (c *countColumn) Extract(g uint32, dst *column.Vector) error {
	if c.n[g] > math.MaxInt64 {
		return fmt.Errorf("count %d exceeds int64", c.n[g])
	}
	dst.AppendInt(int64(c.n[g]))
	return nil
}

// grow lengthens s to n entries; new ones are zero.
func grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n > cap(s) {
		s = append(make([]T, 0, max(n, 2*cap(s))), s...)
	}
	k := len(s)
	s = s[:n]
	clear(s[k:])
	return s
}
