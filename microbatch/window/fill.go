package window

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// movingShare is which part of the budget a fn may have so as to take
// accumulators out again that could be folded anew.
const movingShare = 3

// fill folds all sources, block by block and column by column. It begins with
// the last: what selects by time is then found at once, and of the ladders most
// of what comes is no better than the winner and never stands in them.
func (r *Rolling) fill(ended func() error, bound *index.Bound, now *sourceSet, base *Base) (fits bool, err error) {
	shape := bound.Shape()
	r.held, r.known = now, newKnown()
	r.keys = r.known.keys
	var folded []int
	for j, fn := range shape.Fns {
		c := newCell(fn, base != nil && base.Join.At[j] >= 0, r.budget()/r.share)
		if c.folded() {
			folded = append(folded, j)
		}
		r.cells = append(r.cells, c)
	}
	r.cover = newCover(shape, folded, r.o)
	for _, s := range slices.Backward(now.list) {
		if err := r.enterAll(ended, s); errors.Is(err, errBeyond) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	r.order = slices.Clone(r.known.groups)
	if err := r.appear(ended, r.order, newUnderlay(base)); err != nil {
		return false, err
	}
	r.full = r.accumulated()
	return r.full <= r.budget(), nil
}

// errBeyond says that the accumulators take more memory than there may be.
var errBeyond = errors.New("beyond the budget")

// enterAll merges a source into whatever it feeds.
func (r *Rolling) enterAll(ended func() error, s *heldSource) error {
	slot := r.slot(s.Start)
	return r.blocks(ended, s.Run, s.Start, func(groups []uint32, b *table.Block) error {
		for _, g := range groups {
			r.holders[g]++
		}
		if !s.named {
			for _, g := range groups {
				r.unnamed[g]++
			}
		}
		r.entered += int64(len(groups))
		for j, c := range r.cells {
			if !s.inside[j] {
				continue
			}
			if err := c.fill(groups, slot, b.Accs[j]); err != nil {
				return r.keyed("merge key", err)
			}
		}
		return nil
	})
}

// blocks calls f with each block of the run of a partition and the groups of its
// keys. The groups are valid until f returns.
func (r *Rolling) blocks(ended func() error, run *table.Run, start time.Time, f func(groups []uint32, b *table.Block) error) error {
	walk := run.Blocks()
	r.known.begin(run)
	for walk.Next() {
		if err := ended(); err != nil {
			return err
		}
		b := walk.Block()
		groups, err := r.groups(b.Keys)
		if err != nil {
			return err
		}
		if err := f(groups, b); err != nil {
			return err
		}
	}
	if err := walk.Err(); err != nil {
		return unread(start, err)
	}
	r.known.end(run)
	return nil
}

// unread is the error of a slice that cannot be read.
func unread(start time.Time, err error) error {
	return fmt.Errorf("read slice of %s: %w", start.UTC().Format(time.RFC3339), err)
}

// groups returns the groups of the keys of a block, valid until the next call.
// It returns errBeyond where they have no room within the budget: columns double,
// and are not let to where that would be too much.
func (r *Rolling) groups(keys [][]byte) ([]uint32, error) {
	r.found = slices.Grow(r.found[:0], len(keys))[:len(keys)]
	was := r.keys.Len()
	r.known.find(keys, r.found)
	bytes, n, room := r.accumulated(), r.keys.Len(), r.room
	if n > room {
		room = max(n, 2*room)
	}
	if bytes+int64(room-r.room)*r.each > r.budget() {
		return nil, errBeyond
	}
	if n > was {
		r.holders, r.unnamed, r.based = lengthen(r.holders, n), lengthen(r.unnamed, n), lengthen(r.based, n)
		for _, c := range r.cells {
			c.grow(n)
		}
	}
	if room > r.room {
		r.each, r.room = (r.accumulated()-bytes)/int64(room-r.room), room
	}
	return r.found, nil
}

// appear gives keys that are new to the window what the base has of them. The
// groups are in key order.
func (r *Rolling) appear(ended func() error, groups []uint32, under *underlay) error {
	for n, g := range groups {
		if under.base == nil {
			return nil
		}
		if n%foldBlock == 0 {
			if err := ended(); err != nil {
				return err
			}
		}
		key := r.keys.Bytes(g)
		there, err := under.seek(key)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		r.based[g] = true
		for j, c := range r.cells {
			if err := c.merge(g, under.acc(j)); err != nil {
				return fmt.Errorf("merge key %x of the base: %w", key, err)
			}
		}
	}
	return nil
}
