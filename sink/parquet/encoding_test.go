package parquet

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// oneColumn are documents of an integer key and a column whose values come from the row's number.
func oneColumn(t column.Type, rows int, value func(v *column.Vector, i int)) ([]column.Field, *column.Batch) {
	fields := []column.Field{{Name: "id", Type: column.Of(column.Int64), Key: true}, {Name: "x", Type: t}}
	b := column.NewBatch(fields)
	for i := range rows {
		b.Columns[0].AppendInt(int64(i))
		value(b.Columns[1], i)
	}
	b.Len = rows
	return fields, b
}

// open opens a file as the library does, with its page index, and returns the metadata of its second column by row group.
func open(t *testing.T, body []byte) (*pq.File, []format.ColumnMetaData) {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	var out []format.ColumnMetaData
	for _, g := range f.Metadata().RowGroups {
		out = append(out, g.Columns[1].MetaData)
	}
	return f, out
}

// pagesOf counts the data pages of a chunk by encoding.
func pagesOf(m format.ColumnMetaData) string {
	var out []string
	for _, s := range m.EncodingStats {
		if s.PageType == format.DataPage {
			out = append(out, fmt.Sprintf("%d %s", s.Count, s.Encoding))
		}
	}
	return strings.Join(out, ", ")
}

// TestEncodings: what a chunk is encoded as follows from its values, and each reads back.
func TestEncodings(t *testing.T) {
	text, double, long := column.Of(column.String), column.Of(column.Float64), column.Of(column.Int64)
	few := func(v *column.Vector, i int) { v.AppendString(fmt.Sprintf("value %d", i%7)) }
	for _, tc := range []struct {
		name  string
		typ   column.Type
		rows  int
		value func(v *column.Vector, i int)
		want  []string // by row group
	}{
		{"few strings", text, 10_000, few, []string{"3 RLE_DICTIONARY"}},
		{"one string", text, 5000, func(v *column.Vector, _ int) { v.AppendString("same") }, []string{"2 RLE_DICTIONARY"}},
		{"the empty string", text, 5000, func(v *column.Vector, _ int) { v.AppendString("") }, []string{"2 RLE_DICTIONARY"}},
		{"many strings", text, 5000, func(v *column.Vector, i int) { v.AppendString(fmt.Sprint(i)) }, []string{"2 DELTA_LENGTH_BYTE_ARRAY"}},
		{"three strings in three rows", text, 3, func(v *column.Vector, i int) { v.AppendString(fmt.Sprint(i)) }, []string{"1 DELTA_LENGTH_BYTE_ARRAY"}},
		{"no string", text, 5000, func(v *column.Vector, _ int) { v.AppendNull() }, []string{"2 DELTA_LENGTH_BYTE_ARRAY"}},
		{"a page of nulls first", text, 10_000, func(v *column.Vector, i int) {
			if i < 4096 {
				v.AppendNull()
			} else {
				few(v, i)
			}
		}, []string{"1 DELTA_LENGTH_BYTE_ARRAY, 2 RLE_DICTIONARY"}},
		{"a page of nulls behind", text, 10_000, func(v *column.Vector, i int) {
			if i >= 4096 && i < 8192 {
				v.AppendNull()
			} else {
				few(v, i)
			}
		}, []string{"3 RLE_DICTIONARY"}},
		{"strings that outgrow the dictionary", text, 60_000, func(v *column.Vector, i int) {
			if i < 10_000 {
				few(v, i)
			} else {
				v.AppendString(fmt.Sprint(i))
			}
		}, []string{"10 RLE_DICTIONARY, 5 DELTA_LENGTH_BYTE_ARRAY"}},
		{"long strings that outgrow the dictionary", text, 10_000, func(v *column.Vector, i int) {
			if i < 5000 {
				few(v, i)
			} else {
				v.AppendString(strings.Repeat(fmt.Sprint(i), 200))
			}
		}, []string{"1 RLE_DICTIONARY, 2 DELTA_LENGTH_BYTE_ARRAY"}},
		{"a row group begins anew", text, groupRows + 5000, func(v *column.Vector, i int) {
			if i < groupRows {
				v.AppendString(fmt.Sprint(i))
			} else {
				few(v, i)
			}
		}, []string{"32 DELTA_LENGTH_BYTE_ARRAY", "2 RLE_DICTIONARY"}},
		{"few doubles", double, 5000, func(v *column.Vector, i int) { v.AppendFloat(float64(i%11) / 3) }, []string{"2 RLE_DICTIONARY"}},
		{"many doubles", double, 5000, func(v *column.Vector, i int) { v.AppendFloat(math.Sqrt(float64(i))) }, []string{"2 PLAIN"}},
		{"zeros and numbers that are none", double, 5000, func(v *column.Vector, i int) {
			v.AppendFloat([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1)}[i%4])
		}, []string{"2 RLE_DICTIONARY"}},
		{"large integers, few of them", long, 5000, func(v *column.Vector, i int) { v.AppendInt(int64(i%9) * 0x123456789ABCDEF) }, []string{"2 RLE_DICTIONARY"}},
		{"small integers", long, 5000, func(v *column.Vector, i int) { v.AppendInt(int64(i % 9)) }, []string{"2 DELTA_BINARY_PACKED"}},
		{"strings in lists", column.ListOf(text), 5000, func(v *column.Vector, i int) {
			for k := range i % 3 {
				few(v.Elem, i+k)
			}
			v.EndList()
		}, []string{"2 RLE_DICTIONARY"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fields, docs := oneColumn(tc.typ, tc.rows, tc.value)
			body := write(t, fields, docs)[0].body
			same(t, docs, read(t, fields, body))
			_, chunks := open(t, body)
			var got []string
			for _, m := range chunks {
				got = append(got, pagesOf(m))
				if named := strings.Contains(pagesOf(m), "DICTIONARY"); named != (m.DictionaryPageOffset > 0) {
					t.Errorf("dictionary at %d of a chunk with %s", m.DictionaryPageOffset, pagesOf(m))
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("pages %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRandomColumnsComeBack whatever mixture of values decides how they are encoded.
func TestRandomColumnsComeBack(t *testing.T) {
	types := []column.Type{
		column.Of(column.String), column.Of(column.Float64), column.Of(column.Float32), column.Of(column.Int64), column.DecimalOf(38, 2), column.Of(column.Bool),
		column.ListOf(column.Of(column.String)), column.ListOf(column.StructOf(column.Field{Name: "s", Type: column.Of(column.String)}, column.Field{Name: "l", Type: column.ListOf(column.Of(column.Int64))})),
	}
	small := sizes{pageRows: 64, pageWeight: 3000, groupRows: 320, groupWeight: 1 << 20, fileRows: 640, fileBytes: 1 << 20}
	rapid.Check(t, func(rt *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(rt, "type")
		rows, kinds := rapid.IntRange(1, 1000).Draw(rt, "rows"), rapid.IntRange(1, 300).Draw(rt, "values")
		seed, later := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(0, 1000).Draw(rt, "when they grow more")
		fields, docs := oneColumn(typ, rows, func(v *column.Vector, i int) {
			if i > later {
				fill(v, seed+uint64(i), false)
			} else {
				fill(v, seed+uint64(i%kinds), false)
			}
		})
		files := writeSized(t, small, 1+rows%3, fields, docs)
		all := column.NewBatch(fields)
		for _, f := range files {
			b := read(t, fields, f.body)
			for c, v := range b.Columns {
				for i := range b.Len {
					if err := all.Columns[c].AppendFrom(v, i); err != nil {
						rt.Fatal(err)
					}
				}
			}
			all.Len += b.Len
		}
		same(t, docs, all)
	})
}

// TestPageIndexHoldsEveryValue: a page that an engine leaves out by its bounds has nothing that it looks for.
func TestPageIndexHoldsEveryValue(t *testing.T) {
	for _, tc := range []struct {
		name    string
		typ     column.Type
		value   func(v *column.Vector, i int)
		ordered bool // the bounds ascend, which is declared
		none    bool // no index can be
	}{
		{"ascending", column.Of(column.Int64), func(v *column.Vector, i int) { v.AppendInt(int64(i / 3)) }, true, false},
		{"mixed", column.Of(column.Int64), func(v *column.Vector, i int) { v.AppendInt(int64(i) * 7919 % 10_007) }, false, false},
		{"long strings", column.Of(column.String), func(v *column.Vector, i int) {
			v.AppendString(strings.Repeat("\xff", i%100) + strings.Repeat("b", 100) + fmt.Sprint(i))
		}, false, false},
		{"few strings", column.Of(column.String), func(v *column.Vector, i int) { v.AppendString(fmt.Sprint(i / 4096 % 2)) }, false, false},
		{"nulls", column.Of(column.String), func(v *column.Vector, i int) {
			if i < 4096 {
				v.AppendNull()
			} else {
				v.AppendString(fmt.Sprintf("%06d", i))
			}
		}, true, false},
		{"a page of NaN", column.Of(column.Float64), func(v *column.Vector, i int) {
			if i < 4096 {
				v.AppendFloat(math.NaN())
			} else {
				v.AppendFloat(float64(i))
			}
		}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fields, docs := oneColumn(tc.typ, 20_000, tc.value)
			body := write(t, fields, docs)[0].body
			f, _ := open(t, body)
			chunk := f.RowGroups()[0].ColumnChunks()[1]
			x, err := chunk.ColumnIndex()
			if tc.none {
				if err == nil {
					t.Errorf("an index of %d pages", x.NumPages())
				}
				return
			}
			if err != nil || x.NumPages() != 5 || x.IsAscending() != tc.ordered {
				t.Fatalf("%v, ascending %t", err, x.IsAscending())
			}
			v := docs.Columns[1]
			for p := range 5 {
				nulls := int64(0)
				for i := p * pageRows; i < min((p+1)*pageRows, docs.Len); i++ {
					if v.Null(i) {
						nulls++
						continue
					}
					low, high := x.MinValue(p), x.MaxValue(p)
					if v.Type.Kind == column.String && (v.Strings[i] < string(low.ByteArray()) || v.Strings[i] > string(high.ByteArray())) ||
						v.Type.Kind == column.Int64 && (v.Ints[i] < low.Int64() || v.Ints[i] > high.Int64()) {
						t.Fatalf("row %d lies outside the bounds of page %d: %v to %v", i, p, low, high)
					}
				}
				if x.NullCount(p) != nulls || x.NullPage(p) != (nulls == pageRows) {
					t.Errorf("page %d: %d nulls, want %d", p, x.NullCount(p), nulls)
				}
			}
			offsets, err := chunk.OffsetIndex()
			if err != nil || offsets.NumPages() != 5 || offsets.FirstRowIndex(4) != 4*pageRows {
				t.Errorf("offsets %v, %v", offsets, err)
			}
		})
	}
}

// Values too long for the metadata have no statistics, and are found all the same.
func TestLongValuesHaveNoStatistics(t *testing.T) {
	fields, docs := oneColumn(column.Of(column.String), 10, func(v *column.Vector, i int) { v.AppendString(strings.Repeat("long", 1000+i)) })
	body := write(t, fields, docs)[0].body
	_, chunks := open(t, body)
	if s := chunks[0].Statistics; s.MinValue != nil || s.MaxValue != nil || len(body) > 3000 {
		t.Errorf("bounds of %d and %d bytes in a file of %d", len(s.MinValue), len(s.MaxValue), len(body))
	}
	same(t, docs, read(t, fields, body))
}
