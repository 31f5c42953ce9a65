package reader

import (
	"context"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
)

// stack is what a pane or a base says of its keys: layers over each other, of which the highest that has a key counts for it.
type stack struct {
	schema    string // its hash
	fields    []column.Field
	keyFields []column.Field
	layers    []layer // the highest first
}

// layer has each key in one of its tables at most: as a document, as a tombstone, or as one that has left the pane.
type layer struct{ docs, tombstones, left *table }

// stack opens the layers of a manifest. Of old, which may be nil, it takes the files that both have: of a pane with one layer more than the
// one before the new layer alone is read.
func (r *Reader) stack(ctx context.Context, m sink.Manifest, old *stack) (*stack, error) {
	all, known := m.Layers(), old.files(m)
	s := &stack{schema: m.Schema.Hash, layers: make([]layer, len(all))}
	for i, of := range all {
		l := &s.layers[len(all)-1-i]
		for _, t := range []struct {
			to    **table
			files []sink.File
			keys  bool
		}{{&l.docs, of.Files, false}, {&l.tombstones, of.Tombstones, true}, {&l.left, of.Left, true}} {
			var err error
			if *t.to, err = r.table(ctx, m, t.files, t.keys, known); err != nil {
				return nil, err
			}
		}
		s.fields, s.keyFields = l.docs.fields, l.docs.keyFields
	}
	return s, nil
}

// files are those of a stack by what nameOf says, where m has the same columns.
func (s *stack) files(m sink.Manifest) map[string]*file {
	if s == nil || s.schema != m.Schema.Hash {
		return nil
	}
	known := map[string]*file{}
	for _, l := range s.layers {
		for _, t := range l.tables() {
			for _, f := range t.files {
				known[nameOf(f.File)] = f
			}
		}
	}
	return known
}

// empty is a stack without rows: with nothing seen, the types of its key are none that a column had.
func (s *stack) empty() bool {
	for _, l := range s.layers {
		for _, t := range l.tables() {
			if len(t.files) > 0 {
				return false
			}
		}
	}
	return true
}

// find is what the stack says of a key. A nil stack says nothing.
func (s *stack) find(ctx context.Context, probe *column.Batch) (said, Document, string, error) {
	if s == nil {
		return nothing, Document{}, "", nil
	}
	for _, l := range s.layers {
		for _, t := range l.tables() {
			doc, file, err := t.find(ctx, probe)
			switch {
			case err != nil:
				return nothing, Document{}, "", err
			case file == "":
			case t.said == hasLeft:
				return nothing, Document{}, "", nil
			default:
				return t.said, doc, file, nil
			}
		}
	}
	return nothing, Document{}, "", nil
}

// said is what a layer may say of a key.
type said uint8

const (
	nothing said = iota
	document
	tombstone
	hasLeft // the pane: what is below does not count
)

// saying is a table with what it says of its keys.
type saying struct {
	*table
	said said
}

func (l layer) tables() []saying {
	return []saying{{l.docs, document}, {l.tombstones, tombstone}, {l.left, hasLeft}}
}

// pile walks what a stack says of its keys, in key order: its documents and its tombstones. It holds the bytes of one file and one row
// group of each table. A pile of a nil stack is done from the start.
type pile struct {
	heads   []head // a heap: the first key first, of equal ones the highest layer
	started bool
	spent   bool // the entry at hand was dealt with
}

// head is a table that is not yet at its end.
type head struct {
	*scan
	said said
	rank int // the lower, the higher its layer
}

func (s *stack) pile() *pile {
	p := &pile{started: s == nil}
	if s == nil {
		return p
	}
	for i, l := range s.layers {
		for _, t := range l.tables() {
			if len(t.files) > 0 {
				p.heads = append(p.heads, head{t.scan(), t.said, i})
			}
		}
	}
	return p
}

// fill makes the entry at hand available, or done.
func (p *pile) fill(ctx context.Context) error {
	if !p.started {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	for len(p.heads) > 0 && (p.spent || p.heads[0].said == hasLeft) {
		if err := p.pass(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *pile) start(ctx context.Context) error {
	p.started = true
	all := p.heads
	p.heads = nil
	for _, h := range all {
		if err := h.fill(ctx); err != nil {
			return err
		}
		if !h.done {
			p.heads = append(p.heads, h)
		}
	}
	for i := len(p.heads)/2 - 1; i >= 0; i-- {
		p.down(i)
	}
	return nil
}

// pass goes beyond the key at hand in every table that has it.
func (p *pile) pass(ctx context.Context) error {
	p.spent = false
	top := p.heads[0].scan
	key, row := top.key, top.row
	for len(p.heads) > 0 && p.heads[0].t.order(p.heads[0].key, p.heads[0].row, key, row) == 0 {
		h := p.heads[0]
		h.row++
		if err := h.fill(ctx); err != nil {
			return err
		}
		if h.done {
			last := len(p.heads) - 1
			p.heads[0] = p.heads[last]
			p.heads = p.heads[:last]
		}
		p.down(0)
	}
	return nil
}

func (p *pile) less(i, j int) bool {
	a, b := p.heads[i], p.heads[j]
	if d := a.compareKeys(b.scan); d != 0 {
		return d < 0
	}
	return a.rank < b.rank
}

func (p *pile) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(p.heads) && p.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		p.heads[i], p.heads[least] = p.heads[least], p.heads[i]
		i = least
	}
}

func (p *pile) done() bool          { return len(p.heads) == 0 }
func (p *pile) next()               { p.spent = true }
func (p *pile) tombstone() bool     { return p.heads[0].said == tombstone }
func (p *pile) compare(o *pile) int { return p.heads[0].compareKeys(o.heads[0].scan) }
func (p *pile) doc() Document       { return p.heads[0].doc() }
