package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// The decoders yield stored values, as many as the caller asks for, and never
// look at a byte outside their page. What they hold is bounded by the page,
// not by a count in it.

// intDecoder decodes INT32 (sign-extended) and INT64.
type intDecoder interface{ ints(dst []int64) error }

// floatDecoder decodes FLOAT (widened) and DOUBLE.
type floatDecoder interface{ floats(dst []float64) error }

// stringDecoder decodes BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY and INT96. Its
// strings share the page's memory.
type stringDecoder interface{ strings(dst []string) error }

// boolDecoder decodes BOOLEAN.
type boolDecoder interface{ bools(dst []bool) error }

// share returns a string over memory that is never written again.
func share(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// plain32 and plain64 are PLAIN numbers.
type plain32 struct{ b []byte }
type plain64 struct{ b []byte }

func (p *plain32) ints(dst []int64) error {
	if len(p.b)/4 < len(dst) {
		return errShort
	}
	for i := range dst {
		dst[i] = int64(int32(binary.LittleEndian.Uint32(p.b[4*i:])))
	}
	p.b = p.b[4*len(dst):]
	return nil
}

func (p *plain32) floats(dst []float64) error {
	if len(p.b)/4 < len(dst) {
		return errShort
	}
	for i := range dst {
		dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(p.b[4*i:])))
	}
	p.b = p.b[4*len(dst):]
	return nil
}

func (p *plain64) ints(dst []int64) error {
	if len(p.b)/8 < len(dst) {
		return errShort
	}
	p.b = p.b[words(dst, p.b):]
	return nil
}

func (p *plain64) floats(dst []float64) error {
	if len(p.b)/8 < len(dst) {
		return errShort
	}
	p.b = p.b[words(dst, p.b):]
	return nil
}

// words fills dst with the little-endian words that b starts with, of which it
// has enough, and returns how many bytes they are.
func words[T int64 | float64](dst []T, b []byte) int {
	if len(dst) == 0 {
		return 0
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 8*len(dst))
	copy(raw, b)
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		for i := 0; i < len(raw); i += 8 {
			binary.NativeEndian.PutUint64(raw[i:], binary.LittleEndian.Uint64(raw[i:]))
		}
	}
	return len(raw)
}

// plainBytes is PLAIN BYTE_ARRAY: each value behind its length.
type plainBytes struct{ b []byte }

func (p *plainBytes) strings(dst []string) error {
	b, all := p.b, share(p.b)
	at := 0
	for i := range dst {
		if len(b)-at < 4 {
			return errShort
		}
		n := uint(binary.LittleEndian.Uint32(b[at:]))
		at += 4
		if n > uint(len(b)-at) {
			return errShort
		}
		dst[i] = all[at : at+int(n)]
		at += int(n)
	}
	p.b = b[at:]
	return nil
}

// plainFixed is PLAIN FIXED_LEN_BYTE_ARRAY and INT96.
type plainFixed struct {
	b    []byte
	size int
}

func (p *plainFixed) strings(dst []string) error {
	if len(p.b)/p.size < len(dst) {
		return errShort
	}
	for i := range dst {
		dst[i] = share(p.b[:p.size])
		p.b = p.b[p.size:]
	}
	return nil
}

// plainBools is PLAIN BOOLEAN: a bit a value.
type plainBools struct {
	b   []byte
	bit int
}

func (p *plainBools) bools(dst []bool) error {
	if len(p.b)*8-p.bit < len(dst) {
		return errShort
	}
	for i := range dst {
		dst[i] = p.b[p.bit>>3]>>(p.bit&7)&1 == 1
		p.bit++
	}
	return nil
}

// rleBools is RLE BOOLEAN.
type rleBools struct {
	h       hybrid
	scratch []uint32
}

func (r *rleBools) bools(dst []bool) error {
	if cap(r.scratch) < len(dst) {
		r.scratch = make([]uint32, len(dst))
	}
	s := r.scratch[:len(dst)]
	if err := r.h.read(s); err != nil {
		return err
	}
	for i, v := range s {
		dst[i] = v == 1
	}
	return nil
}

// split is BYTE_STREAM_SPLIT: the first bytes of all values, then the second.
type split struct {
	b     []byte
	size  int
	count int
	at    int
}

func newSplit(b []byte, size int) (*split, error) {
	if len(b)%size != 0 {
		return nil, fmt.Errorf("%d bytes do not split into values of %d", len(b), size)
	}
	return &split{b: b, size: size, count: len(b) / size}, nil
}

func (s *split) word(i int) (u uint64) {
	for j := range s.size {
		u |= uint64(s.b[j*s.count+i]) << (8 * j)
	}
	return u
}

func (s *split) next(n int) (int, error) {
	if s.count-s.at < n {
		return 0, errShort
	}
	s.at += n
	return s.at - n, nil
}

func (s *split) ints(dst []int64) error {
	from, err := s.next(len(dst))
	if err != nil {
		return err
	}
	for i := range dst {
		u := s.word(from + i)
		if s.size == 4 {
			dst[i] = int64(int32(u))
		} else {
			dst[i] = int64(u)
		}
	}
	return nil
}

func (s *split) floats(dst []float64) error {
	from, err := s.next(len(dst))
	if err != nil {
		return err
	}
	for i := range dst {
		u := s.word(from + i)
		if s.size == 4 {
			dst[i] = float64(math.Float32frombits(uint32(u)))
		} else {
			dst[i] = math.Float64frombits(u)
		}
	}
	return nil
}

func (s *split) strings(dst []string) error {
	from, err := s.next(len(dst))
	if err != nil {
		return err
	}
	joined := make([]byte, len(dst)*s.size)
	for i := range dst {
		v := joined[i*s.size : (i+1)*s.size]
		for j := range v {
			v[j] = s.b[j*s.count+from+i]
		}
		dst[i] = share(v)
	}
	return nil
}

// indexes are the values of a page with a dictionary.
type indexes struct {
	h     hybrid
	size  int // of the dictionary
	empty bool
}

// newIndexes reads the page's first byte, the width. A page of nulls alone may
// have no bytes at all.
func newIndexes(b []byte, size int) (*indexes, error) {
	if len(b) == 0 {
		return &indexes{empty: true}, nil
	}
	if b[0] > 32 {
		return nil, fmt.Errorf("dictionary indexes of %d bits", b[0])
	}
	return &indexes{h: newHybrid(b[1:], uint(b[0])), size: size}, nil
}

func (x *indexes) read(dst []uint32) error {
	if x.empty && len(dst) > 0 {
		return errShort
	}
	if err := x.h.read(dst); err != nil {
		return err
	}
	if x.size>>x.h.width != 0 { // no index of so few bits is beyond
		return nil
	}
	most := uint32(0)
	for _, v := range dst {
		most = max(most, v)
	}
	if len(dst) > 0 && int64(most) >= int64(x.size) {
		return fmt.Errorf("index %d in a dictionary of %d", most, x.size)
	}
	return nil
}

var errEncoding = errors.New("encoding does not fit the type")
