package window

import (
	"errors"
	"fmt"

	"github.com/deltad/deltad/microbatch/combine"
)

// present leaves the rows of identities out of a block.
type present struct {
	groups []uint32
	ends   []uint32
}

// of returns the rows that have an accumulator, valid until the next call. The
// bytes stay where they are: identities have none.
func (p *present) of(groups []uint32, a combine.Accs) ([]uint32, combine.Accs) {
	if !hasIdentity(a.Ends) {
		return groups, a
	}
	p.groups, p.ends = p.groups[:0], p.ends[:0]
	from := uint32(0)
	for i, to := range a.Ends {
		if to > from {
			p.groups, p.ends = append(p.groups, groups[i]), append(p.ends, to)
		}
		from = to
	}
	return p.groups, combine.Accs{Bytes: a.Bytes, Ends: p.ends}
}

func hasIdentity(ends []uint32) bool {
	from := uint32(0)
	for _, to := range ends {
		if to == from {
			return true
		}
		from = to
	}
	return false
}

func (p *present) bytes() int64 { return int64(4 * (cap(p.groups) + cap(p.ends))) }

// gathered are accumulators that were picked one by one, with their groups.
type gathered struct {
	groups []uint32
	accs   combine.Accs
}

func (p *gathered) reset() {
	p.groups, p.accs.Bytes, p.accs.Ends = p.groups[:0], p.accs.Bytes[:0], p.accs.Ends[:0]
}

func (p *gathered) add(g uint32, acc []byte) {
	p.groups = append(p.groups, g)
	p.accs.Bytes = append(p.accs.Bytes, acc...)
	p.accs.Ends = append(p.accs.Ends, uint32(len(p.accs.Bytes)))
}

func (p *gathered) bytes() int64 {
	return int64(4*(cap(p.groups)+cap(p.accs.Ends)) + cap(p.accs.Bytes))
}

// groupError is an error of one group.
type groupError struct {
	group uint32
	err   error
}

// Error implements error.
func (e *groupError) Error() string { return fmt.Sprintf("group %d: %v", e.group, e.err) }

// Unwrap returns the error.
func (e *groupError) Unwrap() error { return e.err }

// groupOf gives an error of one of many accumulators to its group.
func groupOf(err error, groups []uint32) error {
	var row *combine.RowError
	if errors.As(err, &row) && row.Row < len(groups) {
		return &groupError{groups[row.Row], row.Err}
	}
	return err
}

// keyed says which key an error is of.
func (r *Rolling) keyed(what string, err error) error {
	var of *groupError
	if errors.As(err, &of) {
		return fmt.Errorf("%s %x: %w", what, r.keys.Bytes(of.group), of.err)
	}
	return err
}
