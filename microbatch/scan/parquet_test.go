package scan

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// column kinds that the writer can make: a random value and how it must look.
type writable struct {
	name string
	node parquet.Node
	typ  string
	next func(*rand.Rand) (parquet.Value, string)
}

func writables() []writable {
	str := func(f string) func(*rand.Rand) (parquet.Value, string) {
		return func(r *rand.Rand) (parquet.Value, string) {
			s := strings.Repeat("é", r.IntN(3)) + fmt.Sprintf(f, r.IntN(50))
			return parquet.ByteArrayValue([]byte(s)), fmt.Sprintf("%q", s)
		}
	}
	i64 := func(f func(int64) (int64, string)) func(*rand.Rand) (parquet.Value, string) {
		return func(r *rand.Rand) (parquet.Value, string) {
			v, s := f([]int64{0, 1, -1, 100, math.MaxInt64, math.MinInt64, r.Int64(), int64(r.IntN(9))}[r.IntN(8)])
			return parquet.Int64Value(v), s
		}
	}
	i32 := func(f func(int32) (int32, string)) func(*rand.Rand) (parquet.Value, string) {
		return func(r *rand.Rand) (parquet.Value, string) {
			v, s := f([]int32{0, 1, -1, 100, math.MaxInt32, math.MinInt32, r.Int32(), int32(r.IntN(9))}[r.IntN(8)])
			return parquet.Int32Value(v), s
		}
	}
	stamp := func(perSecond int64) func(*rand.Rand) (parquet.Value, string) {
		return i64(func(v int64) (int64, string) {
			sec, part := v/perSecond, v%perSecond
			if part < 0 {
				sec, part = sec-1, part+perSecond
			}
			return v, time.Unix(sec, part*(1e9/perSecond)).UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
		})
	}
	fixed := func(n int, f func([]byte) string) func(*rand.Rand) (parquet.Value, string) {
		return func(r *rand.Rand) (parquet.Value, string) {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.IntN(3) * 127)
			}
			return parquet.FixedLenByteArrayValue(b), f(b)
		}
	}
	quote := func(b []byte) string { return fmt.Sprintf("%q", b) }
	asInt := func(v int64) (int64, string) { return v, fmt.Sprint(v) }
	return []writable{
		{"bool", parquet.Leaf(parquet.BooleanType), "bool", func(r *rand.Rand) (parquet.Value, string) {
			b := r.IntN(2) == 1
			return parquet.BooleanValue(b), fmt.Sprint(b)
		}},
		{"int8", parquet.Int(8), "int32", i32(func(v int32) (int32, string) { return int32(int8(v)), fmt.Sprint(int8(v)) })},
		{"int16", parquet.Int(16), "int32", i32(func(v int32) (int32, string) { return int32(int16(v)), fmt.Sprint(int16(v)) })},
		{"int32", parquet.Int(32), "int32", i32(func(v int32) (int32, string) { return v, fmt.Sprint(v) })},
		{"int64", parquet.Int(64), "int64", i64(asInt)},
		{"uint8", parquet.Uint(8), "int32", i32(func(v int32) (int32, string) { return int32(uint8(v)), fmt.Sprint(uint8(v)) })},
		{"uint16", parquet.Uint(16), "int32", i32(func(v int32) (int32, string) { return int32(uint16(v)), fmt.Sprint(uint16(v)) })},
		{"uint32", parquet.Uint(32), "int64", i32(func(v int32) (int32, string) { return v, fmt.Sprint(uint32(v)) })},
		{"uint64", parquet.Uint(64), "decimal(20,0)", i64(func(v int64) (int64, string) { return v, fmt.Sprintf("%de-0", uint64(v)) })},
		{"float", parquet.Leaf(parquet.FloatType), "float", func(r *rand.Rand) (parquet.Value, string) {
			f := []float32{0, float32(math.Inf(-1)), float32(math.NaN()), math.SmallestNonzeroFloat32, r.Float32()}[r.IntN(5)]
			return parquet.FloatValue(f), fmt.Sprintf("%vf", float64(f))
		}},
		{"double", parquet.Leaf(parquet.DoubleType), "double", func(r *rand.Rand) (parquet.Value, string) {
			f := []float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN(), r.NormFloat64()}[r.IntN(5)]
			return parquet.DoubleValue(f), fmt.Sprintf("%vf", f)
		}},
		{"decimal32", parquet.Decimal(2, 9, parquet.Int32Type), "decimal(9,2)", i32(func(v int32) (int32, string) { return v, fmt.Sprintf("%de-2", v) })},
		{"decimal64", parquet.Decimal(4, 18, parquet.Int64Type), "decimal(18,4)", i64(func(v int64) (int64, string) { return v, fmt.Sprintf("%de-4", v) })},
		{"string", parquet.String(), "string", str("s%d")},
		{"enum", parquet.Enum(), "string", str("E%d")},
		{"json", parquet.JSON(), "string", str(`{"a":%d}`)},
		{"bytes", parquet.Leaf(parquet.ByteArrayType), "bytes", str("\xff%d")},
		{"bson", parquet.BSON(), "bytes", str("\x00%d")},
		{"fixed", parquet.Leaf(parquet.FixedLenByteArrayType(7)), "bytes", fixed(7, quote)},
		{"uuid", parquet.UUID(), "string", fixed(16, func(b []byte) string {
			return fmt.Sprintf("\"%x-%x-%x-%x-%x\"", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		})},
		{"decimalfixed", parquet.Decimal(3, 20, parquet.FixedLenByteArrayType(9)), "decimal(20,3)", fixed(9, func(b []byte) string {
			hi := int64(int8(b[0]))
			return column.Int128{Hi: hi, Lo: binary.BigEndian.Uint64(b[1:])}.Big().String() + "e-3"
		})},
		{"date", parquet.Date(), "date", i32(func(v int32) (int32, string) { return v, fmt.Sprint(v) })},
		{"timems", parquet.Time(parquet.Millisecond), "time", i32(func(v int32) (int32, string) { v &= 1<<26 - 1; return v, fmt.Sprint(int64(v) * 1e6) })},
		{"timens", parquet.Time(parquet.Nanosecond), "time", i64(func(v int64) (int64, string) { v &= 1<<46 - 1; return v, fmt.Sprint(v) })},
		{"stampms", parquet.Timestamp(parquet.Millisecond), "timestamp", stamp(1e3)},
		{"stampus", parquet.Timestamp(parquet.Microsecond), "timestamp", stamp(1e6)},
		{"stampns", parquet.Timestamp(parquet.Nanosecond), "timestamp", stamp(1e9)},
	}
}

