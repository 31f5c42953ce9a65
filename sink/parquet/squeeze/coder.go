package squeeze

import (
	"encoding/binary"
	"slices"
)

// appendSequences appends the section of a block's sequences. There are fewer than the 32,512 from which on the format has another way to
// say how many: each is of minMatch bytes at least.
func (f *finder) appendSequences(dst []byte) []byte {
	n := len(f.found)
	if n < 128 {
		dst = append(dst, byte(n))
	} else {
		dst = append(dst, byte(n>>8+128), byte(n))
	}
	if n == 0 {
		return dst
	}
	at := len(dst)
	dst = append(dst, 0)
	dst, lengths := f.lengths.prepare(dst, n, maxLengthLog)
	dst, offsets := f.offsets.prepare(dst, n, maxOffsetLog)
	dst, matches := f.matches.prepare(dst, n, maxMatchLog)
	dst[at] = lengths<<6 | offsets<<4 | matches<<2
	return f.appendBits(dst)
}

// sequenceBytes is more than the bits of a sequence: 26 of states, and up to 55 that codes leave open.
const sequenceBytes = 12

// appendBits appends the bits of the sequences, from the last to the first: first come the bits that are open, of the literals, the match
// and the distance, then those that lead to the states of the sequence before, of distance, match and literals, and so on.
func (f *finder) appendBits(dst []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, sequenceBytes*len(f.found)+24)
	dst = dst[:cap(dst)]
	lengths, matches, offsets := &f.lengths, &f.matches, &f.offsets
	last := f.found[len(f.found)-1]
	match, offset, length := matches.first(last.codes>>8), offsets.first(last.codes>>16), lengths.first(last.codes)
	held, n := last.open, uint(last.codes>>24)
	for i := len(f.found) - 2; i >= 0; i-- {
		s := &f.found[i]
		binary.LittleEndian.PutUint64(dst[at:], held)
		at += int(n >> 3)
		held >>= n &^ 7 & 63
		n &= 7

		t := &offsets.turns[s.codes>>16&63]
		w := (offset + t.bits) >> 16 & 15
		held |= uint64(offset&(1<<w-1)) << n
		n += uint(w)
		offset = uint32(offsets.next[(int32(offset>>w)+t.from)&(1<<maxLog-1)])

		t = &matches.turns[s.codes>>8&63]
		w = (match + t.bits) >> 16 & 15
		held |= uint64(match&(1<<w-1)) << (n & 63)
		n += uint(w)
		match = uint32(matches.next[(int32(match>>w)+t.from)&(1<<maxLog-1)])

		t = &lengths.turns[s.codes&63]
		w = (length + t.bits) >> 16 & 15
		held |= uint64(length&(1<<w-1)) << (n & 63)
		n += uint(w)
		length = uint32(lengths.next[(int32(length>>w)+t.from)&(1<<maxLog-1)])

		if n+uint(s.codes>>24) > 63 { // a word that is full could not be shifted out
			binary.LittleEndian.PutUint64(dst[at:], held)
			at += int(n >> 3)
			held >>= n &^ 7 & 63
			n &= 7
		}
		held |= s.open << (n & 63)
		n += uint(s.codes >> 24)
	}
	binary.LittleEndian.PutUint64(dst[at:], held)
	at += int(n >> 3)
	held >>= n &^ 7 & 63
	n &= 7
	for _, last := range []struct {
		*states
		state uint32
	}{{matches, match}, {offsets, offset}, {lengths, length}} {
		held |= uint64(last.state&(1<<last.log-1)) << n
		n += uint(last.log)
	}
	binary.LittleEndian.PutUint64(dst[at:], held|1<<n) // a bit says where the end is
	return dst[:at+int(n)/8+1]
}
