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
// It may be used by many goroutines. A nil Frames keeps nothing.
type Frames struct {
	most int64
	seed maphash.Seed

	mu struct {
		sync.Mutex
		now, before map[frameKey][]byte
		size        int64 // of what is in now
		used        int64
	}
}

type frameKey struct {
	hash uint64
	sum  uint32
	size int
}

// NewFrames returns Frames that hold at most so many bytes.
func NewFrames(most int64) *Frames {
	f := &Frames{most: most, seed: maphash.MakeSeed()}
	f.mu.now = map[frameKey][]byte{}
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

// keeps says whether pages of an encoding are worth keeping: of numbers that are packed or by dictionary the compressor soon sees that
// there is nothing to gain.
func (f *Frames) keeps(body []byte, encoding format.Encoding) bool {
	return f != nil && len(body) >= framedLeast && encoding != format.DeltaBinaryPacked && encoding != format.RLEDictionary
}

// key is that of a page.
func (f *Frames) key(body []byte) frameKey {
	return frameKey{maphash.Bytes(f.seed, body), crc32.ChecksumIEEE(body), len(body)}
}

// get returns the compressed bytes of a page, which nobody may change.
func (f *Frames) get(k frameKey) ([]byte, bool) {
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
