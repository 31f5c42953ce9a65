package table

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"strings"
	"unsafe"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/tuple/intern"
)

// A table with one key column of integers or strings finds its groups by the
// values themselves; a key is encoded once, when it is new. Both indexes are
// linear probing under a hash that is drawn for each table: which groups collide
// cannot be chosen by who writes the data, and cannot be seen in what is
// written.

// index finds the groups of records by their key column.
type index interface {
	// groups stores the group of each row at its number in out; no key is null.
	groups(keys *intern.Set, v *column.Vector, rows []int32, out []uint32)
	// clear forgets every group and keeps the storage.
	clear()
	bytes() int64
}

// newIndex returns the index of a key of the type, nil where there is none.
func newIndex(t column.Type) index {
	switch {
	case t.IsInt():
		return &intIndex{slots: make([]intSlot, minSlots), mix: randomMix()}
	case t.Kind == column.String:
		return &textIndex{slots: make([]textSlot, minSlots), mix: randomMix(), seed: maphash.MakeSeed()}
	}
	return nil
}

const minSlots = 64

// block is how many keys are looked up together: first all in the slots of their
// hashes, without a branch, so that the processor waits for many slots at a
// time, then those that are not there, one after another.
const block = 128

// mix is a hash of words: two multiplications by odd numbers, of which the
// first is random.
type mix struct{ add, mul uint64 }

func randomMix() mix {
	seed := maphash.MakeSeed()
	return mix{maphash.String(seed, "add"), maphash.String(seed, "mul") | 1}
}

func (m mix) of(x uint64) uint64 {
	hi, lo := bits.Mul64(x^m.add, m.mul)
	return (hi ^ lo) * 0x9e3779b97f4a7c15
}

type intSlot struct {
	key int64
	id  uint32 // plus one; 0 is free
}

type intIndex struct {
	mix
	slots  []intSlot
	n      int
	codes  codes
	hashes [block]uint64
	others [block]uint8
}

func (x *intIndex) bytes() int64 { return int64(16*cap(x.slots)) + x.codes.bytes() }

func (x *intIndex) clear() {
	clear(x.slots)
	x.n, x.codes.dict = 0, nil
}

func (x *intIndex) groups(keys *intern.Set, v *column.Vector, rows []int32, out []uint32) {
	if known := x.codes.of(v); known != nil {
		for _, i := range rows {
			c := v.Codes[i]
			if known[c] == 0 {
				known[c] = x.id(keys, v.Ints[i], x.of(uint64(v.Ints[i]))) + 1
			}
			out[i] = known[c] - 1
		}
		return
	}
	for len(rows) > 0 {
		some := rows[:min(len(rows), block)]
		rows = rows[len(some):]
		for _, k := range x.home(v.Ints, some, out) {
			i := some[k]
			out[i] = x.id(keys, v.Ints[i], x.hashes[k])
		}
	}
}

// home finds the groups of keys that are in the slot of their hash, and returns
// the numbers of the others among rows, whose hashes it keeps.
func (x *intIndex) home(ints []int64, rows []int32, out []uint32) []uint8 {
	for k, i := range rows {
		x.hashes[k] = x.of(uint64(ints[i]))
	}
	slots, mask, n := x.slots, uint64(len(x.slots)-1), 0
	for k, i := range rows {
		key, s := ints[i], &slots[x.hashes[k]>>16&mask]
		out[i] = s.id - 1
		x.others[n&(block-1)] = uint8(k)
		other := uint64(s.key ^ key)
		n += int((other | -other | (uint64(s.id) - 1)) >> 63)
	}
	return x.others[:n]
}

func (x *intIndex) id(keys *intern.Set, key int64, hash uint64) uint32 {
	mask := uint64(len(x.slots) - 1)
	for i := hash >> 16 & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		switch {
		case s.id == 0:
			var scratch [9]byte
			id := keys.Push(tuple.AppendInt(scratch[:0], key))
			*s = intSlot{key, id + 1}
			if x.n++; 4*x.n > 3*len(x.slots) {
				x.grow()
			}
			return id
		case s.key == key:
			return s.id - 1
		}
	}
}

func (x *intIndex) grow() {
	old := x.slots
	x.slots = make([]intSlot, 2*len(old))
	mask := uint64(len(x.slots) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := x.of(uint64(s.key)) >> 16 & mask
		for x.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		x.slots[i] = s
	}
}

// textSlot has the length of a string and 24 bytes of it: all of a short one,
// of a longer one its hash, its first and its last eight.
type textSlot struct {
	a, b, c uint64
	size    uint32
	id      uint32 // plus one; 0 is free
}

// inline is the length up to which a slot has all of a string.
const inline = 24

type textIndex struct {
	mix
	seed    maphash.Seed
	slots   []textSlot
	n       int
	codes   codes
	scratch []byte
	some    [block]struct {
		a, b, c, hash uint64
		size          uint32
	}
	others [block]uint8
}

