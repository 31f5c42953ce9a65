package scan

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go"
)

// fuzzLimits keep a fuzzed file from taking the fuzzer's time.
var fuzzLimits = Limits{Page: 1 << 20, Values: 1 << 16, Text: 1 << 20, Line: 1 << 16, RowGroup: 1 << 20}

// FuzzParquet: any bytes are an error or rows, never a panic.
func FuzzParquet(f *testing.F) {
	f.Add(small(f))
	f.Add(small(f, parquet.DataPageVersion(1), parquet.Compression(&parquet.Snappy)))
	f.Add(small(f, parquet.Compression(&parquet.Lz4Raw)))
	f.Add(small(f, parquet.Compression(&parquet.Gzip), parquet.MaxRowsPerRowGroup(7)))
	f.Add(writeAll(f, 1, 3, &parquet.Uncompressed, 2, 0.5).data)
	files, err := filepath.Glob(filepath.Join("testdata", "parquet-testing", "*.parquet"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		blob := &memBlob{key: "f", data: data}
		file, err := openParquet(context.Background(), blob, fuzzLimits.withDefaults())
		if err != nil {
			return
		}
		for i, n := range file.root.children {
			if i == 8 {
				break
			}
			var rows int64
			req := Request{Format: Parquet, Columns: []Column{{Path: n.name, Optional: true}}, Limits: fuzzLimits}
			res, err := run(context.Background(), blob, req, func(b *column.Batch) error {
				for i := range b.Len {
					if s := show(b.Columns[0], i); strings.HasPrefix(s, "?") {
						t.Fatal(s)
					}
				}
				if rows += int64(b.Len); rows > 1<<20 {
					return context.Canceled
				}
				return nil
			})
			if err == nil && (res.Rows != rows || file.footer.rows != 0 && rows != file.footer.rows) {
				t.Fatalf("%d rows emitted, result %d, footer %d", rows, res.Rows, file.footer.rows)
			}
		}
	})
}

// FuzzNDJSON: every line that is not blank is a row or rejected.
func FuzzNDJSON(f *testing.F) {
	f.Add([]byte("{\"a\":1,\"b\":{\"c\":[1,2.5,null]}}\r\n\n{\"a\":\"x\\u00e9\",\"b\":null}\n[1]\nx"))
	f.Add([]byte("\ufeff{\"a\":-0.5e3,\"b.c\":{}}\n{\"b\":{\"c\":[[1],{\"d\":true}]},\"b\":1}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if isZstd(data) || bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			return
		}
		lines := int64(0)
		for _, l := range bytes.Split(bytes.TrimPrefix(data, []byte("\ufeff")), []byte{'\n'}) {
			if len(bytes.TrimLeft(l, " \t\r")) > 0 {
				lines++
			}
		}
		req := Request{Format: NDJSON, Columns: paths("?a", "?b", "?b.c"), Row: Reject, Limits: fuzzLimits}
		var rejected int64
		req.Reject = func(RejectedRow) { rejected++ }
		out, res, err := rows(&memBlob{key: "f", data: data}, req)
		if isOneOf(err, ErrRetype) || err != nil && strings.Contains(err.Error(), "differs only by case") {
			return
		}
		if err != nil || res.Rows+res.Rejected != lines || rejected != res.Rejected || int64(len(out)) != res.Rows {
			t.Fatalf("%q: %d rows, %+v, %d rejected, %v", data, len(out), res, rejected, err)
		}
	})
}

// FuzzCSV: records are those of encoding/csv, up to the first bad one.
func FuzzCSV(f *testing.F) {
	f.Add("a,b\n1,\"x\"\"y\"\r\n\"\",\n\n\"two\nlines\",3\n")
	f.Add("a\n\"open\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "\ufeff") || strings.ToValidUTF8(text, "") != text {
			return // the peer has no opinion on either
		}
		sameAsPeer(t, text)
		_, _, err := rows(textBlob("f", text), Request{Format: CSV, Columns: paths("?a", "#?b"), Row: Reject, Limits: fuzzLimits})
		if err != nil && strings.Contains(err.Error(), "malformed") {
			t.Fatal(err)
		}
	})
}

// FuzzCompressed: any bytes behind a magic are an error or text.
func FuzzCompressed(f *testing.F) {
	f.Add(gz(f, "{\"a\":1}\n"))
	f.Add(append(gz(f, "{\"a\":1}\n"), gz(f, "")...))
	f.Add(zst(f, strings.Repeat("{\"a\":1}\n", 40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, err := rows(&memBlob{key: "f", data: data}, Request{Format: NDJSON, Columns: paths("?a"), Row: Reject, Limits: fuzzLimits})
		if err != nil && strings.Contains(err.Error(), "malformed") {
			t.Fatal(err)
		}
	})
}
