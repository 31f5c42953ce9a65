package scan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// Parquet: footer, then for each row group the chunks of the wanted columns,
// then batches from them. The decoders are our own because a daemon needs
// what libraries for trusted files do not promise: memory bounded by the bytes
// at hand, no goroutine whose panic nobody can catch, a checked size for every
// page, and right values for every codec or an error.
//
// A small object is one read. Of a larger one the tail is read, and then per
// row group the wanted chunks, with gaps of up to a megabyte read along.

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
	tailBytes      = 64 << 10
	gapBytes       = 1 << 20
)

// parquetFile is an open object.
type parquetFile struct {
	blob    Blob
	lim     Limits
	whole   []byte // all of a small object, else nil
	dataEnd int64  // where the footer starts
	*footer
	root   *node
	leaves int
}

// openParquet reads footer and schema.
func openParquet(ctx context.Context, blob Blob, lim Limits) (*parquetFile, error) {
	f := &parquetFile{blob: blob, lim: lim}
	size := blob.Size()
	if size < 12 {
		return nil, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	var tail []byte
	var err error
	if size <= lim.Whole {
		if f.whole, err = readAll(ctx, blob); err != nil {
			return nil, err
		}
		tail = f.whole
		if !bytes.HasPrefix(tail, []byte(magic)) && !bytes.HasPrefix(tail, []byte(magicEncrypted)) {
			return nil, errors.New("not a Parquet file: no PAR1 at its start")
		}
	} else {
		n := min(size, tailBytes)
		if tail, err = readRange(ctx, blob, size-n, n); err != nil {
			return nil, err
		}
	}
	raw, err := f.footerBytes(ctx, tail)
	if err != nil {
		return nil, err
	}
	f.dataEnd = size - 8 - int64(len(raw))
	if f.footer, err = parseFooter(raw); err != nil {
		return nil, err
	}
	f.root, f.leaves, err = parseSchema(f.elements)
	return f, err
}

// footerBytes finds the footer in the file's tail, reading more if need be.
func (f *parquetFile) footerBytes(ctx context.Context, tail []byte) ([]byte, error) {
	size := f.blob.Size()
	end := tail[len(tail)-8:]
	switch string(end[4:]) {
	case magic:
	case magicEncrypted:
		return nil, errors.New("the file is encrypted")
	default:
		return nil, errors.New("not a whole Parquet file: no PAR1 at its end")
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if n > size-12 || n > int64(f.lim.Footer) {
		return nil, fmt.Errorf("footer of %d bytes in a file of %d, the limit is %d", n, size, f.lim.Footer)
	}
	if n+8 > int64(len(tail)) {
		return readRange(ctx, f.blob, size-8-n, n)
	}
	return tail[int64(len(tail))-8-n : len(tail)-8], nil
}

// source fills one requested column of a batch.
type source struct {
	*assembler
	as      column.Type
	natural *column.Vector // where values must be converted to as
	value   *string        // of a column that the key carries
	misfit  *misfit        // why as does not hold the column's type: values must not have it
}

// plan finds the requested columns, with their types in this file.
func (f *parquetFile) plan(req Request) ([]*source, []column.Type, error) {
	sources := make([]*source, len(req.Columns))
	types := make([]column.Type, len(req.Columns))
	for i, c := range req.Columns {
		s := &source{as: c.As}
		n, err := f.root.find(c.Path)
		if err != nil {
			return nil, nil, err
		}
		value, inPath := req.PathValues[c.Path]
		switch {
		case n != nil:
			if s.assembler, err = newAssembler(n); err != nil {
				return nil, nil, fmt.Errorf("column %s: %w", c.Path, err)
			}
			types[i] = s.typ
		case inPath:
			s.value, types[i] = &value, column.Of(column.String)
		case !c.Optional:
			return nil, nil, missingError(c.Path)
		}
		err = fits(Parquet, types[i], c.As)
		switch {
		case c.Nulls && c.As.Kind == column.Null && types[i].Kind != column.Null:
			err = fmt.Errorf("is %s, where no value was expected", types[i])
		case s.as.Kind == column.Null:
			s.as = types[i]
		}
		if err != nil {
			s.misfit = &misfit{fmt.Errorf("column %s: %w", c.Path, err)}
			if s.assembler == nil { // the value is there, in every row
				return nil, nil, s.misfit
			}
		}
		sources[i] = s
	}
	return sources, types, nil
}

// untyped are the columns, of whatever type they are.
func untyped(columns []Column) []Column {
	out := slices.Clone(columns)
	for i := range out {
		out[i].As, out[i].Nulls = column.Type{}, false
	}
	return out
}

// misfit is an object whose type As does not hold.
type misfit struct{ err error }

func (m *misfit) Error() string        { return m.err.Error() }
func (m *misfit) Unwrap() error        { return m.err }
func (m *misfit) Is(target error) bool { return target == ErrMisfit }

func scanParquet(ctx context.Context, blob Blob, req Request, emit func(*column.Batch) error) (Result, error) {
	f, err := openParquet(ctx, blob, req.Limits)
	if err != nil {
		return Result{}, err
	}
	empty, err := f.empty(f.leaves)
	if err != nil {
		return Result{}, err
	}
	if empty {
		req.Columns = untyped(req.Columns)
	}
	sources, types, err := f.plan(req)
	if empty && err == nil {
		// Nothing has a type that could clash: what writes an empty table often knows none.
		none := make([]column.Type, len(types))
		return Result{Observed: none, Seen: none}, nil
	}
	res := Result{Observed: types}
	if err != nil || emit == nil {
		return res, err
	}
	r := &groupReader{parquetFile: f, ctx: ctx, sources: sources, emit: emit, scratch: req.Scratch, batch: &column.Batch{}}
	if r.scratch == nil {
		r.scratch = &Scratch{}
	}
	defer r.close(req)
	if err := r.columns(req); err != nil {
		return res, err
	}
	q := r.line(req.Limits.Ahead)
	defer q.stop()
	err = f.groups(f.leaves, r.wanted, q.add)
	if early := q.rest(); early != nil {
		err = early
	}
	res.Rows, res.Seen = r.rows, make([]column.Type, len(sources))
	for i, s := range sources {
		res.Seen[i] = s.seen()
	}
	return res, err
}

// groupReader reads row groups into batches.
type groupReader struct {
	*parquetFile
	ctx     context.Context
	sources []*source
	scratch *Scratch
	counter *source // read for its number of rows where no column is wanted
	wanted  map[int]bool
	readers []*leafReader
	batch   *column.Batch
	part    *column.Batch // of a batch that is too large; nil until there is one
	emit    func(*column.Batch) error
	rows    int64
}

// close gives back what the readers hold.
func (r *groupReader) close(req Request) {
	for _, l := range r.readers {
		l.memory.close()
	}
	for i, s := range r.sources {
		if s.assembler != nil {
			r.scratch.giveVector(s.natural)
		}
		if i < len(r.batch.Columns) {
			r.scratch.giveVector(r.batch.Columns[i])
		}
	}
	r.batch = nil
	r.scratch.rest()
	if req.Scratch == nil {
		r.scratch.infl.close()
	}
}

// columns collects the leaves to read.
func (r *groupReader) columns(req Request) error {
	all := r.sources
	if !slices.ContainsFunc(all, func(s *source) bool { return s.assembler != nil }) && r.parquetFile.rows > 0 {
		n := countable(r.root)
		if n == nil {
			return errors.New("no column to count the rows by")
		}
		a := &assembler{leaf: &leafReader{node: n, lt: leafType{conv: nothing}}}
		if lt, err := n.leafType(); err == nil {
			a.leaf.lt, a.typ = lt, lt.typ
		}
		a.leaves, a.def = []*leafReader{a.leaf}, n.def
		r.counter = &source{assembler: a, natural: column.New(a.typ)}
		all = append(slices.Clone(all), r.counter)
	}
	r.wanted = make(map[int]bool)
	r.scratch.infl.limit, r.scratch.most = req.Limits.Page, int(min(keptBytes, req.Limits.RowGroup/4))
	for _, s := range r.sources {
		r.batch.Columns = append(r.batch.Columns, r.scratch.vector(s.as))
		if s.assembler != nil && (s.misfit != nil || s.typ.Kind == column.Null || !s.typ.SameRepr(s.as)) {
			s.natural = r.scratch.vector(s.typ)
		}
	}
	for _, s := range all {
		if s.assembler == nil {
			continue
		}
		for _, l := range s.leaves {
			l.lim, l.memory = req.Limits, pages{scratch: r.scratch, keep: req.Scratch == nil}
			r.wanted[l.node.leaf] = true
			r.readers = append(r.readers, l)
		}
	}
	return nil
}

// countable returns a leaf without repetition whose values can be read.
func countable(n *node) *node {
	if n.leaf >= 0 && n.rep == 0 {
		if _, err := n.leafType(); err == nil {
			return n
		}
	}
	for _, c := range n.children {
		if found := countable(c); found != nil {
			return found
		}
	}
	return nil
}

// decode hands out the rows of a group, whose spans were read.
func (r *groupReader) decode(g rowGroup, spans []span) error {
	chunks := r.chunks(g, spans)
	size := int64(batchRows)
	for _, l := range r.readers {
		m := g.chunks[l.node.leaf]
		if err := l.open(chunks[l.node.leaf], m); err != nil {
			return inColumn(l.node, err)
		}
		if each := m.values / g.rows; each > 512 { // long lists: fewer rows a batch
			size = min(size, max(1, batchRows*512/each))
		}
	}
	for left := g.rows; left > 0; {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		n := min(left, size)
		if err := r.fill(int(n)); err != nil {
			return err
		}
		if err := r.hand(0, int(n)); err != nil {
			return err
		}
		left -= n
		r.rows += n
	}
	for _, l := range r.readers {
		if err := l.end(); err != nil {
			return inColumn(l.node, err)
		}
	}
	return nil
}

func inColumn(n *node, err error) error {
	return fmt.Errorf("column %s: %w", joinPath(n.path), err)
}

// fill reads n rows into the batch.
func (r *groupReader) fill(n int) error {
	r.batch.Reset()
	for _, l := range r.readers {
		l.memory.batch()
		l.rows = r.rows
	}
	for i, s := range r.sources {
		if err := s.fill(r.batch.Columns[i], n); err != nil {
			return err
		}
	}
	if r.counter != nil {
		r.counter.natural.Reset()
		if err := r.counter.read(r.counter.natural, n); err != nil {
			return inColumn(r.counter.leaf.node, err)
		}
	}
	r.batch.Len = n
	return nil
}

func (s *source) fill(v *column.Vector, n int) error {
	switch {
	case s.value != nil:
		for range n {
			v.AppendString(*s.value)
		}
		return nil
	case s.assembler == nil:
		for range n {
			v.AppendNull()
		}
		return nil
	case s.natural == nil:
		return s.named(s.read(v, n))
	}
	s.natural.Reset()
	if err := s.read(s.natural, n); err != nil {
		return s.named(err)
	}
	if s.misfit != nil && !s.yields() {
		return s.misfit
	}
	for i := range n {
		if err := v.AppendFrom(s.natural, i); err != nil {
			return s.named(fmt.Errorf("row %d: %w", s.leaves[0].rows+int64(i)+1, err))
		}
	}
	return nil
}

// seen is the column's type as far as the rows that were read have values of it.
func (s *source) seen() column.Type {
	switch {
	case s.value != nil:
		return column.Of(column.String)
	case s.assembler == nil:
		return column.Type{}
	}
	return s.assembler.seen()
}

// yields says whether the rows that were read have no values but those that As
// holds.
func (s *source) yields() bool {
	seen := s.seen()
	if s.as.Kind == column.Null {
		return seen.Kind == column.Null
	}
	return fits(Parquet, seen, s.as) == nil
}

// named adds the column's path in the file.
func (s *source) named(err error) error {
	if err == nil {
		return nil
	}
	n := s.leaves[0].node
	return inColumn(n, err)
}

// span is a range of the file to read, and the leaves whose chunks it holds.
type span struct {
	from, to int64
	leaves   []int

	done     chan struct{} // closed when the read has ended; nil where nobody reads ahead
	bytes    []byte
	err      error
	panicked any
}

// spans checks the group's wanted chunks and says what is to be read of the
// file: nothing where all of it is at hand.
func (r *groupReader) spans(g rowGroup) ([]span, error) {
	for _, l := range r.readers {
		if err := g.chunks[l.node.leaf].check(l.node, g.rows, r.dataEnd); err != nil {
			return nil, inColumn(l.node, err)
		}
	}
	if r.whole != nil {
		return nil, nil
	}
	var spans []span
	var total int64
	for leaf, m := range g.chunks {
		spans = append(spans, span{from: m.start, to: m.start + m.size, leaves: []int{leaf}})
		if total += m.size; total > r.lim.RowGroup {
			return nil, fmt.Errorf("the wanted columns have more than %d bytes in one row group", r.lim.RowGroup)
		}
	}
	return coalesce(spans), nil
}

// chunks returns the bytes of the group's wanted chunks by leaf.
func (r *groupReader) chunks(g rowGroup, spans []span) map[int][]byte {
	out := make(map[int][]byte, len(g.chunks))
	if r.whole != nil {
		for leaf, m := range g.chunks {
			out[leaf] = r.whole[m.start : m.start+m.size]
		}
		return out
	}
	for _, s := range spans {
		for _, leaf := range s.leaves {
			m := g.chunks[leaf]
			out[leaf] = s.bytes[m.start-s.from : m.start-s.from+m.size]
		}
	}
	return out
}

// coalesce joins ranges that overlap or lie close to each other.
func coalesce(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		if a.from != b.from {
			return int(min(1, max(-1, a.from-b.from)))
		}
		return a.leaves[0] - b.leaves[0]
	})
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.from-out[n-1].to <= gapBytes {
			out[n-1].to = max(out[n-1].to, s.to)
			out[n-1].leaves = append(out[n-1].leaves, s.leaves...)
			continue
		}
		out = append(out, s)
	}
	return out
}
