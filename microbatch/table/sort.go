package table

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// sortKey is a group with eight bytes of its key: those after what all keys
// begin with.
type sortKey struct {
	prefix uint64
	group  uint32
}

// fewKeys are sorted by comparisons.
const fewKeys = 512

// sorted returns the groups in the order of their keys, valid until the next
// call. The eight bytes are sorted a byte at a time from the last, passing over
// bytes that are all the same, and keys that agree in them by comparisons.
func (t *Table) sorted() []sortKey {
	skip := t.sharedByAll()
	t.order = slices.Grow(t.order[:0], t.Len())
	for g := range uint32(t.Len()) {
		t.order = append(t.order, sortKey{prefixOf(t.Key(g)[skip:]), g})
	}
	if len(t.order) < fewKeys {
		slices.SortFunc(t.order, t.compare)
		return t.order
	}
	t.radix()
	for from := 0; from < len(t.order); {
		to := from + 1
		for to < len(t.order) && t.order[to].prefix == t.order[from].prefix {
			to++
		}
		if to-from > 1 {
			slices.SortFunc(t.order[from:to], t.compare)
		}
		from = to
	}
	return t.order
}

func (t *Table) compare(a, b sortKey) int {
	switch {
	case a.prefix < b.prefix:
		return -1
	case a.prefix > b.prefix:
		return 1
	}
	return bytes.Compare(t.Key(a.group), t.Key(b.group))
}

// prefixOf is the first eight bytes of b as a number, zeros for those it lacks.
func prefixOf(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var p uint64
	for i, c := range b {
		p |= uint64(c) << (56 - 8*i)
	}
	return p
}

// sharedByAll is how many bytes all keys begin with.
func (t *Table) sharedByAll() int {
	if t.Len() == 0 {
		return 0
	}
	all := t.Key(0)
	for g := 1; g < t.Len() && len(all) > 0; g++ {
		all = all[:shared(all, t.Key(uint32(g)))]
	}
	return len(all)
}

// radix sorts order by prefix.
func (t *Table) radix() {
	var counts [8][256]uint32
	for _, k := range t.order {
		for b := range counts {
			counts[b][byte(k.prefix>>(8*b))]++
		}
	}
	t.spare = slices.Grow(t.spare[:0], len(t.order))[:len(t.order)]
	for b := range counts {
		at := &counts[b]
		if at[byte(t.order[0].prefix>>(8*b))] == uint32(len(t.order)) {
			continue
		}
		sum := uint32(0)
		for i, n := range at {
			at[i], sum = sum, sum+n
		}
		for _, k := range t.order {
			c := byte(k.prefix >> (8 * b))
			t.spare[at[c]] = k
			at[c]++
		}
		t.order, t.spare = t.spare, t.order
	}
}
