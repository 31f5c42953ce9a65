// Package intern gives byte strings dense ids in order of first sight.
//
// It promises that equal bytes get equal ids and that ids run from 0 without
// holes. Ids depend on the order of arrival, and the hash seed on the process,
// so neither may reach an output: callers sort by bytes first.
package intern

import "hash/maphash"

// Set maps byte strings to ids: linear probing over one table, the bytes in
// one arena. It is not safe for concurrent use. Use New.
type Set struct {
	seed  maphash.Seed
	slots []uint64 // upper half of the hash, then id+1; 0 = free; a power of two of them
	hash  []uint64 // of each id but those pushed since the last call of ID
	end   []int    // arena offset after each id
	arena []byte

	touched uint64 // of no meaning: what is read must be used
}

const minSlots = 16

// New returns an empty set.
func New() *Set {
	return &Set{seed: maphash.MakeSeed(), slots: make([]uint64, minSlots)}
}

// ID returns the id of b, which it copies if it is new.
func (s *Set) ID(b []byte) (id uint32, added bool) {
	if len(s.hash) < len(s.end) {
		s.catchUp()
	}
	n := len(s.end)
	id = s.find(b, maphash.Bytes(s.seed, b))
	return id, len(s.end) > n
}

// Push gives b the next id. The caller knows that b has none yet; nothing is
// hashed until somebody asks for an ID.
func (s *Set) Push(b []byte) uint32 {
	if len(s.arena)+len(b) > cap(s.arena) {
		s.arena = append(make([]byte, 0, max(1024, 2*cap(s.arena), len(s.arena)+len(b))), s.arena...)
	}
	s.arena = append(s.arena, b...)
	s.end = append(s.end, len(s.arena))
	return uint32(len(s.end) - 1)
}

// catchUp takes in what was pushed.
func (s *Set) catchUp() {
	for id := len(s.hash); id < len(s.end); id++ {
		h := maphash.Bytes(s.seed, s.Bytes(uint32(id)))
		mask := uint64(len(s.slots) - 1)
		i := h & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = slotOf(h, uint32(id))
		s.hash = append(s.hash, h)
		if len(s.hash) > len(s.slots)*5/8 {
			s.grow()
		}
	}
}

func slotOf(h uint64, id uint32) uint64 { return h>>32<<32 | uint64(id) + 1 }

func (s *Set) grow() {
	s.slots = make([]uint64, 2*len(s.slots))
	mask := uint64(len(s.slots) - 1)
	for id, h := range s.hash {
		i := h & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = slotOf(h, uint32(id))
	}
}

// Bytes returns the bytes of an id; they are valid until Reset and must not be
// changed.
func (s *Set) Bytes(id uint32) []byte {
	start := 0
	if id > 0 {
		start = s.end[id-1]
	}
	return s.arena[start:s.end[id]:s.end[id]]
}

// Len is the number of ids.
func (s *Set) Len() int { return len(s.end) }

// Reset forgets every id and keeps the storage. Its time is that of what was
// added since the last Reset, not of the storage.
func (s *Set) Reset() {
	if len(s.hash) < len(s.slots)/8 {
		mask := uint64(len(s.slots) - 1)
		for id, h := range s.hash {
			i := h & mask
			for s.slots[i] != slotOf(h, uint32(id)) {
				i = (i + 1) & mask
			}
			s.slots[i] = 0
		}
	} else {
		clear(s.slots)
	}
	s.hash, s.end, s.arena = s.hash[:0], s.end[:0], s.arena[:0]
}

// Size is the memory held, in bytes.
func (s *Set) Size() int64 {
	return int64(8*cap(s.slots) + 8*cap(s.hash) + 8*cap(s.end) + cap(s.arena))
}
