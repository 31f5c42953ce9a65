package main

import (
	"encoding/binary"
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// bitOr makes the combine fn bit_or: the bits that are set in any of the
// integers, such as every policy that an ad was found to violate.
//
//	violations: {bit_or: policy_flags}
//
// To set a bit again changes nothing, whatever the order: a semilattice. The
// accumulator is the bits, eight bytes big-endian: for each set of bits there
// is one, and no integers have none.
func bitOr() combine.Builder {
	return combine.Builder{Name: "bit_or", MinArgs: 1, MaxArgs: 1, Build: buildBitOr}
}

// buildBitOr is called with the types of a field's columns as they are in the
// objects. A column without any value has the type null, and must do.
func buildBitOr(_ combine.Params, args []column.Type) (combine.Fn, error) {
	if !args[0].IsInt() && args[0].Kind != column.Null {
		return nil, fmt.Errorf("%s is not an integer", args[0])
	}
	return &bitOrFn{args: args}, nil
}

// bitOrFn describes the fn: what it reads and makes, and under which name its
// accumulators are stored.
type bitOrFn struct{ args []column.Type }

// TypeID changes whenever accumulators get other bytes or another meaning.
func (f *bitOrFn) TypeID() string            { return "bit_or(int)/1" }
func (f *bitOrFn) Class() combine.Class      { return combine.Semilattice }
func (f *bitOrFn) Args() []column.Type       { return f.args }
func (f *bitOrFn) Output() column.Type       { return column.Of(column.Int64) }
func (f *bitOrFn) NewColumn() combine.Column { return &bitOrColumn{fn: f} }

// Validate refuses what AppendAcc would not have written.
func (f *bitOrFn) Validate(acc []byte) error {
	if len(acc) != 0 && len(acc) != 8 {
		return fmt.Errorf("bit_or accumulator: %d bytes, want 8", len(acc))
	}
	return nil
}

// bitOrColumn holds the accumulators of many keys side by side: the group of a
// key is its place.
type bitOrColumn struct {
	fn   *bitOrFn
	bits []uint64
	seen []bool // whether the group has any integer: no bits are a value too
}

func (c *bitOrColumn) Len() int     { return len(c.bits) }
func (c *bitOrColumn) Reset()       { c.bits, c.seen = c.bits[:0], c.seen[:0] }
func (c *bitOrColumn) Bytes() int64 { return int64(8*cap(c.bits) + cap(c.seen)) }

func (c *bitOrColumn) Grow(n int) {
	for len(c.bits) < n {
		c.bits, c.seen = append(c.bits, 0), append(c.seen, false)
	}
}

func (c *bitOrColumn) or(g uint32, bits uint64) {
	c.bits[g] |= bits
	c.seen[g] = true
}

// Add takes a batch of records: those in Rows, each into its group.
func (c *bitOrColumn) Add(in *combine.Input) error {
	flags := in.Args[0]
	for _, i := range in.Rows {
		if !flags.Null(int(i)) {
			c.or(in.Groups[i], uint64(flags.Ints[i]))
		}
	}
	return nil
}

// Merge takes an accumulator that another batch, object or run has made.
func (c *bitOrColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	if len(acc) > 0 {
		c.or(g, binary.BigEndian.Uint64(acc))
	}
	return nil
}

func (c *bitOrColumn) AppendAcc(dst []byte, g uint32) []byte {
	if !c.seen[g] {
		return dst
	}
	return binary.BigEndian.AppendUint64(dst, c.bits[g])
}

// Extract makes the value in the document.
func (c *bitOrColumn) Extract(g uint32, dst *column.Vector) error {
	if !c.seen[g] {
		dst.AppendNull()
	} else {
		dst.AppendInt(int64(c.bits[g]))
	}
	return nil
}
