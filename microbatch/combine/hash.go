package combine

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// hashSeed is the seed of every sketch: the default of Apache DataSketches, so
// that its sketches of the same values are the same sketches.
const hashSeed = 9001

// hasher turns values into the bytes that sketches hash. They are those of
// DataSketches where it has the type, else the tuple encoding: integers, dates
// and times as eight bytes little-endian, floats as the eight bytes of the
// double with one zero and one NaN, strings and bytes as they are. Values of
// one column Repr that are equal have equal bytes.
type hasher struct{ buf []byte }

// word returns the bytes of row i as a number where they are eight.
func word(v *column.Vector, i int) (x uint64, ok bool) {
	switch v.Type.Kind {
	case column.Int32, column.Int64, column.Date, column.Time:
		return uint64(v.Ints[i]), true
	case column.Float32, column.Float64:
		switch f := v.Floats[i]; {
		case f != f:
			return 0x7ff8000000000000, true
		case f == 0:
			return 0, true
		default:
			return math.Float64bits(f), true
		}
	}
	return 0, false
}

// bytes returns the bytes of row i, which is not eight; valid until the next
// call.
func (h *hasher) bytes(v *column.Vector, i int) []byte {
	switch v.Type.Kind {
	case column.String, column.Bytes:
		h.buf = append(h.buf[:0], v.Strings[i]...)
	default:
		h.buf = tuple.Append(h.buf[:0], v, i)
	}
	return h.buf
}

// murmur hashes row i with MurmurHash3.
func (h *hasher) murmur(v *column.Vector, i int) (h1, h2 uint64) {
	if x, ok := word(v, i); ok {
		return murmurWord(x)
	}
	return murmur(h.bytes(v, i))
}

// xx hashes row i with XXH64 under two seeds, as the Bloom filters of
// DataSketches do.
func (h *hasher) xx(v *column.Vector, i int) (h0, h1 uint64) {
	if x, ok := word(v, i); ok {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], x)
		h0 = xxhash(b[:], hashSeed)
		return h0, xxhash(b[:], h0)
	}
	b := h.bytes(v, i)
	h0 = xxhash(b, hashSeed)
	return h0, xxhash(b, h0)
}

const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// murmur is MurmurHash3 x64 128 by Austin Appleby, which he gave to the public
// domain.
func murmur(b []byte) (h1, h2 uint64) {
	h1, h2 = hashSeed, hashSeed
	n := uint64(len(b))
	for ; len(b) >= 16; b = b[16:] {
		h1 ^= murmurK1(binary.LittleEndian.Uint64(b))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= murmurK2(binary.LittleEndian.Uint64(b[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var tail [16]byte
	copy(tail[:], b)
	h2 ^= murmurK2(binary.LittleEndian.Uint64(tail[8:]))
	h1 ^= murmurK1(binary.LittleEndian.Uint64(tail[:]))
	return murmurEnd(h1, h2, n)
}

// murmurWord is murmur of the eight bytes of x, little-endian.
func murmurWord(x uint64) (h1, h2 uint64) {
	return murmurEnd(hashSeed^murmurK1(x), hashSeed, 8)
}

func murmurK1(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }

func murmurK2(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

func murmurEnd(h1, h2, n uint64) (uint64, uint64) {
	h1, h2 = h1^n, h2^n
	h1 += h2
	h2 += h1
	h1, h2 = murmurMix(h1), murmurMix(h2)
	h1 += h2
	return h1, h2 + h1
}

func murmurMix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

const (
	xxP1 = 0x9e3779b185ebca87
	xxP2 = 0xc2b2ae3d27d4eb4f
	xxP3 = 0x165667b19e3779f9
	xxP4 = 0x85ebca77c2b2ae63
	xxP5 = 0x27d4eb2f165667c5
)

// xxhash is XXH64 by Yann Collet, by its published description.
func xxhash(b []byte, seed uint64) uint64 {
	n := uint64(len(b))
	h := seed + xxP5
	if len(b) >= 32 {
		p1, p2 := uint64(xxP1), uint64(xxP2)
		v := [4]uint64{seed + p1 + p2, seed + p2, seed, seed - p1}
		for ; len(b) >= 32; b = b[32:] {
			for i := range v {
				v[i] = xxRound(v[i], binary.LittleEndian.Uint64(b[8*i:]))
			}
		}
		h = bits.RotateLeft64(v[0], 1) + bits.RotateLeft64(v[1], 7) + bits.RotateLeft64(v[2], 12) + bits.RotateLeft64(v[3], 18)
		for _, x := range v {
			h = (h^xxRound(0, x))*xxP1 + xxP4
		}
	}
	h += n
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^xxRound(0, binary.LittleEndian.Uint64(b)), 27)*xxP1 + xxP4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(b))*xxP1, 23)*xxP2 + xxP3
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft64(h^uint64(c)*xxP5, 11) * xxP1
	}
	h = (h ^ h>>33) * xxP2
	h = (h ^ h>>29) * xxP3
	return h ^ h>>32
}

func xxRound(acc, x uint64) uint64 { return bits.RotateLeft64(acc+x*xxP2, 31) * xxP1 }
