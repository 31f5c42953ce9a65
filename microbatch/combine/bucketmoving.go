package combine

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// buckets is a column of what a group counts by bucket. It lacks Extract.
type buckets interface {
	Len() int
	Grow(n int)
	Reset()
	Add(in *Input) error
	Merge(g uint32, acc []byte) error
	Unmerge(g uint32, acc []byte) error
	Clear(g uint32)
	AppendAcc(dst []byte, g uint32) []byte
	Bytes() int64
	// ascending returns what g counts by bucket, valid until the next call, sum
	// how many values that are.
	ascending(g uint32) []tally
	sum(g uint32) uint64
}

// bucketMoving is bucketColumn for a window that moves: it has the tallies of a
// group in order, so that a quantile is found without sorting, and none without
// a count.
type bucketMoving struct {
	groupTallies
	fn      *bucketFn
	foreign []tally
}

func (c *bucketMoving) Bytes() int64 { return c.held() + int64(16*cap(c.foreign)) }

// Add is no part of a window.
func (c *bucketMoving) Add(*Input) error { return errMoving }

func (c *bucketMoving) ascending(g uint32) []tally { return c.table.get(g)[:c.used[g]] }

func (c *bucketMoving) Merge(g uint32, acc []byte) error {
	list, total, err := c.fn.parse(c.foreign[:0], acc)
	if err != nil {
		return err
	}
	c.foreign = list
	if total > math.MaxInt64-c.total[g] {
		return fmt.Errorf("%s accumulator: %w", c.fn.id, errCounts)
	}
	c.total[g] += total
	have := c.ascending(g)
	rest := list[:0] // those that are not there
	at := 0
	for _, t := range list {
		at = seekTally(have, at, t.key)
		if at < len(have) && have[at].key == t.key {
			have[at].n += t.n
		} else {
			rest = append(rest, t)
		}
	}
	c.insert(g, rest)
	return nil
}

// seekTally returns the first place from on whose key is not below key.
func seekTally(list []tally, from int, key uint32) int {
	// Where it lies is found in steps that double, as the next key is mostly near.
	step := 1
	for from+step <= len(list) && list[from+step-1].key < key {
		from += step
		step *= 2
	}
	end := min(from+step-1, len(list))
	for from < end {
		if mid := int(uint(from+end) / 2); list[mid].key < key {
			from = mid + 1
		} else {
			end = mid
		}
	}
	return from
}

// insert adds tallies whose keys g has not, in order.
func (c *bucketMoving) insert(g uint32, rest []tally) {
	if len(rest) == 0 {
		return
	}
	n := int(c.used[g])
	all := c.table.get(g)
	if to := n + len(rest); to > len(all) {
		old, fresh := c.table.replace(g, bits.Len(uint(to-1)))
		copy(fresh, old[:n])
		all = fresh
	}
	c.used[g] = uint32(n + len(rest))
	// From the back, so that each moves once.
	for to := n + len(rest); len(rest) > 0; {
		last := rest[len(rest)-1]
		from := n
		for from > 0 && all[from-1].key > last.key {
			from--
		}
		to -= n - from
		copy(all[to:], all[from:n])
		to--
		all[to], rest, n = last, rest[:len(rest)-1], from
	}
}

func (c *bucketMoving) Unmerge(g uint32, acc []byte) error {
	list, total, err := c.fn.parse(c.foreign[:0], acc)
	if err != nil {
		return err
	}
	c.foreign = list
	have := c.ascending(g)
	at := 0
	for _, t := range list {
		if at = seekTally(have, at, t.key); at == len(have) || have[at].key != t.key || have[at].n < t.n {
			return fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
		}
	}
	c.total[g] -= total
	at = 0
	gone := false
	for _, t := range list {
		at = seekTally(have, at, t.key)
		have[at].n -= t.n
		gone = gone || have[at].n == 0
	}
	if gone {
		c.used[g] = uint32(len(slices.DeleteFunc(have, func(t tally) bool { return t.n == 0 })))
	}
	return nil
}

func (c *bucketMoving) AppendAcc(dst []byte, g uint32) []byte {
	return appendTallies(dst, c.ascending(g))
}
