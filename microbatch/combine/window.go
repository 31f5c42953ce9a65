package combine

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A window is an exact sum of doubles while their range is narrow: w is two's
// complement, least significant word first, in units of 2^(64·off − 1074). The
// top two bits of w[2] are equal, so that an addition never loses a carry. A
// sum that does not fit continues as a fixedPoint: long is its index plus one.
//
// Which off a sum has, and whether it went long, depends on the order of
// addends; its value does not, and only the value is ever written.
type window struct {
	w    [3]uint64
	off  int32
	long int32
}

// fixedPoint is two's complement in units of 2^-1074: the largest double ends
// at bit 2097, 2^64 of them at 2161, and a sign follows.
type fixedPoint [longWords]uint64

const (
	longWords = 34
	maxOff    = longWords - 3
	beyond    = -longWords // the offset of a sum that is long: no addend is near
)

func (f *window) zero() bool { return f.w[0]|f.w[1]|f.w[2] == 0 }

func (f *window) sign() uint64 { return uint64(int64(f.w[2]) >> 63) }

// spare says whether the top two bits are equal.
func spare(top uint64) bool { return (top^top<<1)>>63 == 0 }

// moveTo slides the window to another offset, if no bit is lost.
func (f *window) moveTo(off int32) bool {
	if f.zero() {
		f.off = off
		return off <= maxOff
	}
	s, w := f.sign(), f.w
	switch off - f.off {
	case 0:
		return true
	case -1:
		if w[2] != s || !spare(w[1]) || w[1]>>63 != s>>63 {
			return false
		}
		f.w = [3]uint64{0, w[0], w[1]}
	case -2:
		if w[2] != s || w[1] != s || !spare(w[0]) || w[0]>>63 != s>>63 {
			return false
		}
		f.w = [3]uint64{0, 0, w[0]}
	case 1:
		if w[0] != 0 || off > maxOff {
			return false
		}
		f.w = [3]uint64{w[1], w[2], s}
	case 2:
		if w[0]|w[1] != 0 || off > maxOff {
			return false
		}
		f.w = [3]uint64{w[2], s, s}
	default:
		return false
	}
	f.off = off
	return true
}

// accumulate adds ±t·2^(64·at) to words, which are two's complement.
func accumulate(words []uint64, at int, t []uint64, neg bool) {
	var c uint64
	i := at
	if neg {
		for _, x := range t {
			words[i], c = bits.Sub64(words[i], x, c)
			i++
		}
		for ; c != 0 && i < len(words); i++ {
			words[i], c = bits.Sub64(words[i], 0, c)
		}
		return
	}
	for _, x := range t {
		words[i], c = bits.Add64(words[i], x, c)
		i++
	}
	for ; c != 0 && i < len(words); i++ {
		words[i], c = bits.Add64(words[i], 0, c)
	}
}

// windows are the windows of many groups and the long sums among them.
type windows struct {
	win  []window
	long []fixedPoint
	near int32 // the offset of a window that an addend was lately put into
}

// grow makes windows up to n. They are where the next addends are likely to be.
func (s *windows) grow(n int) {
	from := len(s.win)
	s.win = grow(s.win, n)
	for i := from; i < len(s.win); i++ {
		s.win[i].off = s.near
	}
}

// addWords adds ±t·2^(64·word), in units of 2^-1074; t is a trimmed magnitude
// that fits a fixedPoint.
func (s *windows) addWords(g uint32, word int, t []uint64, neg bool) {
	if len(t) == 0 {
		return
	}
	f := &s.win[g]
	if f.long == 0 && len(t) <= 3 {
		off := f.off
		switch at, end := int32(word), int32(word+len(t)); {
		case f.zero() || at < off:
			off = at
		case end > off+3:
			off = end - 3
		}
		top := 3 - len(t) - (word - int(off)) // free words above t
		if (top > 0 || top == 0 && t[len(t)-1]>>62 == 0) && f.moveTo(off) {
			accumulate(f.w[:], word-int(off), t, neg)
			if !spare(f.w[2]) && !f.moveTo(off+1) {
				s.goLong(f)
			}
			return
		}
	}
	if f.long == 0 {
		s.goLong(f)
	}
	accumulate(s.long[f.long-1][:], word, t, neg)
}

