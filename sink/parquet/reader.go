package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/deltad/deltad/microbatch/column"
)

// maxLeafValues bounds what one column of one row group may announce, since it is allocated at once.
const maxLeafValues = 64 << 20

// Reader gives back the documents of one file that a Writer made. It is for one goroutine.
//
// The bytes are taken to be those of a manifest, verified by hash: damage is an error, but a file crafted to harm is not what this reader
// is for.
type Reader struct {
	fields []column.Field
	file   *pq.File
	cols   []*assembler
	leaves []*cursor
	next   int
}

// NewReader opens a file of size bytes, whose schema must be the one given.
func NewReader(r io.ReaderAt, size int64, fields []column.Field) (rd *Reader, err error) {
	defer recovered(&err)
	if err := CheckFields(fields); err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	if err := checkFooter(r, size); err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	f, err := pq.OpenFile(r, size, &pq.FileConfig{SkipPageIndex: true, SkipBloomFilters: true})
	if err != nil {
		return nil, fmt.Errorf("read documents: open: %w", err)
	}
	want := pq.NewSchema("document", groupOf(fields))
	if !pq.EqualNodes(want, f.Schema()) {
		return nil, fmt.Errorf("read documents: the file's schema is %s, want %s", f.Schema(), want)
	}
	for _, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			// The library's LZ4 doubles its memory without end where a byte is wrong.
			if codec := c.MetaData.Codec; codec != format.Zstd {
				return nil, fmt.Errorf("read documents: column %s: codec %s, want %s", strings.Join(c.MetaData.PathInSchema, "."), codec, format.Zstd)
			}
		}
	}
	rd = &Reader{fields: fields, file: f}
	for _, fl := range fields {
		rd.cols = append(rd.cols, newAssembler(fl, 0, 0, &rd.leaves))
	}
	return rd, nil
}

// checkFooter compares the footer's length with the file's: the library makes room for as much as is claimed.
func checkFooter(r io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return fmt.Errorf("a file of %d bytes", size)
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the footer's length: %w", err)
	}
	if n := int64(binary.LittleEndian.Uint32(tail[:])); n > size-12 {
		return fmt.Errorf("a footer of %d bytes in a file of %d", n, size)
	}
	return nil
}

// recovered turns a panic of the decoder into an error: damage must not end the process.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("read documents: damaged file: %v", p)
	}
}

// Rows is the number of documents in the file.
func (r *Reader) Rows() int64 { return r.file.NumRows() }

// Next returns the documents of the next row group in a batch of their own, or io.EOF.
func (r *Reader) Next() (b *column.Batch, err error) {
	defer recovered(&err)
	groups := r.file.RowGroups()
	if r.next == len(groups) {
		return nil, io.EOF
	}
	g := groups[r.next]
	r.next++
	for i, chunk := range g.ColumnChunks() {
		if err := r.leaves[i].load(chunk); err != nil {
			return nil, fmt.Errorf("read documents: row group %d: %w", r.next-1, err)
		}
	}
	b = column.NewBatch(r.fields)
	b.Len = int(g.NumRows())
	for c, a := range r.cols {
		for i := 0; i < b.Len; i++ {
			if err := a.row(b.Columns[c]); err != nil {
				return nil, fmt.Errorf("read documents: column %s: %w", r.fields[c].Name, err)
			}
		}
	}
	for _, l := range r.leaves {
		if l.pos != len(l.vals) {
			return nil, fmt.Errorf("read documents: row group %d has values beyond its rows", r.next-1)
		}
		l.vals, l.pos = nil, 0
	}
	return b, nil
}

// cursor walks the values of one leaf of one row group.
type cursor struct {
	vals []pq.Value
	pos  int
}

var errShort = errors.New("fewer values than rows")

func (c *cursor) load(chunk pq.ColumnChunk) error {
	n := chunk.NumValues()
	if n < 0 || n > maxLeafValues {
		return fmt.Errorf("%d values in a column", n)
	}
	c.vals, c.pos = make([]pq.Value, 0, n), 0
	pages := chunk.Pages()
	defer pages.Close()
	for {
		p, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		vr := p.Values() // the page is not released: values point into it
		for {
			at := len(c.vals)
			if at == cap(c.vals) {
				c.vals = append(c.vals, pq.Value{})[:at]
			}
			n, err := vr.ReadValues(c.vals[at:cap(c.vals)])
			c.vals = c.vals[:at+n]
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return io.ErrNoProgress
			}
		}
	}
}

