//go:build integration

package parquet_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/deltad/deltad/microbatch/scan"
)

// page is where the body of a page is in a file, and whose it is.
type page struct {
	column   string
	from, to int64
	crc      bool
}

// pages finds every page of a file by parquet-go's reading of the format.
func pages(t *testing.T, data []byte) (out []page) {
	t.Helper()
	decode := func(b []byte, v any) int64 {
		r := bytes.NewReader(b)
		if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(r)).Decode(v); err != nil {
			t.Fatal(err)
		}
		return int64(len(b) - r.Len())
	}
	n := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	var meta format.FileMetaData
	decode(data[n:len(data)-8], &meta)
	for _, g := range meta.RowGroups {
		for _, c := range g.Columns {
			m := c.MetaData
			at := m.DataPageOffset
			if d := m.DictionaryPageOffset; d > 0 && d < at {
				at = d
			}
			for end := at + m.TotalCompressedSize; at < end; {
				var h format.PageHeader
				at += decode(data[at:], &h)
				p := page{column: strings.Join(m.PathInSchema, "."), from: at, to: at + int64(h.CompressedPageSize), crc: h.CRC != 0}
				out, at = append(out, p), p.to
			}
		}
	}
	return out
}

// TestChecksums flips bytes of pages that have a checksum: each must be
// refused, by the name of the column. Of large pages only some are flipped,
// the first and the last among them.
func TestChecksums(t *testing.T) {
	const each = 200 // of a page
	for _, name := range []string{"datapage_v1-snappy-compressed-checksum", "datapage_v1-uncompressed-checksum", "plain-dict-uncompressed-checksum", "rle-dict-snappy-checksum"} {
		t.Run(name, func(t *testing.T) {
			b, err := open("testdata/data/" + name + ".parquet")
			if err != nil {
				t.Fatal(err)
			}
			flipped, without := 0, 0
			for _, p := range pages(t, b.data) {
				if !p.crc {
					without++
					continue
				}
				step := max(1, (p.to-p.from)/each)
				for at := p.from; at < p.to; at = max(at+1, min(at+step, p.to-1)) {
					bad := blob{key: b.key, data: slices.Clone(b.data)}
					bad.data[at] ^= 1 << (at % 8)
					_, err := deltadColumn(t.Context(), bad, p.column, scan.Limits{})
					if refusal(t, err, bad.key, "column "+p.column, "checksum mismatch"); t.Failed() {
						t.Fatalf("byte %d", at)
					}
					flipped++
				}
			}
			t.Logf("%d bytes flipped, %d pages without a checksum", flipped, without)
			if flipped < 50 {
				t.Errorf("only %d bytes were flipped", flipped)
			}
		})
	}
}
