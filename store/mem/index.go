package mem

import "slices"

// chunkMax bounds a chunk of the index: inserting moves at most this many strings, and a million keys need about two thousand chunks.
const chunkMax = 1024

// index is an ordered set of keys: a sorted list of sorted chunks, none of them empty. Insert and delete cost two binary searches and
// a short move; walking from any key is contiguous.
type index struct{ chunks [][]string }

// seek finds the position of the first key >= key.
func (x *index) seek(key string) (chunk, at int) {
	// the last chunk whose first key is <= key, or the first chunk
	c, ok := slices.BinarySearchFunc(x.chunks, key, func(ch []string, k string) int {
		switch {
		case ch[0] < k:
			return -1
		case ch[0] > k:
			return 1
		}
		return 0
	})
	if !ok && c > 0 {
		c--
	}
	if c == len(x.chunks) {
		return c, 0
	}
	at, _ = slices.BinarySearch(x.chunks[c], key)
	if at == len(x.chunks[c]) {
		return c + 1, 0
	}
	return c, at
}

// get returns the key at a position from seek or next, or false at the end.
func (x *index) get(chunk, at int) (string, bool) {
	if chunk >= len(x.chunks) {
		return "", false
	}
	return x.chunks[chunk][at], true
}

// next is the position after one that get found a key at.
func (x *index) next(chunk, at int) (int, int) {
	if at+1 < len(x.chunks[chunk]) {
		return chunk, at + 1
	}
	return chunk + 1, 0
}

// insert adds a key that is not in the set.
func (x *index) insert(key string) {
	if len(x.chunks) == 0 {
		x.chunks = [][]string{{key}}
		return
	}
	c, at := x.seek(key)
	if at == 0 && c > 0 { // append to the chunk before instead of opening a new one
		c--
		at = len(x.chunks[c])
	}
	ch := slices.Insert(x.chunks[c], at, key)
	x.chunks[c] = ch
	if len(ch) <= chunkMax {
		return
	}
	// Keys mostly come in order: leave the left chunk nearly full then, else split in the middle.
	cut := len(ch) / 2
	if at == len(ch)-1 {
		cut = len(ch) - 1
	}
	right := slices.Clone(ch[cut:])
	clear(ch[cut:])
	x.chunks[c] = ch[:cut]
	x.chunks = slices.Insert(x.chunks, c+1, right)
}

// delete removes a key that is in the set.
func (x *index) delete(key string) {
	c, at := x.seek(key)
	x.chunks[c] = slices.Delete(x.chunks[c], at, at+1)
	if len(x.chunks[c]) == 0 {
		x.chunks = slices.Delete(x.chunks, c, c+1)
	}
}
