package combine

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
)

// bitmapFn is the set of the non-null integers as a Roaring bitmap. As with
// sums, accumulators hold any integer and the range is checked in Extract: with
// bits 64 no number is negative, with bits 32 none exceeds 32 bits. It extracts
// the bitmap in the portable 64-bit or 32-bit format, in the one form that this
// package has for a set. Its accumulator is the 64-bit form, negative numbers by
// their two's complement; it does not depend on bits.
type bitmapFn struct {
	base
	narrow bool
}

func buildBitmap(p Params, args []column.Type) (Fn, error) {
	width, err := intOption(p, "bits", 64, 32, 64)
	if err != nil || width != 32 && width != 64 {
		return nil, fmt.Errorf("option bits: want 32 or 64, got %v", p.Options["bits"])
	}
	if t := args[0]; !t.IsInt() && t.Kind != column.Null {
		return nil, fmt.Errorf("%s is not an integer", t)
	}
	b := base{id: typeID("bitmap", repr(args[0])), class: Semilattice, args: args, out: column.Of(column.Bytes)}
	return &bitmapFn{base: b, narrow: width == 32}, nil
}

func (f *bitmapFn) NewColumn() Column { return &bitmapColumn{fn: f} }

func (f *bitmapFn) Validate(acc []byte) error {
	_, err := f.parse(acc, nil)
	return err
}

