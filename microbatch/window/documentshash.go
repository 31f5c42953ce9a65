package window

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Hasher hashes rows: those whose tuple encodings are equal have equal hashes,
// and others have different ones but for chance. What two Hashers make cannot be
// compared. The zero Hasher hashes nothing.
type Hasher struct {
	seed maphash.Seed
	a, b uint64
}

// NewHasher returns a Hasher of its own.
func NewHasher() Hasher {
	// The factors are of seeds of their own, lest they be the hash of a value.
	return Hasher{maphash.MakeSeed(), maphash.String(maphash.MakeSeed(), ""), maphash.String(maphash.MakeSeed(), "")}
}

// Valid says whether it hashes.
func (h Hasher) Valid() bool { return h != Hasher{} }

// The classes of values that are different whatever they hold, as the tags of
// package tuple are.
const (
	hashNull = iota + 1
	hashInt
	hashFloat
	hashString
	hashBytes
	hashDate
	hashTime
	hashTimestamp
	hashEncoded
)

// mix adds a value of a class to a hash.
func (h Hasher) mix(sum, class, x uint64) uint64 {
	hi, lo := bits.Mul64(x^h.a, sum^h.b^class)
	return hi ^ lo
}

// Append appends to dst the hash of each of the first n rows of the columns.
func (h Hasher) Append(dst []uint64, columns []*column.Vector, n int) []uint64 {
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	sums := dst[at:]
	for i := range sums {
		sums[i] = h.a
	}
	for _, v := range columns {
		h.add(sums, v)
	}
	return dst
}

// hashes appends the hashes of documents whose first columns are the key; none
// where it hashes nothing.
func (h Hasher) hashes(dst []uint64, docs *column.Batch, keys int) []uint64 {
	if !h.Valid() {
		return dst
	}
	return h.Append(dst, docs.Columns[keys:], docs.Len)
}

// add adds a column to the hashes of its rows.
func (h Hasher) add(sums []uint64, v *column.Vector) {
	switch v.Type.Kind {
	case column.Int32, column.Int64:
		h.addInts(sums, v, hashInt)
	case column.Date:
		h.addInts(sums, v, hashDate)
	case column.Time:
		h.addInts(sums, v, hashTime)
	case column.Timestamp:
		h.addInts(sums, v, hashTimestamp)
		for i, n := range v.Nanos[:len(sums)] {
			sums[i] = h.mix(sums[i], hashTimestamp, uint64(n))
		}
	case column.Float32, column.Float64:
		for i, f := range v.Floats[:len(sums)] {
			if v.Null(i) {
				sums[i] = h.mix(sums[i], hashNull, 0)
			} else {
				sums[i] = h.mix(sums[i], hashFloat, floatBits(f))
			}
		}
	case column.String:
		h.addTexts(sums, v, hashString)
	case column.Bytes:
		h.addTexts(sums, v, hashBytes)
	default:
		var scratch []byte
		for i := range sums {
			if v.Null(i) {
				sums[i] = h.mix(sums[i], hashNull, 0)
				continue
			}
			scratch = tuple.Append(scratch[:0], v, i)
			sums[i] = h.mix(sums[i], hashEncoded, maphash.Bytes(h.seed, scratch))
		}
	}
}

// floatBits are the bits of a float, of which there is one zero and one NaN.
func floatBits(f float64) uint64 {
	switch {
	case f != f:
		return math.Float64bits(math.NaN())
	case f == 0:
		return 0
	}
	return math.Float64bits(f)
}

func (h Hasher) addInts(sums []uint64, v *column.Vector, class uint64) {
	for i, x := range v.Ints[:len(sums)] {
		if v.Valid == nil || v.Valid[i] {
			sums[i] = h.mix(sums[i], class, uint64(x))
		} else {
			sums[i] = h.mix(sums[i], hashNull, 0)
		}
	}
}

func (h Hasher) addTexts(sums []uint64, v *column.Vector, class uint64) {
	for i, s := range v.Strings[:len(sums)] {
		if v.Valid == nil || v.Valid[i] {
			sums[i] = h.mix(sums[i], class, maphash.String(h.seed, s))
		} else {
			sums[i] = h.mix(sums[i], hashNull, 0)
		}
	}
}
