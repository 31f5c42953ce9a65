package scan

import (
	"bytes"
	"compress/gzip"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

func gz(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// write makes a Parquet file of rows.
func write[T any](t testing.TB, rows []T, opts ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, opts...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestB21EmptyObjectsHaveNoRows(t *testing.T) {
	type row struct {
		A int64 `parquet:"a"`
	}
	type text struct {
		A string `parquet:"a"`
	}
	for _, tt := range []struct {
		name   string
		format Format
		key    string
		data   []byte
	}{
		{"empty parquet", Parquet, "a.parquet", nil},
		{"parquet without rows", Parquet, "a.parquet", write[row](t, nil)},
		{"parquet without rows, of another type", Parquet, "a.parquet", write[text](t, nil)},
		{"empty ndjson", NDJSON, "a.json", nil},
		{"blank ndjson", NDJSON, "a.json", []byte("\n \r\n\n")},
		{"ndjson of a bom", NDJSON, "a.json", []byte("\ufeff")},
		{"empty csv", CSV, "a.csv", nil},
		{"csv of blank lines", CSV, "a.csv", []byte("\n\r\n")},
		{"csv of a header", CSV, "a.csv", []byte("a\n")},
		{"gzip of nothing", NDJSON, "a.json.gz", gz(t, "")},
		{"gzip csv of nothing", CSV, "a.csv.gz", gz(t, "")},
		{"empty gzip", NDJSON, "a.json.gz", nil},
		{"zstd of nothing", NDJSON, "a.json.zst", zst(t, "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := Request{Format: tt.format, Columns: paths("a")}
			for _, as := range []column.Kind{column.Null, column.Int64} {
				req.Columns[0].As = column.Of(as)
				out, res := mustRows(t, &memBlob{key: tt.key, data: tt.data}, req)
				if len(out) != 0 || res.Rejected != 0 || len(res.Observed) != 1 || res.Observed[0].Kind != column.Null {
					t.Fatalf("as %s: rows %q, result %+v", column.Of(as), out, res)
				}
			}
			if _, err := Observe(context.Background(), &memBlob{key: tt.key, data: tt.data}, req); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestB22TypesThatDifferBetweenFiles(t *testing.T) {
	i32 := oneColumn(t, leafElem("n", format.Int32, format.Required), 2, le32(7, -7))
	i64 := oneColumn(t, leafElem("n", format.Int64, format.Required), 2, le64(7, 2147483652))
	date := oneColumn(t, logical(leafElem("n", format.Int32, format.Required), &format.DateType{}), 2, le32(1, -1))
	dec := oneColumn(t, logical(leafElem("n", format.Int64, format.Required), &format.DecimalType{Precision: 12, Scale: 2}), 2, le64(150, -1))
	f32 := oneColumn(t, leafElem("n", format.Float, format.Required), 1, le32(int32(math.Float32bits(0.1))))
	for _, tt := range []struct {
		name string
		data []byte
		as   column.Type
		want string
		err  string
	}{
		{"int32 as int64", i32, column.Of(column.Int64), "7 -7", ""},
		{"int32 as decimal", i32, column.DecimalOf(12, 2), "700e-2 -700e-2", ""},
		{"int64 as decimal", i64, column.DecimalOf(21, 2), "700e-2 214748365200e-2", ""},
		{"decimal to a larger scale", dec, column.DecimalOf(20, 4), "15000e-4 -100e-4", ""},
		{"date as timestamp", date, column.Of(column.Timestamp), "1970-01-02T00:00:00Z 1969-12-31T00:00:00Z", ""},
		{"float as double", f32, column.Of(column.Float64), "0.10000000149011612f", ""},
		{"int64 as int32", i64, column.Of(column.Int32), "", "column n: is int64, which does not fit int32"},
		{"int64 as a narrow decimal", i64, column.DecimalOf(12, 2), "", "column n: is int64, which does not fit decimal(12,2)"},
		{"int64 as string", i64, column.Of(column.String), "", "column n: is int64, which does not widen to string"},
		{"int32 as double", i32, column.Of(column.Float64), "", "column n: is int32"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := Request{Format: Parquet, Columns: []Column{{Path: "n", As: tt.as}}}
			out, res, err := rows(&memBlob{key: "p/f.parquet", data: tt.data}, req)
			if tt.err != "" {
				wantError(t, err, "p/f.parquet", tt.err)
				return
			}
			if err != nil || strings.Join(out, " ") != tt.want {
				t.Fatalf("%q, %v; want %s", out, err, tt.want)
			}
			if res.Observed[0].Equal(tt.as) {
				t.Errorf("observed %s is not the file's own type", res.Observed[0])
			}
			_, err = Scan(context.Background(), &memBlob{key: "f", data: tt.data}, req, func(b *column.Batch) error {
				if !b.Columns[0].Type.Equal(tt.as) {
					t.Errorf("delivered %s, want %s", b.Columns[0].Type, tt.as)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestB22MissingAndMisspeltColumns(t *testing.T) {
	two := []format.SchemaElement{leafElem("K", format.Int32, format.Required), leafElem("k", format.Int32, format.Required)}
	chunk := func(name string, v int32) craftedChunk {
		return craftedChunk{meta: format.ColumnMetaData{Type: format.Int32, PathInSchema: []string{name}}, pages: []craftedPage{dataPage(1, le32(v))}}
	}
	both := craft(t, 1, two, 2, chunk("K", 1), chunk("k", 2))
	lower := craft(t, 1, two[1:], 1, chunk("k", 2))
	same := craft(t, 1, []format.SchemaElement{two[0], two[0]}, 2, chunk("K", 1), chunk("K", 2))
	dotted := craft(t, 1, []format.SchemaElement{groupElem("a", format.Required, 1), leafElem("b", format.Int32, format.Required), leafElem("a.b", format.Int32, format.Required)}, 2,
		craftedChunk{meta: format.ColumnMetaData{Type: format.Int32, PathInSchema: []string{"a", "b"}}, pages: []craftedPage{dataPage(1, le32(5))}}, chunk("a.b", 6))
	for _, tt := range []struct {
		name string
		data []byte
		cols []Column
		path map[string]string
		want string
		err  []string
	}{
		{"exact among both", both, paths("K", "k"), nil, "1|2", nil},
		{"other case", lower, paths("K"), nil, "", []string{"f.parquet", "column K", `"k"`, "case"}},
		{"other case of an optional column", lower, paths("?K"), nil, "", []string{"column K", `"k"`}},
		{"missing", lower, paths("z"), nil, "", []string{"f.parquet", "column z", "missing"}},
		{"optional", lower, paths("k", "?z"), nil, "2|null", nil},
		{"all optional", lower, paths("?z"), nil, "null", nil},
		{"no columns", lower, nil, nil, "", nil},
		{"twice", same, paths("K"), nil, "", []string{"column K", "twice"}},
		{"path value", lower, paths("k", "dt"), map[string]string{"dt": "x=1"}, `2|"x=1"`, nil},
		{"column before path value", lower, paths("k"), map[string]string{"k": "9"}, "2", nil},
		{"own name with dots", dotted, paths("a.b", "a"), nil, "6|{b:5}", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, res, err := rows(&memBlob{key: "f.parquet", data: tt.data}, Request{Format: Parquet, Columns: tt.cols, PathValues: tt.path})
			if tt.err != nil {
				wantError(t, err, tt.err...)
				return
			}
			if err != nil || res.Rows != 1 || strings.Join(out, "\n") != tt.want {
				t.Fatalf("%q, %+v, %v; want %s", out, res, err, tt.want)
			}
		})
	}
}

func TestB23Instants(t *testing.T) {
	stamp := func(u format.TimeUnitValue, utc bool) format.SchemaElement {
		return logical(leafElem("t", format.Int64, format.Required), &format.TimestampType{IsAdjustedToUTC: utc, Unit: format.TimeUnit{Value: u}})
	}
	i96 := leafElem("t", format.Int96, format.Required)
	const dayNanos = 86400 * 1_000_000_000
	for _, tt := range []struct {
		name string
		elem format.SchemaElement
		body []byte
		want string
	}{
		{"int96 year 1", i96, int96(0, 1721426), "0001-01-01T00:00:00Z"},
		{"int96 year 9999", i96, int96(dayNanos-100, 5373484), "9999-12-31T23:59:59.9999999Z"},
		{"int96 now and 1 ns", i96, int96(43200*1e9+1, 2461375), "2026-11-30T12:00:00.000000001Z"},
		{"int96 before the epoch", i96, int96(dayNanos-1, 2440587), "1969-12-31T23:59:59.999999999Z"},
		{"int96 nanos of a day and more", i96, int96(dayNanos+1, 2440588), "1970-01-02T00:00:00.000000001Z"},
		{"int96 negative nanos", i96, int96(-1, 2440588), "1969-12-31T23:59:59.999999999Z"},
		{"ms", stamp(&format.MilliSeconds{}, true), le64(-1), "1969-12-31T23:59:59.999Z"},
		{"ms year 1", stamp(&format.MilliSeconds{}, false), le64(-62135596800000), "0001-01-01T00:00:00Z"},
		{"us", stamp(&format.MicroSeconds{}, false), le64(253402300799999999), "9999-12-31T23:59:59.999999Z"},
		{"ns", stamp(&format.NanoSeconds{}, true), le64(-1), "1969-12-31T23:59:59.999999999Z"},
		{"ns least", stamp(&format.NanoSeconds{}, true), le64(math.MinInt64), "1677-09-21T00:12:43.145224192Z"},
		{"converted ms", converted(leafElem("t", format.Int64, format.Required), deprecated.TimestampMillis), le64(1), "1970-01-01T00:00:00.001Z"},
		{"converted us", converted(leafElem("t", format.Int64, format.Required), deprecated.TimestampMicros), le64(-1), "1969-12-31T23:59:59.999999Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := mustRows(t, &memBlob{key: "f", data: oneColumn(t, tt.elem, 1, tt.body)}, Request{Format: Parquet, Columns: paths("t")})
			if out[0] != tt.want {
				t.Fatalf("%s, want %s", out[0], tt.want)
			}
		})
	}
}

// TestB24ListsInStructs: a list without an annotation is never null by itself,
// and null with the struct around it; an annotated one may be both.
func TestB24ListsInStructs(t *testing.T) {
	group := groupElem("o", format.Optional, 1)
	leaf := func(rep format.FieldRepetitionType) format.SchemaElement {
		return leafElem("element", format.Int32, rep)
	}
	file := func(schema []format.SchemaElement, path []string, defs []byte) []byte {
		body := append(append(rleLevels(0, 1, 0, 0, 0), rleLevels(defs...)...), le32(1, 2, 3)...)
		return craft(t, 4, schema, 1, craftedChunk{meta: format.ColumnMetaData{Type: format.Int32, PathInSchema: path}, pages: []craftedPage{dataPage(len(defs), body)}})
	}
	list := converted(groupElem("l", format.Optional, 1), deprecated.List)
	// Rows: o has [1 2], o is null, o has nothing or a null list, o has [3].
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"no annotation", file([]format.SchemaElement{group, leafElem("l", format.Int32, format.Repeated)}, []string{"o", "l"}, []byte{2, 2, 0, 1, 2}), "[1 2] null [] [3]"},
		{"two levels, empty", file([]format.SchemaElement{group, list, leaf(format.Repeated)}, []string{"o", "l", "element"}, []byte{3, 3, 0, 2, 3}), "[1 2] null [] [3]"},
		{"two levels, null", file([]format.SchemaElement{group, list, leaf(format.Repeated)}, []string{"o", "l", "element"}, []byte{3, 3, 0, 1, 3}), "[1 2] null null [3]"},
		{"three levels, empty", file([]format.SchemaElement{group, list, groupElem("list", format.Repeated, 1), leaf(format.Required)}, []string{"o", "l", "list", "element"}, []byte{3, 3, 0, 2, 3}), "[1 2] null [] [3]"},
		{"three levels, null", file([]format.SchemaElement{group, list, groupElem("list", format.Repeated, 1), leaf(format.Required)}, []string{"o", "l", "list", "element"}, []byte{3, 3, 0, 1, 3}), "[1 2] null null [3]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := mustRows(t, &memBlob{key: "f", data: tt.data}, Request{Format: Parquet, Columns: paths("o.l")})
			if got := strings.Join(out, " "); got != tt.want {
				t.Fatalf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestB24ListLayouts(t *testing.T) {
	list := func(name string, rep format.FieldRepetitionType) format.SchemaElement {
		return converted(groupElem(name, rep, 1), deprecated.List)
	}
	el := func(name string, rep format.FieldRepetitionType) format.SchemaElement {
		return leafElem(name, format.Int32, rep)
	}
	file := func(schema []format.SchemaElement, path []string, rows int64, reps, defs []byte, vals ...int32) []byte {
		body := append(append(rleLevels(reps...), rleLevels(defs...)...), le32(vals...)...)
		return craft(t, rows, schema, 1, craftedChunk{meta: format.ColumnMetaData{Type: format.Int32, PathInSchema: path}, pages: []craftedPage{dataPage(len(reps), body)}})
	}
	three := func(mid string) []format.SchemaElement {
		return []format.SchemaElement{list("l", format.Optional), groupElem(mid, format.Repeated, 1), el("element", format.Optional)}
	}
	// Rows: [1 2], null, [], [3].
	reps := []byte{0, 1, 0, 0, 0}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"three levels", file(three("list"), []string{"l", "list", "element"}, 4, reps, []byte{3, 3, 0, 1, 3}, 1, 2, 3), "[1 2] null [] [3]"},
		{"three levels with null elements", file(three("bag"), []string{"l", "bag", "element"}, 4, reps, []byte{3, 2, 0, 1, 2}, 1), "[1 null] null [] [null]"},
		{"two levels", file([]format.SchemaElement{list("l", format.Optional), el("element", format.Repeated)}, []string{"l", "element"}, 4, reps, []byte{2, 2, 0, 1, 2}, 1, 2, 3), "[1 2] null [] [3]"},
		{"two levels of a group named array", file([]format.SchemaElement{list("l", format.Optional), groupElem("array", format.Repeated, 1), el("x", format.Required)}, []string{"l", "array", "x"}, 4, reps, []byte{2, 2, 0, 1, 2}, 1, 2, 3), "[{x:1} {x:2}] null [] [{x:3}]"},
		{"two levels of a group named tuple", file([]format.SchemaElement{list("l", format.Optional), groupElem("l_tuple", format.Repeated, 1), el("x", format.Optional)}, []string{"l", "l_tuple", "x"}, 4, reps, []byte{3, 2, 0, 1, 3}, 1, 3), "[{x:1} {x:null}] null [] [{x:3}]"},
		{"required list", file([]format.SchemaElement{list("l", format.Required), groupElem("list", format.Repeated, 1), el("element", format.Required)}, []string{"l", "list", "element"}, 4, reps, []byte{1, 1, 0, 0, 1}, 1, 2, 3), "[1 2] [] [] [3]"},
		{"no annotation: no null lists", file([]format.SchemaElement{el("l", format.Repeated)}, []string{"l"}, 4, reps, []byte{1, 1, 0, 0, 1}, 1, 2, 3), "[1 2] [] [] [3]"},
		{"newer annotation", file([]format.SchemaElement{logical(groupElem("l", format.Optional, 1), &format.ListType{}), groupElem("list", format.Repeated, 1), el("element", format.Optional)}, []string{"l", "list", "element"}, 4, reps, []byte{3, 3, 0, 1, 3}, 1, 2, 3), "[1 2] null [] [3]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := mustRows(t, &memBlob{key: "f", data: tt.data}, Request{Format: Parquet, Columns: paths("l")})
			if got := strings.Join(out, " "); got != tt.want {
				t.Fatalf("%s, want %s", got, tt.want)
			}
		})
	}
}
