package scan

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// scanAll reads every column of a file, without the guard that turns panics
// into errors, and touches all values. It returns the rows.
func scanAll(data []byte, lim Limits) (out []string, err error) {
	blob := &memBlob{key: "f", data: data}
	f, err := openParquet(context.Background(), blob, lim.withDefaults())
	if err != nil {
		return nil, err
	}
	var cols []Column
	for _, n := range f.root.children {
		if _, err := newAssembler(n); err == nil {
			cols = append(cols, Column{Path: n.name, Optional: true})
		}
	}
	_, err = run(context.Background(), blob, Request{Format: Parquet, Columns: cols, Limits: lim}, func(b *column.Batch) error {
		for i := range b.Len {
			var s strings.Builder
			for _, c := range b.Columns {
				s.WriteString(show(c, i) + "|")
			}
			out = append(out, s.String())
		}
		return nil
	})
	return out, err
}

// small is a file with dictionaries, nulls, lists and checksums.
func small(t testing.TB, opts ...parquet.WriterOption) []byte {
	t.Helper()
	type row struct {
		ID   int64    `parquet:"id,delta"`
		Name *string  `parquet:"name,optional,dict"`
		Tags []string `parquet:"tags,list"`
		F    float64  `parquet:"f,split"`
	}
	names := []string{"red", "green"}
	var in []row
	for i := range 20 {
		r := row{ID: int64(i * i), F: float64(i) / 3, Tags: names[:i%3]}
		if i%4 > 0 {
			r.Name = &names[i%2]
		}
		in = append(in, r)
	}
	return write(t, in, opts...)
}

// A file cut anywhere is an error.
func TestTruncatedParquet(t *testing.T) {
	data := small(t)
	for cut := 1; cut < len(data); cut++ {
		for _, whole := range []int64{0, 1} {
			if out, err := scanAll(data[:cut], Limits{Whole: whole}); err == nil {
				t.Fatalf("%d of %d bytes: %d rows and no error", cut, len(data), len(out))
			}
		}
	}
}

// A flipped bit in a page is an error, because pages have checksums; one
// elsewhere is at least no panic.
func TestFlippedParquet(t *testing.T) {
	for _, version := range []int{1, 2} {
		data := small(t, parquet.DataPageVersion(version), parquet.Compression(&parquet.Snappy))
		want, err := scanAll(data, Limits{})
		if err != nil || len(want) != 20 {
			t.Fatal(err)
		}
		body := bodies(t, data)
		for i := range data {
			for bit := range 8 {
				if version == 1 && bit != i%8 {
					continue
				}
				bad := bytes.Clone(data)
				bad[i] ^= 1 << bit
				got, err := scanAll(bad, Limits{Page: 1 << 20})
				if body[i] && err == nil {
					t.Fatalf("version %d, bit %d of byte %d in a page: %d rows and no error", version, bit, i, len(got))
				}
			}
		}
	}
}

