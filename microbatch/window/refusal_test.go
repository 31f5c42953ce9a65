package window

import (
	"testing"
	"time"
)

// TestARefusalHoldsAsLongAsItMust: a window is tried again when it has fewer
// rows, no more than would have fitted, or none of what was refused.
func TestARefusalHoldsAsLongAsItMust(t *testing.T) {
	minute := func(n int) time.Time { return time.Unix(int64(60*n), 0) }
	set := func(from, to int) *sourceSet {
		return &sourceSet{list: []*heldSource{{Source: Source{Start: minute(from)}}, {Source: Source{Start: minute(to)}}}}
	}
	r := NewRolling(RollingOptions{Budget: 1000})
	for _, c := range []struct {
		name            string
		of, bytes, rows int64 // so many rows took bytes, and so many are to be tried
		from            int
		holds           bool
	}{
		{"the same", 50, 1010, 100, 1, true},
		{"a few less", 50, 1010, 76, 1, true},
		{"three quarters", 50, 1010, 75, 1, false},
		{"nearly all had fitted, one more", 95, 1010, 96, 1, true},
		{"nearly all had fitted, no more", 95, 1010, 95, 1, false},
		{"all had not, with as many bytes each", 100, 1200, 90, 1, true},
		{"all had not, with fewer", 100, 1200, 83, 1, false},
		{"what was last is there", 50, 1010, 100, 9, true},
		{"what was last has left", 50, 1010, 100, 10, false},
	} {
		r.refuse(set(1, 9), 100, c.of, c.bytes)
		if got := r.refused.holds(set(c.from, c.from+8), c.rows, 1000); got != c.holds {
			t.Errorf("%s: holds %v, want %v", c.name, got, c.holds)
		}
	}
	if r.refused.holds(set(1, 9), 100, 1001) {
		t.Error("there is more memory, and it holds")
	}
	if (refusal{}).holds(set(1, 9), 1<<40, 1000) {
		t.Error("nothing was refused, and it holds")
	}
}
