// Package tuple is the one order-preserving canonical encoding of values: index
// keys, sub-keys, set members, minima and maxima, and the bytes that break ties
// between records.
//
// It promises, for values of one type (and of types of one column Repr):
//
//  1. Order: bytes.Compare of two encodings is the order of the values; NULL
//     sorts first, NaN last among floats, false before true, a list or struct
//     that is a prefix of another before it.
//  2. Canonicity: equal values have equal bytes and different values different
//     ones. There is one zero and one NaN; a float is its double; decimals are
//     free of scale, so 1.0 and 1.00 are one value; int32 and int64 agree.
//  3. Composition: no encoding is a proper prefix of another, so encodings
//     concatenate into composite keys whose order is that of the parts.
//  4. Reversal: Decode returns the value and refuses every byte string that
//     Append would not have written.
//
// It holds no state, and errors come from hostile or foreign bytes alone. The
// format is fixed: golden vectors in testdata hold it, and Version changes with
// it.
//
//	0x00                    end of a list or struct
//	0x01                    NULL
//	0x02, 0x03              false, true
//	0x10 + 8 B              float: sign-flipped big-endian IEEE 754 double
//	0x30±n + n B            integer: n magnitude bytes, complemented if negative
//	0x40, 0x41, 0x42        decimal: negative, zero, positive; then the exponent
//	                        of the leading base-100 pair as an integer, each pair
//	                        plus one, 0x00 (all complemented if negative)
//	0x50, 0x51              string, bytes: 0x00 as 0x00 0xff, then 0x00 0x01
//	0x60, 0x61              date in days, time in nanoseconds: an integer
//	0x62                    timestamp: UTC seconds as an integer, 4 B nanoseconds
//	0x70, 0x71              list, struct: the parts, then 0x00
//
// It is of the family of FoundationDB's tuple layer and SQLite4's key encoding.
package tuple

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// Version is the version of the format. It is part of every type id and run
// header that holds encoded values.
const Version = 1

const (
	tagEnd       = 0x00
	tagNull      = 0x01
	tagFalse     = 0x02
	tagTrue      = 0x03
	tagFloat     = 0x10
	tagInt       = 0x30
	tagDecNeg    = 0x40
	tagDecZero   = 0x41
	tagDecPos    = 0x42
	tagString    = 0x50
	tagBytes     = 0x51
	tagDate      = 0x60
	tagTime      = 0x61
	tagTimestamp = 0x62
	tagList      = 0x70
	tagStruct    = 0x71

	escape     = 0xff
	terminator = 0x01
)

// Append appends the encoding of row i of v to dst and returns the result.
func Append(dst []byte, v *column.Vector, i int) []byte {
	if v.Null(i) {
		return append(dst, tagNull)
	}
	switch v.Type.Kind {
	case column.Bool:
		if v.Bools[i] {
			return append(dst, tagTrue)
		}
		return append(dst, tagFalse)
	case column.Int32, column.Int64:
		return AppendInt(dst, v.Ints[i])
	case column.Float32, column.Float64:
		return AppendFloat(dst, v.Floats[i])
	case column.Decimal:
		return AppendDecimal(dst, v.Decimals[i], int(v.Type.Scale))
	case column.String:
		return AppendString(dst, v.Strings[i])
	case column.Bytes:
		return appendEscaped(append(dst, tagBytes), v.Strings[i])
	case column.Date:
		return AppendDate(dst, v.Ints[i])
	case column.Time:
		return AppendTime(dst, v.Ints[i])
	case column.Timestamp:
		return AppendTimestamp(dst, v.Ints[i], v.Nanos[i])
	case column.List:
		dst = append(dst, tagList)
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			dst = Append(dst, v.Elem, int(j))
		}
		return append(dst, tagEnd)
	case column.Struct:
		dst = append(dst, tagStruct)
		for _, f := range v.Fields {
			dst = Append(dst, f, i)
		}
		return append(dst, tagEnd)
	}
	return append(dst, tagNull)
}

// AppendNull appends a NULL.
func AppendNull(dst []byte) []byte { return append(dst, tagNull) }

// AppendBool appends a bool.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, tagTrue)
	}
	return append(dst, tagFalse)
}

// AppendInt appends an integer.
func AppendInt(dst []byte, x int64) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	return dst[:at+putInt(dst[at:], x)]
}

// putInt writes an integer to the front of b, which has room for nine bytes, and
// returns its length. All nine are written, of which the first stay.
func putInt(b []byte, x int64) int {
	neg := uint64(x >> 63)
	mag := (uint64(x) ^ neg) - neg
	n := (bits.Len64(mag) + 7) / 8
	_ = b[8]
	b[0] = byte(tagInt + (n ^ int(neg)) - int(neg))
	binary.BigEndian.PutUint64(b[1:], (mag^neg)<<(64-8*n))
	return 1 + n
}

// AppendDate appends a date in days since 1970-01-01.
func AppendDate(dst []byte, days int64) []byte { return AppendInt(append(dst, tagDate), days) }

// AppendTime appends a time of day in nanoseconds.
func AppendTime(dst []byte, nanos int64) []byte { return AppendInt(append(dst, tagTime), nanos) }

// AppendFloat appends a float: every NaN as one, −0 as +0.
func AppendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tagFloat), orderedBits(f))
}

const (
	canonicalNaN = 0x7ff8000000000000
	signBit      = 1 << 63
)

func orderedBits(f float64) uint64 {
	b := math.Float64bits(f)
	switch {
	case f != f:
		b = canonicalNaN
	case f == 0:
		b = 0
	}
	if b&signBit != 0 {
		return ^b
	}
	return b | signBit
}

// AppendString appends a string.
func AppendString(dst []byte, s string) []byte {
	return appendEscaped(append(dst, tagString), s)
}

// AppendTimestamp appends a UTC instant; nanos is 0..999,999,999.
func AppendTimestamp(dst []byte, seconds int64, nanos int32) []byte {
	dst = AppendInt(append(dst, tagTimestamp), seconds)
	return binary.BigEndian.AppendUint32(dst, uint32(nanos))
}

func appendEscaped(dst []byte, s string) []byte {
	for i := strings.IndexByte(s, 0); i >= 0; i = strings.IndexByte(s, 0) {
		dst = append(dst, s[:i]...)
		dst = append(dst, 0, escape)
		s = s[i+1:]
	}
	dst = append(dst, s...)
	return append(dst, 0, terminator)
}
