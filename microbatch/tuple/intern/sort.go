package intern

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// sortKey is an id with eight of its bytes: those after what all begin with.
type sortKey struct {
	prefix uint64
	id     uint32
}

// few ids are sorted by comparisons.
const few = 512

// Sorter sorts ids, in memory that it keeps for the next time: 32 bytes for each
// of many ids. The zero value is ready.
type Sorter struct{ keys, spare []sortKey }

// Bytes is the memory held.
func (o *Sorter) Bytes() int64 { return int64(16 * (cap(o.keys) + cap(o.spare))) }

// Sort is Sorter.Sort with memory of its own.
func (s *Set) Sort(ids []uint32) { new(Sorter).Sort(s, ids) }

// Sort puts ids of the set in the order of their bytes. The eight bytes after
// what all have in common are sorted a byte at a time from the last, passing
// over bytes that are all the same, and ids that agree in them by comparisons.
func (o *Sorter) Sort(s *Set, ids []uint32) {
	if s.sorted(ids) {
		return
	}
	skip := s.common(ids)
	o.keys = slices.Grow(o.keys[:0], len(ids))
	for _, id := range ids {
		o.keys = append(o.keys, sortKey{prefixOf(s.Bytes(id)[skip:]), id})
	}
	compare := func(a, b sortKey) int {
		switch {
		case a.prefix < b.prefix:
			return -1
		case a.prefix > b.prefix:
			return 1
		}
		return bytes.Compare(s.Bytes(a.id), s.Bytes(b.id))
	}
	if len(ids) < few {
		slices.SortFunc(o.keys, compare)
	} else {
		o.radix()
		keys := o.keys
		for from := 0; from < len(keys); {
			to := from + 1
			for to < len(keys) && keys[to].prefix == keys[from].prefix {
				to++
			}
			if to-from > 1 {
				slices.SortFunc(keys[from:to], compare)
			}
			from = to
		}
	}
	for i, k := range o.keys {
		ids[i] = k.id
	}
}

func (s *Set) sorted(ids []uint32) bool {
	for i := 1; i < len(ids); i++ {
		if bytes.Compare(s.Bytes(ids[i-1]), s.Bytes(ids[i])) > 0 {
			return false
		}
	}
	return true
}

// common is how many bytes all of one or more ids begin with.
func (s *Set) common(ids []uint32) int {
	all := s.Bytes(ids[0])
	for _, id := range ids[1:] {
		b := s.Bytes(id)
		if bytes.HasPrefix(b, all) {
			continue
		}
		n := 0
		for n < min(len(all), len(b)) && all[n] == b[n] {
			n++
		}
		if all = all[:n]; n == 0 {
			break
		}
	}
	return len(all)
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

// radix sorts keys by prefix.
func (o *Sorter) radix() {
	var counts [8][256]uint32
	for _, k := range o.keys {
		for b := range counts {
			counts[b][byte(k.prefix>>(8*b))]++
		}
	}
	o.spare = slices.Grow(o.spare[:0], len(o.keys))[:len(o.keys)]
	for b := range counts {
		at := &counts[b]
		if at[byte(o.keys[0].prefix>>(8*b))] == uint32(len(o.keys)) {
			continue
		}
		sum := uint32(0)
		for i, n := range at {
			at[i], sum = sum, sum+n
		}
		for _, k := range o.keys {
			c := byte(k.prefix >> (8 * b))
			o.spare[at[c]] = k
			at[c]++
		}
		o.keys, o.spare = o.spare, o.keys
	}
}
