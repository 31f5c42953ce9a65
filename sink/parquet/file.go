package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/deltad/deltad/microbatch/column"
)

// file is a Parquet file on its way to an output: row groups, each followed by the bloom filters of its keys, the page index, the footer.
type file struct {
	out    *output
	layout *layout
	groups []format.RowGroup
	index  [][]format.ColumnIndex // by row group and leaf
	pages  [][]format.OffsetIndex
	rows   int64
	buf    bytes.Buffer
	enc    *thrift.Encoder
}

// layout is what all files of a schema have in common.
type layout struct {
	schema  []format.SchemaElement
	orders  []format.ColumnOrder
	sorting []format.SortingColumn
}

const magic = "PAR1"

func newLayout(fields []column.Field, leaves []*leaf) *layout {
	root := groupOf(fields)
	y := &layout{schema: []format.SchemaElement{{Name: "document", NumChildren: thrift.New(int32(len(fields)))}}}
	for _, f := range root.Fields() {
		y.add(f.Name(), f)
	}
	for i, l := range leaves {
		if l.key {
			y.sorting = append(y.sorting, format.SortingColumn{ColumnIdx: int32(i)})
		}
	}
	return y
}

// add describes a node and all below it.
func (y *layout) add(name string, n pq.Node) {
	t := n.Type()
	e := format.SchemaElement{Name: name, RepetitionType: thrift.New(format.Required)}
	switch {
	case n.Optional():
		e.RepetitionType = thrift.New(format.Optional)
	case n.Repeated():
		e.RepetitionType = thrift.New(format.Repeated)
	}
	if logical := t.LogicalType(); logical != nil {
		e.LogicalType = *logical
		if d, ok := logical.Value.(*format.DecimalType); ok { // older readers look here
			e.Scale, e.Precision = thrift.New(d.Scale), thrift.New(d.Precision)
		}
	}
	if c := t.ConvertedType(); c != nil {
		e.ConvertedType = thrift.New(*c)
	}
	if n.Leaf() {
		e.Type = thrift.New(*t.PhysicalType())
		if e.Type.V == format.FixedLenByteArray {
			e.TypeLength = thrift.New(int32(t.Length()))
		}
		y.orders = append(y.orders, *t.ColumnOrder())
		y.schema = append(y.schema, e)
		return
	}
	e.NumChildren = thrift.New(int32(len(n.Fields())))
	y.schema = append(y.schema, e)
	for _, f := range n.Fields() {
		y.add(f.Name(), f)
	}
}

func newFile(out *output, y *layout) (*file, error) {
	f := &file{out: out, layout: y}
	f.enc = thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(&f.buf))
	return f, f.write([]byte(magic))
}

func (f *file) write(b []byte) error {
	_, err := f.out.Write(b)
	return err
}

// encode writes a structure of the metadata and returns its length.
func (f *file) encode(v any) (int, error) {
	f.buf.Reset()
	if err := f.enc.Encode(v); err != nil {
		return 0, err
	}
	return f.buf.Len(), f.write(f.buf.Bytes())
}

// group writes the chunks of the leaves as a row group and empties them.
func (f *file) group(p *pager, leaves []*leaf) error {
	g := format.RowGroup{
		NumRows: leaves[0].chunk.rows, SortingColumns: f.layout.sorting, FileOffset: f.out.size, Ordinal: int16(len(f.groups)),
		Columns: make([]format.ColumnChunk, len(leaves)),
	}
	f.out.spool.Grow(sizeOf(leaves))
	index, pages := make([]format.ColumnIndex, len(leaves)), make([]format.OffsetIndex, len(leaves))
	for i, l := range leaves {
		m, err := f.column(p, l)
		if err != nil {
			return fmt.Errorf("column %s: %w", l.path, err)
		}
		g.Columns[i].MetaData = m
		g.TotalByteSize += m.TotalUncompressedSize
		g.TotalCompressedSize += m.TotalCompressedSize
		if x, ok := l.chunk.columnIndex(l); ok {
			index[i] = x
		}
		for _, at := range l.chunk.locations {
			at.Offset += m.DataPageOffset
			pages[i].PageLocations = append(pages[i].PageLocations, at)
		}
	}
	for i, l := range leaves {
		if l.filtered() {
			if err := f.filter(l, &g.Columns[i].MetaData); err != nil {
				return fmt.Errorf("column %s: %w", l.path, err)
			}
		}
		l.chunk.reset()
	}
	f.groups, f.index, f.pages = append(f.groups, g), append(f.index, index), append(f.pages, pages)
	f.rows += g.NumRows
	return nil
}

