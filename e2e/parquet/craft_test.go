//go:build integration

package parquet_test

import (
	"encoding/binary"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Files that no writer makes, field by field. All have one column, k.

// crafted is a file of one row group of one column.
type crafted struct {
	phys  format.Type
	rep   format.FieldRepetitionType
	codec format.CompressionCodec
	rows  int64
	pages []craftedPage
}

// craftedPage is a page: its body as it stands in the file, and what its
// header claims.
type craftedPage struct {
	dict     bool
	values   int32
	encoding format.Encoding
	body     []byte
	size     int32 // decompressed; 0: that of the body
	stored   int32 // in the file; 0: that of the body
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// file puts the file together.
func (c crafted) file(t *testing.T) []byte {
	t.Helper()
	out := []byte("PAR1")
	m := format.ColumnMetaData{Type: c.phys, Codec: c.codec, PathInSchema: []string{"k"}, DataPageOffset: 4}
	for _, p := range c.pages {
		h := format.PageHeader{UncompressedPageSize: p.size, CompressedPageSize: p.stored}
		if p.size == 0 {
			h.UncompressedPageSize = int32(len(p.body))
		}
		if p.stored == 0 {
			h.CompressedPageSize = int32(len(p.body))
		}
		if p.dict {
			m.DictionaryPageOffset = int64(len(out))
			h.Type = format.DictionaryPage
			h.DictionaryPageHeader = thrift.New(format.DictionaryPageHeader{NumValues: p.values, Encoding: p.encoding})
		} else {
			m.NumValues += int64(p.values)
			h.DataPageHeader = thrift.New(format.DataPageHeader{NumValues: p.values, Encoding: p.encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})
		}
		out = append(append(out, marshal(t, &h)...), p.body...)
		if p.dict {
			m.DataPageOffset = int64(len(out))
		}
	}
	m.TotalCompressedSize = int64(len(out)) - 4
	return withFooter(out, marshal(t, &format.FileMetaData{Version: 1, NumRows: c.rows,
		Schema: []format.SchemaElement{
			{Name: "schema", NumChildren: thrift.New(int32(1))},
			{Name: "k", Type: thrift.New(c.phys), RepetitionType: thrift.New(c.rep)},
		},
		RowGroups: []format.RowGroup{{NumRows: c.rows, Columns: []format.ColumnChunk{{MetaData: m}}}}}))
}

// withFooter ends a file.
func withFooter(head, footer []byte) []byte {
	out := binary.LittleEndian.AppendUint32(append(head, footer...), uint32(len(footer)))
	return append(out, "PAR1"...)
}

// run is a run-length run of a value of one byte.
func run(n uint64, value byte) []byte { return append(binary.AppendUvarint(nil, n<<1), value) }

// prefixed is bytes behind their length in four bytes.
func prefixed(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}
