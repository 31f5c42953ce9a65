package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// The defaults of bloom.
const (
	DefaultExpected = 1000
	DefaultFPP      = 0.01
)

// bloomFn makes a Bloom filter of the non-null values, as Apache DataSketches
// reads it: fpp of other values are taken for members once there are expected
// values, no member for another value. It has as many hashes as halvings lead
// from 1 to fpp or below, and 1/ln 2 bits for each hash and expected value, in
// whole words: no logarithm is taken. Bits only get set: a semilattice.
//
// It extracts the filter's image. Its accumulator is a byte 1 and the set bits
// ascending, the first as a uvarint and the others as their distance from the
// one before less one, or a byte 2 and all bits in words little-endian: the
// shorter of the two, and the former where they are equal.
type bloomFn struct {
	base
	hashes int
	words  int
}

const (
	bloomListed = 1
	bloomWhole  = 2
)

func buildBloom(p Params, args []column.Type) (Fn, error) {
	expected, err := intOption(p, "expected", DefaultExpected, 1, 10_000_000)
	if err != nil {
		return nil, err
	}
	fpp := DefaultFPP
	if v, ok := p.Options["fpp"]; ok {
		if fpp, err = number(v); err != nil {
			return nil, fmt.Errorf("option fpp: %w", err)
		}
	}
	if !(fpp >= 1e-9 && fpp <= 0.5) {
		return nil, fmt.Errorf("option fpp: want 0.000000001 to 0.5, got %v", fpp)
	}
	hashes := 0
	for p := 1.0; p > fpp; p = float64(p / 2) {
		hashes++
	}
	const perHash = 1_442_695_041 // 10^9/ln 2, rounded up
	words := (expected*int64(hashes)*perHash/1_000_000_000)/64 + 1
	b := base{
		id:    typeID("bloom", repr(args[0]), fmt.Sprintf("hashes=%d", hashes), fmt.Sprintf("bits=%d", 64*words), "hash=xxh64/9001"),
		class: Semilattice, args: args, out: column.Of(column.Bytes),
	}
	return &bloomFn{base: b, hashes: hashes, words: int(words)}, nil
}

func (f *bloomFn) NewColumn() Column { return &bloomColumn{fn: f} }

func (f *bloomFn) Validate(acc []byte) error { return f.parse(acc, nil, nil) }