func (f *bitmapFn) parse(acc []byte, list []packed) ([]packed, error) {
	if len(acc) == 0 {
		return list, nil
	}
	list, err := parseRoaring64(acc, list)
	if err != nil {
		return nil, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return list, nil
}

// bitmapColumn holds numbers one by one in tables until more than crowd of them
// share all but their lowest 16 bits; those get words, of at most 32 bytes for
// each. A number may be in a table although its words are there: settle moves
// it.
type bitmapColumn struct {
	fn     *bitmapFn
	loose  sets[uint64] // numbers plus one
	last   []bool       // of each group: whether it has the number without a successor
	settle []uint32     // of each group: the loose numbers that settled last
	dense  [][]container
	words  []*[roaringWords]uint64 // used before a Reset
	list   []uint64
	parts  []container
	packs  []packed
	held   int64
}

const (
	crowd       = 256
	settleFirst = 4096
)

func (c *bitmapColumn) Len() int { return len(c.last) }

func (c *bitmapColumn) Grow(n int) {
	c.loose.Grow(n)
	c.last, c.settle, c.dense = grow(c.last, n), grow(c.settle, n), grow(c.dense, n)
}

func (c *bitmapColumn) Reset() {
	for _, list := range c.dense {
		for _, d := range list {
			c.words = append(c.words, d.words)
		}
		c.held -= 40 * int64(cap(list))
	}
	clear(c.dense)
	c.loose.Reset()
	c.last, c.settle, c.dense = c.last[:0], c.settle[:0], c.dense[:0]
}

func (c *bitmapColumn) Bytes() int64 {
	return c.loose.held(8) + c.held + int64(4*(cap(c.loose.n)+cap(c.settle))+cap(c.last)+24*cap(c.dense)+8*(cap(c.list)+cap(c.words))+40*(cap(c.parts)+cap(c.packs)))
}

func (c *bitmapColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	for _, i := range in.Rows {
		if !arg.Null(int(i)) {
			c.put(in.Groups[i], uint64(arg.Ints[i]))
		}
	}
	return nil
}

func (c *bitmapColumn) put(g uint32, x uint64) {
	if len(c.dense[g]) > 0 {
		if w := c.find(g, x>>16); w != nil {
			w[x>>6&(roaringWords-1)] |= 1 << (x & 63)
			return
		}
	}
	if x == math.MaxUint64 {
		c.last[g] = true
		return
	}
	if c.loose.put(g, x+1) && c.loose.n[g] > 2*max(c.settle[g], settleFirst/2) {
		c.order(g)
	}
}

// find returns the words of a key, nil if it has none.
func (c *bitmapColumn) find(g uint32, key uint64) *[roaringWords]uint64 {
	if i, ok := slices.BinarySearchFunc(c.dense[g], key, byKey); ok {
		return c.dense[g][i].words
	}
	return nil
}

func byKey(c container, key uint64) int {
	switch {
	case c.key < key:
		return -1
	case c.key > key:
		return 1
	}
	return 0
}

// crowded returns the words of a key, which it gets if it has none.
func (c *bitmapColumn) crowded(g uint32, key uint64) *[roaringWords]uint64 {
	i, ok := slices.BinarySearchFunc(c.dense[g], key, byKey)
	if ok {
		return c.dense[g][i].words
	}
	var w *[roaringWords]uint64
	if n := len(c.words); n > 0 {
		w, c.words = c.words[n-1], c.words[:n-1]
		*w = [roaringWords]uint64{}
	} else {
		w = new([roaringWords]uint64)
		c.held += 8 * roaringWords
	}
	before := cap(c.dense[g])
	c.dense[g] = slices.Insert(c.dense[g], i, container{key: key, words: w})
	c.held += 40 * int64(cap(c.dense[g])-before)
	return w
}

// order moves crowded numbers of g to words and returns the others in order,
// valid until the next call.
func (c *bitmapColumn) order(g uint32) []uint64 {
	c.list = c.loose.list(c.list[:0], g)
	for i := range c.list {
		c.list[i]--
	}
	slices.Sort(c.list)
	if c.last[g] {
		c.list = append(c.list, math.MaxUint64)
	}
	kept := c.list[:0]
	for rest := c.list; len(rest) > 0; {
		part := rest[:prefix(rest)]
		rest = rest[len(part):]
		w := c.find(g, part[0]>>16)
		if w == nil && len(part) > crowd {
			w = c.crowded(g, part[0]>>16)
		}
		if w == nil {
			kept = append(kept, part...)
			continue
		}
		for _, x := range part {
			w[x>>6&(roaringWords-1)] |= 1 << (x & 63)
		}
	}
	c.last[g] = len(kept) > 0 && kept[len(kept)-1] == math.MaxUint64
	if len(kept) < len(c.list) {
		table := c.loose.get(g)
		clear(table)
		for _, x := range kept {
			if x != math.MaxUint64 {
				insert(table, x+1)
			}
		}
	}
	c.list = kept
	if c.loose.n[g] = uint32(len(kept)); c.last[g] {
		c.loose.n[g]--
	}
	c.settle[g] = c.loose.n[g]
	return kept
}

// prefix is how many of the numbers, which ascend, share the first one's key.
func prefix(numbers []uint64) int {
	key := numbers[0] >> 16
	for i, x := range numbers {
		if x>>16 != key {
			return i
		}
	}
	return len(numbers)
}

// containers returns all of g, valid until the next call.
func (c *bitmapColumn) containers(g uint32) []container {
	loose, dense := c.order(g), c.dense[g]
	c.parts = c.parts[:0]
	for len(loose) > 0 || len(dense) > 0 {
		if len(loose) == 0 || len(dense) > 0 && dense[0].key < loose[0]>>16 {
			c.parts, dense = append(c.parts, dense[0]), dense[1:]
			continue
		}
		n := prefix(loose)
		c.parts, loose = append(c.parts, container{key: loose[0] >> 16, numbers: loose[:n]}), loose[n:]
	}
	return c.parts
}

func (c *bitmapColumn) Merge(g uint32, acc []byte) error {
	list, err := c.fn.parse(acc, c.packs[:0])
	if err != nil {
		return err
	}
	c.packs = list
	for _, p := range list {
		base := p.key << 16
		switch p.form {
		case packedArray:
			w := c.find(g, p.key)
			if w == nil && len(p.body) > 2*crowd {
				w = c.crowded(g, p.key)
			}
			for b := p.body; len(b) > 0; b = b[2:] {
				if low := binary.LittleEndian.Uint16(b); w != nil {
					w[low/64] |= 1 << (low % 64)
				} else {
					c.put(g, base|uint64(low))
				}
			}
		case packedWords:
			w := c.crowded(g, p.key)
			for i := range w {
				w[i] |= binary.LittleEndian.Uint64(p.body[8*i:])
			}
		default:
			c.mergeRuns(g, p)
		}
	}
	return nil
}

func (c *bitmapColumn) mergeRuns(g uint32, p packed) {
	n := 0
	for b := p.body[2:]; len(b) > 0; b = b[4:] {
		n += int(binary.LittleEndian.Uint16(b[2:])) + 1
	}
	w := c.find(g, p.key)
	if n > crowd {
		w = c.crowded(g, p.key)
	}
	for b := p.body[2:]; len(b) > 0; b = b[4:] {
		from, more := uint64(binary.LittleEndian.Uint16(b)), uint64(binary.LittleEndian.Uint16(b[2:]))
		if w != nil {
			setRun(w, from, from+more)
			continue
		}
		for i := range more + 1 {
			c.put(g, p.key<<16|from+i)
		}
	}
}

// setRun sets the bits from one to another, both included.
func setRun(w *[roaringWords]uint64, from, to uint64) {
	first, last := from/64, to/64
	head, tail := ^uint64(0)<<(from%64), ^uint64(0)>>(63-to%64)
	if first == last {
		w[first] |= head & tail
		return
	}
	w[first] |= head
	for i := first + 1; i < last; i++ {
		w[i] = ^uint64(0)
	}
	w[last] |= tail
}

func (c *bitmapColumn) AppendAcc(dst []byte, g uint32) []byte {
	return appendRoaring64(dst, c.containers(g))
}

func (c *bitmapColumn) Extract(g uint32, dst *column.Vector) error {
	list := c.containers(g)
	if len(list) == 0 {
		dst.AppendNull()
		return nil
	}
	limit := uint64(1) << 63
	if c.fn.narrow {
		limit = 1 << 32
	}
	if greatest := list[len(list)-1]; greatest.key<<16 >= limit {
		low := uint16(0)
		greatest.each(func(x uint16) { low = x })
		x := greatest.key<<16 | uint64(low)
		if x >= 1<<63 {
			return fmt.Errorf("bitmap of a negative number, %d", int64(x))
		}
		return fmt.Errorf("bitmap of %s, which exceeds 32 bits", strconv.FormatUint(x, 10))
	}
	if c.fn.narrow {
		dst.AppendString(string(appendRoaring32(nil, list)))
	} else {
		dst.AppendString(string(appendRoaring64(nil, list)))
	}
	return nil
}
