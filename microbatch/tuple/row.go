package tuple

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// roomOfWord is what the encoding of a value other than a text, a list or a
// struct takes at most, and what is written of it beyond its end.
const roomOfWord = 48

// AppendRow appends row i of each column in turn: a composite key. It is Append
// for each of them, with the common types written in place.
func AppendRow(dst []byte, columns []*column.Vector, i int) []byte {
	dst, _, _ = AppendMarked(dst, columns, i, -1)
	return dst
}

// AppendMarked is AppendRow that says besides where in out the value of
// columns[mark] begins and ends; of no such column from and to are equal.
func AppendMarked(dst []byte, columns []*column.Vector, i, mark int) (out []byte, from, to int) {
	if mark < 0 {
		mark = len(columns)
	}
	for j, v := range columns {
		switch j {
		case mark:
			from = len(dst)
		case mark + 1:
			to = len(dst)
		}
		if v.Null(i) {
			dst = append(dst, tagNull)
			continue
		}
		n := len(dst)
		if cap(dst)-n < roomOfWord {
			dst = slices.Grow(dst, roomOfWord)
		}
		b := dst[n : n+roomOfWord]
		switch v.Type.Kind {
		case column.Int32, column.Int64:
			dst = dst[:n+putInt(b, v.Ints[i])]
		case column.Timestamp:
			b[0] = tagTimestamp
			k := 1 + putInt(b[1:], v.Ints[i])
			binary.BigEndian.PutUint32(b[k:], uint32(v.Nanos[i]))
			dst = dst[:n+k+4]
		case column.Float32, column.Float64:
			b[0] = tagFloat
			binary.BigEndian.PutUint64(b[1:], orderedBits(v.Floats[i]))
			dst = dst[:n+9]
		case column.Decimal:
			if k := putDecimal(b, v.Decimals[i], int(v.Type.Scale)); k > 0 {
				dst = dst[:n+k]
				continue
			}
			dst = appendLongDecimal(dst, v.Decimals[i], int(v.Type.Scale))
		case column.String:
			s := v.Strings[i]
			if strings.IndexByte(s, 0) >= 0 {
				dst = AppendString(dst, s)
				continue
			}
			b[0] = tagString
			dst = append(append(dst[:n+1], s...), 0, terminator)
		case column.Bool:
			b[0] = tagFalse
			if v.Bools[i] {
				b[0] = tagTrue
			}
			dst = dst[:n+1]
		default:
			dst = Append(dst, v, i)
		}
	}
	if mark == len(columns)-1 {
		to = len(dst)
	}
	return dst, from, to
}
