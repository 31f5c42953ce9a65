//go:build integration

package parquet_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/compress/brotli"
	"github.com/parquet-go/parquet-go/format"
)

// withText adds a field to the index that reads column s.
const withText = `, s: {latest: s}`

// hostiles are the objects, by format.
func hostiles() []hostile {
	return slices.Concat(footers(), pageBombs(), textBombs())
}

func goodObject(format string) func(t *testing.T, f *os.File) {
	switch format {
	case "parquet":
		return crafted{phys: 1, rows: 2, pages: []craftedPage{{values: 2, body: []byte{1, 0, 0, 0, 2, 0, 0, 0}}}}.write
	case "csv":
		return text("k,s\n1,a\n2,b\n")
	}
	return text("{\"k\":1,\"s\":\"a\"}\n{\"k\":2,\"s\":\"b\"}\n")
}

func text(s string) func(t *testing.T, f *os.File) { return raw([]byte(s)) }

func raw(b []byte) func(t *testing.T, f *os.File) {
	return func(t *testing.T, f *os.File) {
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
	}
}

func (c crafted) write(t *testing.T, f *os.File) { raw(c.file(t))(t, f) }

// footers claim much of the file as a whole.
func footers() []hostile {
	claim := func(footer []byte, n uint32) []byte {
		return append(binary.LittleEndian.AppendUint32(append([]byte("PAR1"), footer...), n), "PAR1"...)
	}
	elements := []byte{0x15, 0x02, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07} // version, then 2³¹−1 schema elements
	deep := append([]byte{0x15, 0x02}, bytes.Repeat([]byte{0xfc}, 1<<20)...) // a struct in a struct in a struct
	lists := append([]byte{0x15, 0x02}, bytes.Repeat([]byte{0xf9}, 1<<20)...)
	element := func(name string, children byte) []byte { // a group, or with 0 an INT32
		b := []byte{0x15, 0x02, 0x25, 0x00, 0x18, byte(len(name))}
		if children > 0 {
			b = []byte{0x48, byte(len(name))}
		}
		b = append(b, name...)
		if children > 0 {
			b = append(b, 0x15, children<<1)
		}
		return append(b, 0)
	}
	many := func(n int) []byte { // that many columns, in truth
		b := binary.AppendUvarint([]byte{0x15, 0x02, 0x19, 0xfc}, uint64(n+1))
		root := binary.AppendVarint([]byte{0x48, 1, 'r', 0x15}, int64(n))
		b = append(append(b, root...), 0)
		for range n {
			b = append(b, element("x", 0)...)
		}
		return append(b, 0x16, 0x00, 0x19, 0x0c, 0x00)
	}
	nested := append([]byte{0x15, 0x02, 0x19, 0xfc, 0xc0, 0x9a, 0x0c}, bytes.Repeat(element("g", 1), 200_000)...)
	return []hostile{
		{name: "footer length of 4 GiB", file: "a.parquet", write: raw(claim(elements, math.MaxUint32)), wants: []string{"footer of 4294967295 bytes"}},
		{name: "two billion schema elements", file: "a.parquet", write: raw(claim(elements, uint32(len(elements)))), wants: []string{"metadata ends early"}},
		{name: "a million structs deep", file: "a.parquet", write: raw(claim(deep, uint32(len(deep)))), wants: []string{"too deep"}},
		{name: "a million lists deep", file: "a.parquet", write: raw(claim(lists, uint32(len(lists)))), wants: []string{"footer:"}},
		{name: "200,000 groups deep", file: "a.parquet", write: raw(claim(nested, uint32(len(nested)))), wants: []string{"schema elements"}},
		{name: "130,000 columns, none of them k", file: "a.parquet", write: raw(withFooter([]byte("PAR1"), many(130_000))), wants: []string{"column k"}},
		{name: "a million columns", file: "a.parquet", write: raw(withFooter([]byte("PAR1"), many(1_000_000))), wants: []string{"schema elements"}},
		{name: "a footer of 100 MiB, in truth", file: "a.parquet", write: sparseFooter, wants: []string{"footer of 104857600 bytes"}},
		{name: "a footer of 15 MiB of nothing, in truth", file: "a.parquet",
			write: raw(withFooter([]byte("PAR1"), append([]byte{0x15, 0x02}, make([]byte, 15*mib)...))), wants: []string{"footer: no schema"}},
	}
}

// sparseFooter is a file of zeros that takes no space.
func sparseFooter(t *testing.T, f *os.File) {
	const n = 100 * mib
	raw([]byte("PAR1"))(t, f)
	if err := f.Truncate(4 + n); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	raw(append(binary.LittleEndian.AppendUint32(nil, n), "PAR1"...))(t, f)
}

