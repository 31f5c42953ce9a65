package window

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// Hash is 128 bits of a hash of a row. One of them is enough to count with.
type Hash [2]uint64

// Hasher hashes rows of one schema: those that are equal bit by bit have equal
// hashes, and others have different ones but for chance. Integers of any width
// are one type to it, and so are floats. What two Hashers make cannot be
// compared, and nothing of it may be stored: it is of this process. The zero
// Hasher hashes nothing.
type Hasher struct{ lanes [2]lane }

// lane makes half of a hash. The halves have nothing to do with each other.
type lane struct {
	texts maphash.Seed
	a, b  uint64
}

// NewHasher returns a Hasher with random seeds.
func NewHasher() (h Hasher) {
	for i := range h.lanes {
		// The factors are of seeds of their own, lest they be the hash of a value.
		h.lanes[i] = lane{maphash.MakeSeed(), maphash.String(maphash.MakeSeed(), ""), maphash.String(maphash.MakeSeed(), "")}
	}
	return h
}

// Valid says whether it hashes.
func (h *Hasher) Valid() bool { return *h != Hasher{} }

// The classes of values that are different whatever they hold.
const (
	hashNull = iota + 1
	hashBool
	hashInt
	hashFloat
	hashDecimal
	hashText
	hashList
	hashEnd
)

// mix adds a value of a class to a hash, as wyhash does.
func (l *lane) mix(sum, class, x uint64) uint64 {
	hi, lo := bits.Mul64(x^l.a, sum^l.b^class)
	return hi ^ lo
}

func (h *Hasher) mix(sum *Hash, class, x uint64) {
	sum[0], sum[1] = h.lanes[0].mix(sum[0], class, x), h.lanes[1].mix(sum[1], class, x)
}

func (h *Hasher) text(sum *Hash, s string) {
	for i := range h.lanes {
		l := &h.lanes[i]
		sum[i] = l.mix(sum[i], hashText, maphash.String(l.texts, s))
	}
}

// Append appends to dst the hash of each of the first n rows of the columns.
func (h *Hasher) Append(dst []Hash, columns []*column.Vector, n int) []Hash {
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	sums := dst[at:]
	clear(sums)
	for _, v := range columns {
		h.add(sums, v)
	}
	return dst
}

// documents appends the hashes of documents whose first columns are the key;
// none where it hashes nothing.
func (h *Hasher) documents(dst []Hash, docs *column.Batch, keys int) []Hash {
	if !h.Valid() {
		return dst
	}
	return h.Append(dst, docs.Columns[keys:], docs.Len)
}

// add adds a column to the hashes of its rows.
func (h *Hasher) add(sums []Hash, v *column.Vector) {
	switch v.Type.Kind {
	case column.Int32, column.Int64, column.Date, column.Time:
		for i, x := range v.Ints[:len(sums)] {
			if v.Valid == nil || v.Valid[i] {
				h.mix(&sums[i], hashInt, uint64(x))
			} else {
				h.mix(&sums[i], hashNull, 0)
			}
		}
	case column.Float32, column.Float64:
		for i, x := range v.Floats[:len(sums)] {
			if v.Valid == nil || v.Valid[i] {
				h.mix(&sums[i], hashFloat, math.Float64bits(x))
			} else {
				h.mix(&sums[i], hashNull, 0)
			}
		}
	case column.String, column.Bytes:
		for i, s := range v.Strings[:len(sums)] {
			if v.Valid == nil || v.Valid[i] {
				h.text(&sums[i], s)
			} else {
				h.mix(&sums[i], hashNull, 0)
			}
		}
	default:
		for i := range sums {
			h.value(&sums[i], v, i)
		}
	}
}

// value adds one value of any type to a hash.
func (h *Hasher) value(sum *Hash, v *column.Vector, i int) {
	if v.Null(i) {
		h.mix(sum, hashNull, 0)
		return
	}
	switch v.Type.Kind {
	case column.Bool:
		x := uint64(0)
		if v.Bools[i] {
			x = 1
		}
		h.mix(sum, hashBool, x)
	case column.Int32, column.Int64, column.Date, column.Time:
		h.mix(sum, hashInt, uint64(v.Ints[i]))
	case column.Timestamp:
		h.mix(sum, hashInt, uint64(v.Ints[i]))
		h.mix(sum, hashInt, uint64(v.Nanos[i]))
	case column.Float32, column.Float64:
		h.mix(sum, hashFloat, math.Float64bits(v.Floats[i]))
	case column.Decimal:
		h.mix(sum, hashDecimal, uint64(v.Decimals[i].Hi))
		h.mix(sum, hashDecimal, v.Decimals[i].Lo)
	case column.String, column.Bytes:
		h.text(sum, v.Strings[i])
	case column.List:
		from, to := v.Offsets[i], v.Offsets[i+1]
		h.mix(sum, hashList, uint64(to-from))
		for k := from; k < to; k++ {
			h.value(sum, v.Elem, int(k))
		}
	case column.Struct:
		for _, f := range v.Fields {
			h.value(sum, f, i)
		}
		h.mix(sum, hashEnd, 0)
	}
}
