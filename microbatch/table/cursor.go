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
	at      int   // the next block
	left    int64 // rows left in the block
	b       []byte
	buf     []byte
	stored  []byte
	key     []byte
	shared  int
	started bool // whether key is that of a row
	held    bool // whether Seek has the next row already
	accs    [][]byte
	spread  []byte // accumulators that share a prefix, in full
	err     error
	onBlock func(rows []byte)
}

// Cursor returns a cursor before the first row.
func (r *Run) Cursor() *RunCursor {
	return &RunCursor{run: r, accs: make([][]byte, r.fns)}
}

// Key implements Cursor.
func (c *RunCursor) Key() []byte { return c.key }

// Shared implements Cursor.
func (c *RunCursor) Shared() int { return c.shared }

// Acc implements Cursor.
func (c *RunCursor) Acc(f int) []byte { return c.accs[f] }

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
	inBlock := c.started && c.at == at+1
	if inBlock && bytes.Compare(c.key, key) >= 0 {
		// The row is here or behind; only a fresh start tells which.
		inBlock = false
	}
	if !inBlock {
		c.at, c.left, c.started, c.b = at, 0, false, nil
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
	if c.err != nil {
		return false
	}
	fresh := c.left == 0
	if fresh {
		if len(c.b) > 0 {
			return c.fail(errors.New("bytes are left over"))
		}
		if c.at == len(c.run.blocks) {
			return false
		}
		c.at++
		rows, stored, err := c.run.block(c.at-1, c.buf, c.stored)
		if err != nil {
			return c.fail(err)
		}
		c.b, c.buf, c.stored, c.left = rows, rows, stored, c.run.blocks[c.at-1].rows
		if c.onBlock != nil {
			c.onBlock(rows)
		}
	}
	if err := c.row(fresh); err != nil {
		return c.fail(err)
	}
	c.left--
	if c.left == 0 && len(c.b) > 0 {
		return c.fail(errors.New("bytes are left over"))
	}
	return true
}

// number reads a length, one byte of it in the common case.
func (c *RunCursor) number() (int, error) {
	if len(c.b) > 0 && c.b[0] < 0x80 {
		n := int(c.b[0])
		c.b = c.b[1:]
		return n, nil
	}
	r := bytesReader{b: c.b}
	n := r.uvarint()
	if r.err == nil && n > MaxBlock {
		r.err = fmt.Errorf("length %d exceeds %d", n, MaxBlock)
	}
	c.b = r.b
	return int(n), r.err
}

// row reads a row. fresh says that it is its block's first.
func (c *RunCursor) row(fresh bool) error {
	same, err := c.number()
	if err != nil {
		return err
	}
	n, err := c.number()
	if err != nil {
		return err
	}
	if n > len(c.b) {
		return errCut
	}
	suffix := c.b[:n]
	c.b = c.b[n:]
	if fresh {
		if same != 0 || !bytes.Equal(suffix, c.run.blocks[c.at-1].first) {
			return errors.New("first key differs from the index")
		}
		if c.started && bytes.Compare(suffix, c.key) <= 0 {
			return errors.New("keys are out of order")
		}
		c.shared = 0
		if c.started {
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
	return c.readAccs()
}

func (c *RunCursor) readAccs() error {
	c.spread = c.spread[:0]
	var prev []byte
	total := len(c.key)
	for f := range c.accs {
		n, err := c.number()
		if err != nil {
			return err
		}
		if n == 0 {
			c.accs[f] = nil
			continue
		}
		same := 0
		if prev != nil {
			if same, err = c.number(); err != nil {
				return err
			}
		}
		total += n
		if same > n || same > len(prev) || n-same > len(c.b) || total > MaxBlock/2 {
			return errCut
		}
		tail := c.b[:n-same]
		c.b = c.b[n-same:]
		if prev != nil && same < len(prev) && len(tail) > 0 && prev[same] == tail[0] {
			return errors.New("a prefix is not maximal")
		}
		acc := tail
		if same > 0 {
			from := len(c.spread)
			c.spread = append(append(c.spread, prev[:same]...), tail...)
			acc = c.spread[from:]
		}
		c.accs[f], prev = acc, acc
	}
	if prev == nil {
		return errors.New("row has no accumulator")
	}
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
