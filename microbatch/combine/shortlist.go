package combine

import "slices"

// shortlists keep, for each group, the first few of all entries it was offered,
// in their order. Entries share an arena; of what they have lost it is freed
// when more than half is lost.
type shortlists struct {
	limit int
	// compare orders entries: negative is first. Entries that it finds equal
	// are the same bytes.
	compare func(a, b entry) int
	of      [][]place
	held    int64 // bytes of the lists in of
	arena   []byte
	dead    int
}

// entry is the bytes of an entry; split parts them as its fn likes.
type entry struct {
	b     []byte
	split int
}

// place is where an entry stands.
type place struct {
	off         int
	size, split uint32
}

func (s *shortlists) Len() int   { return len(s.of) }
func (s *shortlists) Grow(n int) { s.of = grow(s.of, n) }
func (s *shortlists) Reset()     { s.of, s.held, s.arena, s.dead = s.of[:0], 0, s.arena[:0], 0 }

// Bytes is asked for often: it must not look at every group.
func (s *shortlists) Bytes() int64 { return int64(24*cap(s.of)+cap(s.arena)) + s.held }

func (s *shortlists) at(p place) entry {
	return entry{b: s.arena[p.off : p.off+int(p.size) : p.off+int(p.size)], split: int(p.split)}
}

// full says whether g has as many entries as there may be, and the last of
// them, which a new one must precede.
func (s *shortlists) full(g uint32) (last entry, full bool) {
	l := s.of[g]
	if len(l) < s.limit {
		return last, false
	}
	return s.at(l[len(l)-1]), true
}

// insert puts e into g's list, where it pushes the last entry out if the list
// is full. Equal entries stand beside each other.
func (s *shortlists) insert(g uint32, e entry) {
	l := s.of[g]
	i, _ := slices.BinarySearchFunc(l, e, func(p place, e entry) int { return s.compare(s.at(p), e) })
	if i >= s.limit {
		return
	}
	if len(l) == s.limit {
		l = s.without(l, len(l)-1)
	}
	p := place{off: len(s.arena), size: uint32(len(e.b)), split: uint32(e.split)}
	s.arena = append(s.arena, e.b...)
	had := cap(l)
	l = slices.Insert(l, i, p)
	s.of[g], s.held = l, s.held+16*int64(cap(l)-had)
	if s.dead > 64<<10 && s.dead > len(s.arena)/2 {
		s.compact()
	}
}

// drop takes entry i out of g's list.
func (s *shortlists) drop(g uint32, i int) { s.of[g] = s.without(s.of[g], i) }

func (s *shortlists) without(l []place, i int) []place {
	s.dead += int(l[i].size)
	return slices.Delete(l, i, i+1)
}

func (s *shortlists) compact() {
	live := make([]byte, 0, len(s.arena)-s.dead+len(s.arena)/4)
	for _, l := range s.of {
		for i := range l {
			p := &l[i]
			off := len(live)
			live = append(live, s.arena[p.off:p.off+int(p.size)]...)
			p.off = off
		}
	}
	s.arena, s.dead = live, 0
}

// AppendAcc appends the entries in their order.
func (s *shortlists) AppendAcc(dst []byte, g uint32) []byte {
	for _, p := range s.of[g] {
		dst = append(dst, s.at(p).b...)
	}
	return dst
}
