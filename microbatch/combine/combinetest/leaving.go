package combinetest

import (
	"bytes"

	"github.com/deltad/deltad/microbatch/combine"
)

// checkLeaving holds a fn to what it offers beyond its class for windows that
// move: combine.Selector, combine.Retractor and combine.Clearer.
func checkLeaving(fn combine.Fn, rec Records, seed uint64) *difference {
	p := halves(rec, seed)
	a, b := accOf(fn, p[0]), accOf(fn, p[1])
	both := merged(fn, a, b)
	if s, ok := fn.(combine.Selector); ok && len(a) > 0 && len(b) > 0 {
		kept, n := a, s.Prefer(a, b)
		if n > 0 {
			kept = b
		}
		if (n == 0) != bytes.Equal(a, b) || n < 0 != (s.Prefer(b, a) > 0) {
			return wrong("a Selector that does not order accumulators: %d of these two", n)
		}
		if d := same("a Selector, and a merge does not keep what it prefers", both, kept); d != nil {
			return d
		}
	}
	col := fn.NewColumn()
	col.Grow(2)
	for _, step := range []error{col.Merge(0, a), col.Merge(0, b), col.Merge(1, b)} {
		if step != nil {
			return wrong("%v", step)
		}
	}
	if r, ok := col.(combine.Retractor); ok {
		gone, err := r.Retract(0, b)
		left := both
		if gone {
			left = a
		}
		switch d := same("a Retractor, and what was taken out, or could not be, leaves another accumulator", col.AppendAcc(nil, 0), left); {
		case err != nil:
			return wrong("%v", err)
		case d != nil:
			return d
		}
	}
	if c, ok := col.(combine.Clearer); ok {
		c.Clear(0)
		if d := same("a Clearer, and a cleared group is not the identity", col.AppendAcc(nil, 0), nil); d != nil {
			return d
		}
		for _, step := range []error{col.Merge(0, b), col.Merge(0, a)} {
			if step != nil {
				return wrong("%v", step)
			}
		}
		if d := same("a Clearer, and a group that was cleared begins otherwise than a new one", col.AppendAcc(nil, 0), both); d != nil {
			return d
		}
		return same("a Clearer, and another group changes", col.AppendAcc(nil, 1), b)
	}
	return nil
}
