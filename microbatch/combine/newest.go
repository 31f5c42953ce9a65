package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Presence is what the column of Newest answers besides.
type Presence interface {
	Column
	// Records is the number of records in group g. A group of none does not
	// exist.
	Records(g uint32) uint64
	// Deleted says whether the newest record of group g whose delete flag is
	// not null was a delete.
	Deleted(g uint32) bool
	// When is the event time of that record; ok is false where there is none,
	// or it has none.
	When(g uint32) (at time.Time, ok bool)
}

// newestFn counts a key's records and remembers the newest that says whether
// the key is deleted. Every index carries it beside its fields. Its
// accumulator is the count as a uvarint and, once a flag was not null, the
// rank as latest has it and the flag's tuple encoding. It extracts the flag,
// null where no record had one.
type newestFn struct{ base }

// Newest returns the fn of the hidden column of every index. Its argument is
// the delete flag, a Bool, or a Null column where nothing deletes. Its columns
// are Presence.
func Newest() Fn {
	return &newestFn{base{
		id: typeID("newest_record"), class: Monoid,
		args: []column.Type{column.Of(column.Bool)}, out: column.Of(column.Bool),
	}}
}

func (f *newestFn) NewColumn() Column {
	return &newestColumn{winners: winners{choice: choice{before: newer}, newest: true}, fn: f}
}

func (f *newestFn) Validate(acc []byte) error {
	_, _, err := f.parse(acc)
	return err
}

func (f *newestFn) parse(acc []byte) (n uint64, mark []byte, err error) {
	if len(acc) == 0 {
		return 0, nil, nil
	}
	n, mark, err = uvarint(acc)
	if err == nil && n == 0 {
		err = errors.New("count is zero")
	}
	if err == nil && len(mark) > 0 {
		var flag []byte
		if _, flag, err = splitRank(mark); err == nil {
			err = checkValue(flag, &f.out, false)
		}
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return n, mark, nil
}

// newestColumn has winners only once a flag was not null: where nothing deletes
// that is never.
type newestColumn struct {
	winners
	fn *newestFn
	n  []uint64
}

func (c *newestColumn) Len() int { return len(c.n) }

func (c *newestColumn) Grow(n int) {
	c.n = grow(c.n, n)
	if c.winners.Len() > 0 {
		c.winners.Grow(n)
	}
}

func (c *newestColumn) Reset()       { c.winners.Reset(); c.n = c.n[:0] }
func (c *newestColumn) Bytes() int64 { return c.winners.Bytes() + int64(8*cap(c.n)) }

// contest makes sure that there are winners.
func (c *newestColumn) contest() { c.winners.Grow(len(c.n)) }

// mark is what g keeps of the newest record with a flag, nil for none.
func (c *newestColumn) mark(g uint32) []byte {
	if c.winners.Len() == 0 {
		return nil
	}
	return c.get(g)
}

func (c *newestColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	flag := in.Args[0]
	if flag.Type.Kind != column.Null && in.Order == nil {
		return fmt.Errorf("%s: records have no order", c.fn.id)
	}
	countRows(c.n, in)
	if flag.Type.Kind != column.Null {
		c.contest()
		c.add(in, flag, false)
	}
	return nil
}

func (c *newestColumn) Merge(g uint32, acc []byte) error {
	n, mark, err := c.fn.parse(acc)
	if err != nil {
		return err
	}
	total, carry := bits.Add64(c.n[g], n, 0)
	if carry != 0 {
		return fmt.Errorf("%s accumulator: the count exceeds 64 bits", c.fn.id)
	}
	c.n[g] = total
	if len(mark) > 0 {
		c.contest()
		c.heads[g] = leader{}
		c.offer(g, mark)
	}
	return nil
}

func (c *newestColumn) AppendAcc(dst []byte, g uint32) []byte {
	if c.n[g] == 0 {
		return dst
	}
	return append(binary.AppendUvarint(dst, c.n[g]), c.mark(g)...)
}

func (c *newestColumn) Records(g uint32) uint64 { return c.n[g] }

func (c *newestColumn) Deleted(g uint32) bool {
	have := c.mark(g)
	return have != nil && tuple.IsTrue(have[len(have)-1:])
}

func (c *newestColumn) Extract(g uint32, dst *column.Vector) error {
	if c.mark(g) == nil {
		dst.AppendNull()
	} else {
		dst.AppendBool(c.Deleted(g))
	}
	return nil
}

func (c *newestColumn) When(g uint32) (at time.Time, ok bool) {
	have := c.mark(g)
	if have == nil {
		return at, false
	}
	rank, _, err := splitRank(have)
	if err != nil || tuple.IsNull(rank) {
		return at, false
	}
	v := column.New(column.Of(column.Timestamp))
	if _, err := tuple.Decode(rank, v); err != nil {
		return at, false
	}
	return v.Instant(0), true
}
