package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// deltaInts is DELTA_BINARY_PACKED.
type deltaInts struct {
	in    []byte
	block int // values of a block
	mini  int // values of a miniblock
	total int // values not read yet
	last  int64
	first bool // last is the next value
	wide  bool // INT64; else values wrap at 32 bits

	least  int64   // of the block
	widths []byte  // of the block's miniblocks not begun yet
	deltas []int64 // of the current miniblock, not used yet
	buf    []int64
}

// maxDeltaBlock bounds the values of a block; writers use 128 or 256.
const maxDeltaBlock = 1 << 16

func newDeltaInts(in []byte, wide bool) (*deltaInts, error) {
	d := &deltaInts{in: in, wide: wide, first: true}
	block, minis, total := d.uvarint(), d.uvarint(), d.uvarint()
	first := d.uvarint()
	if d.in == nil {
		return nil, errShort
	}
	if block == 0 || block > maxDeltaBlock || block%128 != 0 || minis == 0 || block%minis != 0 || block/minis%32 != 0 || total > 1<<31 {
		return nil, fmt.Errorf("delta block of %d values in %d miniblocks, %d in total", block, minis, total)
	}
	d.block, d.mini, d.total = int(block), int(block/minis), int(total)
	if d.last = int64(first>>1) ^ -int64(first&1); !wide {
		d.last = int64(int32(d.last))
	}
	return d, nil
}

// uvarint reads; at an early end it leaves d.in nil.
func (d *deltaInts) uvarint() uint64 {
	v, n := binary.Uvarint(d.in)
	if n <= 0 {
		d.in = nil
		return 0
	}
	d.in = d.in[n:]
	return v
}

// miniblock returns the width and bytes of the next miniblock.
func (d *deltaInts) miniblock() (width uint, body []byte, err error) {
	if len(d.widths) == 0 {
		u := d.uvarint()
		minis := d.block / d.mini
		if d.in == nil || len(d.in) < minis {
			return 0, nil, errShort
		}
		d.least = int64(u>>1) ^ -int64(u&1)
		d.widths, d.in = d.in[:minis], d.in[minis:]
	}
	width = uint(d.widths[0])
	d.widths = d.widths[1:]
	size := d.mini / 8 * int(width)
	if width > 64 || size > len(d.in) {
		return 0, nil, errShort
	}
	body, d.in = d.in[:size], d.in[size:]
	return width, body, nil
}

func (d *deltaInts) ints(dst []int64) error {
	if d.total < len(dst) {
		return errShort
	}
	d.total -= len(dst)
	if d.first && len(dst) > 0 {
		dst[0], d.first = d.last, false
		dst = dst[1:]
	}
	for len(dst) > 0 {
		if len(d.deltas) == 0 {
			if err := d.load(); err != nil {
				return err
			}
		}
		n := min(len(dst), len(d.deltas))
		for i, x := range d.deltas[:n] {
			d.last += d.least + x
			if !d.wide {
				d.last = int64(int32(d.last))
			}
			dst[i] = d.last
		}
		d.deltas, dst = d.deltas[n:], dst[n:]
	}
	return nil
}

func (d *deltaInts) load() error {
	width, body, err := d.miniblock()
	if err != nil {
		return err
	}
	if d.buf == nil {
		d.buf = make([]int64, d.mini)
	}
	d.deltas = d.buf
	unpack64(d.deltas, body, width)
	return nil
}

// unpack64 unpacks values of up to 64 bits.
func unpack64(dst []int64, b []byte, width uint) {
	if width == 0 {
		clear(dst)
		return
	}
	mask := ^uint64(0) >> (64 - width)
	bit := 0
	for i := range dst {
		at, shift := bit>>3, uint(bit&7)
		var word uint64
		if at+8 <= len(b) {
			word = binary.LittleEndian.Uint64(b[at:])
		} else {
			for j := range len(b) - at {
				word |= uint64(b[at+j]) << (8 * j)
			}
		}
		word >>= shift
		if shift+width > 64 {
			word |= uint64(b[at+8]) << (64 - shift)
		}
		dst[i] = int64(word & mask)
		bit += int(width)
	}
}

// rest passes over all values and returns what follows them.
func (d *deltaInts) rest() ([]byte, error) {
	for left := d.total - 1; left > 0; left -= d.mini {
		if _, _, err := d.miniblock(); err != nil {
			return nil, err
		}
	}
	return d.in, nil
}

// behind returns a decoder of the lengths at the start of in, and what follows
// them. The lengths are read twice, so that they need not be held.
func behind(in []byte) (*deltaInts, []byte, error) {
	ahead, err := newDeltaInts(in, false)
	if err != nil {
		return nil, nil, err
	}
	body, err := ahead.rest()
	if err != nil {
		return nil, nil, err
	}
	d, err := newDeltaInts(in, false)
	return d, body, err
}

// deltaLength is DELTA_LENGTH_BYTE_ARRAY.
type deltaLength struct {
	lengths *deltaInts
	body    []byte
	scratch []int64
}

func newDeltaLength(in []byte) (*deltaLength, error) {
	d, body, err := behind(in)
	return &deltaLength{lengths: d, body: body}, err
}

func (d *deltaLength) strings(dst []string) error {
	if cap(d.scratch) < len(dst) {
		d.scratch = make([]int64, len(dst))
	}
	s := d.scratch[:len(dst)]
	if err := d.lengths.ints(s); err != nil {
		return err
	}
	for i, n := range s {
		if n < 0 || n > int64(len(d.body)) {
			return errShort
		}
		dst[i] = share(d.body[:n])
		d.body = d.body[n:]
	}
	return nil
}

// deltaBytes is DELTA_BYTE_ARRAY: each value shares a prefix with the one
// before it.
type deltaBytes struct {
	prefixes *deltaInts
	suffixes *deltaLength
	last     string
	budget   int // bytes that values of the page may still take
	scratch  []int64
}

var errGrows = errors.New("values take more than the page limit")

func newDeltaBytes(in []byte, limit int) (*deltaBytes, error) {
	p, body, err := behind(in)
	if err != nil {
		return nil, err
	}
	s, err := newDeltaLength(body)
	return &deltaBytes{prefixes: p, suffixes: s, budget: limit}, err
}

func (d *deltaBytes) strings(dst []string) error {
	if cap(d.scratch) < len(dst) {
		d.scratch = make([]int64, len(dst))
	}
	s := d.scratch[:len(dst)]
	if err := d.prefixes.ints(s); err != nil {
		return err
	}
	if err := d.suffixes.strings(dst); err != nil {
		return err
	}
	for i, n := range s {
		if n < 0 || n > int64(len(d.last)) {
			return fmt.Errorf("prefix of %d bytes of a value of %d", n, len(d.last))
		}
		if n > 0 {
			if d.budget -= int(n) + len(dst[i]); d.budget < 0 {
				return errGrows
			}
			dst[i] = d.last[:n] + dst[i]
		}
		d.last = dst[i]
	}
	return nil
}
