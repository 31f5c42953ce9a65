package combine

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// distinctMoving counts in how many of a group's accumulators each coupon is,
// and, of accumulators that have registers, each register with its rank. So an
// accumulator can be taken out again: what is in no other goes with it. The
// registers of a group are made of what it counts when they are asked for.
//
// A group of which that takes more memory than there is for it is loose: its
// state is that of distinctColumn, and nothing can be taken out of it.
type distinctMoving struct {
	distinctColumn // of the groups that are loose
	most           int64
	table          slots[sighting]
	used           []uint32 // of each group: slots with an item
	alive          []uint32 // coupons with a count
	wide           []uint32 // accumulators with registers
	loose          []bool
}

// sighting is a coupon, or a register, and how many accumulators have it. A
// coupon has a rank, which is never 0; of a register the number and the rank
// stand where the address does, and 0 for the rank. Item 0 is a free slot; a
// count may be 0 after accumulators were taken out.
type sighting struct{ item, n uint32 }

func registerItem(i int, rank byte) uint32 { return (uint32(i)<<6 | uint32(rank)) << 6 }

func (s sighting) isCoupon() bool { return s.item&63 != 0 }

// NewMoving implements Mover.
func (f *distinctFn) NewMoving(most int64) Column {
	return &distinctMoving{distinctColumn: distinctColumn{fn: f, scratch: make([]byte, 1<<f.precision)}, most: most}
}

func (c *distinctMoving) Grow(n int) {
	c.distinctColumn.Grow(n)
	c.table.Grow(n)
	c.used, c.alive, c.wide, c.loose = grow(c.used, n), grow(c.alive, n), grow(c.wide, n), grow(c.loose, n)
}

func (c *distinctMoving) Reset() {
	c.distinctColumn.Reset()
	c.table.Reset()
	c.used, c.alive, c.wide, c.loose = c.used[:0], c.alive[:0], c.wide[:0], c.loose[:0]
}

func (c *distinctMoving) Bytes() int64 {
	return c.distinctColumn.Bytes() + c.table.held(8) + int64(4*(cap(c.used)+cap(c.alive)+cap(c.wide))+cap(c.loose))
}

// Add is no part of a window.
func (c *distinctMoving) Add(*Input) error { return errMoving }

var errMoving = errors.New("records are not added to a window")

func (c *distinctMoving) Merge(g uint32, acc []byte) error {
	if c.loose[g] {
		return c.distinctColumn.Merge(g, acc)
	}
	form, err := c.read(acc)
	if err != nil || form == 0 {
		return err
	}
	fits := true
	if form == formCoupons {
		for i := 0; fits && i < len(c.list); i++ {
			fits = c.count(g, c.list[i])
		}
	} else {
		c.wide[g]++
		for i, rank := range c.scratch {
			if rank > 0 && fits {
				fits = c.count(g, registerItem(i, rank))
			}
		}
	}
	if fits {
		return nil
	}
	// What of acc was counted counts for nothing in what a loose group has.
	c.Loosen(g)
	return c.distinctColumn.Merge(g, acc)
}

// count counts an item of g once more; false says that there is no room for it.
func (c *distinctMoving) count(g, item uint32) bool {
	s := c.find(g, item)
	if s == nil || s.item == 0 {
		if 4*(int(c.used[g])+1) > 3*len(c.table.get(g)) {
			if !c.enlarge(g) {
				return false
			}
			s = c.find(g, item)
		}
		s.item = item
		c.used[g]++
	}
	if s.n++; s.n == 1 && s.isCoupon() {
		c.alive[g]++
	}
	return true
}

// find returns the slot of g that has the item, or the free one where it would
// be; nil where g has none.
func (c *distinctMoving) find(g, item uint32) *sighting {
	table := c.table.get(g)
	if len(table) == 0 {
		return nil
	}
	mask := uint64(len(table) - 1)
	i := home(uint64(item), uint8(bits.Len64(mask)))
	for table[i].item != 0 && table[i].item != item {
		i = (i + 1) & mask
	}
	return &table[i]
}

// modest is the logarithm of how many slots any group may have.
const modest = 9

