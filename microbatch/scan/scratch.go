package scan

import (
	"bufio"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/deltad/deltad/microbatch/column"
)

// Scratch is memory that a scan leaves for the next one: what it decompresses
// into, the vectors of its batches and the decoders that are dear to make. It
// serves one scan at a time. The zero Scratch is ready.
type Scratch struct {
	infl    inflater
	free    [][]byte
	held    int // bytes in free
	most    int // of held
	vectors []*column.Vector
	work    work
	texts   arena
	reading reading
}

// reading is what a text is read through.
type reading struct {
	raw  *bufio.Reader
	gzip *gzip.Reader
	line []byte // of a lineReader
}

// What a Scratch keeps, so that one large object does not weigh for ever.
const (
	keptBuffers = 64
	keptBytes   = 12 << 20 // or a quarter of what a row group may have
	roundUp     = 32 << 10
	keptVectors = 64
	keptWork    = 64 << 10 // entries
	keptLine    = 1 << 20
)

// take returns n bytes of any content, with slack behind them.
func (s *Scratch) take(n int) []byte {
	best := -1
	for i, b := range s.free {
		if cap(b) >= n+slack && (best < 0 || cap(b) < cap(s.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]byte, n, (n+slack+roundUp-1)/roundUp*roundUp)
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
	if cap(b) == 0 || len(s.free) == keptBuffers || s.held+cap(b) > s.most {
		return
	}
	s.free = append(s.free, b)
	s.held += cap(b)
}

// vector returns an empty vector of the type.
func (s *Scratch) vector(t column.Type) *column.Vector {
	for i, v := range s.vectors {
		if v.Type.Equal(t) {
			s.vectors = slices.Delete(s.vectors, i, i+1)
			return v
		}
	}
	return column.New(t)
}

// giveVector takes back a vector that nobody reads any more. One of lists or
// structs may hold any amount: it is let go.
func (s *Scratch) giveVector(v *column.Vector) {
	if v == nil || len(s.vectors) == keptVectors || v.Type.Kind == column.List || v.Type.Kind == column.Struct {
		return
	}
	v.Reset()
	clear(v.Strings[:cap(v.Strings)]) // they hold pages
	s.vectors = append(s.vectors, v)
}

// takeReading returns what the text before was read through.
func (s *Scratch) takeReading() reading {
	r := s.reading
	s.reading = reading{}
	return r
}

// giveReading takes back what nobody reads through any more.
func (s *Scratch) giveReading(r reading) {
	if r.raw != nil {
		r.raw.Reset(nil) // it holds the object; gzip holds it
	}
	if cap(r.line) > keptLine {
		r.line = nil
	}
	s.reading = r
}

// rest ends a scan: what was not of its usual size is let go.
func (s *Scratch) rest() {
	clear(s.work.strings) // they hold pages
	if max(cap(s.work.ints), cap(s.work.strings), cap(s.work.codes)) > keptWork {
		s.work = work{}
	}
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
		return make([]byte, n, n+slack)
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
		return make([]byte, n, n+slack)
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
