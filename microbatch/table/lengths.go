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
		per := 8 / w
		for i := range out {
			some := lengths[i*per : min(i*per+per, len(lengths))]
			b := byte(0)
			for j, l := range some {
				b |= byte(l-least) << (j * w)
			}
			out[i] = b
		}
	}
	return dst
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
		for i, c := range in {
			out[i] = seen.add(uint32(c)) + uint32(least)
		}
	case 16:
		for i := range out {
			out[i] = seen.add(uint32(binary.LittleEndian.Uint16(in[2*i:]))) + uint32(least)
		}
	case 32:
		for i := range out {
			x := binary.LittleEndian.Uint32(in[4*i:])
			if x > MaxBlock {
				r.err = errLength
				return 0
			}
			out[i] = seen.add(x) + uint32(least)
		}
	default:
		if !seen.narrow(out, in, w, uint32(least)) {
			r.err = errLength
			return 0
		}
	}
	if seen.least() != 0 || bitsFor(seen.any) != w {
		r.err = errLength
		return 0
	}
	return seen.sum + least*uint64(len(out))
}

// spread is what is to be known of lengths for them to be in the one form.
type spread struct {
	sum  uint64
	any  uint32 // bits that any has
	most uint32 // of the complements
}

func (s *spread) add(x uint32) uint32 {
	s.sum += uint64(x)
	s.any |= x
	s.most = max(s.most, ^x)
	return x
}

func (s *spread) least() uint32 { return ^s.most }

// narrow is lengths of less than eight bits; it says whether what is left of the
// last byte is zero.
func (s *spread) narrow(out []uint32, in []byte, w int, least uint32) bool {
	per, mask := 8/w, byte(1)<<w-1
	for _, c := range in {
		some := out[:min(per, len(out))]
		out = out[len(some):]
		for j := range some {
			some[j] = s.add(uint32(c&mask)) + least
			c >>= w
		}
		if c != 0 {
			return false
		}
	}
	return true
}

// cumulate turns lengths into ends.
func cumulate(lengths []uint32) {
	at := uint32(0)
	for i, l := range lengths {
		at += l
		lengths[i] = at
	}
}
