package table

import (
	"encoding/binary"
	"math/bits"
)

// bitsFor is how many bits a length of the format takes that is at most x.
func bitsFor(x uint32) int {
	n := bits.Len32(x)
	if n < 2 {
		return n
	}
	return 1 << bits.Len(uint(n-1))
}

// packed is how many bytes n lengths of so many bits take.
func packed(n, bits int) int { return (n*bits + 7) / 8 }

// appendLengths appends lengths in the format's form.
func appendLengths(dst []byte, lengths []uint32) []byte {
	least, most := lengths[0], lengths[0]
	for _, l := range lengths {
		least, most = min(least, l), max(most, l)
	}
	w := bitsFor(most - least)
	dst = append(dst, byte(w))
	dst = binary.AppendUvarint(dst, uint64(least))
	at := len(dst)
	dst = extend(dst, packed(len(lengths), w))
	out := dst[at:]
	switch w {
	case 0:
	case 8:
		for i, l := range lengths {
			out[i] = byte(l - least)
		}
	case 16:
		for i, l := range lengths {
			binary.LittleEndian.PutUint16(out[2*i:], uint16(l-least))
		}
	case 32:
		for i, l := range lengths {
			binary.LittleEndian.PutUint32(out[4*i:], l-least)
		}
	default:
		appendBits(out, lengths, w, least)
	}
	return dst
}

// appendBits writes lengths of one, two or four bits, which are no less than least.
func appendBits(out []byte, lengths []uint32, w int, least uint32) {
	whole := len(lengths) * w / 8
	switch w {
	case 4:
		for i := range out[:whole] {
			l := lengths[2*i : 2*i+2 : 2*i+2]
			out[i] = byte(l[0]-least) | byte(l[1]-least)<<4
		}
	case 2:
		for i := range out[:whole] {
			l := lengths[4*i : 4*i+4 : 4*i+4]
			out[i] = byte(l[0]-least) | byte(l[1]-least)<<2 | byte(l[2]-least)<<4 | byte(l[3]-least)<<6
		}
	case 1:
		for i := range out[:whole] {
			l := lengths[8*i : 8*i+8 : 8*i+8]
			out[i] = byte(l[0]-least) | byte(l[1]-least)<<1 | byte(l[2]-least)<<2 | byte(l[3]-least)<<3 |
				byte(l[4]-least)<<4 | byte(l[5]-least)<<5 | byte(l[6]-least)<<6 | byte(l[7]-least)<<7
		}
	}
	if whole == len(out) {
		return
	}
	b := byte(0)
	for j, l := range lengths[whole*8/w:] {
		b |= byte(l-least) << (j * w)
	}
	out[whole] = b
}

// extend lengthens b by n bytes of any content.
func extend(b []byte, n int) []byte {
	if len(b)+n > cap(b) {
		b = append(make([]byte, 0, max(len(b)+n, 2*cap(b))), b...)
	}
	return b[:len(b)+n]
}

// lengths reads as many lengths as out has places and returns their sum.
func (r *bytesReader) lengths(out []uint32) (sum uint64) {
	head := r.take(1)
	least := r.uvarint()
	if r.err != nil {
		return 0
	}
	w := int(head[0])
	if w > 32 || w&(w-1) != 0 || least > MaxBlock {
		r.err = errLength
		return 0
	}
	in := r.take(uint64(packed(len(out), w)))
	if r.err != nil {
		return 0
	}
	var seen spread
	switch w {
	case 0:
		for i := range out {
			out[i] = uint32(least)
		}
		return least * uint64(len(out))
	case 8:
		seen = bytesOf(out, in, uint32(least))
	case 16:
		for i := range out {
			x := uint32(binary.LittleEndian.Uint16(in[2*i:]))
			seen.add(x)
			out[i] = x + uint32(least)
		}
	case 32:
		for i := range out {
			x := binary.LittleEndian.Uint32(in[4*i:])
			if x > MaxBlock {
				r.err = errLength
				return 0
			}
			seen.add(x)
			out[i] = x + uint32(least)
		}
	default:
		seen = bitsOf(out, in, w, uint32(least))
	}
	if !seen.minimal(w) {
		r.err = errLength
		return 0
	}
	return seen.sum + least*uint64(len(out))
}

// spread is what is to be known of lengths for them to be in the one form.
type spread struct {
	sum  uint64
	any  uint32 // bits that any has
	zero uint32 // the highest bit says that one is zero
}

func (s *spread) add(x uint32) {
	s.sum += uint64(x)
	s.any |= x
	s.zero |= x - 1
}

// minimal says whether w is the fewest bits, and the least is one of them.
func (s *spread) minimal(w int) bool { return s.zero>>31 == 1 && bitsFor(s.any) == w }

// bytesOf reads lengths of eight bits.
func bytesOf(out []uint32, in []byte, least uint32) (s spread) {
	out = out[:len(in)]
	for i, c := range in {
		x := uint32(c)
		s.sum += uint64(x)
		s.any |= x
		s.zero |= x - 1
		out[i] = x + least
	}
	return s
}

// bitsOf reads lengths of one, two or four bits.
func bitsOf(out []uint32, in []byte, w int, least uint32) (s spread) {
	whole := len(out) * w / 8
	switch w {
	case 4:
		for i, c := range in[:whole] {
			o := out[2*i : 2*i+2 : 2*i+2]
			x, y := uint32(c&15), uint32(c>>4)
			s.sum += uint64(x + y)
			s.any |= x | y
			s.zero |= (x - 1) | (y - 1)
			o[0], o[1] = x+least, y+least
		}
	case 2:
		for i, c := range in[:whole] {
			o := out[4*i : 4*i+4 : 4*i+4]
			x, y, z, u := uint32(c&3), uint32(c>>2&3), uint32(c>>4&3), uint32(c>>6)
			s.sum += uint64(x + y + z + u)
			s.any |= x | y | z | u
			s.zero |= (x - 1) | (y - 1) | (z - 1) | (u - 1)
			o[0], o[1], o[2], o[3] = x+least, y+least, z+least, u+least
		}
	case 1:
		for i, c := range in[:whole] {
			o := out[8*i : 8*i+8 : 8*i+8]
			for j := range o {
				o[j] = uint32(c>>j&1) + least
			}
			set := uint32(bits.OnesCount8(c))
			s.sum += uint64(set)
			s.any |= (set + 7) / 8
			s.zero |= set - 8 // of which the highest bit is set unless all are
		}
	}
	if whole == len(in) {
		return s
	}
	c := uint32(in[whole])
	for i := 8 / w * whole; i < len(out); i++ {
		x := c & (1<<w - 1)
		c >>= w
		s.add(x)
		out[i] = x + least
	}
	if c != 0 {
		s.any = ^uint32(0) // what is left of the last byte is not zero
	}
	return s
}
