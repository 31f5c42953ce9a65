package scan

// Scratch is memory that a scan leaves for the next one: what it decompresses
// into and the decoders that are dear to make. It serves one scan at a time.
// The zero Scratch is ready.
type Scratch struct {
	infl inflater
	free [][]byte
	held int // bytes in free
}

// What a Scratch keeps, so that one large object does not weigh for ever.
const (
	keptBuffers = 64
	keptBytes   = 12 << 20
	roundUp     = 32 << 10
)

// take returns n bytes of any content.
func (s *Scratch) take(n int) []byte {
	best := -1
	for i, b := range s.free {
		if cap(b) >= n && (best < 0 || cap(b) < cap(s.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]byte, n, (n+roundUp-1)/roundUp*roundUp)
	}
	b := s.free[best]
	last := len(s.free) - 1
	s.free[best], s.free[last] = s.free[last], nil
	s.free = s.free[:last]
	s.held -= cap(b)
	return b[:n]
}

// give takes back what nobody reads any more.
func (s *Scratch) give(b []byte) {
	if cap(b) == 0 || len(s.free) == keptBuffers || s.held+cap(b) > keptBytes {
		return
	}
	s.free = append(s.free, b)
	s.held += cap(b)
}

// pages is the memory of a leaf's pages.
type pages struct {
	scratch *Scratch
	keep    bool // strings of a batch outlive it, and the pages with them
	current []byte
	past    [][]byte // pages that the batch in hand may share
	dict    []byte
}

// next returns n bytes for the next page. The one before is free at once, or
// with the batch that shares it.
func (p *pages) next(n int, shared bool) []byte {
	switch {
	case shared && p.keep:
		return make([]byte, n)
	case shared:
		p.past = append(p.past, p.current)
	default:
		p.scratch.give(p.current)
	}
	p.current = p.scratch.take(n)
	return p.current
}

// dictionary is next for a dictionary, whose memory is the chunk's.
func (p *pages) dictionary(n int, shared bool) []byte {
	if shared && p.keep {
		return make([]byte, n)
	}
	p.scratch.give(p.dict)
	p.dict = p.scratch.take(n)
	return p.dict
}

// batch says that the batch before is done with.
func (p *pages) batch() {
	for i, b := range p.past {
		p.scratch.give(b)
		p.past[i] = nil
	}
	p.past = p.past[:0]
}

// close gives all memory back.
func (p *pages) close() {
	p.batch()
	p.scratch.give(p.current)
	p.scratch.give(p.dict)
	p.current, p.dict = nil, nil
}
