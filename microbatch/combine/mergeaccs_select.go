package combine

import "github.com/deltad/deltad/microbatch/column"

// BulkSelector is implemented by columns that say which of many accumulators
// they keep.
type BulkSelector interface {
	// SelectAccs is MergeAccs that appends to won the rows whose accumulator is
	// kept, where it was not before.
	SelectAccs(groups []uint32, a Accs, won []int32) ([]int32, error)
}

// SelectAccs implements BulkSelector.
func (c *wordColumn) SelectAccs(groups []uint32, a Accs, won []int32) ([]int32, error) {
	touchWords(c.at, groups)
	from := uint32(0)
	kind, greatest := c.fn.out.Kind, c.fn.greatest
	for i, g := range groups {
		to := a.Ends[i]
		acc, b := a.Bytes[from:to], a.Bytes[from:]
		from = to
		if x, ok := shortWord(kind, acc, b); ok && x != c.none {
			if have := &c.at[g]; x != *have && (x > *have) == greatest {
				*have = x
				won = append(won, int32(i))
			}
			continue
		}
		had, was := c.has(g), c.at[g]
		if err := c.Merge(g, acc); err != nil {
			return won, &RowError{i, err}
		}
		if c.has(g) != had || c.at[g] != was {
			won = append(won, int32(i))
		}
	}
	return won, nil
}

// SelectAccs implements BulkSelector.
func (c *pairColumn) SelectAccs(groups []uint32, a Accs, won []int32) ([]int32, error) {
	c.touch(groups)
	from := uint32(0)
	times := c.fn.out.Kind == column.Timestamp
	for i, g := range groups {
		to := a.Ends[i]
		acc, b := a.Bytes[from:to], a.Bytes[from:]
		from = to
		had, was := c.has(g), c.at[g]
		x, size := pair{}, 0
		if times && len(b) >= 14 {
			x, size = shortTimestamp(b)
		}
		if size > 0 && size == len(acc) {
			c.offer(g, x)
		} else if err := c.Merge(g, acc); err != nil {
			return won, &RowError{i, err}
		}
		if c.has(g) != had || c.at[g] != was {
			won = append(won, int32(i))
		}
	}
	return won, nil
}

// SelectAccs implements BulkSelector.
func (c *extremeColumn) SelectAccs(groups []uint32, a Accs, won []int32) ([]int32, error) {
	return c.selectAccs(groups, a, won)
}

// SelectAccs implements BulkSelector.
func (c *argColumn) SelectAccs(groups []uint32, a Accs, won []int32) ([]int32, error) {
	return c.selectAccs(groups, a, won)
}

func (c *choice) selectAccs(groups []uint32, a Accs, won []int32) ([]int32, error) {
	for i, g := range groups {
		acc := a.At(i)
		if len(acc) == 0 {
			continue
		}
		if err := c.validate(acc); err != nil {
			return won, &RowError{i, err}
		}
		if have := c.get(g); have == nil || c.before(acc, have) {
			c.set(g, acc)
			won = append(won, int32(i))
		}
	}
	return won, nil
}

// SelectAccs implements BulkSelector.
func (c *boolColumn) SelectAccs(groups []uint32, a Accs, won []int32) ([]int32, error) {
	for i, g := range groups {
		was := c.at[g]
		if err := c.Merge(g, a.At(i)); err != nil {
			return won, &RowError{i, err}
		}
		if c.at[g] != was {
			won = append(won, int32(i))
		}
	}
	return won, nil
}
