package window

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple/intern"
)

// known are the keys that have a group, in their order. A slice is in the order
// of keys too, so that its groups are found by going through both: no hash, and
// memory is read as it lies. Where a slice is small beside all that is known the
// dictionary looks its keys up.
type known struct {
	keys   *intern.Set
	groups []uint32 // by key
	words  []uint64 // of these
	common []byte   // what all keys begin with, which no word has
	fresh  []fresh  // what the walk has added, in key order
	at     int      // the walk's place in groups
	hashed bool     // the walk looks up
	ties   int64    // the walk's comparisons of keys that words do not tell apart
	alike  bool     // they were too many
}

// fresh is a key that was added, and its word.
type fresh struct {
	word  uint64
	group uint32
}

// The word of a key is the first seven bytes after what all have in common,
// zeros for those it lacks, then how many there are, more for more than seven:
// words are in the order of keys, and those of seven and fewer are theirs alone.
const more = 8

// A walk goes through all that is known where that is no more than so many keys
// for each that is looked for: a lookup takes as long as to pass so many.
const passed = 24

func newKnown() *known { return &known{keys: intern.New()} }

func (k *known) bytes() int64 {
	return k.keys.Size() + int64(4*cap(k.groups)+8*cap(k.words)+16*cap(k.fresh))
}

// begin begins a walk with a run.
func (k *known) begin(run *table.Run) {
	k.at, k.ties, k.fresh = 0, 0, k.fresh[:0]
	k.hashed = k.alike || run.Rows()*passed < int64(len(k.groups))
	if starts := run.Starts(); len(k.groups) == 0 && len(starts) > 0 {
		last := starts[len(starts)-1]
		k.common = bytes.Clone(last[:agree(last, starts[0])])
	}
}

// find stores the groups of keys in out, and gives one to those that have none.
// Keys ascend, from call to call too.
func (k *known) find(keys [][]byte, out []uint32) {
	for _, key := range [][]byte{keys[0], keys[len(keys)-1]} { // and all between them
		if n := agree(k.common, key); n < len(k.common) {
			k.shorten(n)
		}
	}
	skip := len(k.common)
	if k.hashed {
		was := uint32(k.keys.Len())
		k.keys.IDs(keys, out)
		for i, g := range out {
			if g >= was {
				k.fresh = append(k.fresh, fresh{wordOfKey(keys[i][skip:]), g})
			}
		}
		return
	}
	words, at := k.words, k.at
	for i, key := range keys {
		w := wordOfKey(key[skip:])
		for at < len(words) && words[at] < w {
			at++
		}
		there := at < len(words) && words[at] == w
		if there && w&0xff == more {
			at, there = k.pass(at, w, key)
		}
		if there {
			out[i] = k.groups[at]
			continue
		}
		out[i] = k.keys.Push(key)
		k.fresh = append(k.fresh, fresh{w, out[i]})
	}
	k.at = at
}

// pass goes on from at through keys that have the word to the first that is not
// before key, and says whether it is it.
func (k *known) pass(at int, w uint64, key []byte) (int, bool) {
	for ; at < len(k.words) && k.words[at] == w; at++ {
		k.ties++
		if n := bytes.Compare(k.keys.Bytes(k.groups[at]), key); n >= 0 {
			return at, n == 0
		}
	}
	return at, false
}

// end ends the walk of a run: what it has added takes its place.
func (k *known) end(run *table.Run) {
	k.alike = k.alike || k.ties > passed/2*run.Rows()
	n := len(k.groups)
	to := n + len(k.fresh)
	k.groups, k.words = lengthen(k.groups, to), lengthen(k.words, to)
	// From the back, so that each moves once.
	for _, f := range slices.Backward(k.fresh) {
		at := k.before(n, f)
		to -= n - at
		copy(k.groups[to:], k.groups[at:n])
		copy(k.words[to:], k.words[at:n])
		to--
		k.groups[to], k.words[to] = f.group, f.word
		n = at
	}
	k.fresh = k.fresh[:0]
}

// before is how many of the first n keys come before one that is fresh. The
// nearer to n, the sooner it is found.
func (k *known) before(n int, f fresh) int {
	step := 1
	high := n
	for high > 0 && k.after(high-1, f) {
		high -= min(step, high)
		step *= 2
	}
	// Those from low on to the last that was looked at come after it.
	low := high
	end := min(n, high+max(step/2, 1))
	for low < end {
		mid := int(uint(low+end) / 2)
		if k.after(mid, f) {
			end = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// after says whether key i comes after one that is fresh.
func (k *known) after(i int, f fresh) bool {
	if k.words[i] != f.word {
		return k.words[i] > f.word
	}
	return bytes.Compare(k.keys.Bytes(k.groups[i]), k.keys.Bytes(f.group)) > 0
}

// shorten makes the words anew of keys that have but n bytes in common.
func (k *known) shorten(n int) {
	k.common = k.common[:n]
	for i, g := range k.groups {
		k.words[i] = wordOfKey(k.keys.Bytes(g)[n:])
	}
	for i := range k.fresh {
		k.fresh[i].word = wordOfKey(k.keys.Bytes(k.fresh[i].group)[n:])
	}
}

func wordOfKey(b []byte) uint64 {
	n := len(b)
	switch {
	case n >= 8:
		return binary.BigEndian.Uint64(b)&^0xff | more
	case n >= 4: // the first four bytes and the last four, which may be the same
		return uint64(binary.BigEndian.Uint32(b))<<32 | uint64(binary.BigEndian.Uint32(b[n-4:]))<<(64-8*n) | uint64(n)
	}
	w := uint64(n)
	for i, c := range b {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

// agree is how many bytes two keys begin with both.
func agree(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