// sizeOf is about how many bytes a row group of the leaves' chunks takes.
func sizeOf(leaves []*leaf) int {
	size := 0
	for _, l := range leaves {
		size += int(l.chunk.packed) + (64+2*indexBytes)*len(l.chunk.index)
		if l.chunk.dict != nil {
			size += l.chunk.dict.size
		}
		if l.filtered() {
			size += int(l.chunk.values)*bloomBits/8 + 64
		}
	}
	return size
}

// column writes the dictionary and the pages of a leaf.
func (f *file) column(p *pager, l *leaf) (format.ColumnMetaData, error) {
	c := &l.chunk
	start, plainSize := f.out.size, int64(0)
	named := c.dict != nil && c.dict.len() > 0
	if named {
		body := c.dict.appendPage(p.body[:0])
		p.body = body
		p.packed = p.zstd.EncodeAll(body, p.packed[:0])
		h := dictionaryHeader(p.packed, len(body), c.dict.len())
		if err := f.write(h.bytes[:h.n]); err != nil {
			return format.ColumnMetaData{}, err
		}
		if err := f.write(p.packed); err != nil {
			return format.ColumnMetaData{}, err
		}
		plainSize = int64(h.n + len(body))
		c.count(format.DictionaryPage, format.Plain)
	}
	m := c.metadata(l, f.out.size)
	if named {
		m.DictionaryPageOffset = start
		m.TotalUncompressedSize += plainSize
		m.TotalCompressedSize += m.DataPageOffset - start
	}
	for _, b := range c.pages {
		if err := f.write(b); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (f *file) filter(l *leaf, m *format.ColumnMetaData) error {
	bits := l.chunk.filter()
	m.BloomFilterOffset = f.out.size
	h := format.BloomFilterHeader{NumBytes: int32(len(bits))}
	h.Algorithm.Value, h.Hash.Value, h.Compression.Value = &format.SplitBlockAlgorithm{}, &format.XxHash{}, &format.BloomFilterUncompressed{}
	n, err := f.encode(&h)
	if err != nil {
		return err
	}
	m.BloomFilterLength = int32(n + len(bits))
	return f.write(bits)
}

// close writes everything behind the row groups.
func (f *file) close() error {
	for i := range f.groups {
		for j := range f.index[i] {
			if len(f.index[i][j].NullPages) == 0 {
				continue
			}
			c := &f.groups[i].Columns[j]
			c.ColumnIndexOffset = f.out.size
			n, err := f.encode(&f.index[i][j])
			if err != nil {
				return err
			}
			c.ColumnIndexLength = int32(n)
		}
	}
	for i := range f.groups {
		for j := range f.pages[i] {
			c := &f.groups[i].Columns[j]
			c.OffsetIndexOffset = f.out.size
			n, err := f.encode(&f.pages[i][j])
			if err != nil {
				return err
			}
			c.OffsetIndexLength = int32(n)
		}
	}
	n, err := f.encode(&format.FileMetaData{
		Version: 2, Schema: f.layout.schema, NumRows: f.rows, RowGroups: f.groups, ColumnOrders: f.layout.orders,
		CreatedBy: "deltad version 1(build 1)", // no version: an upgrade must not change bytes
	})
	if err != nil {
		return err
	}
	return f.write(append(binary.LittleEndian.AppendUint32(nil, uint32(n)), magic...))
}