// encodings of a kind, PLAIN and dictionary first.
func encodings(k parquet.Kind) []encoding.Encoding {
	e := []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary}
	switch k {
	case parquet.Boolean:
		return []encoding.Encoding{&parquet.Plain, &parquet.RLE}
	case parquet.Int32, parquet.Int64:
		return append(e, &parquet.DeltaBinaryPacked, &parquet.ByteStreamSplit)
	case parquet.Float, parquet.Double:
		return append(e, &parquet.ByteStreamSplit)
	case parquet.ByteArray:
		return append(e, &parquet.DeltaLengthByteArray, &parquet.DeltaByteArray)
	case parquet.FixedLenByteArray:
		return append(e, &parquet.DeltaByteArray, &parquet.ByteStreamSplit)
	}
	return e
}

// written is a file of every type under every encoding, and what it holds.
type written struct {
	data  []byte
	cols  []Column
	types []string
	rows  []string
}

func writeAll(t testing.TB, seed uint64, rows int, codec compress.Codec, version int, nulls float64) written {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	group := parquet.Group{}
	var out written
	var kinds []writable
	for _, w := range writables() {
		for i, enc := range encodings(w.node.Type().Kind()) {
			for _, optional := range []bool{false, true} {
				node := parquet.Encoded(w.node, enc)
				if optional {
					node = parquet.Optional(node)
				}
				name := fmt.Sprintf("c%03d_%s_%d_%v", len(kinds), w.name, i, optional)
				group[name] = node
				kinds = append(kinds, w)
				out.cols, out.types = append(out.cols, Column{Path: name}), append(out.types, w.typ)
			}
		}
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[any](&buf, parquet.NewSchema("all", group), parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(700))
	for i := range rows {
		var row parquet.Row
		var show []string
		for c, k := range kinds {
			optional := strings.HasSuffix(out.cols[c].Path, "true")
			v, s := k.next(rnd)
			switch {
			case optional && rnd.Float64() < nulls:
				row, show = append(row, parquet.NullValue().Level(0, 0, c)), append(show, "null")
			case optional:
				row, show = append(row, v.Level(0, 1, c)), append(show, s)
			default:
				row, show = append(row, v.Level(0, 0, c)), append(show, s)
			}
		}
		out.rows = append(out.rows, strings.Join(show, "|"))
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
		if i == rows/3 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out.data = buf.Bytes()
	return out
}

// Every type under every encoding, codec and page version comes back as written.
func TestParquetRoundTrip(t *testing.T) {
	for i, tt := range []struct {
		name    string
		codec   compress.Codec
		version int
		rows    int
		nulls   float64
	}{
		{"plain v1", &parquet.Uncompressed, 1, 500, 0.1},
		{"plain v2", &parquet.Uncompressed, 2, 500, 0.5},
		{"snappy v1", &parquet.Snappy, 1, 500, 0.9},
		{"snappy v2", &parquet.Snappy, 2, 300, 1},
		{"zstd", &parquet.Zstd, 2, 300, 0.1},
		{"gzip", &parquet.Gzip, 1, 300, 0.1},
		{"brotli", &parquet.Brotli, 2, 100, 0.1},
		{"lz4 raw", &parquet.Lz4Raw, 1, 100, 0.1},
		{"many rows", &parquet.Snappy, 2, 2100, 0.02},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := writeAll(t, uint64(i), tt.rows, tt.codec, tt.version, tt.nulls)
			req := Request{Format: Parquet, Columns: f.cols}
			for _, whole := range []int64{0, 1} { // one read, then ranges
				req.Limits.Whole = whole
				got, res := mustRows(t, &memBlob{key: "f", data: f.data}, req)
				if types(res.Observed) != strings.Join(f.types, " ") {
					t.Fatalf("types %s, want %s", types(res.Observed), f.types)
				}
				if len(got) != len(f.rows) {
					t.Fatalf("%d rows, want %d", len(got), len(f.rows))
				}
				for r := range got {
					if got[r] != f.rows[r] {
						reportRow(t, r, f, got[r])
					}
				}
			}
			obs, err := Observe(context.Background(), &memBlob{key: "f", data: f.data}, req)
			if err != nil || types(obs) != strings.Join(f.types, " ") {
				t.Fatalf("observe %v, %v", obs, err)
			}
		})
	}
}

