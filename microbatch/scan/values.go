package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/deltad/deltad/microbatch/column"
)

// valueSource appends a page's values, nulls not among them, to a vector. Where one
// of them is to blame the error is a *wrongValue.
type valueSource interface {
	appendTo(v *column.Vector, n int) error
}

// wrongValue is a value that its column's type does not hold.
type wrongValue struct {
	at  int // of the values that were asked for
	err error
}

func (w *wrongValue) Error() string { return w.err.Error() }
func (w *wrongValue) Unwrap() error { return w.err }

// work is memory for what appendTo needs until it returns.
type work struct {
	ints    []int64
	strings []string
	codes   []uint32
}

// newSource returns the source of a page's values, which works in w.
func newSource(n *node, lt leafType, encoding int32, b []byte, dict *column.Vector, limit int, w *work) (valueSource, error) {
	if lt.conv == nothing {
		return noValues{}, nil
	}
	if encoding == encDictionary || encoding == encPlainDictionary {
		if dict == nil {
			return nil, errors.New("dictionary indexes without a dictionary")
		}
		x, err := newIndexes(b, dict.Len())
		return &gather{dict: dict, at: x, work: w}, err
	}
	raw, err := newDecoder(n, encoding, b, limit)
	if err != nil {
		return nil, fmt.Errorf("encoding %d: %w", encoding, err)
	}
	switch n.phys {
	case physBoolean:
		return &boolValues{raw: raw.(boolDecoder)}, nil
	case physInt32, physInt64:
		return &intValues{raw: raw.(intDecoder), leafType: lt, work: w}, nil
	case physFloat, physDouble:
		return &floatValues{raw: raw.(floatDecoder)}, nil
	}
	s := &stringValues{raw: raw.(stringDecoder), leafType: lt, work: w}
	s.plain, _ = raw.(*plainBytes)
	return s, nil
}

// newDecoder returns the decoder of the leaf's physical type. Which of the
// decoder interfaces it has follows from that type.
func newDecoder(n *node, encoding int32, b []byte, limit int) (any, error) {
	size := map[int32]int{physInt32: 4, physFloat: 4, physInt64: 8, physDouble: 8, physInt96: 12, physFixed: int(n.length)}[n.phys]
	numeric := n.phys == physInt32 || n.phys == physInt64
	float := n.phys == physFloat || n.phys == physDouble
	if len(b) == 0 { // a page of nulls may lack even the header of its encoding
		encoding = encPlain
	}
	switch {
	case encoding == encPlain && (numeric || float) && size == 4:
		return &plain32{b: b}, nil
	case encoding == encPlain && (numeric || float):
		return &plain64{b: b}, nil
	case encoding == encPlain && n.phys == physBoolean:
		return &plainBools{b: b}, nil
	case encoding == encPlain && n.phys == physBytes:
		return &plainBytes{b: b}, nil
	case encoding == encPlain:
		return &plainFixed{b: b, size: size}, nil
	case encoding == encRLE && n.phys == physBoolean:
		h, _, err := prefixed(b, 1)
		return &rleBools{h: h}, err
	case encoding == encDeltaBinary && numeric:
		return newDeltaInts(b, n.phys == physInt64)
	case encoding == encDeltaLength && n.phys == physBytes:
		return newDeltaLength(b)
	case encoding == encDeltaBytes && n.phys == physBytes:
		return newDeltaBytes(b, limit)
	case encoding == encDeltaBytes && n.phys == physFixed:
		d, err := newDeltaBytes(b, limit)
		return &fixedSize{in: d, size: size}, err
	case encoding == encByteStreamSplit && (numeric || float || n.phys == physFixed):
		return newSplit(b, size)
	}
	return nil, errEncoding
}

// fixedSize checks that values have their type's length.
type fixedSize struct {
	in   stringDecoder
	size int
}

