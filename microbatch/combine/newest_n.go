package combine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

const (
	// DefaultListLength is how many entries newest and top keep unless n says
	// otherwise.
	DefaultListLength = 10
	// MaxListLength is the largest n.
	MaxListLength = 1000
)

// newestNFn keeps the values of the n newest records by (rank, value), newest
// first. Records that are alike count each, so it is no semilattice. That it
// forgets the others is lawful: who is not among the n newest of a part is not
// among those of the whole. Its accumulator is the entries in their order, each
// the rank's length as a uvarint, the rank, and the value's tuple encoding.
type newestNFn struct {
	base
	n         int
	keepNulls bool
}

func buildNewestN(p Params, args []column.Type) (Fn, error) {
	n, err := intOption(p, "n", DefaultListLength, 1, MaxListLength)
	if err != nil {
		return nil, err
	}
	nulls, err := nullsOption(p)
	if err != nil {
		return nil, err
	}
	b := base{
		id:    typeID("newest", repr(args[0]), "n="+strconv.FormatInt(n, 10), "nulls="+nulls),
		class: Monoid, args: args, out: column.ListOf(args[0]),
	}
	return &newestNFn{base: b, n: int(n), keepNulls: nulls == "keep"}, nil
}

func (f *newestNFn) NewColumn() Column {
	order := func(a, b entry) int { return compareRanked(b.b, a.b) }
	return &newestNColumn{shortlists: shortlists{limit: f.n, compare: order}, fn: f}
}

func (f *newestNFn) Validate(acc []byte) error { return f.walk(acc, func([]byte) {}) }

// walk calls each for every entry of a valid accumulator.
func (f *newestNFn) walk(acc []byte, each func(e []byte)) error {
	if err := f.check(acc, each); err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

func (f *newestNFn) check(acc []byte, each func(e []byte)) error {
	var last []byte
	for n := 0; len(acc) > 0; n++ {
		_, rest, err := splitRank(acc)
		if err == nil && !f.keepNulls && tuple.IsNull(rest) {
			err = errNull
		}
		if err == nil {
			rest, err = tuple.Check(rest, &f.args[0])
		}
		if err != nil {
			return err
		}
		e := acc[:len(acc)-len(rest)]
		switch {
		case n == f.n:
			return fmt.Errorf("more than %d entries", f.n)
		case n > 0 && compareRanked(e, last) > 0:
			return errors.New("entries are not the newest first")
		}
		each(e)
		last, acc = e, rest
	}
	return nil
}

type newestNColumn struct {
	shortlists
	fn      *newestNFn
	scratch []byte
}

func (c *newestNColumn) Add(in *Input) error {
	if err := c.fn.checkOrder(in); err != nil {
		return err
	}
	arg := in.Args[0]
	var heads []Head
	if o, ok := in.Order.(Headed); ok {
		heads = o.Heads()
	}
	for _, i := range in.Rows {
		if arg.Null(int(i)) && !c.fn.keepNulls {
			continue
		}
		g := in.Groups[i]
		last, full := c.full(g)
		var least []byte // the rank that an entry of a full list must not be less than
		if full {
			least, _, _ = splitRank(last.b)
			if heads != nil && heads[i].loses(least) {
				continue
			}
		}
		rank := in.Order.Rank(int(i))
		if full && bytes.Compare(rank, least) < 0 {
			continue
		}
		c.scratch = tuple.Append(appendRanked(c.scratch[:0], rank), arg, int(i))
		c.insert(g, entry{b: c.scratch})
	}
	return nil
}

func (c *newestNColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	return c.fn.walk(acc, func(e []byte) { c.insert(g, entry{b: e}) })
}

func (c *newestNColumn) Extract(g uint32, dst *column.Vector) error {
	if len(c.of[g]) == 0 {
		dst.AppendNull()
		return nil
	}
	for _, p := range c.of[g] {
		_, value, err := splitRank(c.at(p).b)
		if err == nil {
			_, err = tuple.Decode(value, dst.Elem)
		}
		if err != nil {
			return err
		}
	}
	dst.EndList()
	return nil
}