// addBits adds ±m·2^pos, in units of 2^-1074; m has at most 53 bits unless pos
// is a multiple of 64. neg is all ones or none.
func (s *windows) addBits(g uint32, m uint64, pos int, neg uint64) {
	bit := pos & 63
	s.addPairAt(g, int32(pos>>6), m<<bit, m>>(64-bit), neg)
}

// addPair adds ±(hi, lo) at word at, 0 or 1, of w. It does not branch: signs
// and places vary from addend to addend, and a wrong guess costs more than all
// of it.
func addPair(w *[3]uint64, at int32, lo, hi, neg uint64) {
	up := -uint64(at)
	var c uint64
	w[0], c = bits.Add64(w[0], lo&^up^neg, neg&1)
	w[1], c = bits.Add64(w[1], (hi&^up|lo&up)^neg, c)
	w[2], _ = bits.Add64(w[2], hi&up^neg, c)
}

// addLong adds ±(hi, lo) at word at of l.
func addLong(l *fixedPoint, at int, lo, hi, neg uint64) {
	var c uint64
	l[at], c = bits.Add64(l[at], lo^neg, neg&1)
	l[at+1], c = bits.Add64(l[at+1], hi^neg, c)
	// What is left to add above is neg and the carry: nothing, or ±1.
	for i := at + 2; i < longWords && neg+c != 0; i++ {
		l[i], c = bits.Add64(l[i], neg, c)
	}
}

func (s *windows) goLong(f *window) {
	var l fixedPoint
	if !f.zero() {
		n := copy(l[f.off:], f.w[:])
		for i := int(f.off) + n; i < longWords; i++ {
			l[i] = f.sign()
		}
	}
	s.long = append(s.long, l)
	f.long, f.off = int32(len(s.long)), beyond
}

// roomOfWindow is what put writes at most.
const roomOfWindow = 2 + 1 + 24

// append writes a sum that is not long as appendMagnitude does, and returns its
// flags.
func (f *window) append(dst []byte) ([]byte, byte) {
	at := len(dst)
	dst = slices.Grow(dst, roomOfWindow)
	size, flags := f.put(dst[at : at+roomOfWindow])
	return dst[:at+size], flags
}

// put is append to the front of b, which has room for roomOfWindow. It hardly
// branches: where a sum begins and ends varies from group to group.
func (f *window) put(b []byte) (size int, flags byte) {
	if f.zero() {
		return 0, 0
	}
	w, flags := f.w, byte(flagNonzero)
	if s := f.sign(); s != 0 {
		flags |= flagNegative
		var c uint64
		w[0], c = bits.Sub64(0, w[0], 0)
		w[1], c = bits.Sub64(0, w[1], c)
		w[2], _ = bits.Sub64(0, w[2], c)
	}
	from, to := zeros(bits.TrailingZeros64(w[0]), bits.TrailingZeros64(w[1]), bits.TrailingZeros64(w[2])),
		192-zeros(bits.LeadingZeros64(w[2]), bits.LeadingZeros64(w[1]), bits.LeadingZeros64(w[0]))
	from, to = from/8, (to+7)/8
	size = putCount(b, uint64(8*int(f.off)+from))
	b[size] = byte(to - from) // a uvarint
	size++
	// The words without the bytes below from.
	all, skip, shift := [6]uint64{w[0], w[1], w[2]}, from/8, 8*(from%8)
	rest := all[skip : skip+4]
	b = b[size : size+24]
	binary.LittleEndian.PutUint64(b, rest[0]>>shift|rest[1]<<1<<(63-shift))
	binary.LittleEndian.PutUint64(b[8:], rest[1]>>shift|rest[2]<<1<<(63-shift))
	binary.LittleEndian.PutUint64(b[16:], rest[2]>>shift|rest[3]<<1<<(63-shift))
	return size + to - from, flags
}

// zeros are the zeros at the front of three words, of which each has so many; of
// all 64 the next word's follow.
func zeros(a, b, c int) int { return a + b&-(a>>6) + c&-(a>>6&(b>>6)) }

// magnitude copies the absolute value of g's sum into buf, which has longWords
// words, or three where the sum is not long, and returns its words, trimmed,
// with the place of the first.
func (s *windows) magnitude(g uint32, buf []uint64) (mag []uint64, word int, neg bool) {
	f := &s.win[g]
	src, word := f.w[:], int(f.off)
	if f.long != 0 {
		src, word = s.long[f.long-1][:], 0
	}
	return magnitudeOf(buf, src, word)
}
