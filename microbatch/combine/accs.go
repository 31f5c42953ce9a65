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
