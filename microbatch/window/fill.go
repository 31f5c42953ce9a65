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

// fill folds all sources, some blocks at a time and column by column. It begins
// with the last: what selects by time is then found at once, and of the ladders
// most of what comes is no better than the winner and never stands in them.
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
	if err := r.enterAll(ended, now.list); errors.Is(err, errBeyond) {
		return false, nil
	} else if err != nil {
		return false, err
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

// fewRows are not worth to be shared out over several threads.
const fewRows = 512

// enterAll merges sources into whatever they feed, from the last to the first.
//
// What a fn has of some blocks is merged by one thread, that of another fn by
// another at the same time, while the blocks that come next are read and their
// keys looked up. All of that is done before anything of the next blocks is
// merged, so each column sees what it would see of one thread: which threads
// there are changes nothing, not even which error it is or whether it all fits.
func (r *Rolling) enterAll(ended func() error, sources []*heldSource) error {
	read := &reading{known: r.known, rest: slices.Clone(sources)}
	now, next := &batch{}, &batch{}
	read.read(now)
	for now.n > 0 {
		if err := ended(); err != nil {
			return err
		}
		if err := r.makeRoom(); err != nil {
			return err
		}
		r.count(now)
		workers := r.o.Workers
		if now.rows < fewRows {
			workers = 1
		}
		errs, ahead := make([]wrong, len(r.cells)), 0
		if !now.large() && now.err == nil {
			ahead = 1
		}
		sideBySide(workers, ahead+len(r.cells), func(i int) {
			if i < ahead {
				read.read(next)
			} else {
				errs[i-ahead] = r.enterOne(i-ahead, now)
			}
		})
		if err := firstOf(errs); err != nil {
			return r.keyed("merge key", err)
		}
		if now.err != nil {
			return now.err
		}
		if ahead == 0 {
			now.reset() // there is one large block at a time
			read.read(next)
		}
		now, next = next, now
	}
	return now.err
}

// count counts the sources that have the keys of a batch.
func (r *Rolling) count(b *batch) {
	for _, groups := range b.groups[:b.n] {
		for _, g := range groups {
			r.holders[g]++
		}
		if !b.of.named {
			for _, g := range groups {
				r.unnamed[g]++
			}
		}
		r.entered += int64(len(groups))
	}
}

// wrong is an error of a block of a batch.
type wrong struct {
	block int
	err   error
}

// firstOf is the error that comes first by block and fn.
func firstOf(list []wrong) error {
	var first wrong
	for _, w := range list {
		if w.err != nil && (first.err == nil || w.block < first.block) {
			first = w
		}
	}
	return first.err
}

// enterOne merges what fn j has of a batch.
func (r *Rolling) enterOne(j int, b *batch) wrong {
	if !b.of.inside[j] {
		return wrong{}
	}
	slot := r.slot(b.of.Start)
	for i := range b.n {
		if err := r.cells[j].fill(b.groups[i], slot, b.blocks[i].Accs[j]); err != nil {
			return wrong{i, err}
		}
	}
	return wrong{}
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
// It returns errBeyond where they have no room within the budget.
func (r *Rolling) groups(keys [][]byte) ([]uint32, error) {
	r.found = slices.Grow(r.found[:0], len(keys))[:len(keys)]
	r.known.find(keys, r.found)
	return r.found, r.makeRoom()
}

// makeRoom makes room for all groups that are known. It returns errBeyond where
// there is none within the budget: columns double, and are not let to where that
// would be too much.
func (r *Rolling) makeRoom() error {
	bytes, n, room := r.accumulated(), r.keys.Len(), r.room
	if n > room {
		room = max(n, 2*room)
	}
	if bytes+int64(room-r.room)*r.each > r.budget() {
		return errBeyond
	}
	if n > len(r.holders) {
		r.holders, r.unnamed, r.based = lengthen(r.holders, n), lengthen(r.unnamed, n), lengthen(r.based, n)
		for _, c := range r.cells {
			c.grow(n)
		}
	}
	if room > r.room {
		r.each, r.room = (r.accumulated()-bytes)/int64(room-r.room), room
	}
	return nil
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
