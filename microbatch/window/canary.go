package window

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
)

// The canary. Every run folds some keys a second time, another way, and
// compares the bytes: a combine fn that is no commutative monoid, a folded
// state that has gone wrong and memory that changed by itself have no other
// witness before somebody reads a wrong document.
//
// A Sampler picks the keys while a fold goes by, without a pass of its own, and
// keeps the accumulators that the fold has come to. Canary then looks the keys
// up in the leaves, the slices themselves, and folds them in a balanced tree,
// in turn from both ends of the window, through encoded accumulators at each
// node, the base last. A fold that goes through the slices in their order, or
// from what an earlier run has left, shares nothing with it but the leaves. What
// is wrong in a leaf is wrong both ways: that is for `deltad verify`, which reads
// the objects again.

// Sample is a key and what a fold made of it.
type Sample struct {
	Key []byte
	// Accs are the accumulators by fn of Shape; no bytes are the identity.
	Accs [][]byte
}

// Difference says that two folds of one key did not come to the same bytes. One
// is what the run's fold has, Other what the canary has.
type Difference struct {
	Key        []byte
	KeyText    string
	Field      string
	TypeID     string
	One, Other []byte
	// Refused is why the canary could not fold at all: an accumulator that the
	// fn made itself, or that the run's fold took, is none to it. Other is empty
	// then.
	Refused error
}

func (d *Difference) Error() string {
	s := fmt.Sprintf("key %s, %s (%s): one fold makes %s", d.KeyText, d.Field, clip(d.TypeID), d.excerpt(d.One))
	if d.Refused != nil {
		return s + ", the other none: " + clip(d.Refused.Error())
	}
	return s + ", the other " + d.excerpt(d.Other)
}

// Unwrap is why there is no other fold.
func (d *Difference) Unwrap() error { return d.Refused }

// excerptBytes are shown of an accumulator, from a little before the first
// difference.
const excerptBytes = 48

func (d *Difference) excerpt(acc []byte) string {
	if len(acc) <= excerptBytes {
		return fmt.Sprintf("%d bytes %x", len(acc), acc)
	}
	from := 0
	for from < min(len(d.One), len(d.Other)) && d.One[from] == d.Other[from] {
		from++
	}
	from = max(0, min(from-8, len(acc)-excerptBytes))
	return fmt.Sprintf("%d bytes, from %d on %x…", len(acc), from, acc[from:from+excerptBytes])
}

// Canary folds the sampled keys again from the slices and the base that a fold
// at n was made of, and compares. A *Difference is what it found; any other
// error is ErrUnreadable: the slices or the base could not be read. It holds a block
// per slice, and sorts samples by key.
func Canary(bound *index.Bound, slices []Source, base *Base, n time.Time, samples []Sample) error {
	return CanaryShort(bound, slices, base, n, samples, len(slices))
}

// CanaryShort is Canary without the fns that more than so many slices feed.
func CanaryShort(bound *index.Bound, slices []Source, base *Base, n time.Time, samples []Sample, most int) error {
	var bases []Base
	if base != nil {
		bases = append(bases, *base)
	}
	return again(bound, slices, bases, n, samples, most)
}

// CanaryOver is Canary for a fold over a base that was itself made of several.
// What is pending is so for all of them.
func CanaryOver(bound *index.Bound, slices []Source, bases []Base, n time.Time, samples []Sample) error {
	return again(bound, slices, bases, n, samples, len(slices))
}

// again folds and compares.
func again(bound *index.Bound, slices []Source, bases []Base, n time.Time, samples []Sample, most int) error {
	if len(samples) == 0 {
		return nil
	}
	sortSamples(samples)
	c := newCanary(bound, slices, bases, n, most)
	for _, s := range samples {
		if err := c.check(s); err != nil {
			return err
		}
	}
	return nil
}

func sortSamples(samples []Sample) {
	slices.SortFunc(samples, func(a, b Sample) int { return bytes.Compare(a.Key, b.Key) })
}

// canary folds keys in ascending order.
type canary struct {
	bound  *index.Bound
	fns    []combine.Fn
	leaves []leaf // of the slices, from both ends
	bases  []basis
	trees  []tree // by fn
	left   []bool // by fn: it is left out
}

// basis is a base, and where it has the accumulators of the fns.
type basis struct {
	reached
	at []int
}

