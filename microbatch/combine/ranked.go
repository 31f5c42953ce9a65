package combine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// AppendRank appends a record's place in the order of records: event time (a
// Timestamp; null, or a nil vector, sorts first), deletes after others, then
// the record's canonical bytes. Any two callers that merge must agree on it.
func AppendRank(dst []byte, eventTime *column.Vector, i int, deleted bool, record []byte) []byte {
	if eventTime == nil {
		dst = tuple.AppendNull(dst)
	} else {
		dst = tuple.Append(dst, eventTime, i)
	}
	dst = tuple.AppendBool(dst, deleted)
	return append(dst, record...)
}

// rankedFn keeps the value of the newest or the oldest record by (rank,
// value). Its accumulator is the rank's length as a uvarint, the rank, and the
// value's tuple encoding.
type rankedFn struct {
	base
	newest, keepNulls bool
}

func buildRanked(name string, newest bool) func(Params, []column.Type) (Fn, error) {
	return func(p Params, args []column.Type) (Fn, error) {
		nulls, err := nullsOption(p)
		if err != nil {
			return nil, err
		}
		b := base{id: typeID(name, repr(args[0]), "nulls="+nulls), class: Semilattice, args: args, out: args[0]}
		return &rankedFn{base: b, newest: newest, keepNulls: nulls == "keep"}, nil
	}
}

func (f *rankedFn) NewColumn() Column {
	before := func(a, b []byte) bool { return compareRanked(a, b) < 0 }
	if f.newest {
		before = newer
	}
	return &rankedColumn{winners: winners{choice: choice{before: before, validate: f.Validate}, newest: f.newest}, fn: f}
}

func (f *rankedFn) Validate(acc []byte) error {
	if len(acc) == 0 {
		return nil
	}
	_, value, err := splitRank(acc)
	if err == nil {
		err = checkValue(value, &f.out, f.keepNulls)
	}
	if err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

// splitRank parts an accumulator into its rank and what follows.
func splitRank(acc []byte) (rank, value []byte, err error) {
	n, rest, err := uvarint(acc)
	switch {
	case err != nil:
		return nil, nil, err
	case n > uint64(len(rest)):
		return nil, nil, errors.New("rank is cut short")
	}
	return rest[:n], rest[n:], nil
}

func appendRanked(dst, rank []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(rank))), rank...)
}

// compareRanked orders two accumulators by rank, then by what follows.
func compareRanked(a, b []byte) int {
	ra, va, _ := splitRank(a)
	rb, vb, _ := splitRank(b)
	if c := bytes.Compare(ra, rb); c != 0 {
		return c
	}
	return bytes.Compare(va, vb)
}

// newer says that a has the greater rank, or at the same rank more after it.
func newer(a, b []byte) bool { return compareRanked(a, b) > 0 }

type rankedColumn struct {
	winners
	fn *rankedFn
}

func (c *rankedColumn) Add(in *Input) error {
	if err := c.fn.checkOrder(in); err != nil {
		return err
	}
	c.add(in, in.Args[0], c.fn.keepNulls)
	return nil
}

func (c *rankedColumn) Extract(g uint32, dst *column.Vector) error {
	have := c.get(g)
	if have == nil {
		dst.AppendNull()
		return nil
	}
	_, value, err := splitRank(have)
	if err != nil {
		return err
	}
	return extractValue(value, dst)
}
