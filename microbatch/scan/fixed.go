package scan

import (
	"encoding/binary"
	"errors"

	"github.com/deltad/deltad/microbatch/column"
)

// Values of a fixed length that are numbers: decimals that are not stored as
// integers, big-endian two's complement, and INT96.

// decimalOf reads big-endian two's complement of any length.
func decimalOf(s string) (column.Int128, error) {
	if len(s) == 0 {
		return column.Int128{}, errors.New("decimal of no bytes")
	}
	fill := byte(int8(s[0]) >> 7)
	for len(s) > 16 {
		if s[0] != fill || (s[1]^fill)&0x80 != 0 {
			return column.Int128{}, errors.New("decimal beyond 128 bits")
		}
		s = s[1:]
	}
	var b [16]byte
	for i := range 16 - len(s) {
		b[i] = fill
	}
	copy(b[16-len(s):], s)
	return column.Int128{Hi: int64(binary.BigEndian.Uint64(b[:8])), Lo: binary.BigEndian.Uint64(b[8:])}, nil
}

// decimals is strings and decimalOf in one, for values of up to 16 bytes: whole
// words are read that end where a value ends, and what is of the value before is
// shifted out.
func (p *plainFixed) decimals(dst []column.Int128) error {
	if len(p.b)/p.size < len(dst) {
		return errShort
	}
	b, i, end := p.b, 0, p.size
	for ; i < len(dst) && end < 16; i, end = i+1, end+p.size { // nothing is before the first
		d, err := decimalOf(share(b[end-p.size : end]))
		if err != nil {
			return &wrongValue{i, err}
		}
		dst[i] = d
	}
	if p.size <= 8 {
		over := uint(8 * (8 - p.size) & 63)
		for ; i < len(dst); i, end = i+1, end+p.size {
			dst[i] = column.Int128From(int64(binary.BigEndian.Uint64(b[end-8:])<<over) >> over)
		}
	} else {
		over := uint(8 * (16 - p.size) & 63)
		for ; i < len(dst); i, end = i+1, end+p.size {
			two := (*[16]byte)(b[end-16:])
			hi := int64(binary.BigEndian.Uint64(two[:8])<<over) >> over
			dst[i] = column.Int128{Hi: hi, Lo: binary.BigEndian.Uint64(two[8:])}
		}
	}
	p.b = b[len(dst)*p.size:]
	return nil
}

// julianEpoch is the Julian day of 1970-01-01.
const julianEpoch = 2440588

// instantOf reads an INT96: nanoseconds of the day, then the Julian day. Both
// parts are kept whole, so no year is too far.
func instantOf(b []byte) (sec int64, nanos int32) {
	_ = b[11]
	n := int64(binary.LittleEndian.Uint64(b))
	day := int64(int32(binary.LittleEndian.Uint32(b[8:])))
	whole, part := n/1e9, n%1e9
	if part < 0 {
		whole, part = whole-1, part+1e9
	}
	return (day-julianEpoch)*86400 + whole, int32(part)
}

// instants is strings and instantOf in one.
func (p *plainFixed) instants(seconds []int64, nanos []int32) error {
	if len(p.b)/12 < len(seconds) {
		return errShort
	}
	nanos = nanos[:len(seconds)]
	for i := range seconds {
		seconds[i], nanos[i] = instantOf(p.b[12*i:])
	}
	p.b = p.b[12*len(seconds):]
	return nil
}
