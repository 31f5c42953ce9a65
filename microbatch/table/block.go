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
	cursor *RunCursor
	block  Block
	keys   []byte
	ends   []int
}

// Blocks returns a walk before the first block.
func (r *Run) Blocks() *Blocks {
	return &Blocks{cursor: r.Cursor(), block: Block{Accs: make([]combine.Accs, r.fns)}}
}

// Next moves to the next block and says whether there is one. No block is
// empty.
func (b *Blocks) Next() bool {
	b.keys, b.ends = b.keys[:0], b.ends[:0]
	for f := range b.block.Accs {
		a := &b.block.Accs[f]
		a.Bytes, a.Ends = a.Bytes[:0], a.Ends[:0]
	}
	for len(b.ends) < rowsAtOnce && b.cursor.Next() {
		b.keys = append(b.keys, b.cursor.Key()...)
		b.ends = append(b.ends, len(b.keys))
		for f := range b.block.Accs {
			a := &b.block.Accs[f]
			a.Bytes = append(a.Bytes, b.cursor.Acc(f)...)
			a.Ends = append(a.Ends, uint32(len(a.Bytes)))
		}
	}
	b.block.Keys = b.block.Keys[:0]
	from := 0
	for _, to := range b.ends {
		b.block.Keys = append(b.block.Keys, b.keys[from:to:to])
		from = to
	}
	return len(b.ends) > 0
}

// Block is the block that Next moved to.
func (b *Blocks) Block() *Block { return &b.block }

// Err is what ended the walk early; nil at the end of the run.
func (b *Blocks) Err() error { return b.cursor.Err() }
