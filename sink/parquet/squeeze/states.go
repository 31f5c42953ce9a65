package squeeze

import "math/bits"

// How many states there may be of each kind of code, as powers of two.
const (
	maxLengthLog = 9
	maxMatchLog  = 9
	maxOffsetLog = 8
	maxLog       = 9
	minLog       = 5
)

// codes is more than there are of any kind.
const codes = 64

// states code one kind of code by finite states (FSE): asymmetric numeral systems (Duda, arXiv:1311.2540) in tables, as RFC 8878, 4.1 has
// them. A state and a code give some bits and the state before.
type states struct {
	count [codes]uint32 // how often there is a code
	share [codes]uint16 // how many states it has
	turns [codes]turn
	next  [1 << maxLog]uint16 // states, those of a code together
	log   uint8
}

// turn is how to go on with a code.
type turn struct {
	bits uint32 // how many bits of the state go out, in 16 bits before the point: with the state added it is exact
	from int32  // the rest of the state, and this, is where next has the state to go to
}

func (s *states) forget() { s.count = [codes]uint32{} }

// prepare makes the states for n codes that were counted, appends their description and says which it is. There are at most 2 to the most.
func (s *states) prepare(dst []byte, n, most int) ([]byte, byte) {
	const one, described = 1, 2
	some, last := 0, 0
	for code, c := range s.count {
		if c > 0 {
			some++
			last = code
		}
	}
	if some == 1 { // it takes no bits
		s.log, s.turns[last], s.next[0] = 0, turn{}, 0
		return append(dst, byte(last)), one
	}
	// A quarter as many states as codes are exact enough, and each code has one.
	s.log = uint8(max(min(bits.Len(uint(n))-2, most), bits.Len(uint(some)), minLog))
	s.divide(n)
	s.build(last)
	return s.describe(dst, last), described
}

// divide gives each code its share of the states: one at least. What rounding leaves over goes to the most frequent, what it takes too much
// is taken from whoever has most.
func (s *states) divide(n int) {
	size := uint64(1) << s.log
	left, most := int(size), 0
	for code, c := range s.count {
		s.share[code] = 0
		if c == 0 {
			continue
		}
		share := max((uint64(c)*size+uint64(n)/2)/uint64(n), 1)
		s.share[code] = uint16(share)
		left -= int(share)
		if c > s.count[most] {
			most = code
		}
	}
	if left > 0 {
		s.share[most] += uint16(left)
	}
	for ; left < 0; left++ {
		for code := range s.share {
			if s.share[code] > s.share[most] {
				most = code
			}
		}
		s.share[most]--
	}
}

// build makes the tables out of the shares.
func (s *states) build(last int) {
	size := 1 << s.log
	var at [codes]int // where the states of a code begin
	sum := 0
	for code := range last + 1 {
		n := int(s.share[code])
		if n == 0 {
			continue
		}
		w := int(s.log) - bits.Len(uint(n-1)) // or one more
		if n > 1 {
			w++
		}
		at[code] = sum
		s.turns[code] = turn{bits: uint32(w<<16 - n<<w), from: int32(sum - n)}
		sum += n
	}
	// The codes are spread by a step that meets all places.
	var codeOf [1 << maxLog]uint8
	place, step := 0, size>>1+size>>3+3
	for code := range last + 1 {
		for range s.share[code] {
			codeOf[place] = uint8(code)
			place = (place + step) & (size - 1)
		}
	}
	for state, code := range codeOf[:size] {
		s.next[at[code]] = uint16(size + state)
		at[code]++
	}
}

// first is the state to begin with, for the last code.
func (s *states) first(code uint32) uint32 {
	if s.log == 0 {
		return 0
	}
	t := &s.turns[code&63]
	w := (t.bits + 1<<15) >> 16
	return uint32(s.next[(int32((w<<16-t.bits)>>w)+t.from)&(1<<maxLog-1)])
}

// describe appends the shares as the format has them: each in as many bits as what is left to share out takes, or one less, and behind each
// that is none how many more are none.
func (s *states) describe(dst []byte, last int) []byte {
	held, n := uint32(s.log-minLog), 4
	put := func(v, width int) {
		held |= uint32(v) << n
		for n += width; n >= 8; n -= 8 {
			dst = append(dst, byte(held))
			held >>= 8
		}
	}
	left, threshold, width := 1<<s.log+1, 1<<s.log, int(s.log)+1
	for code := 0; code <= last; code++ {
		share := int(s.share[code])
		spare := 2*threshold - 1 - left // values that a bit less tells apart
		left -= share
		v, w := share+1, width
		if v >= threshold {
			v += spare
		}
		if v < spare {
			w--
		}
		put(v, w)
		for left < threshold {
			threshold >>= 1
			width--
		}
		if share > 0 {
			continue
		}
		more := 0
		for s.share[code+1+more] == 0 {
			more++
		}
		code += more
		for ; more >= 3; more -= 3 {
			put(3, 2)
		}
		put(more, 2)
	}
	if n > 0 {
		dst = append(dst, byte(held))
	}
	return dst
}
