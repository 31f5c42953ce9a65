package window

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
)

// fanOut is how many nodes of a level make one of the next. Four takes little
// more room than the leaves and as little time as two.
const fanOut = 4

// cover covers stretches of time with few runs, out of a tree: a node is the merge of the runs
// in an aligned block of fanOut^level partitions, named by what is in it. A
// late object gives the blocks around it other names, so that they are made
// anew; any node may be dropped at any time.
type cover struct {
	shape   table.Shape // of the nodes: a part of the leaves' columns
	columns []int       // which of the leaves' they are
	granule time.Duration
	dir     string
	memory  *spool.Budget
	nodes   map[nodeID]*block
	made    int  // nodes, ever
	noRoom  bool // for nodes: the leaves serve as well
}

type nodeID [sha256.Size]byte

// block is a node and the sources in it; their runs may go before it does.
type block struct {
	run *table.Run
	ids []string
}

// part is a source as the tree sees it.
type part struct {
	slot int64 // the partition's number on the time line
	id   string
	run  *table.Run
}

func newCover(shape table.Shape, columns []int, o RollingOptions) *cover {
	t := &cover{columns: columns, granule: o.Granule, dir: o.Dir, memory: o.Memory, nodes: map[nodeID]*block{}}
	t.shape.Keys = shape.Keys
	for _, j := range columns {
		t.shape.Fns = append(t.shape.Fns, shape.Fns[j])
	}
	return t
}

func (r *Rolling) part(s Source) part {
	return part{slot: r.slot(s.Start), id: s.ID, run: s.Run}
}

// over returns cursors over nodes, and over leaves, that together have what
// the leaves have. The leaves are in the order of their slots; the cursors have
// the tree's shape. plain is for the leaves alone.
func (t *cover) over(leaves []part, plain bool) ([]table.Cursor, error) {
	if plain {
		return t.within(0, 0, leaves)
	}
	var out []table.Cursor
	for len(leaves) > 0 {
		first, last := leaves[0].slot, leaves[len(leaves)-1].slot
		level, width := 0, int64(1)
		for first%(width*fanOut) == 0 && first+width*fanOut-1 <= last {
			level, width = level+1, width*fanOut
		}
		n := before(leaves, first+width)
		c, err := t.within(level, first, leaves[:n])
		if err != nil {
			return nil, err
		}
		out = append(out, c...)
		leaves = leaves[n:]
	}
	return out, nil
}

// before is how many of the leaves lie before the slot.
func before(leaves []part, slot int64) int {
	for i, l := range leaves {
		if l.slot >= slot {
			return i
		}
	}
	return len(leaves)
}

// within returns cursors over what is in an aligned block.
func (t *cover) within(level int, first int64, leaves []part) ([]table.Cursor, error) {
	if level == 0 || len(leaves) < 2 {
		out := make([]table.Cursor, len(leaves))
		for i, l := range leaves {
			out[i] = &picked{RunCursor: l.run.Cursor(), columns: t.columns}
		}
		return out, nil
	}
	id := idOf(level, first, leaves)
	if n := t.nodes[id]; n != nil {
		return []table.Cursor{n.run.Cursor()}, nil
	}
	if t.noRoom {
		return t.within(0, first, leaves)
	}
	var parts []table.Cursor
	width := int64(1)
	for range level - 1 {
		width *= fanOut
	}
	rest := leaves
	for child := range int64(fanOut) {
		n := before(rest, first+(child+1)*width)
		c, err := t.within(level-1, first+child*width, rest[:n])
		if err != nil {
			return nil, err
		}
		parts, rest = append(parts, c...), rest[n:]
	}
	run, err := t.merge(parts)
	if errors.Is(err, errNoRoom) {
		t.noRoom = true
		return t.within(0, first, leaves)
	}
	if err != nil {
		return nil, fmt.Errorf("merge %d slices from %s: %w", len(leaves), time.Unix(first*int64(t.granule/time.Second), 0).UTC().Format(time.RFC3339), err)
	}
	ids := make([]string, len(leaves))
	for i, l := range leaves {
		ids[i] = l.id
	}
	t.nodes[id] = &block{run, ids}
	t.made++
	return []table.Cursor{run.Cursor()}, nil
}

func (t *cover) merge(parts []table.Cursor) (*table.Run, error) {
	out := &room{Spool: spool.New(t.dir, t.memory)}
	if _, err := table.MergeRuns(out, t.shape, table.Options{}, parts...); err != nil {
		out.Abort()
		if out.err != nil {
			return nil, errNoRoom
		}
		return nil, err
	}
	data, err := out.Seal()
	if err != nil {
		return nil, errNoRoom
	}
	return table.Open(data, data.Size(), t.shape)
}

// errNoRoom says that a node could not be written, to memory or to a file.
var errNoRoom = errors.New("no room for a node")

// room remembers whether its spool failed.
type room struct {
	*spool.Spool
	err error
}

// Write implements io.Writer.
func (r *room) Write(b []byte) (n int, err error) {
	n, r.err = r.Spool.Write(b)
	return n, r.err
}

// prune drops the nodes that no cover of the sources can have.
func (t *cover) prune(sources map[string]*heldSource) {
	maps.DeleteFunc(t.nodes, func(_ nodeID, b *block) bool {
		return slices.ContainsFunc(b.ids, func(id string) bool { return sources[id] == nil })
	})
}

func idOf(level int, first int64, leaves []part) nodeID {
	h := sha256.New()
	var b []byte
	b = binary.AppendVarint(binary.AppendUvarint(b, uint64(level)), first)
	for _, l := range leaves {
		b = append(binary.AppendUvarint(b, uint64(len(l.id))), l.id...)
		h.Write(b)
		b = b[:0]
	}
	var id nodeID
	h.Sum(id[:0])
	return id
}

// picked shows some of a run's columns.
type picked struct {
	*table.RunCursor
	columns []int
}

// Acc implements table.Cursor.
func (p *picked) Acc(f int) []byte { return p.RunCursor.Acc(p.columns[f]) }
