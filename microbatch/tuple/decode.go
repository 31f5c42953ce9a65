package tuple

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/deltad/deltad/microbatch/column"
)

var errShort = errors.New("value is cut short")

// Decode reads one value from the front of b, appends it to into, whose type
// says what to expect, and returns what follows. It refuses bytes that Append
// would not have written for that type; on error into is unchanged.
func Decode(b []byte, into *column.Vector) (rest []byte, err error) {
	if k := into.Type.Kind; k == column.List || k == column.Struct {
		if _, err := Check(b, &into.Type); err != nil {
			return nil, err
		}
	}
	return decode(b, &into.Type, into)
}

// Check reads one value of the type from the front of b as Decode does, keeps
// nothing and returns what follows.
func Check(b []byte, t *column.Type) (rest []byte, err error) { return decode(b, t, nil) }

// decode serves both: a nil into only checks.
func decode(b []byte, t *column.Type, into *column.Vector) ([]byte, error) {
	if len(b) == 0 {
		return nil, errShort
	}
	tag, rest := b[0], b[1:]
	if tag == tagNull {
		if into != nil {
			into.AppendNull()
		}
		return rest, nil
	}
	switch t.Kind {
	case column.Bool:
		if tag != tagFalse && tag != tagTrue {
			return nil, unexpected(tag, t)
		}
		if into != nil {
			into.AppendBool(tag == tagTrue)
		}
		return rest, nil
	case column.Int32, column.Int64, column.Date, column.Time:
		return decodeInteger(b, t, into)
	case column.Float32, column.Float64:
		return decodeFloat(b, t, into)
	case column.Decimal:
		return decodeDecimalInto(b, t, into)
	case column.String, column.Bytes:
		return decodeText(b, t, into)
	case column.Timestamp:
		return decodeTimestamp(b, t, into)
	case column.List, column.Struct:
		return decodeNested(b, t, into)
	}
	return nil, unexpected(tag, t)
}

func unexpected(tag byte, t *column.Type) error {
	return fmt.Errorf("tag 0x%02x does not begin a value of type %s", tag, t)
}

// decodeInt reads an integer with its tag.
func decodeInt(b []byte) (x int64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, errShort
	}
	n, neg := int(b[0])-tagInt, false
	if n < 0 {
		n, neg = -n, true
	}
	if n > 8 {
		return 0, nil, fmt.Errorf("tag 0x%02x does not begin an integer", b[0])
	}
	if len(b) < 1+n {
		return 0, nil, errShort
	}
	var mag uint64
	for _, c := range b[1 : 1+n] {
		if neg {
			c = ^c
		}
		mag = mag<<8 | uint64(c)
	}
	rest = b[1+n:]
	if n > 0 && mag>>(8*(n-1)) == 0 {
		return 0, nil, errors.New("integer is not of minimal length")
	}
	switch {
	case !neg && mag <= math.MaxInt64:
		return int64(mag), rest, nil
	case neg && mag <= 1<<63:
		return -int64(mag), rest, nil
	}
	return 0, nil, errors.New("integer does not fit int64")
}

func decodeInteger(b []byte, t *column.Type, into *column.Vector) ([]byte, error) {
	switch {
	case t.Kind == column.Date && b[0] == tagDate, t.Kind == column.Time && b[0] == tagTime:
		b = b[1:]
	case !t.IsInt():
		return nil, unexpected(b[0], t)
	}
	x, rest, err := decodeInt(b)
	if err != nil {
		return nil, err
	}
	if t.Kind == column.Int32 && x != int64(int32(x)) {
		return nil, fmt.Errorf("%d does not fit int32", x)
	}
	if into != nil {
		into.AppendInt(x)
	}
	return rest, nil
}

func decodeFloat(b []byte, t *column.Type, into *column.Vector) ([]byte, error) {
	if b[0] != tagFloat {
		return nil, unexpected(b[0], t)
	}
	if len(b) < 9 {
		return nil, errShort
	}
	u := binary.BigEndian.Uint64(b[1:])
	if u&signBit != 0 {
		u &^= signBit
	} else {
		u = ^u
	}
	f := math.Float64frombits(u)
	if f != f && u != canonicalNaN || f == 0 && u != 0 {
		return nil, fmt.Errorf("float bits 0x%016x are not canonical", u)
	}
	if t.Kind == column.Float32 && f == f && float64(float32(f)) != f {
		return nil, fmt.Errorf("%v does not fit float", f)
	}
	if into != nil {
		into.AppendFloat(f)
	}
	return b[9:], nil
}

func decodeDecimalInto(b []byte, t *column.Type, into *column.Vector) ([]byte, error) {
	var d column.Int128
	rest, err := b[1:], error(nil)
	switch b[0] {
	case tagDecZero:
	case tagDecNeg, tagDecPos:
		if d, rest, err = decodeDecimal(b[1:], b[0] == tagDecNeg, *t); err != nil {
			return nil, err
		}
	default:
		return nil, unexpected(b[0], t)
	}
	if into != nil {
		into.AppendDecimal(d)
	}
	return rest, nil
}

