package explain

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// fold puts records together, one at a time, and remembers which of them made a
// difference. A record that changed an accumulator last is the one that it has
// its value from, for the fns that choose one: they are total orders, so the
// record that wins changes them whenever it comes, and none does after it.
type fold struct {
	bound *index.Bound
	overs []int64
	key   []byte
	join  *index.Join
	// columns are the accumulators of the document, past those of the base's
	// records alone.
	columns, past []combine.Column
	// fields is, by fn, what has a part in it.
	fields []share
}

// share is what has a part in one fn.
type share struct {
	records, base int64
	held          bool   // the base's accumulator is in it
	from, past    *Place // the last that changed it, in the document and in the base
}

// newFold starts with what the base holds of the key, nil for nothing.
func newFold(bound *index.Bound, key []byte, join *index.Join, held [][]byte) (*fold, error) {
	f := &fold{bound: bound, overs: bound.Overs(), key: key, join: join, fields: make([]share, len(bound.Shape().Fns))}
	for j, fn := range bound.Shape().Fns {
		c, past := fn.NewColumn(), fn.NewColumn()
		c.Grow(1)
		past.Grow(1)
		f.columns, f.past = append(f.columns, c), append(f.past, past)
		if held == nil || join == nil || join.At[j] < 0 || len(held[join.At[j]]) == 0 {
			continue
		}
		f.fields[j].held = true
		if err := c.Merge(0, held[join.At[j]]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// record lifts row i of a batch alone, and returns its accumulators: nil where
// it does not count.
func (f *fold) record(b *column.Batch, i int, start time.Time, number int64) ([][]byte, error) {
	one := &column.Batch{Len: 1}
	for _, v := range b.Columns {
		c := column.New(v.Type)
		if err := c.AppendFrom(v, i); err != nil {
			return nil, err
		}
		one.Columns = append(one.Columns, c)
	}
	t := table.New(f.bound.Shape())
	lifter, err := f.bound.NewLifter(t, start)
	if err != nil {
		return nil, err
	}
	lifter.Reject = func(index.BadRow) {}
	if _, err := lifter.Add(one, number); err != nil {
		return nil, err
	}
	c := t.Cursor()
	if !c.Next() {
		return nil, c.Err()
	}
	accs := make([][]byte, len(f.fields))
	for j := range accs {
		accs[j] = bytes.Clone(c.Acc(j))
	}
	return accs, nil
}

// add counts a record in; parts are the fns that it has a part in.
func (f *fold) add(accs [][]byte, in input, at time.Time, ofBase bool, place Place) (parts []int, err error) {
	for j, acc := range accs {
		if len(acc) == 0 {
			continue
		}
		direct, through := in.all, in.base
		if over := time.Duration(f.overs[j]); over != 0 {
			recent := in.Partition.After(at.Add(-over)) && !in.Partition.After(at)
			direct, through = recent && (in.pane || ofBase), false
		}
		if j > 0 && (direct || through) {
			parts = append(parts, j)
		}
		s := &f.fields[j]
		if direct {
			s.records++
			changed, err := merge(f.columns[j], acc, j == 0)
			if err != nil {
				return nil, err
			}
			if changed {
				s.from = &place
			}
		}
		if through {
			s.base++
			changed, err := merge(f.past[j], acc, j == 0)
			if err != nil {
				return nil, err
			}
			if changed {
				s.past = &place
			}
		}
	}
	return parts, nil
}

// merge says whether an accumulator made a difference. The record register
// counts besides, which every record changes: its mark is what is asked for.
func merge(c combine.Column, acc []byte, register bool) (changed bool, err error) {
	before := c.AppendAcc(nil, 0)
	if err := c.Merge(0, acc); err != nil {
		return false, err
	}
	after := c.AppendAcc(nil, 0)
	if register {
		before, after = mark(before), mark(after)
	}
	return !bytes.Equal(before, after), nil
}

// mark is a record register without its count.
func mark(register []byte) []byte {
	_, n := binary.Uvarint(register)
	return register[max(n, 0):]
}

// from is the record that fn j has its value from, where that is known: one that
// the delta added, else one of the base's, if those that were read make all of
// what the base holds.
func (f *fold) from(j int) *Place {
	s := f.fields[j]
	if s.from != nil || !s.held {
		return s.from
	}
	if s.past != nil && bytes.Equal(f.past[j].AppendAcc(nil, 0), f.columns[j].AppendAcc(nil, 0)) {
		return s.past
	}
	return nil
}

// chooses says whether the values of a combine fn are those of one record.
func chooses(fn string) bool {
	switch fn {
	case "latest", "earliest", "min", "max", "any", "arg_min", "arg_max":
		return true
	}
	return false
}