// bodies marks the bytes that belong to a page's body.
func bodies(t *testing.T, data []byte) []bool {
	t.Helper()
	out := make([]bool, len(data))
	f, err := openParquet(context.Background(), &memBlob{key: "f", data: data}, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]bool{}
	for i := range f.leaves {
		all[i] = true
	}
	n := 0
	err = f.groups(f.leaves, all, func(_ int, g rowGroup) error {
		for _, m := range g.chunks {
			chunk := data[m.start : m.start+m.size]
			for at := 0; at < len(chunk); {
				p, size, err := parsePage(chunk[at:], 1<<20)
				if err != nil {
					return err
				}
				at += size
				for i := range p.body {
					out[int(m.start)+at-1-i] = true
					n++
				}
			}
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d bytes in pages, %v", n, err)
	}
	return out
}

// allocated returns the bytes that f allocated.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Small files with large claims are refused, or read, without large memory.
func TestParquetBombs(t *testing.T) {
	path := func(n ...string) format.ColumnMetaData {
		return format.ColumnMetaData{Type: format.Int32, PathInSchema: n}
	}
	opt := leafElem("a", format.Int32, format.Optional)
	req := leafElem("a", format.Int32, format.Required)
	run := func(n uint64) []byte { // a run of n levels 0
		b := append(binary.AppendUvarint(nil, n<<1), 0)
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	sized := func(p craftedPage, compressed, size int32) craftedPage {
		p.header.CompressedPageSize, p.header.UncompressedPageSize = compressed, size
		return p
	}
	encoded := func(p craftedPage, e format.Encoding) craftedPage {
		p.header.DataPageHeader.V.Encoding = e
		return p
	}
	codec := func(m format.ColumnMetaData, c format.CompressionCodec) format.ColumnMetaData {
		m.Codec = c
		return m
	}
	one := func(e format.SchemaElement, rows int64, m format.ColumnMetaData, p ...craftedPage) []byte {
		return craft(t, rows, []format.SchemaElement{e}, 1, craftedChunk{meta: m, pages: p})
	}
	delta := func(values uint64) []byte { // one block of width 0 for all that many
		b := binary.AppendUvarint(nil, 128)
		b = binary.AppendUvarint(b, 4)
		b = binary.AppendUvarint(b, values)
		return append(b, 0, 0, 0, 0, 0, 0)
	}
	bytesElem := leafElem("a", format.ByteArray, format.Required)
	bytesMeta := path("a")
	bytesMeta.Type = format.ByteArray
	list := leafElem("a", format.Int32, format.Repeated)
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"page larger than its chunk", one(req, 1, path("a"), sized(dataPage(1, le32(1)), math.MaxInt32, 4)), "where the chunk has"},
		{"negative page", one(req, 1, path("a"), sized(dataPage(1, le32(1)), -1, 4)), "-1 bytes"},
		{"huge page decompressed", one(req, 1, codec(path("a"), format.Zstd), sized(dataPage(1, le32(1)), 4, math.MaxInt32)), "the limit is"},
		{"snappy of nothing", one(req, 1, codec(path("a"), format.Snappy), sized(dataPage(1, le32(1)), 4, 60<<20)), "cannot decompress"},
		{"lz4 of nothing", one(req, 1, codec(path("a"), format.Lz4Raw), sized(dataPage(1, le32(1)), 4, 60<<20)), "cannot decompress"},
		{"lz4 that is none", one(req, 1, codec(path("a"), format.Lz4Raw), sized(dataPage(1, le32(-1)), 4, 8)), "decompress"},
		{"more values than rows", one(req, 1, path("a"), dataPage(2, le32(1, 2))), "2 values in 1 rows"},
		{"rows without values", one(req, 1<<40, path("a"), dataPage(1, le32(1))), "1 values in 1099511627776 rows"},
		{"page values short", one(req, 2, format.ColumnMetaData{Type: format.Int32, PathInSchema: []string{"a"}, NumValues: 2}, dataPage(1, le32(1))), "pages with 1 values"},
		{"dictionary indexes without one", one(req, 1, path("a"), encoded(dataPage(1, []byte{0}), format.RLEDictionary)), "without a dictionary"},
		{"delta of too many", one(req, 1000, path("a"), encoded(dataPage(1000, delta(1<<30)), format.DeltaBinaryPacked)), "ends early"},
		{"delta lengths", one(bytesElem, 1000, bytesMeta, encoded(dataPage(1000, delta(1<<30)), format.DeltaLengthByteArray)), "ends early"},
		{"list that never ends", one(list, 1, format.ColumnMetaData{Type: format.Int32, PathInSchema: []string{"a"}},
			dataPage(math.MaxInt32, append(listRun(math.MaxInt32-1), run(math.MaxInt32)...))), "list elements"},
		{"levels above", one(opt, 1, path("a"), dataPage(1, append(rleLevels(1), le32(1)...))), ""},
		{"external", craftExternal(t), "another file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			var out []string
			n := allocated(func() { out, err = scanAll(tt.data, Limits{Values: 1 << 16}) })
			if n > 64<<20 {
				t.Errorf("allocated %d bytes for a file of %d", n, len(tt.data))
			}
			if tt.want == "" {
				if err != nil || len(out) != 1 {
					t.Fatalf("%q, %v", out, err)
				}
				return
			}
			wantError(t, err, tt.want)
		})
	}
}

