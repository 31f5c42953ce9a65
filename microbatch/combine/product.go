package combine

import "math/bits"

// A productWindow is to sums of products what a window is to sums: two's
// complement in units of 2^(64·off) of the product of two addends' units. The
// sixth word is for carries alone; a sum that would reach it is moved or goes
// long.
type productWindow struct {
	w    [productWords]uint64
	off  int32
	long int32 // index of its longProduct plus one
}

// longProduct holds 2^64 products of any two doubles: of two factors each ends
// at bit 2097 and starts at 0, their product at 4195, all of them at 4259, and
// a sign follows.
type longProduct [longProductWords]uint64

const (
	productWords     = 6
	longProductWords = 68
	maxProductOff    = longProductWords - productWords
)

type products struct {
	win  []productWindow
	long []longProduct
}

func (s *products) Grow(n int) { s.win = grow(s.win, n) }
func (s *products) Reset()     { s.win, s.long = s.win[:0], s.long[:0] }

func (s *products) Bytes() int64 {
	return int64((8*productWords+8)*cap(s.win) + 8*longProductWords*cap(s.long))
}

// add adds ±t·2^(64·word); t is a trimmed magnitude that fits a longProduct.
func (s *products) add(g uint32, word int, t []uint64, neg bool) {
	if len(t) == 0 {
		return
	}
	f := &s.win[g]
	if f.long == 0 && f.fit(word, len(t)) {
		accumulate(f.w[:], word-int(f.off), t, neg)
		if spare(f.w[productWords-1]) || f.moveTo(int(f.off)+1) {
			return
		}
		s.goLong(f)
		return
	}
	if f.long == 0 {
		s.goLong(f)
	}
	accumulate(s.long[f.long-1][:], word, t, neg)
}

// addTriple is add for a product of two words, shifted; neg is all ones or none.
func (s *products) addTriple(g uint32, word int, t *[4]uint64, neg uint64) {
	f := &s.win[g]
	words, at := f.w[:], word-int(f.off)
	switch {
	case f.long != 0:
		words, at = s.long[f.long-1][:], word
	case uint(at) >= productWords-3:
		s.add(g, word, trim(t[:]), neg != 0)
		return
	}
	var c uint64
	p := words[at : at+3]
	p[0], c = bits.Add64(p[0], t[0]^neg, neg&1)
	p[1], c = bits.Add64(p[1], t[1]^neg, c)
	p[2], c = bits.Add64(p[2], t[2]^neg, c)
	// What is left to add above is neg and the carry: nothing, or ±1.
	for i := at + 3; i < len(words) && neg+c != 0; i++ {
		words[i], c = bits.Add64(words[i], neg, c)
	}
	if f.long == 0 && !spare(f.w[productWords-1]) && !f.moveTo(int(f.off)+1) {
		s.goLong(f)
	}
}

// fit moves the window so that n words from word on are within its first five.
func (f *productWindow) fit(word, n int) bool {
	const room = productWords - 1
	at := word - int(f.off)
	switch {
	case at >= 0 && at+n <= room:
		return true
	case n > room:
		return false
	case f.w == [productWords]uint64{}:
		f.off = int32(min(max(word-min(1, room-n), 0), maxProductOff)) // a word below for smaller products
		return word-int(f.off)+n <= room
	case at < 0:
		return word+n <= int(f.off)+room && f.moveTo(word)
	}
	return f.moveTo(word + n - room)
}

// moveTo slides the window to another offset, if no bit is lost.
func (f *productWindow) moveTo(off int) bool {
	k := off - int(f.off)
	if off < 0 || off > maxProductOff || max(k, -k) >= productWords {
		return false
	}
	var sign uint64
	if f.w[productWords-1]>>63 == 1 {
		sign = ^uint64(0)
	}
	w := f.w
	for i := range w {
		switch from := i + k; {
		case from < 0:
			w[i] = 0
		case from >= productWords:
			w[i] = sign
		default:
			w[i] = f.w[from]
		}
	}
	for i := range f.w { // what slides out must say nothing
		if to := i - k; to < 0 && f.w[i] != 0 || to >= productWords && f.w[i] != sign {
			return false
		}
	}
	if top := w[productWords-1]; !spare(top) || top>>63 != sign>>63 {
		return false
	}
	f.w, f.off = w, int32(off)
	return true
}

func (s *products) goLong(f *productWindow) {
	var l longProduct
	n := copy(l[f.off:], f.w[:])
	if f.w[productWords-1]>>63 == 1 {
		for i := int(f.off) + n; i < longProductWords; i++ {
			l[i] = ^uint64(0)
		}
	}
	s.long = append(s.long, l)
	f.long = int32(len(s.long))
}

// magnitude copies the absolute value of g's sum into buf and returns its
// words, trimmed at both ends, with the place of the first.
func (s *products) magnitude(g uint32, buf *longProduct) (mag []uint64, word int, neg bool) {
	f := &s.win[g]
	if f.long != 0 {
		return magnitudeOf(buf[:], s.long[f.long-1][:], 0)
	}
	return magnitudeOf(buf[:], f.w[:], int(f.off))
}
