package layers

import (
	"encoding/binary"
	"hash/maphash"
	"math"

	"github.com/deltad/deltad/microbatch/column"
)

// Hasher makes digests of documents. Those of one Hasher can be compared with each other, and with no others. The zero value is not usable.
type Hasher struct{ seeds [2]maphash.Seed }

// NewHasher returns a Hasher with random seeds.
func NewHasher() Hasher {
	return Hasher{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// digest is 128 bits of a hash.
type digest [2]uint64

// row is the digest of row i of columns, and scratch to be used again.
func (h Hasher) row(columns []*column.Vector, i int, scratch []byte) (digest, []byte) {
	scratch = scratch[:0]
	for _, v := range columns {
		scratch = appendExact(scratch, v, i)
	}
	return digest{maphash.Bytes(h.seeds[0], scratch), maphash.Bytes(h.seeds[1], scratch)}, scratch
}

// appendExact appends row i of v as it is in memory: values that differ in one bit differ, such as zeros of two signs. Of one type no
// encoding begins another.
func appendExact(dst []byte, v *column.Vector, i int) []byte {
	if v.Null(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch v.Type.Kind {
	case column.Bool:
		if v.Bools[i] {
			return append(dst, 1)
		}
		return append(dst, 0)
	case column.Int32, column.Int64, column.Date, column.Time:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.Ints[i]))
	case column.Timestamp:
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(dst, uint64(v.Ints[i])), uint32(v.Nanos[i]))
	case column.Float32, column.Float64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Floats[i]))
	case column.Decimal:
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, uint64(v.Decimals[i].Hi)), v.Decimals[i].Lo)
	case column.String, column.Bytes:
		return append(binary.AppendUvarint(dst, uint64(len(v.Strings[i]))), v.Strings[i]...)
	case column.List:
		from, to := v.Offsets[i], v.Offsets[i+1]
		dst = binary.AppendUvarint(dst, uint64(to-from))
		for k := from; k < to; k++ {
			dst = appendExact(dst, v.Elem, int(k))
		}
	case column.Struct:
		for _, f := range v.Fields {
			dst = appendExact(dst, f, i)
		}
	}
	return dst
}