// listRun makes repetition levels of one row with n more elements.
func listRun(n uint64) []byte {
	b := []byte{1 << 1, 0}
	b = append(binary.AppendUvarint(b, n<<1), 1)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func craftExternal(t *testing.T) []byte {
	t.Helper()
	meta := format.FileMetaData{Version: 1, NumRows: 1,
		Schema: []format.SchemaElement{groupElem("schema", format.Required, 1), leafElem("a", format.Int32, format.Required)},
		RowGroups: []format.RowGroup{{NumRows: 1, Columns: []format.ColumnChunk{{FilePath: "/etc/passwd", MetaData: format.ColumnMetaData{
			Type: format.Int32, PathInSchema: []string{"a"}, NumValues: 1, DataPageOffset: 4}}}}}}
	footer := marshal(t, &meta)
	out := append([]byte(magic), footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, magic...)
}

// Footers that claim much are refused while small.
func TestFooterBombs(t *testing.T) {
	wrap := func(footer []byte, claim uint32) []byte {
		out := append([]byte(magic), footer...)
		return append(binary.LittleEndian.AppendUint32(out, claim), magic...)
	}
	huge := []byte{0x15, 0x02, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07} // version, then 2³¹−1 schema elements
	deep := []byte{0x15, 0x02}
	for range 3000 {
		deep = append(deep, 0xfc) // a struct in a struct
	}
	nested := []format.SchemaElement{}
	for range 500 {
		nested = append(nested, groupElem("g", format.Required, 1))
	}
	nested = append(nested, leafElem("x", format.Int32, format.Required))
	deepSchema := marshal(t, &format.FileMetaData{Schema: nested, RowGroups: []format.RowGroup{}})
	wide := marshal(t, &format.FileMetaData{Schema: []format.SchemaElement{groupElem("g", format.Required, math.MaxInt32)}, RowGroups: []format.RowGroup{}})
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"length of 4 GiB", wrap(huge, math.MaxUint32), "footer of 4294967295 bytes"},
		{"two billion elements", wrap(huge, uint32(len(huge))), "footer: metadata ends early"},
		{"deep", wrap(deep, uint32(len(deep))), "too deep"},
		{"deep schema", wrap(deepSchema, uint32(len(deepSchema))), "schema"},
		{"wide schema", wrap(wide, uint32(len(wide))), "schema"},
		{"empty", wrap(nil, 0), "footer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			if n := allocated(func() { _, err = scanAll(tt.data, Limits{}) }); n > 1<<20 {
				t.Errorf("allocated %d bytes for a file of %d", n, len(tt.data))
			}
			wantError(t, err, tt.want)
		})
	}
}

// explosive is a blob whose bytes make the decoder panic, as far as a scan can
// tell.
type explosive struct{ memBlob }

func (e *explosive) ReadAll(context.Context) ([]byte, error) { panic("index out of range") }

// A panic of a decoder is an error of the object; one of the callee is not the
// object's fault and passes.
func TestPanics(t *testing.T) {
	blob := &explosive{memBlob{key: "dir/f.json", data: []byte("{}")}}
	nothing := func(*column.Batch) error { return nil }
	_, err := Scan(context.Background(), blob, Request{Format: NDJSON}, nothing)
	wantError(t, err, "dir/f.json", "malformed: index out of range", "hostile_test.go")
	_, err = Observe(context.Background(), blob, Request{Format: NDJSON})
	wantError(t, err, "dir/f.json", "malformed")

	for name, call := range map[string]func(){
		"emit": func() {
			_, _ = Scan(context.Background(), textBlob("f", "{}"), Request{Format: NDJSON}, func(*column.Batch) error { panic("callee") })
		},
		"reject": func() {
			_, _ = Scan(context.Background(), textBlob("f", "x"), Request{Format: NDJSON, Row: Reject, Reject: func(RejectedRow) { panic("callee") }}, nothing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != "callee" {
					t.Errorf("recovered %v, want the callee's panic", p)
				}
			}()
			call()
		})
	}
}
