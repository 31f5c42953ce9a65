package scan

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go/format"
)

// Batches stay small whatever the rows are, and hold every row in its order:
// what is behind a scan copies records, so a batch of 2,048 rows of a mebibyte
// would be gigabytes.
func TestLargeRowsMakeSmallBatches(t *testing.T) {
	big := strings.Repeat("x", 300_000)
	value := func(i int) string {
		if i%5 == 3 {
			return big
		}
		return "s"
	}
	const n = 800
	var json, csv strings.Builder
	csv.WriteString("i,s\n")
	var ids []int32
	var indexes []byte
	for i := range n {
		fmt.Fprintf(&json, "{\"i\":%d,\"s\":%q}\n", i, value(i))
		fmt.Fprintf(&csv, "%d,%s\n", i, value(i))
		ids = append(ids, int32(i))
		at := byte(0)
		if i%5 == 3 {
			at = 1
		}
		indexes = append(indexes, 1<<1, at)
	}
	text := leafElem("s", format.ByteArray, format.Required)
	meta := func(e format.SchemaElement) format.ColumnMetaData {
		return format.ColumnMetaData{Type: e.Type.V, PathInSchema: []string{e.Name}}
	}
	dict := byteArrays("s", big)
	dictPage := dataPage(2, dict)
	dictPage.header.Type = format.DictionaryPage
	dictPage.header.DictionaryPageHeader.Valid = true
	dictPage.header.DictionaryPageHeader.V = format.DictionaryPageHeader{NumValues: 2, Encoding: format.Plain}
	dictPage.header.DataPageHeader.Valid = false
	page := dataPage(n, append([]byte{1}, indexes...))
	page.header.DataPageHeader.V.Encoding = format.RLEDictionary
	number := leafElem("i", format.Int32, format.Required)
	file := craft(t, n, []format.SchemaElement{number, text}, 2,
		craftedChunk{meta: meta(number), pages: []craftedPage{dataPage(n, le32(ids...))}},
		craftedChunk{meta: meta(text), pages: []craftedPage{dictPage, page}})
	for _, tt := range []struct {
		format Format
		data   []byte
		limit  int
	}{{NDJSON, []byte(json.String()), batchBytes}, {CSV, []byte(csv.String()), batchBytes}, {Parquet, file, batchBytes}} {
		t.Run(tt.format.String(), func(t *testing.T) {
			at, most := 0, 0
			res, err := Scan(context.Background(), &memBlob{key: "f", data: tt.data}, Request{Format: tt.format, Columns: paths("i", "s")}, func(b *column.Batch) error {
				size := 0
				for i := range b.Len {
					s := b.Columns[1].Strings[i]
					if size += len(s); b.Columns[0].Ints[i] != int64(at) || s != value(at) {
						t.Fatalf("row %d is %d with %d bytes", at, b.Columns[0].Ints[i], len(s))
					}
					at++
				}
				most = max(most, size)
				return nil
			})
			if err != nil || at != n || res.Rows != n {
				t.Fatalf("%d rows, %+v, %v", at, res, err)
			}
			if most > tt.limit+len(big) || most < tt.limit/4 {
				t.Errorf("a batch of %d bytes", most)
			}
		})
	}
}

// A record of commas and a list of ones take two bytes of text and hundreds of
// memory a value: the number is bounded.
func TestManyValuesOfARow(t *testing.T) {
	commas := strings.Repeat(",", maxCSVFields+1)
	list := func(n int) string { return `{"a":[0` + strings.Repeat(",1", n) + "]}\n" }
	for _, tt := range []struct {
		name   string
		format Format
		text   string
		want   []string
	}{
		{"header", CSV, "a" + commas + "\n", []string{"line 1: more than 16384 fields"}},
		{"record", CSV, "a,b\n1,2\n" + commas + "\n", []string{"line 3: more than 16384 fields"}},
		{"list", NDJSON, list(1) + list(maxValues), []string{"line 2: about 65538 values, more than 65536"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rows(textBlob("f", tt.text), Request{Format: tt.format, Columns: paths("a")})
			wantError(t, err, append(tt.want, "scan f: ")...)
		})
	}
	out, _ := mustRows(t, textBlob("f", list(maxValues-10)), Request{Format: NDJSON, Columns: paths("a")})
	if len(out) != 1 || strings.Count(out[0], " ") != maxValues-10 {
		t.Errorf("%d rows of %d values", len(out), strings.Count(out[0], " "))
	}
}
