package table

import (
	"bytes"
	"errors"
	"fmt"
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
	at      int    // the next block
	left    int64  // rows left in the block
	rows    []byte // the block's
	pos     int    // of the next row
	bufs    blockBufs
	key     []byte
	shared  int
	started bool // whether key is that of a row
	held    bool // whether Seek has the next row already
	accs    []accRef
	spread  []byte // accumulators that share a prefix, in full
	err     error
	onBlock func(rows []byte)
}

// accRef is an accumulator's place, in the block or in spread.
type accRef struct {
	off, n   int
	inSpread bool
}

// Cursor returns a cursor before the first row.
func (r *Run) Cursor() *RunCursor {
	return &RunCursor{run: r, accs: make([]accRef, r.fns)}
}

// Key implements Cursor.
func (c *RunCursor) Key() []byte { return c.key }

// Shared implements Cursor.
func (c *RunCursor) Shared() int { return c.shared }

// Acc implements Cursor.
func (c *RunCursor) Acc(f int) []byte {
	a := c.accs[f]
	if a.inSpread {
		return c.spread[a.off : a.off+a.n]
	}
	return c.rows[a.off : a.off+a.n]
}

// Err implements Cursor.
func (c *RunCursor) Err() error { return c.err }

// Next implements Cursor.
func (c *RunCursor) Next() bool {
	if c.held {
		c.held = false
		return c.err == nil
	}
	return c.step()
}

// Seek moves so that Next finds the first row whose key is not below key. It
// moves forward and back.
func (c *RunCursor) Seek(key []byte) {
	if c.err != nil {
		return
	}
	blocks := c.run.blocks
	at := sort.Search(len(blocks), func(i int) bool { return bytes.Compare(blocks[i].first, key) > 0 }) - 1
	at = max(at, 0)
	// A key at or behind this row may have one between: start the block again.
	onward := c.started && c.at == at+1 && bytes.Compare(c.key, key) < 0
	switch {
	case onward:
	case c.at == at+1 && len(c.rows) > 0: // the block is at hand
		c.left, c.pos, c.started = c.run.blocks[at].rows, 0, false
	default:
		c.at, c.left, c.rows, c.pos, c.started = at, 0, c.rows[:0], 0, false
	}
	c.held = false
	for c.step() {
		if bytes.Compare(c.key, key) >= 0 {
			c.held, c.shared = true, 0
			return
		}
	}
}

func (c *RunCursor) fail(err error) bool {
	c.err = fmt.Errorf("run block %d: %w", c.at-1, err)
	return false
}

func (c *RunCursor) step() bool {
	if c.err != nil || c.left == 0 && !c.load() {
		return false
	}
	if err := c.row(); err != nil {
		return c.fail(err)
	}
	if c.left--; c.left == 0 && c.pos < len(c.rows) {
		return c.fail(errors.New("bytes are left over"))
	}
	return true
}

// load reads the next block.
func (c *RunCursor) load() bool {
	if c.at == len(c.run.blocks) {
		return false
	}
	c.at++
	rows, err := c.run.block(c.at-1, &c.bufs)
	if err != nil {
		return c.fail(err)
	}
	c.rows, c.pos, c.left = rows, 0, c.run.blocks[c.at-1].rows
	if c.onBlock != nil {
		c.onBlock(rows)
	}
	return true
}

// number reads a length at p and returns what comes after it; a next below 0
// is no length. The common case is one byte.
func number(b []byte, p int) (n, next int) {
	if p < len(b) && b[p] < 0x80 {
		return int(b[p]), p + 1
	}
	return longNumber(b, p)
}

func longNumber(b []byte, p int) (n, next int) {
	r := bytesReader{b: b[min(p, len(b)):]}
	x := r.uvarint()
	if r.err != nil || x > MaxBlock {
		return 0, -1
	}
	return int(x), len(b) - len(r.b)
}

var errLength = errors.New("length is cut short, not minimal or too large")

// row reads the row at pos.
func (c *RunCursor) row() error {
	b := c.rows
	same, p := number(b, c.pos)
	if p < 0 {
		return errLength
	}
	n, p := number(b, p)
	if p < 0 {
		return errLength
	}
	if n > len(b)-p {
		return errCut
	}
	suffix := b[p : p+n]
	if c.pos == 0 {
		if same != 0 || !bytes.Equal(suffix, c.run.blocks[c.at-1].first) {
			return errors.New("first key differs from the index")
		}
		c.shared = 0
		if c.started {
			if bytes.Compare(suffix, c.key) <= 0 {
				return errors.New("keys are out of order")
			}
			c.shared = shared(c.key, suffix)
		}
	} else {
		// The prefix is maximal and the key greater exactly if the next byte
		// is greater.
		if same > len(c.key) || n == 0 || same < len(c.key) && suffix[0] <= c.key[same] {
			return errors.New("keys are out of order or a prefix is not maximal")
		}
		c.shared = same
	}
	c.key = append(c.key[:same], suffix...)
	c.started = true
	return c.readAccs(b, p+n)
}

// readAccs reads the row's accumulators at p.
func (c *RunCursor) readAccs(b []byte, p int) error {
	c.spread = c.spread[:0]
	var prev []byte
	total := len(c.key)
	for f := range c.accs {
		n, same := 0, 0
		if n, p = number(b, p); p < 0 {
			return errLength
		}
		if n == 0 {
			c.accs[f] = accRef{}
			continue
		}
		if prev != nil {
			if same, p = number(b, p); p < 0 {
				return errLength
			}
		}
		total += n
		if same > n || same > len(prev) || n-same > len(b)-p || total > MaxBlock/2 {
			return errCut
		}
		tail := b[p : p+n-same]
		if prev != nil && same < len(prev) && len(tail) > 0 && prev[same] == tail[0] {
			return errors.New("a prefix is not maximal")
		}
		if same == 0 {
			c.accs[f], prev = accRef{off: p, n: n}, tail
		} else {
			from := len(c.spread)
			c.spread = append(append(c.spread, prev[:same]...), tail...)
			c.accs[f], prev = accRef{off: from, n: n, inSpread: true}, c.spread[from:]
		}
		p += len(tail)
	}
	if prev == nil {
		return errors.New("row has no accumulator")
	}
	c.pos = p
	return nil
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
