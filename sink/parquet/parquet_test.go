package parquet

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

var update = flag.Bool("update", false, "write golden files")

// everyType has a column of every type a document can have.
func everyType() []column.Field {
	ad := column.StructOf(
		column.Field{Name: "ad_id", Type: column.Of(column.Int64)},
		column.Field{Name: "bid", Type: column.DecimalOf(12, 2)},
		column.Field{Name: "tags", Type: column.ListOf(column.Of(column.String))})
	return []column.Field{
		{Name: "shop", Type: column.Of(column.String), Key: true},
		{Name: "item.id", Type: column.Of(column.Int64), Key: true},
		{Name: "z", Type: column.Of(column.Bool)},
		{Name: "b", Type: column.Of(column.Int32)},
		{Name: "c", Type: column.Of(column.Int64)},
		{Name: "d", Type: column.Of(column.Float32)},
		{Name: "e", Type: column.Of(column.Float64)},
		{Name: "f", Type: column.DecimalOf(9, 3)},
		{Name: "g", Type: column.DecimalOf(18, 0)},
		{Name: "h", Type: column.DecimalOf(38, 10)},
		{Name: "i", Type: column.Of(column.String)},
		{Name: "j", Type: column.Of(column.Bytes)},
		{Name: "k", Type: column.Of(column.Date)},
		{Name: "l", Type: column.Of(column.Time)},
		{Name: "m", Type: column.Of(column.Timestamp)},
		{Name: "n", Type: column.ListOf(column.Of(column.String))},
		{Name: "o", Type: column.ListOf(ad)},
		{Name: "p", Type: ad},
		{Name: "q", Type: column.ListOf(column.ListOf(column.Of(column.Int32)))},
		{Name: "r", Type: column.ListOf(column.DecimalOf(38, 2))},
		{Name: "a", Type: column.Of(column.Null)},
	}
}

// fill appends one pseudo-random value that depends on seed alone; a third of them null, zeros and empties frequent.
func fill(v *column.Vector, seed uint64, required bool) {
	r := seed*0x9E3779B97F4A7C15 + 1
	r ^= r >> 29
	if !required && r%3 == 0 {
		v.AppendNull()
		return
	}
	n := int64(r>>8) % 1000 * int64(r>>40%2)
	switch v.Type.Kind {
	case column.Null:
		v.AppendNull()
	case column.Bool:
		v.AppendBool(n%2 == 0)
	case column.Int32, column.Int64:
		v.AppendInt(n - 300)
	case column.Date:
		v.AppendInt(n * 20)
	case column.Time:
		v.AppendInt(n * 1000)
	case column.Timestamp:
		v.AppendTimestamp(n*86400-3e9, int32(n)*1000)
	case column.Float32, column.Float64:
		v.AppendFloat(float64(n) / 4)
	case column.Decimal:
		v.AppendDecimal(column.Int128From(n - 500))
	case column.String, column.Bytes:
		v.AppendString(strings.Repeat("ü", int(n%5)))
	case column.List:
		for i := uint64(0); i < r>>16%4; i++ {
			fill(v.Elem, r+i+1, false)
		}
		v.EndList()
	case column.Struct:
		for i, f := range v.Fields {
			fill(f, r+uint64(i)+77, false)
		}
		v.EndStruct()
	}
}

func documents(fields []column.Field, from, to int) *column.Batch {
	b := column.NewBatch(fields)
	for i := from; i < to; i++ {
		for c, f := range fields {
			switch {
			case f.Key && f.Type.Kind == column.String:
				b.Columns[c].AppendString(fmt.Sprintf("shop-%07d", i/10))
			case f.Key:
				b.Columns[c].AppendInt(int64(i%10) - 5)
			default:
				fill(b.Columns[c], uint64(i)*100+uint64(c), false)
			}
		}
		b.Len++
	}
	return b
}

type kept struct {
	Part
	body []byte
}

// write returns the files that the batches make.
func write(t testing.TB, fields []column.Field, batches ...*column.Batch) []kept {
	t.Helper()
	return writeSized(t, formatSizes(), 1, fields, batches...)
}

