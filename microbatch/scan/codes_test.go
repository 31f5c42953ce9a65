package scan

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// TestCodesSayWhatTheStorageSays, nulls, several row groups, pages that fall
// back to plain values and scratch memory or not; and with scratch memory the
// rows are those without.
func TestCodesSayWhatTheStorageSays(t *testing.T) {
	type row struct {
		S *string `parquet:"s,optional,dict"`
		N int64   `parquet:"n,dict"`
		P string  `parquet:"p,plain"`
		Q *int64  `parquet:"q,optional"`
	}
	coded := 0
	scratch := &Scratch{}
	rapid.Check(t, func(rt *rapid.T) {
		var buf bytes.Buffer
		w := parquet.NewGenericWriter[row](&buf, parquet.PageBufferSize(rapid.SampledFrom([]int{512, 1 << 20}).Draw(rt, "page")),
			rapid.SampledFrom([]parquet.WriterOption{parquet.Compression(&parquet.Snappy), parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Uncompressed)}).Draw(rt, "codec"))
		distinct := rapid.IntRange(1, 3000).Draw(rt, "distinct")
		nulls := rapid.IntRange(0, 3).Draw(rt, "nulls")
		for range rapid.IntRange(1, 3).Draw(rt, "groups") {
			rows := make([]row, rapid.IntRange(0, 5000).Draw(rt, "rows"))
			for i := range rows {
				s, q := fmt.Sprint("s", i*7919%distinct), int64(i)
				rows[i] = row{N: int64(i * 31 % distinct), P: fmt.Sprint("é"[:i%2*2], i)}
				if nulls == 0 || i%(nulls*100) != 0 {
					rows[i].S, rows[i].Q = &s, &q
				}
			}
			if _, err := w.Write(rows); err != nil {
				rt.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		blob := &memBlob{key: "f", data: buf.Bytes()}
		req := Request{Format: Parquet, Columns: paths("s", "n", "p", "q")}
		want, _, err := rows(blob, req)
		if err != nil {
			rt.Fatal(err)
		}
		req.Scratch = scratch
		got, _, err := rows(blob, req)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("%d rows with scratch memory, %d without, %v", len(got), len(want), err)
		}
		_, err = Scan(t.Context(), blob, req, func(b *column.Batch) error {
			for c, v := range b.Columns {
				if v.Dict == nil || len(v.Codes) < b.Len {
					continue
				}
				coded++
				for i := range b.Len {
					if !v.Null(i) && show(v, i) != show(v.Dict, int(v.Codes[i])) {
						return fmt.Errorf("column %d row %d is %s, its code says %s", c, i, show(v, i), show(v.Dict, int(v.Codes[i])))
					}
				}
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
	if coded == 0 {
		t.Error("no vector had codes: nothing was compared")
	}
}