// assembler puts rows together again, the reverse of shredder.
type assembler struct {
	typ      column.Type
	optional bool
	def, rep int
	leaf     *cursor
	parts    []*assembler
	first    *cursor // the first leaf below, whose levels speak for all
}

func newAssembler(f column.Field, def, rep int, leaves *[]*cursor) *assembler {
	a := &assembler{typ: f.Type, optional: !f.Key, def: def, rep: rep}
	if a.optional {
		a.def++
	}
	at := len(*leaves)
	switch f.Type.Kind {
	case column.List:
		a.rep++
		a.parts = []*assembler{newAssembler(column.Field{Type: *f.Type.Elem}, a.def+1, a.rep, leaves)}
	case column.Struct:
		for _, g := range f.Type.Fields {
			g.Key = false
			a.parts = append(a.parts, newAssembler(g, a.def, a.rep, leaves))
		}
	default:
		a.leaf = &cursor{}
		*leaves = append(*leaves, a.leaf)
	}
	if at < len(*leaves) {
		a.first = (*leaves)[at]
	}
	return a
}

// peek returns the levels of the next value below.
func (a *assembler) peek() (rep, def int, ok bool) {
	if a.first == nil || a.first.pos >= len(a.first.vals) {
		return 0, 0, false
	}
	v := a.first.vals[a.first.pos]
	return v.RepetitionLevel(), v.DefinitionLevel(), true
}

// skip passes one value in every leaf below: what a null or an empty list left there.
func (a *assembler) skip() {
	if a.leaf != nil {
		a.leaf.pos++
	}
	for _, p := range a.parts {
		p.skip()
	}
}

func (a *assembler) row(v *column.Vector) error {
	_, def, ok := a.peek()
	if !ok {
		return errShort
	}
	if def < a.def {
		if !a.optional {
			return errors.New("null where none can be")
		}
		a.skip()
		v.AppendNull()
		return nil
	}
	switch a.typ.Kind {
	case column.List:
		return a.list(v, def)
	case column.Struct:
		for i, p := range a.parts {
			if err := p.row(v.Fields[i]); err != nil {
				return err
			}
		}
		v.EndStruct()
		return nil
	}
	val := a.leaf.vals[a.leaf.pos]
	a.leaf.pos++
	return a.value(v, val)
}

func (a *assembler) list(v *column.Vector, def int) error {
	if def == a.def {
		a.skip()
		v.EndList()
		return nil
	}
	for {
		if err := a.parts[0].row(v.Elem); err != nil {
			return err
		}
		if rep, _, ok := a.peek(); !ok || rep < a.rep {
			break
		}
	}
	v.EndList()
	return nil
}

func (a *assembler) value(v *column.Vector, val pq.Value) error {
	switch a.typ.Kind {
	case column.Bool:
		v.AppendBool(val.Boolean())
	case column.Int32, column.Date:
		v.AppendInt(int64(val.Int32()))
	case column.Int64:
		v.AppendInt(val.Int64())
	case column.Float32:
		v.AppendFloat(float64(val.Float()))
	case column.Float64:
		v.AppendFloat(val.Double())
	case column.String, column.Bytes:
		v.AppendString(string(val.ByteArray()))
	case column.Time:
		v.AppendInt(val.Int64() * 1000)
	case column.Timestamp:
		micros := val.Int64()
		sec := micros / 1_000_000
		if micros%1_000_000 < 0 {
			sec--
		}
		v.AppendTimestamp(sec, int32(micros-sec*1_000_000)*1000)
	case column.Decimal:
		switch {
		case a.typ.Precision <= 9:
			v.AppendDecimal(column.Int128From(int64(val.Int32())))
		case a.typ.Precision <= 18:
			v.AppendDecimal(column.Int128From(val.Int64()))
		default:
			v.AppendDecimal(int128(val.ByteArray()))
		}
	default:
		return fmt.Errorf("a value in a column of type %s", a.typ)
	}
	return nil
}
