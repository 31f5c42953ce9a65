package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// TestAWrongValueHasARow: whatever the nulls, lists, pages, row groups and batches
// before it, an error names the row of the object that the value is in.
func TestAWrongValueHasARow(t *testing.T) {
	type row struct {
		Flat string   `parquet:"flat,plain"`
		May  *string  `parquet:"may,optional,plain"`
		List []string `parquet:"list,list"`
		In   struct {
			List [][]string `parquet:"list,list"`
		} `parquet:"in"`
	}
	texts := rapid.SliceOfN(rapid.StringN(0, 5, -1), 0, 4)
	rapid.Check(t, func(rt *rapid.T) {
		many := rapid.SampledFrom([]int{0, 0, 0, 0, batchRows}).Draw(rt, "many")
		all := make([]row, many+rapid.IntRange(1, 200).Draw(rt, "rows"))
		for i := range min(len(all), 200) {
			all[i].Flat = rapid.StringN(0, 9, -1).Draw(rt, "flat")
			if rapid.Bool().Draw(rt, "there") {
				all[i].May = &all[i].Flat
			}
			all[i].List = texts.Draw(rt, "list")
			all[i].In.List = rapid.SliceOfN(texts, 0, 3).Draw(rt, "lists")
		}
		wrong := rapid.IntRange(0, len(all)-1).Draw(rt, "wrong")
		col := rapid.SampledFrom([]string{"flat", "may", "list", "in.list"}).Draw(rt, "column")
		bad := "\xff"
		switch r := &all[wrong]; col {
		case "flat":
			r.Flat, r.May = bad, nil
		case "may":
			r.May = &bad
		case "list":
			r.List = append(r.List, bad)
		case "in.list":
			r.In.List = append(r.In.List, append(texts.Draw(rt, "beside"), bad))
		}
		var buf bytes.Buffer
		w := parquet.NewGenericWriter[row](&buf, parquet.PageBufferSize(rapid.IntRange(50, 3000).Draw(rt, "page")),
			parquet.DataPageVersion(rapid.IntRange(1, 2).Draw(rt, "version")))
		for left := all; len(left) > 0; {
			n := min(len(left), rapid.IntRange(1, 3000).Draw(rt, "group"))
			if _, err := w.Write(left[:n]); err != nil {
				rt.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				rt.Fatal(err)
			}
			left = left[n:]
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		_, err := Scan(t.Context(), &memBlob{key: "f", data: buf.Bytes()}, Request{Format: Parquet, Columns: paths(col)}, func(*column.Batch) error { return nil })
		want := fmt.Sprintf(`row %d: "\xff" is not valid UTF-8`, wrong+1)
		if err == nil || !strings.HasSuffix(err.Error(), ": "+want) || !strings.Contains(err.Error(), "column "+col) {
			rt.Fatalf("%v, want column %s, %s", err, col, want)
		}
	})
}

// TestAWrongValueIsNamed: with its column, and its row or, in a dictionary, its
// number there.
func TestAWrongValueIsNamed(t *testing.T) {
	decimal := func(e format.SchemaElement, precision int32) format.SchemaElement {
		return logical(e, &format.DecimalType{Precision: precision})
	}
	clock := logical(leafElem("n", format.Int32, format.Required), &format.TimeType{Unit: format.TimeUnit{Value: &format.MilliSeconds{}}})
	text := logical(leafElem("n", format.ByteArray, format.Required), &format.StringType{})
	dict := byteArrays("a", "b", "\xff")
	index := binary.LittleEndian.AppendUint32(nil, 0)[:0]
	index = append(index, 2, 3<<1, 1) // two bits each, three of the value 1
	used := dataPage(3, index)
	used.header.DataPageHeader.V.Encoding = format.RLEDictionary
	byDict := craft(t, 3, []format.SchemaElement{text}, 1, craftedChunk{
		meta: format.ColumnMetaData{Type: format.ByteArray, PathInSchema: []string{"n"}, NumValues: 3},
		pages: []craftedPage{{body: dict, header: format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(dict)), CompressedPageSize: int32(len(dict)),
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 3})}}, used},
	})
	for _, tt := range []struct {
		name string
		data []byte
		as   column.Type
		want string
	}{
		{"time of day", oneColumn(t, clock, 3, le32(1, 2, -5)), column.Type{}, "column n: page 0: row 3: time of day -5 is not within a day"},
		{"decimal", oneColumn(t, decimal(leafElem("n", format.ByteArray, format.Required), 38), 2, byteArrays("\x01", "\x01"+strings.Repeat("\x00", 16))), column.Type{},
			"column n: page 0: row 2: decimal beyond 128 bits"},
		{"text", oneColumn(t, text, 2, byteArrays("ü", "\xc3")), column.Type{}, `column n: page 0: row 2: "\xc3" is not valid UTF-8`},
		{"dictionary", byDict, column.Type{}, `column n: dictionary page: value 2: "\xff" is not valid UTF-8`},
		{"beyond its precision", oneColumn(t, decimal(leafElem("n", format.Int64, format.Required), 2), 3, le64(1, 99, 1<<62)), column.DecimalOf(38, 36),
			"column n: row 3: 4611686018427387904 does not fit decimal(38,36)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rows(&memBlob{key: "f", data: tt.data}, Request{Format: Parquet, Columns: []Column{{Path: "n", As: tt.as}}})
			wantError(t, err, "scan f: row group 0: "+tt.want)
		})
	}
}

// TestAChangedTypeHasALine: the type of a column that only a later row needs.
func TestAChangedTypeHasALine(t *testing.T) {
	blob := textBlob("f", strings.Repeat("{\"a\":1}\n", batchRows+7)+"{\"a\":1.5}\n")
	_, _, err := rows(blob, Request{Format: NDJSON, Columns: paths("a")})
	wantError(t, err, fmt.Sprintf("scan f: line %d: column a: a column's type changed", batchRows+8))
}