func (f *fixedSize) strings(dst []string) error {
	if err := f.in.strings(dst); err != nil {
		return err
	}
	for _, s := range dst {
		if len(s) != f.size {
			return fmt.Errorf("value of %d bytes where the type has %d", len(s), f.size)
		}
	}
	return nil
}

// added declares n rows that were put into the vector's storage.
func added(v *column.Vector, n int) {
	if v.Valid != nil {
		for range n {
			v.Valid = append(v.Valid, true)
		}
	}
	v.SetLen(v.Len() + n)
}

// more extends a slice by n entries and returns the new part.
func more[T any](s *[]T, n int) []T {
	at := len(*s)
	if cap(*s)-at < n {
		bigger := make([]T, at, max(at+n, 2*cap(*s)))
		copy(bigger, *s)
		*s = bigger
	}
	*s = (*s)[:at+n]
	return (*s)[at:]
}

// fresh returns the slice with n entries of any content.
func fresh[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}

// noValues is the source of a column that has only nulls by its type.
type noValues struct{}

func (noValues) appendTo(_ *column.Vector, n int) error {
	if n > 0 {
		return errors.New("values in a column of type null")
	}
	return nil
}

type boolValues struct{ raw boolDecoder }

func (b *boolValues) appendTo(v *column.Vector, n int) error {
	if err := b.raw.bools(more(&v.Bools, n)); err != nil {
		return err
	}
	added(v, n)
	return nil
}

type floatValues struct{ raw floatDecoder }

func (f *floatValues) appendTo(v *column.Vector, n int) error {
	if err := f.raw.floats(more(&v.Floats, n)); err != nil {
		return err
	}
	added(v, n)
	return nil
}

type intValues struct {
	raw intDecoder
	leafType
	work *work
}

func (s *intValues) appendTo(v *column.Vector, n int) error {
	if s.conv == toDecimal || s.conv == fromUint64 {
		in := fresh(&s.work.ints, n)
		if err := s.raw.ints(in); err != nil {
			return err
		}
		out := more(&v.Decimals, n)
		if s.conv == fromUint64 {
			for i, x := range in {
				out[i] = column.Int128{Lo: uint64(x)}
			}
		} else {
			for i, x := range in {
				out[i] = column.Int128From(x)
			}
		}
		added(v, n)
		return nil
	}
	in := more(&v.Ints, n)
	if err := s.raw.ints(in); err != nil {
		return err
	}
	switch s.conv {
	case fromUint32:
		for i := range in {
			in[i] = int64(uint32(in[i]))
		}
	case toTimeNanos:
		for i := range in {
			if in[i] < 0 || in[i] > 86400*1e9/s.mul {
				return &wrongValue{i, fmt.Errorf("time of day %d is not within a day", in[i])}
			}
			in[i] *= s.mul
		}
	case toInstant:
		instants(in, more(&v.Nanos, n), s.mul)
	}
	added(v, n)
	return nil
}

// instants parts times, of which mul are a second, into seconds, in place, and
// nanoseconds. It divides by constants.
func instants(in []int64, nanos []int32, mul int64) {
	switch mul {
	case 1e3:
		for i, x := range in {
			sec := x / 1e3
			sec += (x - sec*1e3) >> 63
			in[i], nanos[i] = sec, int32((x-sec*1e3)*1e6)
		}
	case 1e6:
		for i, x := range in {
			sec := x / 1e6
			sec += (x - sec*1e6) >> 63
			in[i], nanos[i] = sec, int32((x-sec*1e6)*1e3)
		}
	default:
		for i, x := range in {
			sec := x / 1e9
			sec += (x - sec*1e9) >> 63
			in[i], nanos[i] = sec, int32(x-sec*1e9)
		}
	}
}

type stringValues struct {
	raw stringDecoder
	leafType
	plain *plainBytes // raw, where it is that
	work  *work
}

