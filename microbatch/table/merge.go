package table

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/deltad/deltad/microbatch/combine"
)

// Merger walks several cursors as one, key by key. It is a loser tree with
// offset-value coding: each cursor carries, as one number, how its key differs
// from the last key that came out, so that most matches compare numbers and
// equal keys are known by the number 0.
type Merger struct {
	cursors []Cursor
	tree    []int32 // tree[0] is the winner, the others lost at their node
	code    []uint64
	last    []byte // the last key that came out; codes are relative to it
	holders []int
	stops   []int // scratch: the node where each holder lost
	started bool
	err     error
}

// Codes: 0 the key is equal; 1 it differs beyond what a code can say; else
// how many six-byte symbols are shared, the more the smaller, then the first
// symbol that differs.
const (
	codeEqual  = 0
	codeFar    = 1
	codeEnd    = math.MaxUint64
	symbolSize = 6
	maxSymbols = 1<<16 - 3
)

// Merge returns a merger before the first key. The cursors are before their
// first rows, or just moved by Seek; they belong to the merger until it is
// done.
func Merge(cursors []Cursor) *Merger {
	k := len(cursors)
	return &Merger{cursors: cursors, tree: make([]int32, max(k, 1)), code: make([]uint64, k)}
}

// Next moves to the next key that any cursor has.
func (m *Merger) Next() bool {
	if m.err != nil || len(m.cursors) == 0 {
		return false
	}
	if m.started {
		for range m.holders {
			m.advance(int(m.tree[0]), true)
			m.replay(m.tree[0])
		}
	} else {
		m.started = true
		m.build()
	}
	m.holders = m.holders[:0]
	w := m.tree[0]
	if m.err != nil || m.code[w] == codeEnd {
		return false
	}
	m.collect(w)
	m.last = append(m.last[:0], m.cursors[w].Key()...)
	return true
}

// Key is the current key, valid until Next.
func (m *Merger) Key() []byte { return m.last }

// Holders are the numbers of the cursors that stand at the key, ascending,
// valid until Next. Their Acc may be read; they must not be moved.
func (m *Merger) Holders() []int { return m.holders }

// Cursor returns cursor i.
func (m *Merger) Cursor(i int) Cursor { return m.cursors[i] }

// Err is what ended the merge early.
func (m *Merger) Err() error { return m.err }

// advance moves cursor i and codes its key against last.
func (m *Merger) advance(i int, after bool) {
	c := m.cursors[i]
	if !c.Next() {
		m.code[i] = codeEnd
		if err := c.Err(); err != nil && m.err == nil {
			m.err = fmt.Errorf("merge input %d: %w", i, err)
		}
		return
	}
	shared := 0
	if after {
		shared = c.Shared()
	}
	m.code[i] = codeOf(c.Key(), shared)
}

func symbol(key []byte, i int) uint64 {
	from := i * symbolSize
	if from+8 <= len(key) {
		b := key[from : from+8]
		return uint64(b[0])<<40 | uint64(b[1])<<32 | uint64(b[2])<<24 | uint64(b[3])<<16 | uint64(b[4])<<8 | uint64(b[5])
	}
	var s uint64
	for j := range symbolSize {
		s <<= 8
		if from+j < len(key) {
			s |= uint64(key[from+j])
		}
	}
	return s
}

// codeOf codes key against a smaller base with which it shares as many bytes,
// no more. Of two keys coded against one base the one with the smaller code is
// smaller: it either shares more symbols with the base, and the other leaves
// both at its own symbol, or they part within one symbol. In both cases the
// other's code holds against it too. Zeros that pad a last symbol can make
// codes equal, never order them wrongly.
func codeOf(key []byte, shared int) uint64 {
	i := shared / symbolSize
	if i >= maxSymbols {
		return codeFar
	}
	return uint64(maxSymbols+1-i)<<48 | symbol(key, i)
}

// before says whether a comes out before b and codes the loser against the
// winner. Codes that differ decide, and the loser's holds against the winner
// too; equal ones leave it to the bytes after what both share with last.
func (m *Merger) before(a, b int32) bool {
	ca, cb := m.code[a], m.code[b]
	if ca != cb {
		return ca < cb
	}
	if ca == codeEqual || ca == codeEnd {
		return a < b
	}
	from := 0
	if ca != codeFar {
		from = (maxSymbols + 1 - int(ca>>48)) * symbolSize
	}
	ka, kb := m.cursors[a].Key(), m.cursors[b].Key()
	same := from + shared(ka[min(from, len(ka)):], kb[min(from, len(kb)):])
	switch d := bytes.Compare(ka[min(same, len(ka)):], kb[min(same, len(kb)):]); {
	case d < 0:
		m.code[b] = codeOf(kb, same)
		return true
	case d > 0:
		m.code[a] = codeOf(ka, same)
		return false
	}
	if a < b {
		m.code[b] = codeEqual
		return true
	}
	m.code[a] = codeEqual
	return false
}

