package combine

// Bulk is implemented by columns that write many accumulators faster than one
// by one: the groups come in the order of their keys, which is no order in
// memory. A loop over one column that first only reads something of each waits
// for many of them at a time, and then finds them near.
type Bulk interface {
	// AppendAccs is AppendAcc for each of the groups in turn; it appends to ends
	// the length of dst after each.
	AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int)
}

// AppendAccs appends the accumulators of the groups to dst, and to ends the
// length of dst after each.
func AppendAccs(c Column, dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	if b, ok := c.(Bulk); ok {
		return b.AppendAccs(dst, ends, groups)
	}
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *countColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	var touched uint64
	for _, g := range groups {
		touched ^= c.n[g]
	}
	used(touched)
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *wideColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	var touched uint64
	for _, g := range groups {
		touched ^= c.at[g].n
	}
	used(touched)
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *floatColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	var touched uint64
	for _, g := range groups {
		touched ^= c.n[g] ^ uint64(c.win[g].long)
	}
	used(touched)
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *wordColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	var touched uint64
	for _, g := range groups {
		touched ^= uint64(c.at[g])
	}
	used(touched)
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *pairColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	var touched uint64
	for _, g := range groups {
		touched ^= c.at[g].lo
	}
	used(touched)
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *rankedColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	c.touch(groups)
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *newestColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	if c.winners.Len() > 0 {
		c.touch(groups)
	}
	var touched uint64
	for _, g := range groups {
		touched ^= c.n[g]
	}
	used(touched)
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// used is called with what is read only so that it is near: what nobody uses
// would not be read.
//
//go:noinline
func used(uint64) {}

// touchLength is how much is read of what a group keeps, at most: further bytes are
// foreseen once these are copied.
const touchLength = 512

// touch reads every line of what the groups keep, all places first: so it is
// waited for together.
func (r *registers) touch(groups []uint32) {
	const line = 64
	var touched uint64
	for _, g := range groups {
		touched ^= uint64(r.at[g].size)
	}
	for _, g := range groups {
		s := r.at[g]
		b := r.arena[s.off : s.off+min(int(s.size), touchLength)]
		for ; len(b) > line; b = b[line:] {
			touched ^= uint64(b[0])
		}
		if len(b) > 0 {
			touched ^= uint64(b[0]) ^ uint64(b[len(b)-1])
		}
	}
	used(touched)
}
