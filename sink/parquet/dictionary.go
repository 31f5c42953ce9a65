package parquet

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// A chunk of byte arrays gets a dictionary if its first page has so few different values that they repeat dictionaryRepeats times, and
// keeps to it until the dictionary outgrows its bounds; the pages behind are without.
const (
	dictionaryRepeats = 4
	dictionaryValues  = 16 << 10
	dictionaryBytes   = 1 << 20
)

// dictionary numbers byte arrays in the order they are first seen.
type dictionary struct {
	seed  maphash.Seed
	table []int32 // 1 + number by hash, linear probing; a power of two
	plain []byte  // the values, each behind its length, as a dictionary page has them
	at    []int32 // where a value's length begins in plain
}

func (d *dictionary) len() int { return len(d.at) }

func (d *dictionary) value(id int32) []byte {
	b := d.plain[d.at[id]:]
	return b[4 : 4+binary.LittleEndian.Uint32(b)]
}

func (d *dictionary) reset() {
	clear(d.table)
	d.plain, d.at = d.plain[:0], d.at[:0]
}

// dictionary is that of the leaf's chunk, or nil.
func (l *leaf) dictionary() *dictionary {
	switch {
	case l.key || l.chunk.plain:
		return nil
	case l.chunk.dict == nil:
		l.chunk.dict = &dictionary{seed: maphash.MakeSeed(), table: make([]int32, 1024)}
	}
	return l.chunk.dict
}

// page appends the numbers of the page's values, or leaves the dictionary as it was and says that the page is to do without.
func (d *dictionary) page(ids []int32, l *leaf) ([]int32, bool) {
	known, size := len(d.at), len(d.plain)
	most := dictionaryValues
	if known == 0 {
		most = len(l.lengths) / dictionaryRepeats
	}
	at := 0
	var before []byte
	id := int32(-1)
	for _, n := range l.lengths {
		value := l.text[at : at+int(n)]
		at += int(n)
		if id < 0 || string(value) != string(before) {
			id = d.id(value)
			before = value
			if len(d.at) > most || len(d.plain) > dictionaryBytes {
				d.at, d.plain = d.at[:known], d.plain[:size] // its table is not asked again
				return ids, false
			}
		}
		ids = append(ids, id)
	}
	return ids, true
}

func (d *dictionary) id(value []byte) int32 {
	mask := uint64(len(d.table) - 1)
	for i := maphash.Bytes(d.seed, value) & mask; ; i = (i + 1) & mask {
		n := d.table[i]
		if n == 0 {
			return d.insert(value, i)
		}
		if string(d.value(n-1)) == string(value) {
			return n - 1
		}
	}
}

func (d *dictionary) insert(value []byte, slot uint64) int32 {
	id := int32(len(d.at))
	d.at = append(d.at, int32(len(d.plain)))
	d.plain = append(binary.LittleEndian.AppendUint32(d.plain, uint32(len(value))), value...)
	d.table[slot] = id + 1
	if 2*len(d.at) > len(d.table) {
		d.grow()
	}
	return id
}

func (d *dictionary) grow() {
	n := 2 * len(d.table)
	d.table = slices.Grow(d.table[:0], n)[:n]
	clear(d.table)
	mask := uint64(n - 1)
	for id := range d.at {
		i := maphash.Bytes(d.seed, d.value(int32(id))) & mask
		for d.table[i] != 0 {
			i = (i + 1) & mask
		}
		d.table[i] = int32(id) + 1
	}
}