func (x *textIndex) bytes() int64 {
	return int64(32*cap(x.slots)+cap(x.scratch)) + x.codes.bytes()
}

func (x *textIndex) clear() {
	clear(x.slots)
	x.n, x.codes.dict = 0, nil
}

func (x *textIndex) groups(keys *intern.Set, v *column.Vector, rows []int32, out []uint32) {
	if known := x.codes.of(v); known != nil {
		for _, i := range rows {
			code := v.Codes[i]
			if known[code] == 0 {
				s := v.Strings[i]
				a, b, c := x.words(s)
				known[code] = x.id(keys, s, a, b, c, x.hash(a, b, c, uint32(len(s)))) + 1
			}
			out[i] = known[code] - 1
		}
		return
	}
	for len(rows) > 0 {
		some := rows[:min(len(rows), block)]
		rows = rows[len(some):]
		for _, k := range x.home(v.Strings, some, out) {
			i, at := some[k], &x.some[k]
			out[i] = x.id(keys, v.Strings[i], at.a, at.b, at.c, at.hash)
		}
	}
}

// home is what it is to integers; a long string is always among the others. The
// hashes come first: the shorter the loop over the slots, the more of them are
// waited for together.
func (x *textIndex) home(texts []string, rows []int32, out []uint32) []uint8 {
	for k, i := range rows {
		s, at := texts[i], &x.some[k]
		at.a, at.b, at.c = x.words(s)
		at.size = uint32(len(s))
		at.hash = x.hash(at.a, at.b, at.c, at.size)
	}
	slots, mask, n := x.slots, uint64(len(x.slots)-1), 0
	for k, i := range rows {
		at := &x.some[k]
		t := &slots[at.hash>>16&mask]
		out[i] = t.id - 1
		x.others[n&(block-1)] = uint8(k)
		other := (t.a ^ at.a) | (t.b ^ at.b) | (t.c ^ at.c) | uint64(t.size^at.size)
		n += int((other | -other | (uint64(t.id) - 1) | (inline - uint64(at.size))) >> 63)
	}
	return x.others[:n]
}

// words are what a slot has of a string. Those of a short one may overlap;
// together with the length they are all of it.
func (x *textIndex) words(s string) (first, middle, last uint64) {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	switch n := len(b); {
	case n > inline:
		return maphash.String(x.seed, s), binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n > 16:
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 8:
		return binary.LittleEndian.Uint64(b), 0, binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)), 0, uint64(binary.LittleEndian.Uint32(b[n-4:]))
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<8, 0, uint64(b[n-1])
	}
	return 0, 0, 0
}

// hash is that of what a slot has.
func (x *textIndex) hash(a, b, c uint64, size uint32) uint64 {
	hi, lo := bits.Mul64(a^x.add, c^x.mul)
	return x.of(hi ^ lo ^ b ^ uint64(size)<<56)
}

func (x *textIndex) id(keys *intern.Set, s string, a, b, c, hash uint64) uint32 {
	size := uint32(len(s))
	mask := uint64(len(x.slots) - 1)
	for i := hash >> 16 & mask; ; i = (i + 1) & mask {
		t := &x.slots[i]
		switch {
		case t.id == 0:
			x.scratch = tuple.AppendString(x.scratch[:0], s)
			id := keys.Push(x.scratch)
			*t = textSlot{a, b, c, size, id + 1}
			if x.n++; 4*x.n > 3*len(x.slots) {
				x.grow()
			}
			return id
		case t.a == a && t.b == b && t.c == c && t.size == size && (len(s) <= inline || x.same(keys.Bytes(t.id-1), s)):
			return t.id - 1
		}
	}
}

// same says whether key is the encoding of s, which is long.
func (x *textIndex) same(key []byte, s string) bool {
	if strings.IndexByte(s, 0) < 0 { // then it stands in its encoding as it is
		return len(key) == len(s)+3 && string(key[1:1+len(s)]) == s
	}
	x.scratch = tuple.AppendString(x.scratch[:0], s)
	return bytes.Equal(key, x.scratch)
}

func (x *textIndex) grow() {
	old := x.slots
	x.slots = make([]textSlot, 2*len(old))
	mask := uint64(len(x.slots) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := x.hash(s.a, s.b, s.c, s.size) >> 16 & mask
		for x.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		x.slots[i] = s
	}
}

// codes remembers the groups of a dictionary's entries, plus one; 0 is not
// known yet.
type codes struct {
	dict   *column.Vector
	groups []uint32
}

func (c *codes) bytes() int64 { return int64(4 * cap(c.groups)) }

// of returns the groups of the vector's dictionary, nil where it has none.
func (c *codes) of(v *column.Vector) []uint32 {
	if v.Dict == nil || len(v.Codes) < v.Len() {
		return nil
	}
	if c.dict != v.Dict {
		c.dict = v.Dict
		c.groups = append(c.groups[:0], make([]uint32, v.Dict.Len())...)
	}
	return c.groups
}
