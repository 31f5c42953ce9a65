package table

import (
	"bytes"
	"sort"
)

// Cursor walks rows in ascending order of key. What Key and Acc return is
// valid until the next call of Next or Seek and must not be changed.
type Cursor interface {
	// Next moves to the next row and says whether there is one.
	Next() bool
	// Key is the row's key.
	Key() []byte
	// Shared is the length of the longest prefix that Key shares with the key
	// before it, 0 for the first.
	Shared() int
	// Acc is the row's accumulator of fn f, empty for the identity.
	Acc(f int) []byte
	// Err is what ended the walk early; nil at the end of the rows.
	Err() error
}

// RunCursor walks a run. It holds one block in memory.
type RunCursor struct {
	run     *Run
	at      int // the next block
	row     int // in the block; -1 before the first
	u       unpacked
	bufs    blockBufs
	key     []byte
	last    []byte // the key before the block
	shared  int
	started bool // whether key is that of a row
	held    bool // whether Seek has the next row already
	err     error
}

// Cursor returns a cursor before the first row.
func (r *Run) Cursor() *RunCursor { return &RunCursor{run: r, row: -1} }

// Key implements Cursor.
func (c *RunCursor) Key() []byte { return c.key }

// Shared implements Cursor.
func (c *RunCursor) Shared() int { return c.shared }

// Acc implements Cursor.
func (c *RunCursor) Acc(f int) []byte { return c.u.accs[f].At(c.row) }

// Err implements Cursor.
func (c *RunCursor) Err() error { return c.err }

// Next implements Cursor.
func (c *RunCursor) Next() bool {
	if c.held {
		c.held = false
		return c.err == nil
	}
	if c.row++; c.row < c.u.n {
		c.key, c.shared = c.u.key(c.row), int(c.u.same[c.row])
		return true
	}
	return c.nextBlock()
}

// nextBlock moves to the first row of the next block.
func (c *RunCursor) nextBlock() bool {
	if c.started {
		c.last = append(c.last[:0], c.key...)
	}
	if c.err != nil || c.at == len(c.run.blocks) {
		c.row = c.u.n
		return false
	}
	if !c.load(c.at) {
		return false
	}
	c.row, c.key, c.shared = 0, c.u.key(0), 0
	if c.started {
		c.shared = shared(c.last, c.key)
	}
	c.started = true
	return true
}

// load reads block i.
func (c *RunCursor) load(i int) bool {
	c.at = i + 1
	if _, err := c.run.unpack(i, &c.bufs, &c.u); err != nil {
		c.err, c.u.n = blockError(i, err), 0
		return false
	}
	return true
}

// Seek moves so that Next finds the first row whose key is not below key. It
// moves forward and back.
func (c *RunCursor) Seek(key []byte) {
	if c.err != nil {
		return
	}
	c.held = false
	blocks := c.run.blocks
	at := max(0, sort.Search(len(blocks), func(i int) bool { return bytes.Compare(blocks[i].first, key) > 0 })-1)
	if len(blocks) == 0 || c.at != at+1 && !c.load(at) {
		return
	}
	c.row = sort.Search(c.u.n, func(i int) bool { return bytes.Compare(c.u.key(i), key) >= 0 })
	c.started = false
	switch {
	case c.row < c.u.n:
		c.key, c.started, c.held = c.u.key(c.row), true, true
	default:
		c.held = c.nextBlock()
	}
	c.shared = 0
}

// TableCursor walks a table as it was when the cursor was made; the table must
// not change meanwhile.
type TableCursor struct {
	t      *Table
	groups []uint32
	at     int
	key    []byte
	shared int
	accs   [][]byte
}

// Cursor returns a cursor before the first row of the table.
func (t *Table) Cursor() *TableCursor {
	return &TableCursor{t: t, groups: t.Sorted(), accs: make([][]byte, len(t.columns))}
}

// Next implements Cursor.
func (c *TableCursor) Next() bool {
	for c.at < len(c.groups) {
		g := c.groups[c.at]
		c.at++
		some := false
		for f, col := range c.t.columns {
			c.accs[f] = col.AppendAcc(c.accs[f][:0], g)
			some = some || len(c.accs[f]) > 0
		}
		if some {
			key := c.t.Key(g)
			c.shared = shared(c.key, key)
			c.key = key
			return true
		}
	}
	return false
}

// Key implements Cursor.
func (c *TableCursor) Key() []byte { return c.key }

// Shared implements Cursor.
func (c *TableCursor) Shared() int { return c.shared }

// Acc implements Cursor.
func (c *TableCursor) Acc(f int) []byte { return c.accs[f] }

// Err implements Cursor.
func (c *TableCursor) Err() error { return nil }
