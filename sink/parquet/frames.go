package parquet

import (
	"hash/crc32"
	"hash/maphash"
	"sync"

	"github.com/parquet-go/parquet-go/format"
)

// Frames keeps the compressed bytes of pages from one set of files to the next, so that a page with the bytes of one before need not be
// compressed again: compression is most of what writing texts costs, and of many columns few pages change. It is known by its bytes before
// compression, of which the compressed ones are a function, so that files are the same with Frames and without.
//
// Two pages are taken for one if they are of one length, and 64 bits of a hash under a random seed, which no input can aim at, and a
// checksum of 32 bits are the same: that others are, among the 10⁸ pairs of pages of two panes of 10⁴ pages, has a chance of 10⁻²¹.
//
// Keeping pages that never come again costs more than nothing. Of a column whose pages were looked for in vain, all but one in sixteen, only
// some are kept and looked for from then on, until those show that pages come again.
//
// It may be used by many goroutines. A nil Frames keeps nothing.
type Frames struct {
	most int64
	seed maphash.Seed

	mu struct {
		sync.Mutex
		now, before map[frameKey][]byte
		size        int64 // of what is in now
		used        int64
		columns     map[string]*luck
	}
}

// luck is what became of the pages of a column.
type luck struct {
	asked, used int  // of these files
	known       bool // there were pages of files before to compare these with
	seldom      bool // few are kept and looked for
}

const (
	// seldomEach is of how many pages in a row the first is kept where few come again.
	seldomEach = 8
	// seldomUsed is of how many pages one must come again for all to be kept.
	seldomUsed = 16
)

func (l *luck) turn() {
	if l.known {
		l.seldom = l.used*seldomUsed < l.asked
	}
	l.known, l.asked, l.used = true, 0, 0
}

type frameKey struct {
	hash uint64
	sum  uint32
	size int
}

// NewFrames returns Frames that hold at most so many bytes.
func NewFrames(most int64) *Frames {
	f := &Frames{most: most, seed: maphash.MakeSeed()}
	f.mu.now, f.mu.columns = map[frameKey][]byte{}, map[string]*luck{}
	return f
}

// Turn says that other files begin: pages that the last ones did not have are let go.
func (f *Frames) Turn() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.now, f.mu.before, f.mu.size = map[frameKey][]byte{}, f.mu.now, 0
	for path, l := range f.mu.columns {
		if l.asked == 0 {
			delete(f.mu.columns, path)
			continue
		}
		l.turn()
	}
}

// Forget lets all pages go.
func (f *Frames) Forget() {
	f.Turn()
	f.Turn()
}

// Used is how many pages were not compressed again.
func (f *Frames) Used() int64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.used
}

// framedLeast is the least page that is kept: below it compression costs too little.
const framedLeast = 4 << 10

// keeps says whether a page of an encoding, which has so many before it in its chunk, is worth keeping: of numbers that are packed or by
// dictionary the compressor soon sees that there is nothing to gain, and see luck.
func (f *Frames) keeps(column string, before int, body []byte, encoding format.Encoding) bool {
	if f == nil || len(body) < framedLeast || encoding == format.DeltaBinaryPacked || encoding == format.RLEDictionary {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.mu.columns[column]
	if !ok {
		l = &luck{}
		f.mu.columns[column] = l
	}
	if l.seldom && before%seldomEach > 0 {
		return false
	}
	l.asked++
	return true
}

// key is that of a page.
func (f *Frames) key(body []byte) frameKey {
	return frameKey{maphash.Bytes(f.seed, body), crc32.ChecksumIEEE(body), len(body)}
}

// get returns the compressed bytes of a page of a column, which nobody may change.
func (f *Frames) get(column string, k frameKey) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.mu.now[k]
	if !ok {
		if b, ok = f.mu.before[k]; ok {
			f.hold(k, b)
		}
	}
	if ok {
		f.mu.used++
		if l := f.mu.columns[column]; l != nil {
			l.used++
		}
	}
	return b, ok
}

// put keeps a copy of the compressed bytes of a page, if there is room.
func (f *Frames) put(k frameKey, packed []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.room(len(packed)) {
		own := make([]byte, len(packed))
		copy(own, packed)
		f.hold(k, own)
	}
}

// frameEntry is about what an entry takes beside its bytes.
const frameEntry = 64

// room: half is for the pages of these files, half for those of the files before.
func (f *Frames) room(n int) bool { return f.mu.size+int64(n)+frameEntry <= f.most/2 }

func (f *Frames) hold(k frameKey, packed []byte) {
	if _, ok := f.mu.now[k]; ok || !f.room(len(packed)) {
		return
	}
	f.mu.now[k] = packed
	f.mu.size += int64(len(packed)) + frameEntry
}
