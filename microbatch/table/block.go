package table

import "github.com/deltad/deltad/microbatch/combine"

// Block is some consecutive rows of a run, column by column.
type Block struct {
	// Keys are the rows' keys, ascending.
	Keys [][]byte
	// Accs are the accumulators of each fn, with a row for each key.
	Accs []combine.Accs
}

// Blocks walks the blocks of a run. What Block returns is valid until the next
// call of Next and must not be changed.
type Blocks struct {
	run   *Run
	at    int // the next block
	u     unpacked
	bufs  blockBufs
	block Block
	err   error
}

// Blocks returns a walk before the first block.
func (r *Run) Blocks() *Blocks { return &Blocks{run: r} }

// Next moves to the next block and says whether there is one. No block is
// empty.
func (b *Blocks) Next() bool {
	if b.err != nil || b.at == len(b.run.blocks) {
		return false
	}
	if _, err := b.run.unpack(b.at, &b.bufs, &b.u); err != nil {
		b.err = blockError(b.at, err)
		return false
	}
	b.at++
	b.block.Keys = b.block.Keys[:0]
	for i := range b.u.n {
		b.block.Keys = append(b.block.Keys, b.u.key(i))
	}
	b.block.Accs = b.u.accs
	return true
}

// Block is the block that Next moved to.
func (b *Blocks) Block() *Block { return &b.block }

// Err is what ended the walk early; nil at the end of the run.
func (b *Blocks) Err() error { return b.err }
