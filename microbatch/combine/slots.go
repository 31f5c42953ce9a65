package combine

import "math/bits"

// slots gives each group a stretch of slots in chunks that never move. The
// length of a stretch is a power of two; stretches that were outgrown are used
// again.
type slots[T any] struct {
	at     []stretch
	chunks [][]T
	chunk  int          // the one that is being filled
	top    int          // as far
	slots  int          // of all chunks
	idle   int          // of free
	free   [32][]uint64 // unused stretches, chunk and offset, by the logarithm of their length
}

// stretch is a group's place: the offset in its chunk, and the chunk's number
// times 64 plus the logarithm of its length plus one, which is 0 for none.
type stretch struct{ off, place uint32 }

// largestChunk is the length of a chunk but for one of a longer stretch.
const largestChunk = 1 << 16

func (s *slots[T]) Len() int { return len(s.at) }

func (s *slots[T]) Grow(n int) { s.at = grow(s.at, n) }

func (s *slots[T]) Reset() {
	s.at, s.chunk, s.top, s.idle = s.at[:0], 0, 0, 0
	for i := range s.free {
		s.free[i] = s.free[i][:0]
	}
}

// held is the memory in bytes, with slots of the size.
func (s *slots[T]) held(size int) int64 {
	n := 8*cap(s.at) + 24*cap(s.chunks) + size*s.slots
	for _, f := range &s.free {
		n += 8 * cap(f)
	}
	return int64(n)
}

// inUse is how many slots groups have.
func (s *slots[T]) inUse() int {
	n := s.top - s.idle
	for _, c := range s.chunks[:min(s.chunk, len(s.chunks))] {
		n += len(c)
	}
	return n
}

// get returns g's slots, valid until the stretch changes.
func (s *slots[T]) get(g uint32) []T {
	at := s.at[g]
	lg := at.place & 63
	if lg == 0 {
		return nil
	}
	return s.chunks[at.place>>6][at.off : at.off+1<<(lg-1)]
}

// replace gives g zeroed slots, 2^lg of them, and returns those it had, which
// are valid until the next call.
func (s *slots[T]) replace(g uint32, lg int) (old, fresh []T) {
	old = s.get(g)
	was := s.at[g]
	var chunk, off int
	if f := s.free[lg]; len(f) > 0 {
		chunk, off, s.free[lg] = int(f[len(f)-1]>>32), int(uint32(f[len(f)-1])), f[:len(f)-1]
		s.idle -= 1 << lg
	} else {
		chunk, off = s.take(lg)
	}
	s.at[g] = stretch{uint32(off), uint32(chunk)<<6 | uint32(lg+1)}
	fresh = s.get(g)
	clear(fresh)
	s.giveUp(was)
	return old, fresh
}

// take returns slots that no group had.
func (s *slots[T]) take(lg int) (chunk, off int) {
	for s.chunk < len(s.chunks) {
		c := s.chunks[s.chunk]
		if s.top+1<<lg <= len(c) {
			s.top += 1 << lg
			return s.chunk, s.top - 1<<lg
		}
		for s.top < len(c) { // what is left of it
			piece := bits.Len(uint(len(c)-s.top)) - 1
			s.give(piece, s.chunk, s.top)
			s.top += 1 << piece
		}
		s.chunk, s.top = s.chunk+1, 0
	}
	s.chunks = append(s.chunks, make([]T, max(1<<lg, min(s.slots, largestChunk))))
	s.slots += len(s.chunks[s.chunk])
	s.top = 1 << lg
	return s.chunk, 0
}

// give makes a stretch one that is free.
func (s *slots[T]) give(lg, chunk, off int) {
	s.free[lg] = append(s.free[lg], uint64(chunk)<<32|uint64(off))
	s.idle += 1 << lg
}

// drop takes g's slots away and returns them, valid until the next replace.
func (s *slots[T]) drop(g uint32) []T {
	old := s.get(g)
	s.giveUp(s.at[g])
	s.at[g] = stretch{}
	return old
}

func (s *slots[T]) giveUp(was stretch) {
	if lg := int(was.place & 63); lg > 0 {
		s.give(lg-1, int(was.place>>6), int(was.off))
	}
}

// extend lengthens s by n entries of any content.
func extend[T any](s []T, n int) []T {
	if len(s)+n > cap(s) {
		s = append(make([]T, 0, max(len(s)+n, 2*cap(s))), s...)
	}
	return s[:len(s)+n]
}

// sets gives each group a set of numbers other than zero, in tables with
// linear probing that are at most three quarters full.
type sets[T uint32 | uint64] struct {
	slots[T]
	n []uint32 // members of each group
}

const leastSet = 3 // logarithm of the smallest table

func (s *sets[T]) Grow(n int) { s.slots.Grow(n); s.n = grow(s.n, n) }
func (s *sets[T]) Reset()     { s.slots.Reset(); s.n = s.n[:0] }

// home is where the search for x begins in a table of 2^lg slots.
func home(x uint64, lg uint8) uint64 { return x * 0x9e3779b97f4a7c15 >> (64 - lg) }

// put adds x, which is not zero.
func (s *sets[T]) put(g uint32, x T) (added bool) {
	table := s.get(g)
	if 4*(int(s.n[g])+1) > 3*len(table) {
		if s.has(table, x) {
			return false
		}
		table = s.enlarge(g, max(leastSet, bits.Len(uint(len(table)))))
	}
	if !insert(table, x) {
		return false
	}
	s.n[g]++
	return true
}

func (s *sets[T]) has(table []T, x T) bool {
	if len(table) == 0 {
		return false
	}
	lg := uint8(bits.Len(uint(len(table))) - 1)
	for i := home(uint64(x), lg); table[i] != 0; i = (i + 1) & uint64(len(table)-1) {
		if table[i] == x {
			return true
		}
	}
	return false
}

// insert adds x to a table that has room.
func insert[T uint32 | uint64](table []T, x T) bool {
	mask := uint64(len(table) - 1)
	i := home(uint64(x), uint8(bits.Len64(mask)))
	for ; table[i] != 0; i = (i + 1) & mask {
		if table[i] == x {
			return false
		}
	}
	table[i] = x
	return true
}

func (s *sets[T]) enlarge(g uint32, lg int) []T {
	old, table := s.replace(g, lg)
	for _, x := range old {
		if x != 0 {
			insert(table, x)
		}
	}
	return table
}

// list appends g's members to dst in no order.
func (s *sets[T]) list(dst []T, g uint32) []T {
	for _, x := range s.get(g) {
		if x != 0 {
			dst = append(dst, x)
		}
	}
	return dst
}

// empty takes all members out of g.
func (s *sets[T]) empty(g uint32) { s.drop(g); s.n[g] = 0 }