// pageBombs claim much of a page, or inflate to much.
func pageBombs() []hostile {
	const ( // physical types
		int32s, byteArrays = format.Int32, format.ByteArray
	)
	one := []byte{1, 0, 0, 0}
	levels := func(n uint64) []byte { return prefixed(run(n, 0)) }
	delta := append(binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 128), 4), 1<<30), 0, 0, 0, 0, 0, 0)
	page := func(c crafted, p ...craftedPage) func(t *testing.T, f *os.File) {
		if c.rows == 0 {
			c.rows = 1
		}
		c.pages = p
		return c.write
	}
	big := func(name string, codec format.CompressionCodec, body func(t *testing.T) []byte, size int32, want string) hostile {
		return hostile{name: name, file: "a.parquet", wants: []string{"column k", want}, write: func(t *testing.T, f *os.File) {
			page(crafted{phys: byteArrays, codec: codec}, craftedPage{values: 1, body: body(t), size: size})(t, f)
		}}
	}
	huge := func(c crafted, p ...craftedPage) hostile {
		return hostile{file: "a.parquet", write: page(c, p...)}
	}
	named := func(name, want string, h hostile) hostile {
		h.name, h.wants = name, []string{"column k", want}
		return h
	}
	rle := format.RLEDictionary
	return []hostile{
		named("2⁴⁰ rows of one value", "1 values in 1099511627776 rows", huge(crafted{phys: int32s, rows: 1 << 40}, craftedPage{values: 1, body: one})),
		named("a page of 2 GiB, stored", "where the chunk has", huge(crafted{phys: int32s}, craftedPage{values: 1, body: one, stored: math.MaxInt32})),
		named("a page of 2 GiB, inflated", "the limit is", huge(crafted{phys: int32s, codec: format.Zstd}, craftedPage{values: 1, body: one, size: math.MaxInt32})),
		named("a snappy page of 8 MiB out of nothing", "cannot decompress", huge(crafted{phys: int32s, codec: format.Snappy}, craftedPage{values: 1, body: one, size: 8 * mib})),
		named("an LZ4_RAW page that does not end", "decompress", huge(crafted{phys: int32s, codec: format.Lz4Raw}, craftedPage{values: 1, body: []byte{0xff, 0xff, 0xff, 0xff}, size: 900})),
		named("a dictionary of two billion values", "2147483647 values in", huge(crafted{phys: int32s},
			craftedPage{dict: true, values: math.MaxInt32, body: one}, craftedPage{values: 1, encoding: rle, body: append([]byte{1}, run(1, 0)...)})),
		named("a dictionary of 2 GiB", "the limit is", huge(crafted{phys: int32s, codec: format.Zstd},
			craftedPage{dict: true, values: 1, body: one, size: math.MaxInt32}, craftedPage{values: 1, encoding: rle, body: one})),
		named("delta of a billion values", "ends early", huge(crafted{phys: int32s, rows: 1000}, craftedPage{values: 1000, encoding: format.DeltaBinaryPacked, body: delta})),
		named("delta lengths of a billion values", "ends early", huge(crafted{phys: byteArrays, rows: 1000}, craftedPage{values: 1000, encoding: format.DeltaLengthByteArray, body: delta})),
		named("two billion nulls for one row", "values in 1 rows", huge(crafted{phys: int32s, rep: format.Optional}, craftedPage{values: math.MaxInt32, body: levels(math.MaxInt32)})),
		big("256 MiB behind zstd, claimed", format.Zstd, zstdZeros, 256*mib, "the limit is"),
		big("256 MiB behind zstd, not claimed", format.Zstd, zstdZeros, mib, "decompress"),
		big("256 MiB behind gzip, not claimed", format.Gzip, gzipZeros, mib, "decompress"),
		big("256 MiB behind brotli, not claimed", format.Brotli, brotliZeros, mib, "decompress"),
	}
}