func (m *Merger) build() {
	k := int32(len(m.cursors))
	for i := range m.tree {
		m.tree[i] = -1
	}
	for i := range k {
		m.advance(int(i), false)
	}
	for i := range k {
		w := i
		for t := (i + k) / 2; t > 0 && w >= 0; t /= 2 {
			switch l := m.tree[t]; {
			case l < 0:
				m.tree[t], w = w, -1
			case m.before(l, w):
				m.tree[t], w = w, l
			}
		}
		if w >= 0 {
			m.tree[0] = w
		}
	}
}

// replay lets the former winner w compete again from its leaf.
func (m *Merger) replay(w int32) {
	cw := m.code[w]
	for t := (w + int32(len(m.cursors))) / 2; t > 0; t /= 2 {
		l := m.tree[t]
		cl := m.code[l]
		if cl > cw || cl == cw && !m.before(l, w) {
			continue
		}
		m.tree[t], w, cw = w, l, cl
	}
	m.tree[0] = w
}

// collect finds the cursors whose key is the winner's: those that lost with
// code 0 to it, or to one of those, directly.
func (m *Merger) collect(w int32) {
	k := len(m.cursors)
	m.holders = append(m.holders, int(w))
	m.stops = append(m.stops[:0], 0)
	for h := 0; h < len(m.holders); h++ {
		for t := (m.holders[h] + k) / 2; t > m.stops[h]; t /= 2 {
			if l := m.tree[t]; m.code[l] == codeEqual {
				m.holders = append(m.holders, int(l))
				m.stops = append(m.stops, t)
			}
		}
	}
	if len(m.holders) > 1 {
		slices.Sort(m.holders)
	}
}

// MergeRuns writes one run of the rows of all cursors, the accumulators of
// equal keys merged. The bytes depend on the rows alone, not on how they were
// spread over cursors.
func MergeRuns(w io.Writer, shape Shape, o Options, cursors ...Cursor) (Summary, error) {
	rw, err := NewWriter(w, shape, o)
	if err != nil {
		return Summary{}, err
	}
	f := newFolder(shape)
	m := Merge(cursors)
	for m.Next() {
		accs, err := f.fold(m)
		if err != nil {
			return Summary{}, err
		}
		if err := rw.Append(m.Key(), accs); err != nil {
			return Summary{}, err
		}
	}
	if m.err != nil {
		return Summary{}, m.err
	}
	return rw.Close()
}

// folder merges the accumulators of one key at a time.
type folder struct {
	shape   Shape
	columns []combine.Column
	bufs    [][]byte
	accs    [][]byte
}

func newFolder(shape Shape) *folder {
	f := &folder{shape: shape, bufs: make([][]byte, len(shape.Fns)), accs: make([][]byte, len(shape.Fns))}
	for _, fn := range shape.Fns {
		f.columns = append(f.columns, fn.NewColumn())
	}
	return f
}

// fold returns the merged accumulators of the merger's key. An accumulator
// that only one cursor has is passed on as it is.
func (f *folder) fold(m *Merger) ([][]byte, error) {
	for j, col := range f.columns {
		f.accs[j] = nil
		n := 0
		for _, i := range m.holders {
			acc := m.cursors[i].Acc(j)
			if len(acc) == 0 {
				continue
			}
			if n++; n == 1 {
				f.accs[j] = acc
				continue
			}
			if n == 2 {
				col.Reset()
				col.Grow(1)
				if err := col.Merge(0, f.accs[j]); err != nil {
					return nil, fmt.Errorf("merge key %x: %w", m.last, err)
				}
			}
			if err := col.Merge(0, acc); err != nil {
				return nil, fmt.Errorf("merge key %x: %w", m.last, err)
			}
		}
		if n > 1 {
			f.bufs[j] = col.AppendAcc(f.bufs[j][:0], 0)
			f.accs[j] = f.bufs[j]
		}
	}
	return f.accs, nil
}
