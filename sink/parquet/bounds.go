package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go/bloom/xxhash"
	"github.com/parquet-go/parquet-go/format"
)

// How long the bounds in metadata may be: longer ones of a chunk are left out, those of a page are cut.
const (
	statisticsBytes = 1 << 10
	indexBytes      = 64
)

// bounds are the least and the greatest value of the page as the format writes them, in the order that it prescribes; ok is false where
// there is none to name.
func (l *leaf) bounds() (least, greatest []byte, ok bool) {
	switch l.physical {
	case format.Boolean:
		if len(l.bools) == 0 {
			return nil, nil, false
		}
		all, some := true, false
		for _, b := range l.bools {
			all, some = all && b, some || b
		}
		return []byte{byte(bit(all))}, []byte{byte(bit(some))}, true
	case format.Int32:
		lo, hi, ok := extremes(l.int32s)
		return binary.LittleEndian.AppendUint32(nil, uint32(lo)), binary.LittleEndian.AppendUint32(nil, uint32(hi)), ok
	case format.Int64:
		lo, hi, ok := extremes(l.int64s)
		return binary.LittleEndian.AppendUint64(nil, uint64(lo)), binary.LittleEndian.AppendUint64(nil, uint64(hi)), ok
	case format.Float:
		lo, hi, ok := numbers(l.floats)
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(lo)), binary.LittleEndian.AppendUint32(nil, math.Float32bits(hi)), ok
	case format.Double:
		lo, hi, ok := numbers(l.doubles)
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(lo)), binary.LittleEndian.AppendUint64(nil, math.Float64bits(hi)), ok
	case format.FixedLenByteArray:
		return l.wideBounds()
	}
	return l.textBounds()
}

func extremes[T cmp.Ordered](values []T) (lo, hi T, ok bool) {
	if len(values) == 0 {
		return lo, hi, false
	}
	lo, hi = values[0], values[0]
	for _, v := range values[1:] {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi, true
}

// numbers are the extremes of what is a number, and of zeros the one further out, as the format wants it.
func numbers[T float32 | float64](values []T) (lo, hi T, ok bool) {
	lo, hi = T(math.Inf(1)), T(math.Inf(-1))
	for _, v := range values {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
		ok = ok || !math.IsNaN(float64(v))
	}
	if lo == 0 {
		lo = T(math.Copysign(0, -1))
	}
	if hi == 0 {
		hi = 0
	}
	return lo, hi, ok
}

func (l *leaf) wideBounds() (least, greatest []byte, ok bool) {
	if len(l.fixed) == 0 {
		return nil, nil, false
	}
	lo, hi := int128(l.fixed), int128(l.fixed)
	for at := wide; at < len(l.fixed); at += wide {
		v := int128(l.fixed[at : at+wide])
		if v.Hi < lo.Hi || v.Hi == lo.Hi && v.Lo < lo.Lo {
			lo = v
		}
		if v.Hi > hi.Hi || v.Hi == hi.Hi && v.Lo > hi.Lo {
			hi = v
		}
	}
	return appendWide(nil, lo), appendWide(nil, hi), true
}

// texts finds the least and the greatest of byte arrays.
type texts struct {
	least, greatest []byte
	lo, hi          uint64 // the first eight bytes of the two, which tell most values apart
	some            bool
}

func (t *texts) add(v []byte) {
	head := headOf(v)
	if !t.some {
		*t = texts{least: v, greatest: v, lo: head, hi: head, some: true}
		return
	}
	if head < t.lo || head == t.lo && bytes.Compare(v, t.least) < 0 {
		t.least, t.lo = v, head
	}
	if head > t.hi || head == t.hi && bytes.Compare(v, t.greatest) > 0 {
		t.greatest, t.hi = v, head
	}
}

func (l *leaf) textBounds() (least, greatest []byte, ok bool) {
	var t texts
	switch n := len(l.lengths); {
	case len(l.ids) > 0:
		for _, id := range l.chunk.dict.fresh {
			t.add([]byte(l.chunk.dict.texts[id]))
		}
	case l.first && n > 0: // in order
		t.add(l.text[:l.lengths[0]])
		t.add(l.text[len(l.text)-int(l.lengths[n-1]):])
	default:
		at := 0
		for _, n := range l.lengths {
			t.add(l.text[at : at+int(n)])
			at += int(n)
		}
	}
	return append([]byte{}, t.least...), append([]byte{}, t.greatest...), t.some
}

// headOf is the first eight bytes as a number of the same order, short values filled up with zeros.
func headOf(v []byte) uint64 {
	if len(v) >= 8 {
		return binary.BigEndian.Uint64(v)
	}
	var n uint64
	for i, b := range v {
		n |= uint64(b) << (56 - 8*i)
	}
	return n
}

// compare orders bounds.
func (l *leaf) compare(a, b []byte) int {
	switch l.physical {
	case format.Boolean:
		return cmp.Compare(a[0], b[0])
	case format.Int32:
		return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
	case format.Int64:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	case format.Float:
		return cmp.Compare(math.Float32frombits(binary.LittleEndian.Uint32(a)), math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case format.Double:
		return cmp.Compare(math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case format.FixedLenByteArray:
		return int128(a).Cmp(int128(b))
	}
	return bytes.Compare(a, b)
}

// below is a lower bound short enough for the page index.
func (l *leaf) below(b []byte) []byte {
	if l.physical == format.ByteArray && len(b) > indexBytes {
		return b[:indexBytes]
	}
	return b
}

// above is an upper bound short enough for the page index, if there is one.
func (l *leaf) above(b []byte) []byte {
	if l.physical != format.ByteArray || len(b) <= indexBytes {
		return b
	}
	for n := indexBytes; n > 0; n-- {
		if b[n-1] != 0xFF {
			out := slices.Clone(b[:n])
			out[n-1]++
			return out
		}
	}
	return b
}

// fractionHashes appends the hashes of the page's floats or doubles.
func (l *leaf) fractionHashes(dst []uint64) []uint64 {
	for _, v := range l.floats {
		dst = append(dst, xxhash.Sum64Uint32(math.Float32bits(v)))
	}
	for _, v := range l.doubles {
		dst = append(dst, xxhash.Sum64Uint64(math.Float64bits(v)))
	}
	return dst
}
