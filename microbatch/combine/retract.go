package combine

import (
	"bytes"
	"fmt"

	"github.com/deltad/deltad/microbatch/tuple"
)

// Retractor is implemented by columns that keep a selection of what they were
// offered: an accumulator that was not selected can go without a trace.
type Retractor interface {
	// Retract takes out of group g an accumulator that was merged into it. It
	// returns false, and leaves the group as it was, where what is left cannot be
	// known without the others.
	Retract(g uint32, acc []byte) (bool, error)
}

// Clearer is implemented by columns that can make one group the identity again
// and use its storage for others.
type Clearer interface{ Clear(g uint32) }

func (r *registers) Clear(g uint32) { r.at[g].size = 0 }

// Retract implements Retractor: what is kept is not the one that goes.
func (c *choice) Retract(g uint32, acc []byte) (bool, error) {
	return len(acc) == 0 || !bytes.Equal(acc, c.get(g)), nil
}

func (c *winners) Clear(g uint32) { c.registers.Clear(g); c.heads[g] = nobody() }

// Retract implements Retractor. A group that is left without records is the
// identity.
func (c *newestColumn) Retract(g uint32, acc []byte) (bool, error) {
	n, mark, err := c.fn.parse(acc)
	switch {
	case err != nil:
		return false, err
	case n > c.n[g]:
		return false, fmt.Errorf("%s: %d taken out of %d records", c.fn.id, n, c.n[g])
	case n == c.n[g]:
		c.Clear(g)
		return true, nil
	case len(mark) > 0 && bytes.Equal(mark, c.mark(g)):
		return false, nil
	}
	c.n[g] -= n
	return true, nil
}

// Clear implements Clearer.
func (c *newestColumn) Clear(g uint32) {
	if c.winners.Len() > 0 {
		c.winners.Clear(g)
	}
	c.n[g] = 0
}

func (w *words) clear(g uint32) {
	if int(g) < len(w.last) {
		w.last[g] = false
	}
}

func (c *wordColumn) Clear(g uint32) { c.words.clear(g); c.at[g] = c.none }
func (c *pairColumn) Clear(g uint32) { c.words.clear(g); c.at[g] = c.none }

// Retract implements Retractor.
func (c *wordColumn) Retract(g uint32, acc []byte) (bool, error) {
	ok, err := c.decode(acc)
	if !ok {
		return err == nil, err
	}
	return !c.has(g) || c.wordsOf(c.scratch)[0] != c.at[g], nil
}

func (c *boolColumn) Clear(g uint32) { c.at[g] = 0 }

// Retract implements Retractor: a value that does not decide leaves a group
// that is decided as it is.
func (c *boolColumn) Retract(g uint32, acc []byte) (bool, error) {
	if err := c.fn.Validate(acc); err != nil || len(acc) == 0 {
		return err == nil, err
	}
	return c.verdict(tuple.IsTrue(acc)) != c.at[g], nil
}

func (c *countColumn) Clear(g uint32) { c.n[g] = 0 }

func (c *wideColumn) Clear(g uint32) { c.at[g].n = 0; c.put(g, int192{}) }

func (c *thetaColumn) Clear(g uint32) { c.kept.empty(g); c.theta[g] = 0 }

// Clear implements Clearer. The slab of the group is the next one's that needs
// one.
func (c *distinctColumn) Clear(g uint32) {
	c.coupons.empty(g)
	if c.slab[g] > 0 {
		c.spare = append(c.spare, c.slab[g]-1)
		c.slab[g] = 0
	}
}

func (s *shortlists) Clear(g uint32) {
	for _, p := range s.of[g] {
		s.dead += int(p.size)
	}
	s.of[g] = s.of[g][:0]
}

// Retract implements Retractor.
func (c *pairColumn) Retract(g uint32, acc []byte) (bool, error) {
	ok, err := c.decode(acc)
	if !ok {
		return err == nil, err
	}
	return !c.has(g) || c.pair() != c.at[g], nil
}

// Selector is implemented by fns whose merge keeps one of the accumulators it
// is offered, as it is.
type Selector interface {
	// Prefer compares two accumulators, neither the identity: it is negative
	// where a merge keeps a, positive where it keeps b, 0 where they are equal.
	Prefer(a, b []byte) int
	// Follows says that what comes later in time is preferred: what is kept is
	// then as good as always the last that is left.
	Follows() bool
}

// Follows implements Selector.
func (f *extremeFn) Follows() bool { return false }

// Prefer implements Selector.
func (f *extremeFn) Prefer(a, b []byte) int {
	if f.greatest {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// Follows implements Selector.
func (f *rankedFn) Follows() bool { return f.newest }

// Prefer implements Selector.
func (f *rankedFn) Prefer(a, b []byte) int {
	if f.newest {
		return compareRanked(b, a)
	}
	return compareRanked(a, b)
}

// Follows implements Selector.
func (f *argFn) Follows() bool { return false }

// Prefer implements Selector.
func (f *argFn) Prefer(a, b []byte) int {
	switch {
	case bytes.Equal(a, b):
		return 0
	case f.before(a, b):
		return -1
	}
	return 1
}

// Follows implements Selector.
func (f *boolFn) Follows() bool { return false }

// Prefer implements Selector.
func (f *boolFn) Prefer(a, b []byte) int {
	if f.decides {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}
