package combine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// frequencyFn counts each distinct non-null value, for counts, mode and
// median_exact. A group that ever has more values than the cap is over it for
// good: the number of values only grows, so that is lawful, but what was
// dropped cannot be subtracted, so it is no group. Over its cap everything
// extracts null.
//
// Its accumulator is a byte 1, then the values in strictly ascending order,
// each its tuple encoding and its count as a uvarint; or the one byte 2 for a
// group over its cap.
type frequencyFn struct {
	base
	cap int
	// extract appends the value of a group that has values and is not over.
	extract func(c *frequencyColumn, g uint32, dst *column.Vector) error
}

// DefaultCountsCap is how many distinct values counts, mode and median_exact keep
// apart unless cap says otherwise.
const DefaultCountsCap = 10_000

// newFrequencies returns a fn over counts; extra are parameters of its own.
func newFrequencies(name string, p Params, args []column.Type, extra ...string) (*frequencyFn, error) {
	limit, err := intOption(p, "cap", DefaultCountsCap, 1, 1<<20)
	if err != nil {
		return nil, err
	}
	parts := append([]string{repr(args[0]), "cap=" + strconv.FormatInt(limit, 10)}, extra...)
	return &frequencyFn{base: base{id: typeID(name, parts...), class: Monoid, args: args}, cap: int(limit)}, nil
}

// buildCounts makes the list of values with their counts, the most frequent
// first and of equally frequent ones the least; limit cuts it when it is read.
func buildCounts(p Params, args []column.Type) (Fn, error) {
	limit, err := intOption(p, "limit", 0, 0, 1<<20)
	if err != nil {
		return nil, err
	}
	f, err := newFrequencies("counts", p, args, "limit="+strconv.FormatInt(limit, 10))
	if err != nil {
		return nil, err
	}
	f.out = column.ListOf(column.StructOf(
		column.Field{Name: "value", Type: args[0]}, column.Field{Name: "count", Type: column.Of(column.Int64)}))
	f.extract = func(c *frequencyColumn, g uint32, dst *column.Vector) error {
		ids := c.sorted(g)
		slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(c.times[b], c.times[a]) })
		if limit > 0 {
			ids = ids[:min(len(ids), int(limit))]
		}
		for _, id := range ids {
			if c.times[id] > math.MaxInt64 {
				return fmt.Errorf("count %d exceeds int64", c.times[id])
			}
			if _, err := tuple.Decode(c.member(id), dst.Elem.Fields[0]); err != nil {
				return err
			}
			dst.Elem.Fields[1].AppendInt(int64(c.times[id]))
			dst.Elem.EndStruct()
		}
		dst.EndList()
		return nil
	}
	return f, nil
}

func (f *frequencyFn) NewColumn() Column { return &frequencyColumn{members: newMembers(), fn: f} }

func (f *frequencyFn) Validate(acc []byte) error {
	_, err := f.walk(acc, func([]byte, uint64) {})
	return err
}

// walk calls each for every value and its count. Over says that the group is
// over its cap.
func (f *frequencyFn) walk(acc []byte, each func(value []byte, n uint64)) (over bool, err error) {
	if over, err = f.check(acc, each); err != nil {
		return false, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return over, nil
}

func (f *frequencyFn) check(acc []byte, each func(value []byte, n uint64)) (over bool, err error) {
	switch {
	case len(acc) == 0:
		return false, nil
	case len(acc) == 1 && acc[0] == setOver:
		return true, nil
	case acc[0] != setListed || len(acc) == 1:
		return false, errors.New("neither values nor over the cap")
	}
	var last []byte
	for rest, seen := acc[1:], 0; len(rest) > 0; seen++ {
		after, err := checkNext(rest, &f.args[0])
		if err != nil {
			return false, err
		}
		value := rest[:len(rest)-len(after)]
		n, after, err := uvarint(after)
		switch {
		case err != nil:
			return false, err
		case n == 0:
			return false, errors.New("count is zero")
		case bytes.Compare(value, last) <= 0:
			return false, errors.New("values are not in strictly ascending order")
		case seen == f.cap:
			return false, fmt.Errorf("more than %d values", f.cap)
		}
		each(value, n)
		last, rest = value, after
	}
	return false, nil
}

type frequencyColumn struct {
	members
	fn    *frequencyFn
	times []uint64 // of each id
	over  []bool
}

func (c *frequencyColumn) Grow(n int) { c.members.Grow(n); c.over = grow(c.over, n) }

func (c *frequencyColumn) Reset() {
	c.members.Reset()
	c.times, c.over = c.times[:0], c.over[:0]
}

func (c *frequencyColumn) Bytes() int64 {
	return c.members.Bytes() + int64(8*cap(c.times)+cap(c.over))
}

func (c *frequencyColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	for _, i := range in.Rows {
		if g := in.Groups[i]; !arg.Null(int(i)) && !c.over[g] {
			// One more than there ever are records does not fit a count.
			_ = c.include(g, tuple.Append(c.begin(g), arg, int(i)), 1)
		}
	}
	return nil
}

// include counts a value n times; the counter's carry is false.
func (c *frequencyColumn) include(g uint32, key []byte, n uint64) bool {
	id, added := c.put(g, key)
	if added {
		c.times = grow(c.times, int(id)+1)
		c.over[g] = int(c.n[g]) > c.fn.cap
	}
	sum, carry := bits.Add64(c.times[id], n, 0)
	c.times[id] = sum
	return carry == 0
}

func (c *frequencyColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	fits := true
	over, err := c.fn.walk(acc, func(value []byte, n uint64) {
		if !c.over[g] {
			fits = c.include(g, append(c.begin(g), value...), n) && fits
		}
	})
	c.over[g] = c.over[g] || over
	if err == nil && !fits {
		err = fmt.Errorf("%s accumulator: a count exceeds 64 bits", c.fn.id)
	}
	return err
}

func (c *frequencyColumn) AppendAcc(dst []byte, g uint32) []byte {
	switch {
	case c.over[g]:
		return append(dst, setOver)
	case c.n[g] == 0:
		return dst
	}
	dst = append(dst, setListed)
	for _, id := range c.sorted(g) {
		dst = binary.AppendUvarint(append(dst, c.member(id)...), c.times[id])
	}
	return dst
}

func (c *frequencyColumn) Extract(g uint32, dst *column.Vector) error {
	if c.over[g] || c.n[g] == 0 {
		dst.AppendNull()
		return nil
	}
	return c.fn.extract(c, g, dst)
}
