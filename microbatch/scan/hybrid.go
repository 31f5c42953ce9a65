package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var (
	errShort = errors.New("the page ends early")
	errRun   = errors.New("malformed run")
)

// hybrid decodes Parquet's mix of run-length and bit-packed runs, as many
// values at a time as the caller asks for: a run of two billion values costs
// nothing until it is read.
type hybrid struct {
	in    []byte
	width uint // bits, at most 32

	left   int    // values of the current run
	packed bool   // the run is bit-packed
	value  uint32 // of a run-length run
	bits   []byte // of a bit-packed run
	bit    int    // next bit in bits
}

func newHybrid(in []byte, width uint) hybrid { return hybrid{in: in, width: width} }

// prefixed returns a decoder of runs behind their length in four bytes, and
// what follows them.
func prefixed(in []byte, width uint) (hybrid, []byte, error) {
	if len(in) < 4 {
		return hybrid{}, nil, errShort
	}
	n := binary.LittleEndian.Uint32(in)
	in = in[4:]
	if uint64(n) > uint64(len(in)) {
		return hybrid{}, nil, errShort
	}
	return newHybrid(in[:n], width), in[n:], nil
}

// start reads the header of the next run.
func (h *hybrid) start() error {
	if len(h.in) == 0 {
		return errShort
	}
	head, n := uint64(h.in[0]), 1
	if head >= 0x80 {
		if head, n = binary.Uvarint(h.in); n <= 0 {
			return errShort
		}
	}
	h.in = h.in[n:]
	count := head >> 1
	if head&1 == 1 {
		if count > 1<<28 {
			return errRun
		}
		size := min(count*uint64(h.width), uint64(len(h.in))) // the last run may be cut
		h.bits, h.in = h.in[:size], h.in[size:]
		h.left, h.packed, h.bit = int(count)*8, true, 0
		if h.width > 0 {
			h.left = min(h.left, int(size)*8/int(h.width))
		}
		return nil
	}
	if count > 1<<31 {
		return errRun
	}
	bytes := int(h.width+7) / 8
	if len(h.in) < bytes {
		return errShort
	}
	h.value = 0
	for i := range bytes {
		h.value |= uint32(h.in[i]) << (8 * i)
	}
	if h.width < 32 && h.value>>h.width != 0 {
		return errRun
	}
	h.in = h.in[bytes:]
	h.left, h.packed = int(count), false
	return nil
}

// unpack fills dst from the current bit-packed run, eight values at a time where
// they are narrow: those start at a byte. A word may reach beyond the run, into
// what is behind it in memory: of that nothing gets into a value.
func (h *hybrid) unpack(dst []uint32) {
	if w := h.width & 63; w > 0 && w <= 16 && h.bit&7 == 0 {
		at, mask, wide := h.bit>>3, uint32(1)<<w-1, h.bits[:cap(h.bits)]
		for len(dst) >= 8 && at+int(w/2)+8 <= len(wide) {
			out := (*[8]uint32)(dst)
			word := binary.LittleEndian.Uint64(wide[at:])
			four(out[:4], word, w, mask)
			if w <= 8 {
				word >>= 4 * w & 63
			} else {
				word = binary.LittleEndian.Uint64(wide[at+int(w/2):]) >> (w & 1 * 4)
			}
			four(out[4:], word, w, mask)
			dst, at = dst[8:], at+int(w)
		}
		h.bit = at << 3
	}
	h.unpackEach(dst)
}

// four parts the word's lowest values.
func four(out []uint32, word uint64, w uint, mask uint32) {
	_ = out[3]
	out[0] = uint32(word) & mask
	word >>= w & 63
	out[1] = uint32(word) & mask
	word >>= w & 63
	out[2] = uint32(word) & mask
	word >>= w & 63
	out[3] = uint32(word) & mask
}

// unpackEach is unpack value by value.
func (h *hybrid) unpackEach(dst []uint32) {
	mask := uint64(1)<<h.width - 1
	bit := h.bit
	for i := range dst {
		at := bit >> 3
		var word uint64
		if at+8 <= len(h.bits) {
			word = binary.LittleEndian.Uint64(h.bits[at:])
		} else {
			for j := range len(h.bits) - at {
				word |= uint64(h.bits[at+j]) << (8 * j)
			}
		}
		dst[i] = uint32(word >> (bit & 7) & mask)
		bit += int(h.width)
	}
	h.bit = bit
}

// read fills dst.
func (h *hybrid) read(dst []uint32) error {
	for len(dst) > 0 {
		for h.left == 0 {
			if err := h.start(); err != nil {
				return err
			}
		}
		n := min(h.left, len(dst))
		if h.packed {
			h.unpack(dst[:n])
		} else {
			for i := range n {
				dst[i] = h.value
			}
		}
		h.left -= n
		dst = dst[n:]
	}
	return nil
}

// levels decodes definition or repetition levels.
type levels struct {
	h       hybrid
	most    uint8 // 0: there are no levels stored, all are 0
	scratch []uint32
}

// all takes the next n levels if they are the greatest in one run: the values of
// a column without nulls. Else it takes none.
func (l *levels) all(n int) (bool, error) {
	for l.h.left == 0 {
		if err := l.h.start(); err != nil {
			return false, fmt.Errorf("levels: %w", err)
		}
	}
	if l.h.packed || l.h.value != uint32(l.most) || l.h.left < n {
		return false, nil
	}
	l.h.left -= n
	return true, nil
}

// read fills dst.
func (l *levels) read(dst []uint8) error {
	if l.most == 0 {
		clear(dst)
		return nil
	}
	for len(dst) > 0 {
		for l.h.left == 0 {
			if err := l.h.start(); err != nil {
				return fmt.Errorf("levels: %w", err)
			}
		}
		n := min(l.h.left, len(dst))
		if !l.h.packed {
			if l.h.value > uint32(l.most) {
				return fmt.Errorf("level %d above %d", l.h.value, l.most)
			}
			for i := range n {
				dst[i] = uint8(l.h.value)
			}
		} else {
			n = min(n, 1024)
			if cap(l.scratch) < n {
				l.scratch = make([]uint32, 1024)
			}
			s := l.scratch[:n]
			l.h.unpack(s)
			for i, v := range s {
				if v > uint32(l.most) {
					return fmt.Errorf("level %d above %d", v, l.most)
				}
				dst[i] = uint8(v)
			}
		}
		l.h.left -= n
		dst = dst[n:]
	}
	return nil
}
