package combine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// topFn keeps the n items with the greatest scores by tuple order, an item's
// score being the greatest it was given; of equal scores the least item is
// first. That it forgets the others is lawful because an item's score only
// grows: who is not among the n of a part, for n others there, is not among
// those of the whole. Of one argument the values are their own scores. Its
// accumulator is the entries, greatest first, each the tuple encodings of the
// score and of the item, of one argument that of the value.
type topFn struct {
	base
	n int
}

func buildTop(p Params, args []column.Type) (Fn, error) {
	n, err := intOption(p, "n", DefaultListLength, 1, MaxListLength)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, t := range args {
		parts = append(parts, repr(t))
	}
	elem := args[0]
	if len(args) == 2 {
		elem = column.StructOf(column.Field{Name: "value", Type: args[0]}, column.Field{Name: "max", Type: args[1]})
	}
	b := base{
		id:    typeID("top", append(parts, "n="+strconv.FormatInt(n, 10))...),
		class: Semilattice, args: args, out: column.ListOf(elem),
	}
	return &topFn{base: b, n: int(n)}, nil
}

func (f *topFn) NewColumn() Column {
	return &topColumn{shortlists: shortlists{limit: f.n, compare: compareTop}, fn: f}
}

// compareTop orders by score, greatest first, then by item.
func compareTop(a, b entry) int {
	if c := bytes.Compare(b.b[:b.split], a.b[:a.split]); c != 0 {
		return c
	}
	return bytes.Compare(a.b[a.split:], b.b[b.split:])
}

func (f *topFn) Validate(acc []byte) error {
	var entries []entry
	if err := f.walk(acc, func(e entry) { entries = append(entries, e) }); err != nil {
		return err
	}
	if len(f.args) == 1 {
		return nil // strict order has told them apart
	}
	item := func(a, b entry) int { return bytes.Compare(a.b[a.split:], b.b[b.split:]) }
	slices.SortFunc(entries, item)
	for i := 1; i < len(entries); i++ {
		if item(entries[i-1], entries[i]) == 0 {
			return fmt.Errorf("%s accumulator: an item stands twice", f.id)
		}
	}
	return nil
}

// walk calls each for every entry, checking all but that items are distinct.
func (f *topFn) walk(acc []byte, each func(entry)) error {
	if err := f.check(acc, each); err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

func (f *topFn) check(acc []byte, each func(entry)) error {
	var last entry
	for n := 0; len(acc) > 0; n++ {
		rest, err := checkNext(acc, &f.args[len(f.args)-1])
		e := entry{split: len(acc) - len(rest)}
		if err == nil && len(f.args) == 2 {
			rest, err = checkNext(rest, &f.args[0])
		}
		if err != nil {
			return err
		}
		e.b = acc[:len(acc)-len(rest)]
		switch {
		case n == f.n:
			return fmt.Errorf("more than %d entries", f.n)
		case n > 0 && compareTop(last, e) >= 0:
			return errors.New("entries are not in strictly descending order")
		}
		each(e)
		last, acc = e, rest
	}
	return nil
}

type topColumn struct {
	shortlists
	fn      *topFn
	scratch []byte
}

func (c *topColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	item, score := in.Args[0], in.Args[len(in.Args)-1]
	for _, i := range in.Rows {
		if item.Null(int(i)) || score.Null(int(i)) {
			continue
		}
		g := in.Groups[i]
		c.scratch = tuple.Append(c.scratch[:0], score, int(i))
		split := len(c.scratch)
		if last, full := c.full(g); full && bytes.Compare(c.scratch, last.b[:last.split]) < 0 {
			continue
		}
		if len(in.Args) == 2 {
			c.scratch = tuple.Append(c.scratch, item, int(i))
		}
		c.offer(g, entry{b: c.scratch, split: split})
	}
	return nil
}

// offer puts an entry in its place unless its item has one as good.
func (c *topColumn) offer(g uint32, e entry) {
	if last, full := c.full(g); full && compareTop(last, e) <= 0 {
		return // its item, if it is there, has no less
	}
	item := e.b[e.split:]
	if len(c.fn.args) == 1 {
		item = e.b
	}
	for i, p := range c.of[g] {
		have := c.at(p)
		same := have.b[have.split:]
		if len(c.fn.args) == 1 {
			same = have.b
		}
		if bytes.Equal(same, item) {
			if compareTop(have, e) <= 0 {
				return
			}
			c.drop(g, i)
			break
		}
	}
	c.insert(g, e)
}

func (c *topColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	return c.fn.walk(acc, func(e entry) { c.offer(g, e) })
}

func (c *topColumn) Extract(g uint32, dst *column.Vector) error {
	if len(c.of[g]) == 0 {
		dst.AppendNull()
		return nil
	}
	for _, p := range c.of[g] {
		e := c.at(p)
		var err error
		if len(c.fn.args) == 1 {
			_, err = tuple.Decode(e.b, dst.Elem)
		} else if _, err = tuple.Decode(e.b[e.split:], dst.Elem.Fields[0]); err == nil {
			_, err = tuple.Decode(e.b[:e.split], dst.Elem.Fields[1])
			dst.Elem.EndStruct()
		}
		if err != nil {
			return err
		}
	}
	dst.EndList()
	return nil
}