func reportRow(t *testing.T, r int, f written, got string) {
	t.Helper()
	g, w := strings.Split(got, "|"), strings.Split(f.rows[r], "|")
	for c := range w {
		if c >= len(g) || g[c] != w[c] {
			t.Fatalf("row %d column %s: %s, want %s", r, f.cols[c].Path, g[c], w[c])
		}
	}
}

// Only wanted chunks are read, and near ones together.
func TestParquetReads(t *testing.T) {
	type row struct {
		A int64  `parquet:"a"`
		B string `parquet:"b"`
		C int64  `parquet:"c"`
	}
	pad := make([]byte, 1000)
	rnd := rand.New(rand.NewPCG(1, 1))
	var in []row
	for i := range 6000 {
		for j := range pad {
			pad[j] = byte('a' + rnd.IntN(26))
		}
		in = append(in, row{A: int64(i), B: string(pad), C: int64(-i)})
	}
	data := write(t, in, parquet.MaxRowsPerRowGroup(3000))
	for _, tt := range []struct {
		name  string
		cols  []Column
		reads int
		bytes int64
	}{
		{"one column", paths("a"), 1 + 2, tailBytes + 2*30_000},
		{"far apart", paths("a", "c"), 1 + 4, tailBytes + 4*30_000},
		{"all", paths("a", "b", "c"), 1 + 2, int64(len(data)) + tailBytes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blob := &countingBlob{memBlob: memBlob{key: "f", data: data}}
			got, _ := mustRows(t, blob, Request{Format: Parquet, Columns: tt.cols, Limits: Limits{Whole: 1}})
			if len(got) != len(in) || !strings.HasPrefix(got[5999], "5999") {
				t.Fatalf("%d rows, last %.20q", len(got), got[len(got)-1])
			}
			if blob.reads != tt.reads || blob.bytes > tt.bytes {
				t.Errorf("%d reads of %d bytes, want %d of at most %d", blob.reads, blob.bytes, tt.reads, tt.bytes)
			}
		})
	}
	_, _, err := rows(&memBlob{key: "f", data: data}, Request{Format: Parquet, Columns: paths("b"), Limits: Limits{Whole: 1, RowGroup: 1 << 20}})
	wantError(t, err, "scan f", "row group 0", "1048576 bytes")
}

