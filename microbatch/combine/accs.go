package combine

import "fmt"

// Accs are the accumulators that one fn has for rows 0 to len(Ends)-1, one after
// the other: a block of a run holds them like that. Nothing of it may be changed.
type Accs struct {
	Bytes []byte
	// Ends is where the accumulator of each row ends; it begins where the one
	// before ends. Identities have no bytes.
	Ends []uint32
}

// Len is the number of rows.
func (a Accs) Len() int { return len(a.Ends) }

// At is the accumulator of row i, empty for the identity.
func (a Accs) At(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = a.Ends[i-1]
	}
	return a.Bytes[from:a.Ends[i]:a.Ends[i]]
}

// RowError is an error of one row of Accs.
type RowError struct {
	Row int
	Err error
}

// Error implements error.
func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Err) }

// Unwrap returns Err.
func (e *RowError) Unwrap() error { return e.Err }

// MergeAccs merges the accumulator of each row i into groups[i], all of them
// different, as Merge does one by one. An error is a RowError; the rows before
// it are merged.
func MergeAccs(c Column, groups []uint32, a Accs) error {
	for i, g := range groups {
		if acc := a.At(i); len(acc) > 0 {
			if err := c.Merge(g, acc); err != nil {
				return &RowError{i, err}
			}
		}
	}
	return nil
}

// UnmergeAccs is MergeAccs of what was merged before, taken out again.
func UnmergeAccs(c Inverter, groups []uint32, a Accs) error {
	for i, g := range groups {
		if acc := a.At(i); len(acc) > 0 {
			if err := c.Unmerge(g, acc); err != nil {
				return &RowError{i, err}
			}
		}
	}
	return nil
}