// zeros writes 256 MiB of them.
func zeros(t *testing.T, w io.WriteCloser) {
	fill(t, w, make([]byte, mib), 256)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func fill(t *testing.T, w io.Writer, b []byte, times int) {
	t.Helper()
	for range times {
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
}

func zstdZeros(t *testing.T) []byte {
	var out bytes.Buffer
	zeros(t, zstdTo(t, &out))
	return out.Bytes()
}

func gzipZeros(t *testing.T) []byte {
	var out bytes.Buffer
	zeros(t, gzip.NewWriter(&out))
	return out.Bytes()
}

func brotliZeros(t *testing.T) []byte {
	b, err := new(brotli.Codec).Encode(nil, make([]byte, 256*mib))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zstdTo(t *testing.T, w io.Writer) *zstd.Encoder {
	t.Helper()
	e, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(32*mib))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// packed writes through a compressor: head, then body so many times, then tail.
// Of gzip each is a member of its own, so that the body is compressed once.
func packed(compressor string, head, body string, times int, tail string) func(t *testing.T, f *os.File) {
	return func(t *testing.T, f *os.File) {
		if compressor == "gz" {
			raw(member(t, head))(t, f)
			fill(t, f, member(t, body), times)
			raw(member(t, tail))(t, f)
			return
		}
		w := zstdTo(t, f)
		fill(t, w, []byte(head), 1)
		fill(t, w, []byte(body), times)
		fill(t, w, []byte(tail), 1)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func member(t *testing.T, s string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	fill(t, w, []byte(s), 1)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// textBombs are small objects of much text.
func textBombs() []hostile {
	a := strings.Repeat("a", mib)
	blanks, lines := strings.Repeat(" ", mib), strings.Repeat("\n", mib)
	row := strings.Repeat("{\"k\":1,\"s\":\"a\"}\n", mib/16)
	giant := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00} // a frame whose window has 2⁴¹ bytes
	claims := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x01, 0, 0)
	skip := append(binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, math.MaxUint32), 1, 2, 3)
	named := append([]byte{0x1f, 0x8b, 8, 0x08, 0, 0, 0, 0, 0, 255}, bytes.Repeat([]byte("n"), 32*mib)...) // a file name that does not end
	const ratio = "more than 1000 to one"
	var out []hostile
	for z, n := range map[string]int{"gz": 1024, "zst": 256} { // mebibytes
		tooMuch := "longer than"
		if z == "zst" { // seen first, because what is read has gone through the decoder already
			tooMuch = ratio
		}
		out = append(out,
			hostile{name: "a line of much text, " + z, file: "a.ndjson." + z, fields: withText, write: packed(z, `{"k":1,"s":"`, a, n, "\"}\n"), wants: []string{tooMuch}},
			hostile{name: "a line of blanks, " + z, file: "a.ndjson." + z, write: packed(z, "", blanks, n, "{}"), wants: []string{tooMuch}},
			hostile{name: "a cell of much text, " + z, file: "a.csv." + z, fields: withText, write: packed(z, "k,s\n1,", a, n, "\n"), wants: []string{tooMuch}},
			hostile{name: "a quoted cell of many lines, " + z, file: "a.csv." + z, fields: withText, write: packed(z, "k,s\n1,\"", lines, n, "\n"), wants: []string{"line 2: a quote is never closed within"}},
			hostile{name: "a header of much text, " + z, file: "a.csv." + z, write: packed(z, "", a, n, "\n"), wants: []string{tooMuch}},
			hostile{name: "a line of 60 MiB, " + z, file: "a.ndjson." + z, fields: withText, write: packed(z, `{"k":1,"s":"`, a, 60, "\"}\n"), wants: []string{"line 1: longer than"}},
		)
	}
	commas, ones := strings.Repeat(",", mib), strings.Repeat(",1", mib/2)
	out = append(out,
		hostile{name: "half a gibibyte of the same row", file: "a.ndjson.zst", fields: withText, write: packed("zst", "", row, 512, ""), wants: []string{ratio}},
		hostile{name: "a header of 7 million columns", file: "a.csv.gz", write: packed("gz", "k", commas, 7, "\n1\n"), wants: []string{"line 1: more than"}},
		hostile{name: "a record of 7 million fields", file: "a.csv.gz", write: packed("gz", "k,s\n", commas, 7, "\n"), wants: []string{"line 2: more than"}},
		hostile{name: "a list of 3.5 million values", file: "a.ndjson.gz", fields: withText, write: packed("gz", `{"k":1,"s":[0`, ones, 7, "]}\n"), wants: []string{"line 1: about"}},
		hostile{name: "a list of 900,000 values", file: "a.ndjson.gz", fields: withText, write: packed("gz", `{"k":1,"s":[0`, strings.Repeat(",1", 100_000), 9, "]}\n"), wants: []string{"line 1: about"}},
		hostile{name: "a list of 900,000 objects", file: "a.ndjson.gz", fields: withText, write: packed("gz", `{"k":1,"s":[{"a":1}`, strings.Repeat(`,{"a":1}`, 50_000), 18, "]}\n"), wants: []string{"line 1: about"}},
		hostile{name: "a line of 7 million brackets", file: "a.ndjson.gz", write: packed("gz", `{"k":`, strings.Repeat("[", mib), 7, "\n"), wants: []string{"line 1: about"}},
		hostile{name: "a line of 60,000 brackets", file: "a.ndjson.gz", write: packed("gz", `{"k":`, strings.Repeat("[", 60_000), 1, "\n"), wants: []string{"line 1: not JSON"}},
	)
	return append(out,
		hostile{name: "a zstd window of two tebibytes", file: "a.ndjson.zst", write: raw(giant), wants: []string{"zstd: window size"}},
		hostile{name: "a zstd frame that claims 2⁶³ bytes", file: "a.ndjson.zst", write: raw(claims), wants: []string{"zstd:"}},
		hostile{name: "a skippable zstd frame of 4 GiB", file: "a.csv.zst", write: raw(skip), wants: []string{"zstd:"}},
		hostile{name: "a gzip header that does not end", file: "a.csv.gz", write: raw(named), wants: []string{"gzip:"}},
	)
}