type countingBlob struct {
	memBlob
	bytes int64
}

func (b *countingBlob) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	b.bytes += n
	return b.memBlob.ReadRange(ctx, off, n)
}

func TestParquetNested(t *testing.T) {
	type price struct {
		Amount *int64   `parquet:"amount,optional"`
		Tags   []string `parquet:"tags,list"`
	}
	type row struct {
		ID    int64   `parquet:"id"`
		Offer *price  `parquet:"offer,optional"`
		Many  []price `parquet:"many,list"`
	}
	n := func(v int64) *int64 { return &v }
	data := write(t, []row{
		{1, &price{n(5), []string{"a", "b"}}, []price{{n(1), nil}, {nil, []string{"x"}}}},
		{2, nil, nil},
		{3, &price{nil, nil}, []price{{nil, nil}}},
	}, parquet.PageBufferSize(1))
	for _, tt := range []struct{ path, want, typ string }{
		{"offer.amount", "5 null null", "int64"},
		{"offer.tags", `["a" "b"] null []`, "list<string>"},
		{"offer", `{amount:5 tags:["a" "b"]} null {amount:null tags:[]}`, "struct<amount:int64,tags:list<string>>"},
		{"many", `[{amount:1 tags:[]} {amount:null tags:["x"]}] [] [{amount:null tags:[]}]`, "list<struct<amount:int64,tags:list<string>>>"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			out, res := mustRows(t, &memBlob{key: "f", data: data}, Request{Format: Parquet, Columns: paths(tt.path)})
			if got := strings.Join(out, " "); got != tt.want || types(res.Observed) != tt.typ {
				t.Fatalf("%s of %s, want %s of %s", got, types(res.Observed), tt.want, tt.typ)
			}
		})
	}
	_, _, err := rows(&memBlob{key: "f", data: data}, Request{Format: Parquet, Columns: paths("many.amount")})
	wantError(t, err, "column many.amount", "many is no struct")
	_, _, err = rows(&memBlob{key: "f", data: data}, Request{Format: Parquet, Columns: paths("offer.Amount")})
	wantError(t, err, "column offer.Amount", `"offer.amount"`, "case")
	as := Column{Path: "offer", As: column.StructOf(column.Field{Name: "new", Type: column.Of(column.Bool)},
		column.Field{Name: "tags", Type: column.ListOf(column.Of(column.String))}, column.Field{Name: "amount", Type: column.DecimalOf(21, 2)})}
	out, _ := mustRows(t, &memBlob{key: "f", data: data}, Request{Format: Parquet, Columns: []Column{as}})
	if out[0] != `{new:null tags:["a" "b"] amount:500e-2}` {
		t.Fatalf("%s", out[0])
	}
}

