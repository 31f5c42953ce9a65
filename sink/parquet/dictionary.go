package parquet

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"
)

// A chunk gets a dictionary if its first page has so few different values that they repeat dictionaryRepeats times, and keeps to it until
// the dictionary outgrows its bounds; the pages behind are without. Integers, which are short without one, need a dictionary to halve
// them.
const (
	dictionaryRepeats = 4
	dictionaryFirst   = pageRows / dictionaryRepeats // values of the first page
	dictionaryValues  = groupRows / dictionaryRepeats
	dictionaryBytes   = 1 << 20
)

// dictionary numbers the values of a chunk in the order they are first seen: byte arrays, or the bits of numbers of eight bytes.
type dictionary struct {
	seed    maphash.Seed
	table   []int32  // 1 + number by hash, linear probing; a power of two
	shift   uint8    // of the hash of a number
	texts   []string // the byte arrays, copies of its own
	size    int      // of the dictionary's page
	numbers []uint64 // or the numbers

	page  uint32   // the number of the page that is being filled
	seen  []uint32 // the last page that has the value
	known int      // values of the pages before
	fresh []int32  // values of this page, each once
}

const dictionaryTable = 1024

func newDictionary() *dictionary {
	return &dictionary{seed: maphash.MakeSeed(), table: make([]int32, dictionaryTable), shift: shiftOf(dictionaryTable), page: 1}
}

func shiftOf(slots int) uint8 { return uint8(64 - bits.Len(uint(slots-1))) }

func (d *dictionary) len() int { return len(d.seen) }

