package table

import "github.com/deltad/deltad/microbatch/combine"

// Block is some consecutive rows of a run, column by column. The zero Block is
// empty; it keeps its memory for the next block that is read into it.
type Block struct {
	// Keys are the rows' keys, ascending.
	Keys [][]byte
	// Accs are the accumulators of each fn, with a row for each key.
	Accs []combine.Accs

	u    unpacked
	bufs blockBufs
}

// Bytes is the memory that the block holds.
func (b *Block) Bytes() int64 {
	return b.u.bytes() + int64(cap(b.bufs.stored)+cap(b.bufs.unpacked)+24*cap(b.Keys))
}

// Blocks walks the blocks of a run. What Block returns is valid until the next
// call of Next and must not be changed.
type Blocks struct {
	run   *Run
	at    int // the next block
	block Block
	err   error
}

// Blocks returns a walk before the first block.
func (r *Run) Blocks() *Blocks { return &Blocks{run: r} }

// Next moves to the next block and says whether there is one. No block is
// empty.
func (b *Blocks) Next() bool { return b.Into(&b.block) }

// Into is Next into a block of the caller's, of this or of another run: what it
// had is no longer valid, and what it has is until the next block is read into it.
func (b *Blocks) Into(block *Block) bool {
	if b.err != nil || b.at == len(b.run.blocks) {
		return false
	}
	if _, err := b.run.unpack(b.at, &block.bufs, &block.u); err != nil {
		b.err = blockError(b.at, err)
		return false
	}
	b.at++
	block.Keys = block.Keys[:0]
	for i := range block.u.n {
		block.Keys = append(block.Keys, block.u.key(i))
	}
	block.Accs = block.u.accs
	return true
}

// Block is the block that Next moved to.
func (b *Blocks) Block() *Block { return &b.block }

// Err is what ended the walk early; nil at the end of the run.
func (b *Blocks) Err() error { return b.err }
