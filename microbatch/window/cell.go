package window

import (
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// cell holds the accumulators of one fn for every key of a window. Where the
// fn's column cannot clear a group, a group that is to begin anew gets another
// one inside; what it leaves behind stays until the next complete fold.
type cell struct {
	column  combine.Column
	inverse combine.Inverter  // nil unless the fn is a group
	retract combine.Retractor // nil unless the fn selects
	clear   combine.Clearer   // nil unless the column can
	inside  []uint32          // by group, its group in the column plus one; unused with clear
	ladder  *ladder           // nil unless the fn selects otherwise than by time
	acc     []byte            // scratch
	own     []uint32          // scratch: places of groups
	won     []int32           // scratch
	present present           // scratch
	next    gathered          // scratch
}

// newCell returns the cell of a fn. based says that accumulators of a base lie
// under those of the slices: they never leave, which a ladder does not know.
// What only serves to take accumulators out again has about most bytes.
func newCell(fn combine.Fn, based bool, most int64) *cell {
	c := &cell{}
	if m, ok := fn.(combine.Mover); ok {
		c.column = m.NewMoving(most)
	} else {
		c.column = fn.NewColumn()
	}
	c.inverse, _ = c.column.(combine.Inverter)
	c.retract, _ = c.column.(combine.Retractor)
	c.clear, _ = c.column.(combine.Clearer)
	if s, ok := fn.(combine.Selector); ok && c.clear != nil && !based && !s.Follows() {
		c.ladder = newLadder(s)
	}
	return c
}

// folded says that some accumulators can leave the cell only by folding what
// is left.
func (c *cell) folded() bool { return c.inverse == nil }

func (c *cell) grow(n int) {
	if c.ladder != nil {
		c.ladder.grow(n)
	}
	if c.clear != nil {
		c.column.Grow(n)
		return
	}
	for len(c.inside) < n {
		c.inside = append(c.inside, 0)
	}
}

// at is the place of a group in the column.
func (c *cell) at(g uint32) uint32 {
	if c.clear != nil {
		return g
	}
	if c.inside[g] == 0 {
		n := c.column.Len()
		c.column.Grow(n + 1)
		c.inside[g] = uint32(n) + 1
	}
	return c.inside[g] - 1
}

// empty makes a group the identity.
func (c *cell) empty(g uint32) {
	if c.ladder != nil {
		c.ladder.clear(g)
	}
	if c.clear != nil {
		c.clear.Clear(g)
	} else {
		c.inside[g] = 0
	}
}

// renew makes a group the identity, to be folded anew.
func (c *cell) renew(g uint32) {
	c.empty(g)
	if l, ok := c.column.(combine.Loosener); ok {
		l.Loosen(g)
	}
}

// merge merges an accumulator of no partition: a base's, or a part of what is
// folded anew.
func (c *cell) merge(g uint32, acc []byte) error {
	if len(acc) == 0 {
		return nil
	}
	return c.column.Merge(c.at(g), acc)
}

// settle ends the merges of a group that is folded anew.
func (c *cell) settle(g uint32) {
	if c.ladder != nil {
		c.acc = c.column.AppendAcc(c.acc[:0], g)
		c.ladder.set(g, c.acc)
	}
}

// enter merges the accumulators of a slot, that of row i into groups[i], all of
// them different. newest says that none before it was of a later one. An error
// is a groupError.
func (c *cell) enter(groups []uint32, slot int64, a combine.Accs, newest bool) error {
	groups, a = c.present.of(groups, a)
	if c.ladder != nil {
		c.ladder.pushAccs(groups, slot, a, newest)
	}
	// A fn that selects keeps of these and of what it had the same as a ladder.
	return groupOf(combine.MergeAccs(c.column, c.places(groups), a), groups)
}

// fill is enter of what is no later than all that is there: only what wins may
// stand in a ladder.
func (c *cell) fill(groups []uint32, slot int64, a combine.Accs) error {
	s, ok := c.column.(combine.BulkSelector)
	if c.ladder == nil || !ok {
		return c.enter(groups, slot, a, false)
	}
	groups, a = c.present.of(groups, a)
	var err error
	c.won, err = s.SelectAccs(groups, a, c.won[:0])
	c.ladder.pushRows(c.won, groups, slot, a)
	return groupOf(err, groups)
}

// leave takes the accumulators of a slot out, that of row i out of groups[i],
// all of them different. oldest says that nothing of this slot and those before
// it is left. It appends to left the groups that must be folded anew. An error
// is a groupError.
func (c *cell) leave(groups []uint32, slot int64, a combine.Accs, oldest bool, left []uint32) ([]uint32, error) {
	groups, a = c.present.of(groups, a)
	switch {
	case c.inverse != nil:
		return left, groupOf(combine.UnmergeAccs(c.inverse, c.places(groups), a), groups)
	case c.ladder != nil:
		return c.drop(groups, slot, a, oldest, left)
	case c.retract != nil:
		return c.retracted(groups, a, left)
	}
	return append(left, groups...), nil
}

// retracted is leave of a fn that selects.
func (c *cell) retracted(groups []uint32, a combine.Accs, left []uint32) ([]uint32, error) {
	if c.clear != nil {
		left, err := combine.RetractAccs(c.retract, groups, a, left)
		return left, groupOf(err, groups)
	}
	for i, g := range groups {
		whole, err := c.retract.Retract(c.at(g), a.At(i))
		if err != nil {
			return left, &groupError{g, err}
		}
		if !whole {
			left = append(left, g)
		}
	}
	return left, nil
}

// drop is leave of a ladder: where the winner went, the next one takes its
// place.
func (c *cell) drop(groups []uint32, slot int64, a combine.Accs, oldest bool, left []uint32) ([]uint32, error) {
	next := &c.next
	next.reset()
	for i, g := range groups {
		c.ladder.near(i, groups)
		whole, changed := c.ladder.drop(g, slot, a.At(i), oldest)
		switch {
		case !whole:
			left = append(left, g)
		case changed:
			c.clear.Clear(g)
			if acc := c.ladder.winner(g); acc != nil {
				next.add(g, acc)
			}
		}
	}
	return left, groupOf(combine.MergeAccs(c.column, next.groups, next.accs), next.groups)
}

// places are the groups' places in the column.
func (c *cell) places(groups []uint32) []uint32 {
	if c.clear != nil {
		return groups
	}
	c.own = c.own[:0]
	for _, g := range groups {
		c.own = append(c.own, c.at(g))
	}
	return c.own
}

func (c *cell) bytes() int64 {
	n := c.column.Bytes() + int64(4*(cap(c.inside)+cap(c.own)+cap(c.won))) + c.present.bytes() + c.next.bytes()
	if c.ladder != nil {
		n += c.ladder.bytes()
	}
	return n
}

// view shows some groups of a cell as the groups 0, 1, 2 and so on, which is
// how an extractor wants them.
type view struct {
	combine.Column
	groups []uint32
	these  []uint32 // scratch
}

// Extract implements combine.Column.
func (v *view) Extract(g uint32, dst *column.Vector) error {
	return v.Column.Extract(v.groups[g], dst)
}

// ExtractAll implements combine.BulkExtractor.
func (v *view) ExtractAll(groups []uint32, dst *column.Vector) error {
	v.these = v.these[:0]
	for _, g := range groups {
		v.these = append(v.these, v.groups[g])
	}
	return combine.ExtractAll(v.Column, v.these, dst)
}

// AppendAcc implements combine.Column.
func (v *view) AppendAcc(dst []byte, g uint32) []byte {
	return v.Column.AppendAcc(dst, v.groups[g])
}

// register is a view of the record register.
type register struct {
	view
	presence combine.Presence
}

// Records implements combine.Presence.
func (r *register) Records(g uint32) uint64 { return r.presence.Records(r.groups[g]) }

// Deleted implements combine.Presence.
func (r *register) Deleted(g uint32) bool { return r.presence.Deleted(r.groups[g]) }

// When implements combine.Presence.
func (r *register) When(g uint32) (time.Time, bool) { return r.presence.When(r.groups[g]) }

// views are views of all cells, the first of them the record register.
type views struct {
	cells   []*cell
	columns []combine.Column
	each    []*view
}

func newViews(cells []*cell) (*views, error) {
	v := &views{cells: cells}
	for i, c := range cells {
		if i > 0 {
			one := &view{Column: c.column}
			v.each, v.columns = append(v.each, one), append(v.columns, one)
			continue
		}
		presence, ok := c.column.(combine.Presence)
		if !ok {
			return nil, fmt.Errorf("column 0 is a %T, not the record register", c.column)
		}
		r := &register{view{Column: c.column}, presence}
		v.each, v.columns = append(v.each, &r.view), append(v.columns, r)
	}
	return v, nil
}

// show moves the views to these groups.
func (v *views) show(groups []uint32) {
	for i, c := range v.cells {
		if c.clear != nil {
			v.each[i].groups = groups
			continue
		}
		own := v.each[i].groups[:0]
		for _, g := range groups {
			own = append(own, c.at(g))
		}
		v.each[i].groups = own
	}
}