// enlarge makes room for one more item of g, without those of no count.
func (c *distinctMoving) enlarge(g uint32) bool {
	live := 1
	for _, s := range c.table.get(g) {
		if s.n > 0 {
			live++
		}
	}
	lg := max(2, bits.Len(uint(3*live/2)))
	if lg > modest && int64(8*(c.table.inUse()+1<<lg)) > c.most {
		return false
	}
	old, _ := c.table.replace(g, lg)
	c.used[g] = 0
	for _, s := range old {
		if s.n > 0 {
			*c.find(g, s.item) = s
			c.used[g]++
		}
	}
	return true
}

// Loosen implements Loosener, of a group that need not be the identity.
func (c *distinctMoving) Loosen(g uint32) {
	if c.loose[g] {
		return
	}
	wide := c.wide[g] > 0
	table := c.table.drop(g)
	c.used[g], c.alive[g], c.wide[g], c.loose[g] = 0, 0, 0, true
	if wide {
		raiseSightings(c.fold(g), table)
		return
	}
	for _, s := range table {
		if s.n > 0 {
			c.put(g, s.item)
		}
	}
}

func raiseSightings(registers []byte, table []sighting) {
	for _, s := range table {
		switch {
		case s.n == 0:
		case s.isCoupon():
			raise(registers, s.item)
		default:
			r := &registers[s.item>>12]
			*r = max(*r, byte(s.item>>6&63))
		}
	}
}

// Retract implements Retractor.
func (c *distinctMoving) Retract(g uint32, acc []byte) (bool, error) {
	if c.loose[g] {
		return len(acc) == 0, nil
	}
	form, err := c.read(acc)
	if err != nil || form == 0 {
		return err == nil, err
	}
	items := c.list
	if form != formCoupons {
		for i, rank := range c.scratch {
			if rank > 0 {
				items = append(items, registerItem(i, rank))
			}
		}
		c.list = items
	}
	for _, item := range items {
		if s := c.find(g, item); s == nil || s.n == 0 {
			return false, fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
		}
	}
	if form != formCoupons {
		if c.wide[g] == 0 {
			return false, fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
		}
		c.wide[g]--
	}
	for _, item := range items {
		s := c.find(g, item)
		if s.n--; s.n == 0 && s.isCoupon() {
			c.alive[g]--
		}
	}
	return true, nil
}

// Clear implements Clearer.
func (c *distinctMoving) Clear(g uint32) {
	c.distinctColumn.Clear(g)
	c.table.drop(g)
	c.used[g], c.alive[g], c.wide[g], c.loose[g] = 0, 0, 0, false
}

// registers returns the registers of a group that is not loose, valid until the
// next call; nil while it has coupons.
func (c *distinctMoving) registers(g uint32) []byte {
	if c.wide[g] == 0 && int(c.alive[g]) <= c.fn.limit {
		return nil
	}
	clear(c.scratch)
	raiseSightings(c.scratch, c.table.get(g))
	return c.scratch
}

// ascending returns the coupons of a group that is not loose, in order, valid
// until the next call.
func (c *distinctMoving) ascending(g uint32) []uint32 {
	c.list = c.list[:0]
	for _, s := range c.table.get(g) {
		if s.n > 0 {
			c.list = append(c.list, s.item)
		}
	}
	slices.Sort(c.list)
	return c.list
}

func (c *distinctMoving) AppendAcc(dst []byte, g uint32) []byte {
	if c.loose[g] {
		return c.distinctColumn.AppendAcc(dst, g)
	}
	if r := c.registers(g); r != nil {
		return appendRegisters(dst, r)
	}
	return appendCoupons(dst, c.ascending(g))
}

func (c *distinctMoving) Extract(g uint32, dst *column.Vector) error {
	if c.loose[g] {
		return c.distinctColumn.Extract(g, dst)
	}
	r := c.registers(g)
	if r == nil && c.fn.sketch {
		return c.fn.extract(nil, c.ascending(g), int(c.alive[g]), dst)
	}
	return c.fn.extract(r, nil, int(c.alive[g]), dst)
}