// Random lists of lists with nulls at every level, in small pages.
func TestParquetAssembly(t *testing.T) {
	leaf := parquet.Optional(parquet.Leaf(parquet.Int64Type))
	schema := parquet.NewSchema("s", parquet.Group{"l": parquet.Optional(parquet.List(parquet.Optional(parquet.List(leaf))))})
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, version := range []int{1, 2} {
		var buf bytes.Buffer
		var want []string
		w := parquet.NewGenericWriter[any](&buf, schema, parquet.PageBufferSize(200), parquet.DataPageVersion(version))
		for range 3000 {
			row, s := randomLists(rnd)
			want = append(want, s)
			if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, _ := mustRows(t, &memBlob{key: "f", data: buf.Bytes()}, Request{Format: Parquet, Columns: paths("l")})
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("version %d row %d: %s, want %s", version, i, got[i], want[i])
			}
		}
	}
}

// randomLists makes a row of list<list<int64>> with its levels: null outer 0,
// empty outer 1, null inner 2, empty inner 3, null element 4, element 5.
func randomLists(rnd *rand.Rand) (row parquet.Row, show string) {
	rep := 0
	add := func(def int, v parquet.Value) {
		row = append(row, v.Level(rep, def, 0))
	}
	null := parquet.NullValue()
	switch rnd.IntN(5) {
	case 0:
		add(0, null)
		return row, "null"
	case 1:
		add(1, null)
		return row, "[]"
	}
	var outer []string
	for range 1 + rnd.IntN(4) {
		switch rnd.IntN(5) {
		case 0:
			add(2, null)
			outer = append(outer, "null")
		case 1:
			add(3, null)
			outer = append(outer, "[]")
		default:
			var inner []string
			for range 1 + rnd.IntN(3) {
				if rnd.IntN(4) == 0 {
					add(4, null)
					inner = append(inner, "null")
				} else {
					v := rnd.Int64N(1000)
					add(5, parquet.Int64Value(v))
					inner = append(inner, fmt.Sprint(v))
				}
				rep = 2
			}
			outer = append(outer, "["+strings.Join(inner, " ")+"]")
		}
		rep = 1
	}
	return row, "[" + strings.Join(outer, " ") + "]"
}

func TestParquetRefusedByName(t *testing.T) {
	type row struct {
		M map[string]int64 `parquet:"m"`
	}
	interval := fixedLen(leafElem("i", format.FixedLenByteArray, format.Required), 12)
	interval = converted(interval, convInterval)
	for _, tt := range []struct {
		name, col string
		data      []byte
		want      string
	}{
		{"map", "m", write(t, []row{{map[string]int64{"a": 1}}}), "column m: maps are not supported"},
		{"interval", "i", oneColumn(t, interval, 1, make([]byte, 12)), "column i: intervals are not supported"},
		{"decimal of 39 digits", "d", oneColumn(t, logical(leafElem("d", format.ByteArray, format.Required), &format.DecimalType{Precision: 39}), 1, byteArrays("x")), "column d: decimal(39,0)"},
		{"not utf-8", "s", oneColumn(t, logical(leafElem("s", format.ByteArray, format.Required), &format.StringType{}), 1, byteArrays("\xff")), "column s: page 0: row 1: \"\\xff\" is not valid UTF-8"},
		{"not parquet", "s", []byte("PAR1 but nothing else"), "no PAR1 at its end"},
		{"text", "s", []byte(`{"a":1} and so on`), "no PAR1 at its start"},
		{"short", "s", []byte("PAR1PAR1"), "8 bytes are no Parquet file"},
		{"encrypted", "s", []byte("PARE    \x00\x00\x00\x00PARE"), "encrypted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rows(&memBlob{key: "f.parquet", data: tt.data}, Request{Format: Parquet, Columns: paths(tt.col)})
			wantError(t, err, "scan f.parquet", tt.want)
		})
	}
}
