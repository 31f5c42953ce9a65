package window

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
)

// extent is the slots of what feeds a fn: the last that it was fed from, and
// the first that it is to be fed from.
type extent struct{ last, first int64 }

func (r *Rolling) span(now *sourceSet) []extent {
	out := make([]extent, len(r.cells))
	for j := range out {
		out[j] = extent{last: math.MinInt64, first: math.MaxInt64}
	}
	for _, s := range r.held.list {
		for j, in := range s.inside {
			if in {
				out[j].last = max(out[j].last, r.slot(s.Start))
			}
		}
	}
	for _, s := range now.list {
		for j, in := range s.inside {
			if in {
				out[j].first = min(out[j].first, r.slot(s.Start))
			}
		}
	}
	return out
}

// step is what apply does to a Rolling.
type step struct {
	r        *Rolling
	ended    func() error
	span     []extent
	appeared []uint32   // groups that had no source
	gone     []uint32   // groups that have none any more
	left     [][]uint32 // by fn: groups that are to be folded anew
	rows     []gathered // by fn, scratch: what of a block differs from its twin
}

// apply brings the accumulators from the sources held to those of now. All that
// enters does so before anything leaves: a key that does both is never gone.
func (r *Rolling) apply(ended func() error, changes []change, now *sourceSet, base *Base, did *Rolled) error {
	s := &step{r: r, ended: ended, span: r.span(now), left: make([][]uint32, len(r.cells)), rows: make([]gathered, len(r.cells))}
	pair(changes)
	for i := range changes {
		if err := s.enter(&changes[i]); err != nil {
			return err
		}
	}
	r.keys.Sort(s.appeared)
	if err := r.appear(ended, s.appeared, newUnderlay(base)); err != nil {
		return err
	}
	for i := range changes {
		if err := s.leave(&changes[i]); err != nil {
			return err
		}
	}
	for _, g := range s.gone {
		r.based[g] = false
		for _, c := range r.cells {
			c.empty(g)
		}
	}
	r.documents.leave(s.gone)
	r.held = now
	r.reorder(s.appeared, len(s.gone) > 0)
	due := s.due()
	made := r.cover.made
	if err := r.refold(ended, due, base); err != nil {
		return err
	}
	r.cover.prune(now.byID)
	did.Refolded, did.Nodes = due.n, int64(r.cover.made-made)
	return nil
}

// pair makes twins of what enters and what leaves of one partition: an object
// that is added to it makes another slice, and most of its keys are as they
// were. What twins have alike is as if neither came nor went.
func pair(changes []change) {
	for from := 0; from < len(changes); {
		to := from
		for to < len(changes) && changes[to].slot == changes[from].slot {
			to++
		}
		of := changes[from:to]
		l := 0
		for e := range of {
			if of[e].holder <= 0 {
				continue
			}
			for l < len(of) && of[l].holder >= 0 {
				l++
			}
			if l == len(of) {
				break
			}
			of[e].twin, of[l].twin = &of[l], &of[e]
			l++
		}
		from = to
	}
}

// enter merges what a change makes enter.
func (s *step) enter(c *change) error {
	enters := func(n int) bool { return n > 0 }
	if !c.does(enters) {
		return nil
	}
	r := s.r
	return s.blocks(c, enters, func(groups []uint32) error {
		if c.holder > 0 {
			for _, g := range groups {
				if r.holders[g] == 0 {
					s.appeared = append(s.appeared, g)
				}
				r.holders[g]++
			}
		}
		if c.unnamed > 0 {
			for _, g := range groups {
				r.unnamed[g]++
			}
		}
		return nil
	}, func(j int, groups []uint32, a combine.Accs) error {
		return r.keyed("merge key", r.cells[j].enter(groups, c.slot, a, c.slot >= s.span[j].last))
	})
}

// leave takes out what a change makes leave.
func (s *step) leave(c *change) error {
	leaves := func(n int) bool { return n < 0 }
	if !c.does(leaves) {
		return nil
	}
	r := s.r
	return s.blocks(c, leaves, func(groups []uint32) error {
		for _, g := range groups {
			if c.holder < 0 {
				if r.holders[g]--; r.holders[g] == 0 {
					s.gone = append(s.gone, g)
				}
			}
			if c.unnamed < 0 {
				r.unnamed[g]--
			}
			if r.holders[g] < 0 || r.unnamed[g] < 0 {
				return fmt.Errorf("key %x: it left more sources than it had entered", r.keys.Bytes(g))
			}
		}
		return nil
	}, func(j int, groups []uint32, a combine.Accs) (err error) {
		s.left[j], err = r.cells[j].leave(groups, c.slot, a, c.slot < s.span[j].first, s.left[j])
		return r.keyed("take out of key", err)
	})
}

