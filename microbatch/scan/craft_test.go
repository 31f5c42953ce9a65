package scan

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A crafted file is put together from its parts, so that it can have layouts
// that no writer makes any more, and lies that none would tell.

// leafElem is a leaf of a schema.
func leafElem(name string, phys format.Type, rep format.FieldRepetitionType) format.SchemaElement {
	return format.SchemaElement{Name: name, Type: thrift.New(phys), RepetitionType: thrift.New(rep)}
}

// groupElem is a group of a schema.
func groupElem(name string, rep format.FieldRepetitionType, children int32) format.SchemaElement {
	return format.SchemaElement{Name: name, RepetitionType: thrift.New(rep), NumChildren: thrift.New(children)}
}

func logical(e format.SchemaElement, l format.LogicalTypeValue) format.SchemaElement {
	e.LogicalType = format.LogicalType{Value: l}
	return e
}

func converted(e format.SchemaElement, c deprecated.ConvertedType) format.SchemaElement {
	e.ConvertedType = thrift.New(c)
	return e
}

func fixedLen(e format.SchemaElement, n int32) format.SchemaElement {
	e.TypeLength = thrift.New(n)
	return e
}

// craftedPage is a page and its header.
type craftedPage struct {
	header format.PageHeader
	body   []byte
}

// craftedChunk is a column chunk; meta is filled in where it is zero.
type craftedChunk struct {
	meta  format.ColumnMetaData
	pages []craftedPage
}

// dataPage makes a V1 page of PLAIN values from its body, levels included.
func dataPage(values int, body []byte) craftedPage {
	return craftedPage{body: body, header: format.PageHeader{
		Type: format.DataPage, UncompressedPageSize: int32(len(body)), CompressedPageSize: int32(len(body)), CRC: int32(crc32.ChecksumIEEE(body)),
		DataPageHeader: thrift.New(format.DataPageHeader{NumValues: int32(values), DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}),
	}}
}

// craft writes a file of one row group. The schema's root is added.
func craft(t testing.TB, rows int64, schema []format.SchemaElement, children int32, chunks ...craftedChunk) []byte {
	t.Helper()
	out := []byte(magic)
	group := format.RowGroup{NumRows: rows}
	for _, c := range chunks {
		m := c.meta
		m.DataPageOffset = int64(len(out))
		for _, p := range c.pages {
			if p.header.Type == format.DictionaryPage {
				m.DictionaryPageOffset = m.DataPageOffset
			}
			out = append(append(out, marshal(t, &p.header)...), p.body...)
			if p.header.Type == format.DictionaryPage {
				m.DataPageOffset = int64(len(out))
			}
			if m.NumValues == 0 && p.header.DataPageHeader.Valid {
				c.meta.NumValues += int64(p.header.DataPageHeader.V.NumValues)
			}
		}
		if m.NumValues == 0 {
			m.NumValues = c.meta.NumValues
		}
		if m.TotalCompressedSize == 0 {
			m.TotalCompressedSize = int64(len(out)) - max(m.DictionaryPageOffset, 0)
			if m.DictionaryPageOffset == 0 {
				m.TotalCompressedSize = int64(len(out)) - m.DataPageOffset
			}
		}
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: m})
	}
	meta := format.FileMetaData{Version: 1, NumRows: rows, RowGroups: []format.RowGroup{group},
		Schema: append([]format.SchemaElement{groupElem("schema", format.Required, children)}, schema...)}
	footer := marshal(t, &meta)
	out = append(out, footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, magic...)
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// oneColumn writes a file of one flat required column from its PLAIN body.
func oneColumn(t testing.TB, e format.SchemaElement, rows int, body []byte) []byte {
	t.Helper()
	meta := format.ColumnMetaData{Type: e.Type.V, PathInSchema: []string{e.Name}}
	return craft(t, int64(rows), []format.SchemaElement{e}, 1, craftedChunk{meta: meta, pages: []craftedPage{dataPage(rows, body)}})
}

// rleLevels encodes levels as one-value runs behind their length.
func rleLevels(levels ...byte) []byte {
	var runs []byte
	for _, l := range levels {
		runs = append(runs, 1<<1, l)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(runs))), runs...)
}

func le32(vs ...int32) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func le64(vs ...int64) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// int96 encodes nanoseconds of a Julian day.
func int96(nanos, day int64) []byte { return append(le64(nanos), le32(int32(day))...) }

func byteArrays(vs ...string) (b []byte) {
	for _, v := range vs {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
	}
	return b
}