func writeSized(t testing.TB, size sizes, workers int, fields []column.Field, batches ...*column.Batch) []kept {
	t.Helper()
	var out []kept
	w, err := NewWriter(Options{Fields: fields, Name: "part", Workers: workers, Put: func(_ context.Context, p Part, body io.ReadSeeker) error {
		b, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if int64(len(b)) != p.Bytes {
			return fmt.Errorf("%d bytes, part says %d", len(b), p.Bytes)
		}
		out = append(out, kept{p, b})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.size = size
	for _, b := range batches {
		if err := w.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t testing.TB, fields []column.Field, body []byte) *column.Batch {
	t.Helper()
	r, err := NewReader(bytes.NewReader(body), int64(len(body)), fields)
	if err != nil {
		t.Fatal(err)
	}
	all := column.NewBatch(fields)
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for c, v := range b.Columns {
			for i := 0; i < b.Len; i++ {
				if err := all.Columns[c].AppendFrom(v, i); err != nil {
					t.Fatal(err)
				}
			}
		}
		all.Len += b.Len
	}
}

// show is row i of v in a form that tells null, empty and zero apart.
func show(v *column.Vector, i int) any {
	if v.Null(i) {
		return nil
	}
	switch v.Type.Kind {
	case column.List:
		out := []any{}
		for k := v.Offsets[i]; k < v.Offsets[i+1]; k++ {
			out = append(out, show(v.Elem, int(k)))
		}
		return out
	case column.Struct:
		out := []any{}
		for _, f := range v.Fields {
			out = append(out, show(f, i))
		}
		return out
	}
	return KeyText(v, i)
}

func same(t testing.TB, want, got *column.Batch) {
	t.Helper()
	if want.Len != got.Len {
		t.Fatalf("%d rows, want %d", got.Len, want.Len)
	}
	for c := range want.Columns {
		for i := 0; i < want.Len; i++ {
			if w, g := show(want.Columns[c], i), show(got.Columns[c], i); !reflect.DeepEqual(w, g) {
				t.Fatalf("column %d row %d: %v, want %v", c, i, g, w)
			}
		}
	}
}

func TestRoundTripOfEveryType(t *testing.T) {
	fields := everyType()
	want := documents(fields, 0, 5000)
	files := write(t, fields, want)
	if len(files) != 1 || files[0].Name != "part-00000.parquet" || files[0].Rows != 5000 {
		t.Fatalf("files %+v", files)
	}
	same(t, want, read(t, fields, files[0].body))
	if got := strings.Join(files[0].MinKey, "|"); got != "shop-0000000|-5" {
		t.Errorf("min key %s", got)
	}
	if got := strings.Join(files[0].MaxKey, "|"); got != "shop-0000499|4" {
		t.Errorf("max key %s", got)
	}
}

func TestRoundTripOfRandomRows(t *testing.T) {
	fields := everyType()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(rt, "rows")
		b := column.NewBatch(fields)
		for i := 0; i < n; i++ {
			b.Columns[0].AppendString("s")
			b.Columns[1].AppendInt(int64(i))
			for c := 2; c < len(fields); c++ {
				fill(b.Columns[c], rapid.Uint64().Draw(rt, "seed"), false)
			}
			b.Len++
		}
		same(t, b, read(t, fields, write(t, fields, b)[0].body))
	})
}

// The bytes do not depend on how callers cut batches, nor on the number of processors and workers. The golden hash holds the format over upgrades.
func TestBytesAreAFunctionOfTheDocuments(t *testing.T) {
	fields := everyType()
	const rows = 9000
	docs := documents(fields, 0, rows)
	want := write(t, fields, docs)
	for i, cut := range []int{7, 999, 4096, 4097, rows - 1} {
		old := runtime.GOMAXPROCS(1 + i%2)
		var batches []*column.Batch
		for i := 0; i < rows; i += cut {
			batches = append(batches, slice(t, docs, fields, i, min(i+cut, rows)))
		}
		got := writeSized(t, formatSizes(), i, fields, batches...)
		runtime.GOMAXPROCS(old)
		if len(got) != len(want) || got[0].SHA256 != want[0].SHA256 || !bytes.Equal(got[0].body, want[0].body) {
			t.Fatalf("batches of %d: other bytes", cut)
		}
	}
	golden(t, "testdata/every_type.sha256", want[0].SHA256)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != got {
		t.Errorf("%s: got %s, want %s: the output format has changed, which its number in the config hash must say", name, got, want)
	}
}

func TestFilesEndAfterFixedRows(t *testing.T) {
	fields := []column.Field{{Name: "id", Type: column.Of(column.Int64), Key: true}}
	ids := func(from, to int) *column.Batch {
		b := column.NewBatch(fields)
		for ; from < to; from++ {
			b.Columns[0].AppendInt(int64(from))
			b.Len++
		}
		return b
	}
	small := sizes{pageRows: 10, pageWeight: 1 << 20, groupRows: 40, groupWeight: 1 << 20, fileRows: 80, fileBytes: 1 << 20}
	for _, tc := range []struct {
		name  string
		size  func(s *sizes)
		files []int64
		last  []int64 // rows in the row groups of the last file
	}{
		{"by rows", func(*sizes) {}, []int64{80, 80, 45}, []int64{40, 5}},
		{"by bytes", func(s *sizes) { s.fileBytes = 1 }, []int64{40, 40, 40, 40, 40, 5}, []int64{5}},
		{"groups by weight", func(s *sizes) { s.groupWeight = 8 * 20 }, []int64{80, 80, 45}, []int64{20, 20, 5}},
		{"pages by weight", func(s *sizes) { s.pageWeight = 8 * 3 }, []int64{84, 84, 37}, []int64{37}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			size := small
			tc.size(&size)
			files := writeSized(t, size, 1, fields, ids(0, 33), ids(33, 34), ids(34, 205))
			whole := writeSized(t, size, 1, fields, ids(0, 205))
			if len(files) != len(tc.files) {
				t.Fatalf("%d files, want %d", len(files), len(tc.files))
			}
			for i, f := range files {
				if f.Rows != tc.files[i] || f.Name != fmt.Sprintf("part-%05d.parquet", i) || f.SHA256 != whole[i].SHA256 {
					t.Errorf("file %d is %s of %d rows, want %d", i, f.Name, f.Rows, tc.files[i])
				}
			}
			last := files[len(files)-1]
			f, err := pq.OpenFile(bytes.NewReader(last.body), last.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			var groups []int64
			for _, g := range f.RowGroups() {
				groups = append(groups, g.NumRows())
			}
			if !slices.Equal(groups, tc.last) {
				t.Errorf("row groups of %v rows, want %v", groups, tc.last)
			}
		})
	}
	if s := formatSizes(); s.groupRows < 100_000 || s.groupRows > 1_000_000 || s.fileRows%int64(s.groupRows) != 0 {
		t.Errorf("row groups of %d rows", s.groupRows)
	}
}

func TestHeavyRowsEndPagesEarly(t *testing.T) {
	fields := []column.Field{{Name: "id", Type: column.Of(column.Int64), Key: true}, {Name: "s", Type: column.Of(column.String)}}
	b := column.NewBatch(fields)
	for i := 0; i < 30; i++ {
		b.Columns[0].AppendInt(int64(i))
		b.Columns[1].AppendString(strings.Repeat(string(rune('a'+i%26)), 1<<20))
		b.Len++
	}
	whole := write(t, fields, b)
	same(t, b, read(t, fields, whole[0].body))
	halves := write(t, fields, slice(t, b, fields, 0, 11), slice(t, b, fields, 11, 30))
	if whole[0].SHA256 != halves[0].SHA256 {
		t.Error("other bytes for other batches")
	}
}

func slice(t *testing.T, b *column.Batch, fields []column.Field, i, j int) *column.Batch {
	t.Helper()
	out := column.NewBatch(fields)
	for c := range fields {
		for k := i; k < j; k++ {
			if err := out.Columns[c].AppendFrom(b.Columns[c], k); err != nil {
				t.Fatal(err)
			}
		}
	}
	out.Len = j - i
	return out
}

func TestFileIsWhatConsumersExpect(t *testing.T) {
	fields := everyType()
	body := write(t, fields, documents(fields, 0, 5000))[0].body
	f, err := pq.OpenFile(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	meta := f.Metadata()
	if meta.CreatedBy != "deltad version 1(build 1)" {
		t.Errorf("created by %q", meta.CreatedBy)
	}
	g := meta.RowGroups[0]
	if len(g.SortingColumns) != 2 || g.SortingColumns[0].ColumnIdx != 0 || g.SortingColumns[1].ColumnIdx != 1 || g.SortingColumns[0].Descending {
		t.Errorf("sorting columns %+v", g.SortingColumns)
	}
	for i, c := range g.Columns {
		if got := c.MetaData.Codec.String(); got != "ZSTD" {
			t.Errorf("column %v: codec %s", c.MetaData.PathInSchema, got)
		}
		if bloom := c.MetaData.BloomFilterOffset > 0; bloom != (i < 2) {
			t.Errorf("column %v: bloom filter %t", c.MetaData.PathInSchema, bloom)
		}
	}
	probe := func(s string) bool {
		ok, err := f.RowGroups()[0].ColumnChunks()[0].BloomFilter().Check(pq.ValueOf(s))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !probe("shop-0000123") || probe("shop-9999999") {
		t.Error("bloom filter does not tell present from absent")
	}
	golden(t, "testdata/every_type.schema", strings.Join(strings.Fields(f.Schema().String()), " "))
}

// Statistics decide which row groups an engine leaves out: they must be in the order of the values, for every type.
func TestStatisticsHoldEveryValue(t *testing.T) {
	fields := everyType()
	docs := documents(fields, 0, 5000)
	body := write(t, fields, docs)[0].body
	f, err := pq.OpenFile(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	for c := 0; c < 15; c++ { // the flat columns
		v := docs.Columns[c]
		least, greatest := -1, -1
		for i := range docs.Len {
			if v.Null(i) {
				continue
			}
			if least < 0 || compare(v, i, v, least) < 0 {
				least = i
			}
			if greatest < 0 || compare(v, i, v, greatest) > 0 {
				greatest = i
			}
		}
		lo, hi, ok := f.RowGroups()[0].ColumnChunks()[c].(*pq.FileColumnChunk).Bounds()
		if !ok {
			t.Errorf("column %s has no bounds", fields[c].Name)
			continue
		}
		var leaves []*cursor
		a := newAssembler(column.Field{Type: fields[c].Type, Key: true}, 0, 0, &leaves)
		got := column.New(fields[c].Type)
		for _, b := range []pq.Value{lo, hi} {
			if err := a.value(got, b); err != nil {
				t.Fatal(err)
			}
		}
		if compare(got, 0, v, least) != 0 || compare(got, 1, v, greatest) != 0 {
			t.Errorf("column %s: bounds %s to %s, want %s to %s", fields[c].Name, KeyText(got, 0), KeyText(got, 1), KeyText(v, least), KeyText(v, greatest))
		}
	}
	index, err := f.RowGroups()[0].ColumnChunks()[9].ColumnIndex()
	if err != nil || index.IsAscending() || index.IsDescending() {
		t.Errorf("wide decimals claim an order of their pages, %v", err)
	}
	for p := range index.NumPages() {
		if int128(index.MinValue(p).ByteArray()).Cmp(int128(index.MaxValue(p).ByteArray())) > 0 {
			t.Errorf("page %d: bounds are the wrong way round", p)
		}
	}
}

func TestRefusals(t *testing.T) {
	id := column.Field{Name: "id", Type: column.Of(column.Int64), Key: true}
	one := func(typ column.Type, add func(v *column.Vector)) ([]column.Field, *column.Batch) {
		fields := []column.Field{id, {Name: "x", Type: typ}}
		b := column.NewBatch(fields)
		b.Columns[0].AppendInt(1)
		add(b.Columns[1])
		b.Len = 1
		return fields, b
	}
	keys := func(ids ...int64) ([]column.Field, *column.Batch) {
		b := column.NewBatch([]column.Field{id})
		for _, i := range ids {
			b.Columns[0].AppendInt(i)
		}
		b.Len = len(ids)
		return []column.Field{id}, b
	}
	for _, tc := range []struct {
		name  string
		want  string
		batch func() ([]column.Field, *column.Batch)
	}{
		{"nanoseconds in a timestamp", "column x: timestamp 1970-01-01T00:00:01.000000001Z: has nanoseconds", func() ([]column.Field, *column.Batch) {
			return one(column.Of(column.Timestamp), func(v *column.Vector) { v.AppendTimestamp(1, 1) })
		}},
		{"nanoseconds in a time", "column x: time 00:00:00.000000001", func() ([]column.Field, *column.Batch) {
			return one(column.Of(column.Time), func(v *column.Vector) { v.AppendInt(1) })
		}},
		{"decimal beyond its precision", "column x: 10.00 does not fit decimal(3,2)", func() ([]column.Field, *column.Batch) {
			return one(column.DecimalOf(3, 2), func(v *column.Vector) { v.AppendDecimal(column.Int128From(1000)) })
		}},
		{"int64 in an int32 column", "column x: 2147483652 does not fit int32", func() ([]column.Field, *column.Batch) {
			return one(column.Of(column.Int32), func(v *column.Vector) { v.AppendInt(2147483652) })
		}},
		{"null key", "column id: null in a key column", func() ([]column.Field, *column.Batch) {
			f, b := keys()
			b.Columns[0].AppendNull()
			b.Len = 1
			return f, b
		}},
		{"unsorted", `key ["1"] does not follow ["2"]`, func() ([]column.Field, *column.Batch) { return keys(2, 1) }},
		{"twice", `key ["2"] does not follow ["2"]`, func() ([]column.Field, *column.Batch) { return keys(2, 2) }},
		{"ragged", "column id: 1 rows in a batch of 2", func() ([]column.Field, *column.Batch) { f, b := keys(1); b.Len = 2; return f, b }},
		{"other type", "column id: type string, want int64", func() ([]column.Field, *column.Batch) {
			return []column.Field{id}, &column.Batch{Columns: []*column.Vector{column.New(column.Of(column.String))}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fields, b := tc.batch()
			w, err := NewWriter(Options{Fields: fields, Name: "part"})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Abort()
			if err = w.Write(t.Context(), b); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestOrderOverBatches(t *testing.T) {
	fields := []column.Field{{Name: "id", Type: column.Of(column.Int64), Key: true}}
	w, err := NewWriter(Options{Fields: fields, Name: "part"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	b := column.NewBatch(fields)
	b.Columns[0].AppendInt(7)
	b.Len = 1
	if err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), b); err == nil {
		t.Error("the same key in the next batch was taken")
	}
}

func TestNoDocumentsMakeNoFiles(t *testing.T) {
	fields := everyType()
	if files := write(t, fields, column.NewBatch(fields)); len(files) != 0 {
		t.Errorf("%d files", len(files))
	}
}

func TestSchemaThatCannotBeWritten(t *testing.T) {
	k := column.Field{Name: "k", Type: column.Of(column.String), Key: true}
	for _, tc := range []struct {
		name   string
		fields []column.Field
	}{
		{"no key", []column.Field{{Name: "a", Type: column.Of(column.Int32)}}},
		{"list key", []column.Field{{Name: "a", Type: column.ListOf(column.Of(column.Int32)), Key: true}}},
		{"name twice", []column.Field{k, k}},
		{"no name", []column.Field{k, {Type: column.Of(column.Int32)}}},
		{"struct of nothing", []column.Field{k, {Name: "a", Type: column.ListOf(column.StructOf())}}},
		{"struct with a field twice", []column.Field{k, {Name: "a", Type: column.StructOf(k, k)}}},
		{"decimal of 39 digits", []column.Field{k, {Name: "a", Type: column.DecimalOf(39, 0)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := NewWriter(Options{Fields: tc.fields, Name: "part"}); err == nil {
				t.Error("taken")
			}
		})
	}
}

func TestNaNSortsLast(t *testing.T) {
	fields := []column.Field{{Name: "f", Type: column.Of(column.Float64), Key: true}}
	b := column.NewBatch(fields)
	for _, f := range []float64{math.Inf(-1), -1, 0, 2, math.Inf(1), math.NaN()} {
		b.Columns[0].AppendFloat(f)
		b.Len++
	}
	same(t, b, read(t, fields, write(t, fields, b)[0].body))
}

// Damage to a file is an error or other values, never the end of the process.
func FuzzReader(f *testing.F) {
	fields := everyType()
	body := write(f, fields, documents(fields, 0, 40))[0].body
	f.Add(10, byte(1), len(body))
	f.Add(len(body)-9, byte(0x80), len(body))
	f.Add(0, byte(0), len(body)/2)
	f.Fuzz(func(t *testing.T, at int, flip byte, size int) {
		if size < 0 || size > len(body) {
			return
		}
		b := bytes.Clone(body[:size])
		if at >= 0 && at < len(b) {
			b[at] ^= flip
		}
		r, err := NewReader(bytes.NewReader(b), int64(len(b)), fields)
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, io.EOF) && !strings.HasPrefix(err.Error(), "read documents: ") {
			t.Errorf("error does not say what was done: %v", err)
		}
	})
}
