package combine

// choice is the column of a fn that keeps one of the accumulators it was
// offered: the one that no other comes before. It lacks Add and Extract.
type choice struct {
	registers
	// before says whether a is to be kept rather than b. Two accumulators of
	// which neither comes before the other are the same bytes.
	before func(a, b []byte) bool
	// validate is the fn's.
	validate func(acc []byte) error
}

// offer keeps acc for g if it comes before what is kept.
func (c *choice) offer(g uint32, acc []byte) {
	if have := c.get(g); have == nil || c.before(acc, have) {
		c.set(g, acc)
	}
}

func (c *choice) Merge(g uint32, acc []byte) error {
	if len(acc) == 0 {
		return nil
	}
	if err := c.validate(acc); err != nil {
		return err
	}
	c.offer(g, acc)
	return nil
}

func (c *choice) AppendAcc(dst []byte, g uint32) []byte { return append(dst, c.get(g)...) }

// registers holds one byte string per group in a shared arena. A shorter
// string overwrites in place, a longer one moves to the end; when more than
// half of the arena is abandoned it is compacted.
type registers struct {
	at    []span
	arena []byte
	dead  int
}

// span is a string's place. size 0 is no string: the callers keep no empty
// ones.
type span struct {
	off       int
	size, cap uint32
}

func (r *registers) Len() int   { return len(r.at) }
func (r *registers) Grow(n int) { r.at = grow(r.at, n) }

func (r *registers) Reset() { r.at, r.arena, r.dead = r.at[:0], r.arena[:0], 0 }

func (r *registers) Bytes() int64 { return int64(16*cap(r.at) + cap(r.arena)) }

// get returns the string of g, nil for none, valid until the next set.
func (r *registers) get(g uint32) []byte {
	s := r.at[g]
	if s.size == 0 {
		return nil
	}
	return r.arena[s.off : s.off+int(s.size)]
}

// set stores b, which must not be empty and may not alias the arena.
func (r *registers) set(g uint32, b []byte) {
	s := &r.at[g]
	if n := uint32(len(b)); n > s.cap {
		r.dead += int(s.cap)
		*s = span{off: len(r.arena), cap: n}
		r.arena = extend(r.arena, len(b))
		copy(r.arena[s.off:], b)
	} else {
		copy(r.arena[s.off:], b)
	}
	s.size = uint32(len(b))
	r.tidy()
}

// moved makes what is at the end of the arena, from an offset on, the string of
// g. It stays there: what would be written elsewhere is not at hand.
func (r *registers) moved(g uint32, from int) {
	s := &r.at[g]
	r.dead += int(s.cap)
	n := uint32(len(r.arena) - from)
	*s = span{off: from, size: n, cap: n}
}

// tidy keeps what is abandoned within bounds.
func (r *registers) tidy() {
	if r.dead > 64<<10 && r.dead > len(r.arena)/2 {
		r.compact()
	}
}

func (r *registers) compact() {
	live := make([]byte, 0, len(r.arena)-r.dead+len(r.arena)/4)
	for g := range r.at {
		s := &r.at[g]
		if s.size == 0 {
			*s = span{}
			continue
		}
		off := len(live)
		live = append(live, r.arena[s.off:s.off+int(s.size)]...)
		*s = span{off: off, size: s.size, cap: s.size}
	}
	r.arena, r.dead = live, 0
}