// parse calls set for each listed bit, or whole with all words.
func (f *bloomFn) parse(acc []byte, set func(bit uint32), whole func(words []byte)) error {
	if len(acc) == 0 {
		return nil
	}
	var err error
	switch acc[0] {
	case bloomListed:
		if len(acc) > 1+8*f.words {
			err = errors.New("a list is longer than all bits")
		} else if err = f.parseList(acc[1:], nil); err == nil && set != nil {
			err = f.parseList(acc[1:], set)
		}
	case bloomWhole:
		if err = f.checkWhole(acc[1:]); err == nil && whole != nil {
			whole(acc[1:])
		}
	default:
		err = fmt.Errorf("there is no form %d", acc[0])
	}
	if err != nil {
		return fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return nil
}

func (f *bloomFn) parseList(b []byte, set func(bit uint32)) error {
	if len(b) == 0 {
		return errors.New("no bit is set")
	}
	limit, next := uint64(64*f.words), uint64(0)
	for len(b) > 0 {
		gap, rest, err := uvarint(b)
		if err != nil {
			return err
		}
		if next >= limit || gap >= limit-next {
			return errors.New("bit is out of range")
		}
		if set != nil {
			set(uint32(next + gap))
		}
		next, b = next+gap+1, rest
	}
	return nil
}

func (f *bloomFn) checkWhole(b []byte) error {
	if len(b) != 8*f.words {
		return fmt.Errorf("%d bytes of bits, want %d", len(b), 8*f.words)
	}
	size, next := 0, 0
	for i := 0; i < len(b); i += 8 {
		for w := binary.LittleEndian.Uint64(b[i:]); w != 0; w &= w - 1 {
			at := 8*i + bits.TrailingZeros64(w)
			size += uvarintSize(uint64(at - next))
			next = at + 1
		}
		if size > len(b) {
			return nil
		}
	}
	return errors.New("a list would not be longer")
}

func uvarintSize(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

// bloomColumn lists bits, plus one, in tables until the words take no more
// memory. Neither shows in the accumulator.
type bloomColumn struct {
	fn     *bloomFn
	listed sets[uint32]
	slab   []uint32 // of each group: its words plus one, 0 while it has a list
	slabs  [][]uint64
	used   int
	hash   hasher
	list   []uint32
	// scratch are the words of a list while they are written.
	scratch []uint64
}

func (c *bloomColumn) Len() int   { return len(c.slab) }
func (c *bloomColumn) Grow(n int) { c.listed.Grow(n); c.slab = grow(c.slab, n) }

func (c *bloomColumn) Reset() {
	c.listed.Reset()
	c.slab, c.used = c.slab[:0], 0
}

func (c *bloomColumn) Bytes() int64 {
	return c.listed.held(4) + int64(4*(cap(c.listed.n)+cap(c.slab)+cap(c.list))+24*cap(c.slabs)+8*(c.fn.words*len(c.slabs)+cap(c.scratch))+cap(c.hash.buf))
}

// words returns g's words, nil while it has a list.
func (c *bloomColumn) words(g uint32) []uint64 {
	if c.slab[g] == 0 {
		return nil
	}
	return c.slabs[c.slab[g]-1]
}

func (c *bloomColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg, size := in.Args[0], uint64(64*c.fn.words)
	inverse := math.MaxUint64 / size
	for _, i := range in.Rows {
		if arg.Null(int(i)) {
			continue
		}
		h, step := c.hash.xx(arg, int(i))
		for range c.fn.hashes {
			h += step
			// What is left of h/2 after division by size: the quotient by the
			// inverse is at most one too small.
			q, _ := bits.Mul64(h>>1, inverse)
			rest := h>>1 - q*size
			if rest >= size {
				rest -= size
			}
			c.set(in.Groups[i], uint32(rest))
		}
	}
	return nil
}

func (c *bloomColumn) set(g, bit uint32) {
	if w := c.words(g); w != nil {
		w[bit/64] |= 1 << (bit % 64)
		return
	}
	// A table takes four to eleven bytes for a bit, the words an eighth.
	if c.listed.put(g, bit+1) && int(c.listed.n[g]) > c.fn.words {
		c.fill(g)
	}
}

// fill turns g's list into words.
func (c *bloomColumn) fill(g uint32) []uint64 {
	if c.used == len(c.slabs) {
		c.slabs = append(c.slabs, make([]uint64, c.fn.words))
	}
	w := c.slabs[c.used]
	c.used++
	c.slab[g] = uint32(c.used)
	c.spread(w, g)
	c.listed.empty(g)
	return w
}

// spread sets the bits of g's list in w and clears all others.
func (c *bloomColumn) spread(w []uint64, g uint32) {
	clear(w)
	for _, x := range c.listed.get(g) {
		if x != 0 {
			w[(x-1)/64] |= 1 << ((x - 1) % 64)
		}
	}
}

func (c *bloomColumn) Merge(g uint32, acc []byte) error {
	return c.fn.parse(acc, func(bit uint32) { c.set(g, bit) }, func(b []byte) {
		w := c.words(g)
		if w == nil {
			w = c.fill(g)
		}
		for i := range w {
			w[i] |= binary.LittleEndian.Uint64(b[8*i:])
		}
	})
}

// ascending returns g's bits in order, valid until the next call; none if a
// list of them would be longer than all bits.
func (c *bloomColumn) ascending(g uint32) []uint32 {
	c.list = c.list[:0]
	w := c.words(g)
	if w == nil {
		c.list = c.listed.list(c.list, g)
		slices.Sort(c.list)
		for i := range c.list {
			c.list[i]--
		}
		return c.list
	}
	for i, x := range w {
		for ; x != 0; x &= x - 1 {
			c.list = append(c.list, uint32(64*i+bits.TrailingZeros64(x)))
		}
		if len(c.list) > 8*c.fn.words {
			return nil
		}
	}
	return c.list
}

func (c *bloomColumn) AppendAcc(dst []byte, g uint32) []byte {
	w := c.words(g)
	if w == nil && c.listed.n[g] == 0 {
		return dst
	}
	start, next := len(dst), uint32(0)
	dst = append(dst, bloomListed)
	list := c.ascending(g)
	for _, bit := range list {
		dst = binary.AppendUvarint(dst, uint64(bit-next))
		next = bit + 1
	}
	if list != nil && len(dst)-start <= 1+8*c.fn.words {
		return dst
	}
	if w == nil {
		w = c.fill(g)
	}
	dst = append(dst[:start], bloomWhole)
	for _, x := range w {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return dst
}

// Extract appends the image of DataSketches: four words of preamble, with the
// number of hashes, the seed, the number of words and that of bits set, then
// the words.
func (c *bloomColumn) Extract(g uint32, dst *column.Vector) error {
	w := c.words(g)
	if w == nil {
		if c.listed.n[g] == 0 {
			dst.AppendNull()
			return nil
		}
		c.scratch = grow(c.scratch, c.fn.words)
		w = c.scratch
		c.spread(w, g)
	}
	const version, family = 1, 21
	b := make([]byte, 32, 32+8*len(w))
	copy(b, []byte{4, version, family, 0, byte(c.fn.hashes)})
	binary.LittleEndian.PutUint64(b[8:], hashSeed)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(w)))
	set := 0
	for _, x := range w {
		set += bits.OnesCount64(x)
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	binary.LittleEndian.PutUint64(b[24:], uint64(set))
	dst.AppendString(string(b))
	return nil
}
