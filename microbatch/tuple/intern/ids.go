package intern

import (
	"bytes"
	"hash/maphash"
)

// together is how many byte strings are looked up at a time: their slots are
// touched, then their places, then they are compared, so that the processor
// waits for many of them at once.
const together = 128

// IDs stores the id of each of the byte strings at its place in out, as ID does
// for one after the other; those that are new are copied.
func (s *Set) IDs(list [][]byte, out []uint32) {
	if len(s.hash) < len(s.end) {
		s.catchUp()
	}
	var hashes [together]uint64
	var likely [together]uint32
	for len(list) > 0 {
		some := list[:min(len(list), together)]
		mask, touched := uint64(len(s.slots)-1), uint64(0)
		for k, b := range some {
			h := maphash.Bytes(s.seed, b)
			hashes[k] = h
			touched ^= s.slots[h&mask]
		}
		for k := range some {
			id := s.likely(hashes[k])
			likely[k] = id
			if id > 0 {
				// Where it lies is touched, and where it begins is beside it.
				if at := s.end[id-1]; at > 0 {
					touched ^= uint64(s.arena[at-1])
				}
			}
		}
		s.touched = touched
		for k, b := range some {
			if id := likely[k]; id > 0 && bytes.Equal(s.Bytes(id-1), b) {
				out[k] = id - 1
			} else {
				out[k] = s.find(b, hashes[k])
			}
		}
		list, out = list[len(some):], out[len(some):]
	}
}

// likely is the id of the first that has the hash, as far as slots tell, plus
// one; 0 for none.
func (s *Set) likely(h uint64) uint32 {
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if slot := s.slots[i]; slot == 0 || slot>>32 == h>>32 {
			return uint32(slot)
		}
	}
}

// find is ID of a byte string whose hash is known.
func (s *Set) find(b []byte, h uint64) uint32 {
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for ; s.slots[i] != 0; i = (i + 1) & mask {
		if slot := s.slots[i]; slot>>32 == h>>32 {
			if id := uint32(slot) - 1; bytes.Equal(s.Bytes(id), b) {
				return id
			}
		}
	}
	s.slots[i] = slotOf(h, uint32(len(s.hash)))
	s.hash = append(s.hash, h)
	if len(s.hash) > len(s.slots)*5/8 {
		s.grow()
	}
	return s.Push(b)
}
