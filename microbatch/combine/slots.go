package combine

import "math/bits"

// slots gives each group a stretch of slots in one arena. The length of a
// stretch is a power of two; stretches that were outgrown are used again.
type slots[T any] struct {
	at    []stretch
	arena []T
	free  [32][]int // offsets of unused stretches, by the logarithm of their length
}

// stretch is a group's place. lg is the logarithm of its length plus one, 0 for
// none.
type stretch struct {
	off int
	lg  uint8
}

func (s *slots[T]) Len() int { return len(s.at) }

func (s *slots[T]) Grow(n int) { s.at = grow(s.at, n) }

func (s *slots[T]) Reset() {
	s.at, s.arena = s.at[:0], s.arena[:0]
	for i := range s.free {
		s.free[i] = s.free[i][:0]
	}
}

// held is the memory in bytes, with slots of the size.
func (s *slots[T]) held(size int) int64 {
	n := 16*cap(s.at) + size*cap(s.arena)
	for _, f := range &s.free {
		n += 8 * cap(f)
	}
	return int64(n)
}

// get returns g's slots, valid until a stretch changes.
func (s *slots[T]) get(g uint32) []T {
	at := s.at[g]
	if at.lg == 0 {
		return nil
	}
	return s.arena[at.off : at.off+1<<(at.lg-1)]
}

// replace gives g zeroed slots, 2^lg of them, and returns those it had; both
// are valid until the next call.
func (s *slots[T]) replace(g uint32, lg int) (old, fresh []T) {
	old = s.get(g)
	was := s.at[g]
	at := stretch{lg: uint8(lg + 1)}
	if f := s.free[lg]; len(f) > 0 {
		at.off, s.free[lg] = f[len(f)-1], f[:len(f)-1]
	} else {
		at.off = len(s.arena)
		s.arena = extend(s.arena, 1<<lg)
	}
	s.at[g] = at
	fresh = s.get(g)
	clear(fresh)
	if was.lg > 0 {
		s.free[was.lg-1] = append(s.free[was.lg-1], was.off)
	}
	return old, fresh
}

// drop takes g's slots away and returns them, valid until the next replace.
func (s *slots[T]) drop(g uint32) []T {
	old, was := s.get(g), s.at[g]
	if was.lg > 0 {
		s.free[was.lg-1] = append(s.free[was.lg-1], was.off)
	}
	s.at[g] = stretch{}
	return old
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