// isASCII says whether no byte of b is above 127.
func isASCII(b []byte) bool {
	var seen uint64
	for len(b) >= 32 {
		seen |= binary.LittleEndian.Uint64(b) | binary.LittleEndian.Uint64(b[8:]) | binary.LittleEndian.Uint64(b[16:]) | binary.LittleEndian.Uint64(b[24:])
		b = b[32:]
	}
	for _, c := range b {
		seen |= uint64(c)
	}
	return seen&0x8080808080808080 == 0
}

// texts reads values as they are stored. Text is looked at while it is near:
// lengths and values alike first, then each value.
func (s *stringValues) texts(dst []string) error {
	var from []byte
	if s.plain != nil {
		from = s.plain.b
	}
	if err := s.raw.strings(dst); err != nil || s.conv != toText {
		return err
	}
	if s.plain != nil && isASCII(from[:len(from)-len(s.plain.b)]) {
		return nil
	}
	for i, x := range dst {
		if !utf8.ValidString(x) {
			return &wrongValue{i, fmt.Errorf("%.40q is not valid UTF-8", x)}
		}
	}
	return nil
}

func (s *stringValues) appendTo(v *column.Vector, n int) error {
	if s.conv == asIs || s.conv == toText {
		in := more(&v.Strings, n)
		if err := s.texts(in); err != nil {
			return err
		}
		added(v, n)
		return nil
	}
	if p, ok := s.raw.(*plainFixed); ok && (s.conv == fromInt96 || s.conv == toDecimal && p.size <= 16) {
		return s.words(p, v, n)
	}
	in := fresh(&s.work.strings, n)
	if err := s.raw.strings(in); err != nil {
		return err
	}
	for i, x := range in {
		switch s.conv {
		case toDecimal:
			d, err := decimalOf(x)
			if err != nil {
				return &wrongValue{i, err}
			}
			v.AppendDecimal(d)
		case toHalf:
			v.AppendFloat(float64(half(uint16(x[0]) | uint16(x[1])<<8)))
		case toUUID:
			v.AppendString(fmt.Sprintf("%x-%x-%x-%x-%x", x[0:4], x[4:6], x[6:8], x[8:10], x[10:16]))
		}
	}
	return nil
}

// words is appendTo of what plainFixed reads word by word.
func (s *stringValues) words(p *plainFixed, v *column.Vector, n int) error {
	var err error
	if s.conv == fromInt96 {
		err = p.instants(more(&v.Ints, n), more(&v.Nanos, n))
	} else {
		err = p.decimals(more(&v.Decimals, n))
	}
	if err != nil {
		return err
	}
	added(v, n)
	return nil
}

// half widens a float16.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp == 0: // zero or subnormal: frac × 2⁻²⁴ is exact
		f := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// gather is the source of a page of dictionary indexes.
type gather struct {
	dict *column.Vector
	at   *indexes
	work *work
}

func (g *gather) appendTo(v *column.Vector, n int) error {
	at := fresh(&g.work.codes, n)
	if err := g.at.read(at); err != nil {
		return err
	}
	d := g.dict
	if len(v.Codes) == v.Len() && (v.Dict == d || v.Len() == 0) {
		v.Codes, v.Dict = append(v.Codes, at...), d
	}
	switch d.Type.Kind {
	case column.Bool:
		pick(&v.Bools, d.Bools, at)
	case column.Int32, column.Int64, column.Date, column.Time:
		pick(&v.Ints, d.Ints, at)
	case column.Timestamp:
		pick(&v.Ints, d.Ints, at)
		pick(&v.Nanos, d.Nanos, at)
	case column.Float32, column.Float64:
		pick(&v.Floats, d.Floats, at)
	case column.Decimal:
		pick(&v.Decimals, d.Decimals, at)
	default:
		pick(&v.Strings, d.Strings, at)
	}
	added(v, n)
	return nil
}

func pick[T any](dst *[]T, from []T, at []uint32) {
	out := more(dst, len(at))
	for i, x := range at {
		out[i] = from[x]
	}
}