func newCanary(bound *index.Bound, sources []Source, bases []Base, n time.Time, most int) *canary {
	c := &canary{bound: bound, fns: bound.Shape().Fns}
	var pending []bool
	for _, b := range bases {
		c.bases, pending = append(c.bases, basis{reached{cursor: b.Run.Cursor()}, slices.Clone(b.Join.At)}), b.Join.Pending
	}
	inside, feeds := make([][]bool, len(sources)), make([]int, len(c.fns))
	for i, s := range sources {
		inside[i] = s.inside(bound.Overs(), pending, n)
		for j, in := range inside[i] {
			if in {
				feeds[j]++
			}
		}
	}
	c.left = make([]bool, len(c.fns))
	for j, fn := range c.fns {
		c.trees = append(c.trees, tree{col: fn.NewColumn()})
		if c.left[j] = feeds[j] > most; !c.left[j] {
			continue
		}
		for i := range inside {
			inside[i][j] = false
		}
		for i := range c.bases {
			c.bases[i].at[j] = -1
		}
	}
	for _, i := range fromBothEnds(len(sources)) {
		if slices.Contains(inside[i], true) { // the others only name keys, or feed what is left out
			c.leaves = append(c.leaves, leaf{reached{cursor: sources[i].Run.Cursor()}, inside[i]})
		}
	}
	return c
}

// fromBothEnds are the numbers below n: the first, the last, the second, the
// last but one and so on. A complete fold goes from the last slice to the first
// and later ones are merged as they come: this is neither, so that a fn that is
// no commutative monoid shows in one of them.
func fromBothEnds(n int) []int {
	out := make([]int, n)
	for k := range out {
		if out[k] = k / 2; k%2 == 1 {
			out[k] = n - 1 - k/2
		}
	}
	return out
}

// check folds one key and compares.
func (c *canary) check(s Sample) error {
	if err := c.fold(s.Key); err != nil {
		return err
	}
	for j := range c.trees {
		if c.left[j] {
			continue
		}
		other, err := c.trees[j].take()
		if err == nil && bytes.Equal(s.Accs[j], other) {
			continue
		}
		return &Difference{
			Key: bytes.Clone(s.Key), KeyText: keyText(c.bound, s.Key), Field: fieldOf(c.bound, j), TypeID: c.fns[j].TypeID(),
			One: bytes.Clone(s.Accs[j]), Other: bytes.Clone(other), Refused: err,
		}
	}
	return nil
}

// fold leaves in each tree what the key's accumulators make.
func (c *canary) fold(key []byte) error {
	for i := range c.leaves {
		l := &c.leaves[i]
		there, err := l.seek(key)
		if err != nil {
			return fmt.Errorf("%w: canary: read a slice again: %w", ErrUnreadable, err)
		}
		for j := range c.trees {
			if there && l.inside[j] {
				c.trees[j].add(l.cursor.Acc(j))
			}
		}
	}
	for j := range c.trees {
		c.trees[j].close()
	}
	for i := len(c.bases) - 1; i >= 0; i-- {
		b := &c.bases[i]
		there, err := b.seek(key)
		if err != nil {
			return fmt.Errorf("%w: canary: read the base's accumulators again: %w", ErrUnreadable, err)
		}
		for j, at := range b.at {
			if there && at >= 0 {
				c.trees[j].add(b.cursor.Acc(at))
			}
		}
	}
	for j := range c.trees {
		c.trees[j].close()
	}
	return nil
}

// leaf is a slice, with the fns that it feeds.
type leaf struct {
	reached
	inside []bool // by fn
}

// tree merges accumulators pairwise: those of as many leaves with one another,
// so that the tree is balanced and no more than one is held of each height.
type tree struct {
	col   combine.Column
	nodes []node
	spare [][]byte
	err   error
}

type node struct {
	height int
	acc    []byte
}

// add takes the accumulator of the next leaf.
func (t *tree) add(acc []byte) {
	if len(acc) == 0 || t.err != nil {
		return
	}
	t.nodes = append(t.nodes, node{acc: append(t.buffer(), acc...)})
	for n := len(t.nodes); n > 1 && t.nodes[n-1].height == t.nodes[n-2].height; n = len(t.nodes) {
		t.join()
	}
}

// close merges the trees that are left, the smallest first.
func (t *tree) close() {
	for len(t.nodes) > 1 {
		t.join()
	}
}

// join merges the last two nodes, the later one first.
func (t *tree) join() {
	n := len(t.nodes)
	a, b := &t.nodes[n-2], t.nodes[n-1]
	t.nodes = t.nodes[:n-1]
	a.height = max(a.height, b.height) + 1
	if t.err == nil {
		t.col.Reset()
		t.col.Grow(1)
		if t.err = t.col.Merge(0, b.acc); t.err == nil {
			t.err = t.col.Merge(0, a.acc)
		}
		if t.err == nil {
			a.acc = t.col.AppendAcc(a.acc[:0], 0)
		}
	}
	t.spare = append(t.spare, b.acc[:0])
}

// take returns the accumulator at the root, valid until the next add, and
// empties the tree.
func (t *tree) take() (acc []byte, err error) {
	for _, n := range t.nodes {
		acc = n.acc
		t.spare = append(t.spare, n.acc[:0])
	}
	if err, t.err = t.err, nil; err != nil {
		acc = nil
	}
	t.nodes = t.nodes[:0]
	return acc, err
}

func (t *tree) buffer() []byte {
	n := len(t.spare)
	if n == 0 {
		return nil
	}
	b := t.spare[n-1]
	t.spare = t.spare[:n-1]
	return b
}