// blocks walks the run of a change: it calls count with the groups of each
// block, and then accs with what each fn has of them that moves the way asked
// for, without what the change's twin has alike.
func (s *step) blocks(c *change, moves func(int) bool, count func([]uint32) error, accs func(j int, groups []uint32, a combine.Accs) error) error {
	var twin *twin
	if c.twin != nil {
		twin = newTwin(c)
	}
	return s.r.blocks(s.ended, c.run, c.start, func(groups []uint32, b *table.Block) error {
		if err := count(groups); err != nil {
			return err
		}
		if twin == nil {
			for _, g := range groups {
				s.r.documents.touch(g)
			}
		} else if err := s.compare(twin, groups, b); err != nil {
			return err
		}
		for j, d := range c.delta {
			if !moves(int(d)) {
				continue
			}
			groups, a := groups, b.Accs[j]
			if twin != nil && twin.both[j] {
				groups, a = s.rows[j].groups, s.rows[j].accs
			}
			if err := accs(j, groups, a); err != nil {
				return err
			}
		}
		return nil
	})
}

// twin walks the twin of a change along with it.
type twin struct {
	both  []bool // by fn: it is moved by both, one way and the other
	only  bool   // some fn is not, or they do not name alike
	start time.Time
	walk  *table.Blocks
	block *table.Block // nil at the end
	row   int
}

func newTwin(c *change) *twin {
	t := &twin{
		both: make([]bool, len(c.delta)), only: c.unnamed != -c.twin.unnamed,
		start: c.twin.start, walk: c.twin.run.Blocks(), block: &table.Block{},
	}
	for j, d := range c.delta {
		t.both[j] = d != 0 && d == -c.twin.delta[j]
		t.only = t.only || d != -c.twin.delta[j]
	}
	return t
}

// seek says whether the twin has the key. Keys are asked for in ascending
// order.
func (t *twin) seek(key []byte) (bool, error) {
	for t.block != nil {
		for ; t.row < len(t.block.Keys); t.row++ {
			if n := bytes.Compare(t.block.Keys[t.row], key); n >= 0 {
				return n == 0, nil
			}
		}
		t.block, t.row = nil, 0
		if t.walk.Next() {
			t.block = t.walk.Block()
		} else if err := t.walk.Err(); err != nil {
			return false, unread(t.start, err)
		}
	}
	return false, nil
}

// compare finds what of a block differs from the twin.
func (s *step) compare(t *twin, groups []uint32, b *table.Block) error {
	for j := range s.rows {
		s.rows[j].reset()
	}
	for i, g := range groups {
		there, err := t.seek(b.Keys[i])
		if err != nil {
			return err
		}
		touched := !there || t.only
		for j, both := range t.both {
			if !both {
				continue
			}
			acc := b.Accs[j].At(i)
			if there && bytes.Equal(acc, t.block.Accs[j].At(t.row)) {
				continue
			}
			s.rows[j].add(g, acc)
			touched = true
		}
		if touched {
			s.r.documents.touch(g)
		}
	}
	return nil
}

// due are the keys and fns that are to be folded anew, of those that are still
// there.
func (s *step) due() *refolds {
	r := s.r
	due := &refolds{need: make([][]int32, len(r.cells))}
	for j, left := range s.left {
		left = slices.DeleteFunc(left, func(g uint32) bool { return r.holders[g] == 0 })
		r.keys.Sort(left)
		s.left[j] = slices.Compact(left)
		due.groups = append(due.groups, s.left[j]...)
		due.n += int64(len(s.left[j]))
	}
	r.keys.Sort(due.groups)
	due.groups = slices.Compact(due.groups)
	for j, left := range s.left {
		for i, g := range due.groups {
			if len(left) > 0 && left[0] == g {
				due.need[j], left = append(due.need[j], int32(i)), left[1:]
			}
		}
	}
	return due
}

// reorder brings order up to date with the keys that appeared, which are in
// order, and those that have no source any more.
func (r *Rolling) reorder(appeared []uint32, gone bool) {
	if gone {
		r.order = slices.DeleteFunc(r.order, func(g uint32) bool { return r.holders[g] == 0 })
	}
	if len(appeared) == 0 {
		return
	}
	n := len(r.order)
	r.order = append(r.order, appeared...)
	// From the back, so that each moves once.
	to := len(r.order)
	for i := len(appeared) - 1; i >= 0; i-- {
		key := r.keys.Bytes(appeared[i])
		at := sort.Search(n, func(k int) bool { return bytes.Compare(r.keys.Bytes(r.order[k]), key) > 0 })
		to -= n - at
		copy(r.order[to:], r.order[at:n])
		to--
		r.order[to] = appeared[i]
		n = at
	}
}