// appendPage appends the dictionary as its page has it.
func (d *dictionary) appendPage(dst []byte) []byte {
	for _, t := range d.texts {
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(t))), t...)
	}
	for _, n := range d.numbers {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

// full says whether the page that is being filled must do without the dictionary.
func (d *dictionary) full() bool {
	if d.known == 0 && d.len() > dictionaryFirst {
		return true
	}
	return d.len() > dictionaryValues || d.size > dictionaryBytes
}

// endPage begins the next page.
func (d *dictionary) endPage() {
	d.page++
	d.known, d.fresh = d.len(), d.fresh[:0]
}

// forget takes back what the page that is being filled has added. No more values may be looked up then: they are still in the table.
func (d *dictionary) forget() {
	d.seen, d.fresh = d.seen[:d.known], d.fresh[:0]
	if len(d.numbers) > 0 {
		d.numbers = d.numbers[:d.known]
	} else {
		d.texts = d.texts[:d.known]
	}
}

// reset makes the dictionary that of another chunk.
func (d *dictionary) reset() {
	clear(d.table)
	clear(d.texts)
	d.texts, d.numbers, d.size = d.texts[:0], d.numbers[:0], 0
	d.seen, d.fresh, d.known, d.page = d.seen[:0], d.fresh[:0], 0, 1
}

// touch notes that the page has the value.
func (d *dictionary) touch(id int32) {
	if d.seen[id] != d.page {
		d.seen[id] = d.page
		d.fresh = append(d.fresh, id)
	}
}

// idText is the number of a byte array.
func (d *dictionary) idText(s string) int32 {
	mask := uint64(len(d.table) - 1)
	for i := d.hashText(s) >> d.shift; ; i = (i + 1) & mask {
		n := d.table[i]
		if n == 0 {
			id := d.insert(i)
			d.texts = append(d.texts, strings.Clone(s))
			d.size += 4 + len(s)
			d.roomy()
			return id
		}
		if d.texts[n-1] == s {
			return n - 1
		}
	}
}

// hashText spreads over the upper bits. Short texts, of which most dictionaries are, take a few instructions.
func (d *dictionary) hashText(s string) uint64 {
	n := len(s)
	switch {
	case n > 16:
		return maphash.String(d.seed, s)
	case n >= 8:
		return hashNumber(eight(s) ^ bits.RotateLeft64(eight(s[n-8:]), 29) ^ uint64(n))
	case n >= 4:
		return hashNumber(uint64(four(s)) | uint64(four(s[n-4:]))<<32 ^ uint64(n)<<56)
	case n > 0:
		return hashNumber(uint64(s[0]) | uint64(s[n/2])<<8 | uint64(s[n-1])<<16 | uint64(n)<<24)
	}
	return 0
}

func eight(s string) uint64 { return uint64(four(s)) | uint64(four(s[4:]))<<32 }

func four(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// hashNumber spreads over the upper bits, of which a table takes as many as it has.
func hashNumber(n uint64) uint64 {
	n ^= n >> 32
	return n * 0x9E3779B97F4A7C15
}

// idNumber is the number of a number.
func (d *dictionary) idNumber(v uint64) int32 {
	mask := uint64(len(d.table) - 1)
	for i := hashNumber(v) >> d.shift; ; i = (i + 1) & mask {
		n := d.table[i]
		if n == 0 {
			id := d.insert(i)
			d.numbers = append(d.numbers, v)
			d.size += 8
			d.roomy()
			return id
		}
		if d.numbers[n-1] == v {
			return n - 1
		}
	}
}

func (d *dictionary) insert(slot uint64) int32 {
	id := int32(d.len())
	d.seen = append(d.seen, 0)
	d.table[slot] = id + 1
	return id
}

// roomy doubles the table when it is half full.
func (d *dictionary) roomy() {
	if 2*d.len() <= len(d.table) {
		return
	}
	n := 2 * len(d.table)
	d.table = slices.Grow(d.table[:0], n)[:n]
	clear(d.table)
	d.shift = shiftOf(n)
	mask := uint64(n - 1)
	for id := range int32(d.len()) {
		var i uint64
		if len(d.numbers) > 0 {
			i = hashNumber(d.numbers[id]) >> d.shift
		} else {
			i = d.hashText(d.texts[id]) >> d.shift
		}
		for d.table[i] != 0 {
			i = (i + 1) & mask
		}
		d.table[i] = id + 1
	}
}

// dictionary is that of the leaf's chunk, or nil if the page is to do without.
func (l *leaf) dictionary() *dictionary {
	if l.key || l.chunk.plain {
		return nil
	}
	if l.chunk.dict == nil {
		l.chunk.dict = newDictionary()
	}
	return l.chunk.dict
}

// nameTexts adds byte arrays by their numbers and returns how many: all, unless the dictionary serves no more.
func (l *leaf) nameTexts(d *dictionary, values []string) int {
	ids := slices.Grow(l.ids, len(values))
	for i, s := range values {
		if i > 0 && s == values[i-1] {
			ids = append(ids, ids[len(ids)-1])
			continue
		}
		before := d.len()
		id := d.idText(s)
		d.touch(id)
		ids = append(ids, id)
		if d.len() > before && d.full() {
			l.ids = ids
			l.unname(d)
			return i + 1
		}
	}
	l.ids = ids
	return len(values)
}

// unname makes the page, and those behind it, do without the dictionary.
func (l *leaf) unname(d *dictionary) {
	l.chunk.plain = true
	if l.physical == format.ByteArray {
		for _, id := range l.ids {
			v := d.texts[id]
			l.text, l.lengths = append(l.text, v...), append(l.lengths, int32(len(v)))
		}
	}
	l.ids = l.ids[:0]
	d.forget()
}

// nameNumbers makes the numbers of the page's integers or doubles, and says whether the dictionary serves.
func (l *leaf) nameNumbers(d *dictionary) bool {
	l.ids = slices.Grow(l.ids[:0], len(l.int64s)+len(l.doubles))
	most := dictionaryValues
	if d.known == 0 {
		most = min(dictionaryFirst, (len(l.int64s)+len(l.doubles))/dictionaryRepeats)
	}
	for _, v := range l.int64s {
		l.ids = append(l.ids, d.idNumber(uint64(v)))
		if d.len() > most {
			l.unname(d)
			return false
		}
	}
	for _, v := range l.doubles {
		l.ids = append(l.ids, d.idNumber(math.Float64bits(v)))
		if d.len() > most {
			l.unname(d)
			return false
		}
	}
	return true
}
