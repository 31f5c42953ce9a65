package combine

// Bulk is implemented by columns that write many accumulators faster than one
// by one: the groups come in the order of their keys, which is no order in
// memory, and a loop over one column waits for several of them at a time.
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
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *wideColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *floatColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *wordColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *pairColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *rankedColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// AppendAccs implements Bulk.
func (c *newestColumn) AppendAccs(dst []byte, ends []int, groups []uint32) ([]byte, []int) {
	for _, g := range groups {
		dst = c.AppendAcc(dst, g)
		ends = append(ends, len(dst))
	}
	return dst, ends
}
