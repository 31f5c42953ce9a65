package window

import (
	"github.com/deltad/deltad/microbatch/table"
)

// reading reads sources one after the other, some blocks at a time, and finds
// the groups of their keys. Nothing else may use what is known meanwhile.
type reading struct {
	known *known
	rest  []*heldSource // that are to be read, the next of them last
	of    *heldSource   // the one that is read; nil for none
	walk  *table.Blocks
}

// A batch has no more than so many blocks, and is read no further where those
// that it has hold so many bytes. It takes long enough for several threads to
// share it out, and is small enough to stay in a cache.
const (
	batchBlocks = 4
	batchBytes  = 4 << 20
)

// batch is some blocks of a source, with the groups of their keys.
type batch struct {
	of     *heldSource
	n      int // how many of the blocks are in use
	rows   int
	blocks [batchBlocks]table.Block
	groups [batchBlocks][]uint32
	err    error // of the block after these
}

// large says that its blocks are not as small as a writer makes them unless rows
// are large.
func (b *batch) large() bool { return b.bytes() > batchBytes }

func (b *batch) bytes() int64 {
	n := int64(0)
	for i := range b.blocks {
		n += b.blocks[i].Bytes()
	}
	return n
}

// reset empties the batch. It keeps the memory of blocks of the usual size.
func (b *batch) reset() {
	b.of, b.n, b.rows, b.err = nil, 0, 0, nil
	for i := range b.blocks {
		if b.blocks[i].Bytes() > batchBytes/batchBlocks {
			b.blocks[i] = table.Block{}
		}
	}
}

// read reads the next blocks into b: none at the end, or where an error ended
// all. Those before it are there.
func (r *reading) read(b *batch) {
	b.reset()
	for b.n == 0 {
		if r.of == nil {
			if len(r.rest) == 0 {
				return
			}
			r.of, r.rest = r.rest[len(r.rest)-1], r.rest[:len(r.rest)-1]
			r.walk = r.of.Run.Blocks()
			r.known.begin(r.of.Run)
		}
		b.of = r.of
		for b.n < batchBlocks && (b.n == 0 || !b.large()) {
			block := &b.blocks[b.n]
			if !r.walk.Into(block) {
				if err := r.walk.Err(); err != nil {
					b.err = unread(r.of.Start, err)
					return
				}
				r.known.end(r.of.Run)
				r.of = nil
				break
			}
			b.groups[b.n] = lengthen(b.groups[b.n][:0], len(block.Keys))
			r.known.find(block.Keys, b.groups[b.n])
			b.n++
			b.rows += len(block.Keys)
		}
	}
}
