package window

import (
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// documents are what a Rolling keeps of the documents it emitted, so that the
// next emission extracts those alone whose accumulators were touched. A value
// that is kept is the one that would be extracted: what a document is made of is
// its group's accumulators and whether a source or the base has the key, both
// of which touch tells of, and the program, the types and the base, with which
// all of a Rolling goes.
//
// What they are known to be is also what they were in the emission before, until
// the next one has come by: so it can tell what has become of them since.
type documents struct {
	columns []*kept  // by column of the schema
	keys    int      // of them are of the key, which tombstones have too
	clean   []bool   // by group: nothing was touched since it was extracted
	rows    []Row    // by group: what it is
	hashes  []Hash   // by group, of what is not key
	counts  [3]int64 // of groups by what they are
	gone    []uint32 // groups that were rows and left the window since
	pending []bool   // that of the base they were extracted with
	refused int      // so many groups were too many to keep; 0 for none
	mark    *Mark    // of the last emission, nil where it is not known as a whole

	extracted int64 // documents and tombstones, since all were
}

// touch says that the accumulators of a group, or what else its document is
// made of, may have changed.
func (d *documents) touch(g uint32) {
	if int(g) < len(d.clean) {
		d.clean[g] = false
	}
}

// touchAll is touch of every group.
func (d *documents) touchAll() { clear(d.clean) }

// begin makes room for n groups of documents of the schema.
func (d *documents) begin(schema []column.Field, keys, n int, pending []bool) {
	if !slices.Equal(pending, d.pending) {
		d.touchAll()
		d.pending = slices.Clone(pending)
	}
	if d.columns == nil {
		d.keys = keys
		for _, f := range schema {
			d.columns = append(d.columns, newKept(f.Type))
		}
	}
	d.clean, d.rows, d.hashes = lengthen(d.clean, n), lengthen(d.rows, n), lengthen(d.hashes, n)
	for _, c := range d.columns {
		c.grow(n)
	}
}

// keep takes in the values of what was extracted: the documents of groups, and of
// stones the tombstones.
func (d *documents) keep(groups []uint32, docs *column.Batch, stones []uint32, tombstones *column.Batch) error {
	d.extracted += int64(len(groups) + len(stones))
	for i, c := range d.columns {
		if err := c.set(groups, docs.Columns[i]); err != nil {
			return err
		}
	}
	for i, c := range d.columns[:d.keys] {
		if err := c.set(stones, tombstones.Columns[i]); err != nil {
			return err
		}
	}
	return nil
}

// made says what groups were found to be when they were extracted: documents,
// whose hashes may be nil, and tombstones.
func (d *documents) made(groups []uint32, hashes []Hash, stones []uint32) {
	for i, g := range groups {
		d.clean[g] = true
		d.is(g, DocumentRow)
		if hashes != nil {
			d.hashes[g] = hashes[i]
		}
	}
	for _, g := range stones {
		d.clean[g] = true
		d.is(g, TombstoneRow)
	}
}

func (d *documents) is(g uint32, row Row) {
	d.counts[d.rows[g]]--
	d.counts[row]++
	d.rows[g] = row
}

// leave says that groups have left the window.
func (d *documents) leave(groups []uint32) {
	for _, g := range groups {
		if int(g) < len(d.rows) && d.rows[g] != NoRow {
			d.gone = append(d.gone, g)
		}
	}
}

// stale returns a group whose kept document nothing touched and which is yet
// another one than was extracted.
func (d *documents) stale(groups []uint32, hashes []Hash, stones []uint32) (uint32, bool) {
	for i, g := range groups {
		if d.clean[g] && (d.rows[g] != DocumentRow || len(hashes) > 0 && d.hashes[g] != hashes[i]) {
			return g, true
		}
	}
	for _, g := range stones {
		if d.clean[g] && d.rows[g] != TombstoneRow {
			return g, true
		}
	}
	return 0, false
}

// append adds the documents of groups to out, and the keys of stones.
func (d *documents) append(out *Documents, groups, stones []uint32) error {
	for i, c := range d.columns {
		if err := c.append(out.Docs.Columns[i], groups); err != nil {
			return err
		}
	}
	for i, c := range d.columns[:d.keys] {
		if err := c.append(out.Tombstones.Columns[i], stones); err != nil {
			return err
		}
	}
	out.Docs.Len += len(groups)
	out.Tombstones.Len += len(stones)
	return nil
}

// compact gives back memory that is not in use any more.
func (d *documents) compact() error {
	for _, c := range d.columns {
		if err := c.compact(); err != nil {
			return err
		}
	}
	return nil
}

// refuse lets all go: n groups are too many to keep, and about as many will be.
func (d *documents) refuse(n int) { *d = documents{refused: n} }

// welcome says whether documents of n groups are worth another try.
func (d *documents) welcome(n int) bool { return d.refused == 0 || n < d.refused-d.refused/4 }

func (d *documents) bytes() int64 {
	n := int64(cap(d.clean) + cap(d.rows) + 16*cap(d.hashes) + 4*cap(d.gone))
	for _, c := range d.columns {
		n += c.bytes()
	}
	return n
}