func decodeText(b []byte, t *column.Type, into *column.Vector) ([]byte, error) {
	want := byte(tagString)
	if t.Kind == column.Bytes {
		want = tagBytes
	}
	if b[0] != want {
		return nil, unexpected(b[0], t)
	}
	escapes, n, err := textLen(b[1:])
	if err != nil {
		return nil, err
	}
	body, rest := b[1:1+n], b[1+n+2:]
	if t.Kind == column.String && !validEscaped(body) {
		return nil, errors.New("string is not valid UTF-8")
	}
	if into != nil {
		if escapes > 0 {
			body = bytes.ReplaceAll(body, []byte{0, escape}, []byte{0})
		}
		into.AppendString(string(body))
	}
	return rest, nil
}

// validEscaped says whether the text is UTF-8 once its escapes are undone: no
// code point has a zero byte within, so the parts between zeros decide.
func validEscaped(b []byte) bool {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return utf8.Valid(b)
		}
		if !utf8.Valid(b[:i]) {
			return false
		}
		b = b[i+2:]
	}
}

// textLen returns the length of an escaped text before its terminator.
func textLen(b []byte) (escapes, n int, err error) {
	for {
		i := bytes.IndexByte(b[n:], 0)
		if i < 0 || n+i+1 >= len(b) {
			return 0, 0, errShort
		}
		n += i
		switch b[n+1] {
		case terminator:
			return escapes, n, nil
		case escape:
			escapes, n = escapes+1, n+2
		default:
			return 0, 0, fmt.Errorf("0x00 0x%02x in a text is no escape", b[n+1])
		}
	}
}

func decodeTimestamp(b []byte, t *column.Type, into *column.Vector) ([]byte, error) {
	if b[0] != tagTimestamp {
		return nil, unexpected(b[0], t)
	}
	seconds, rest, err := decodeInt(b[1:])
	if err != nil {
		return nil, err
	}
	if len(rest) < 4 {
		return nil, errShort
	}
	nanos := binary.BigEndian.Uint32(rest)
	if nanos > 999_999_999 {
		return nil, fmt.Errorf("%d nanoseconds are over one second", nanos)
	}
	if into != nil {
		into.AppendTimestamp(seconds, int32(nanos))
	}
	return rest[4:], nil
}

func decodeNested(b []byte, t *column.Type, into *column.Vector) ([]byte, error) {
	want := byte(tagList)
	if t.Kind == column.Struct {
		want = tagStruct
	}
	if b[0] != want {
		return nil, unexpected(b[0], t)
	}
	var err error
	b = b[1:]
	if t.Kind == column.List {
		var elem *column.Vector
		if into != nil {
			elem = into.Elem
		}
		for len(b) > 0 && b[0] != tagEnd {
			if b, err = decode(b, t.Elem, elem); err != nil {
				return nil, fmt.Errorf("list element: %w", err)
			}
		}
	} else {
		for j := range t.Fields {
			var field *column.Vector
			if into != nil {
				field = into.Fields[j]
			}
			if b, err = decode(b, &t.Fields[j].Type, field); err != nil {
				return nil, fmt.Errorf("field %s: %w", t.Fields[j].Name, err)
			}
		}
	}
	switch {
	case len(b) == 0:
		return nil, errShort
	case b[0] != tagEnd:
		return nil, fmt.Errorf("tag 0x%02x where %s ends", b[0], t)
	case into == nil:
	case t.Kind == column.List:
		into.EndList()
	default:
		into.EndStruct()
	}
	return b[1:], nil
}

// IsNull says whether the value at the front of b is NULL.
func IsNull(b []byte) bool { return len(b) > 0 && b[0] == tagNull }

// IsTrue says whether the value at the front of b is the bool true.
func IsTrue(b []byte) bool { return len(b) > 0 && b[0] == tagTrue }

// IsBool says whether the value at the front of b is a bool.
func IsBool(b []byte) bool { return len(b) > 0 && (b[0] == tagTrue || b[0] == tagFalse) }

// Skip returns what follows the one value at the front of b, of whatever type.
// It refuses what is not the encoding of a value of some type.
func Skip(b []byte) (rest []byte, err error) {
	for depth := 0; ; {
		if len(b) == 0 {
			return nil, errShort
		}
		tag := b[0]
		switch tag {
		case tagEnd:
			if depth == 0 {
				return nil, errors.New("tag 0x00 ends nothing")
			}
			depth, b = depth-1, b[1:]
		case tagList, tagStruct:
			depth, b = depth+1, b[1:]
		default:
			if b, err = skipScalar(b); err != nil {
				return nil, err
			}
		}
		if depth == 0 {
			return b, nil
		}
	}
}

func skipScalar(b []byte) ([]byte, error) {
	switch tag := b[0]; tag {
	case tagNull, tagFalse, tagTrue, tagDecZero:
		return b[1:], nil
	case tagFloat:
		return decodeFloat(b, &column.Type{Kind: column.Float64}, nil)
	case tagDecNeg, tagDecPos:
		_, _, _, rest, err := decimalParts(b[1:], tag == tagDecNeg)
		return rest, err
	case tagString:
		return decodeText(b, &column.Type{Kind: column.String}, nil)
	case tagBytes:
		return decodeText(b, &column.Type{Kind: column.Bytes}, nil)
	case tagDate, tagTime:
		_, rest, err := decodeInt(b[1:])
		return rest, err
	case tagTimestamp:
		return decodeTimestamp(b, &column.Type{Kind: column.Timestamp}, nil)
	}
	_, rest, err := decodeInt(b)
	return rest, err
}
