//go:build integration

package parquet_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/column"
	sinkparquet "github.com/deltad/deltad/sink/parquet"
)

// writtenFields has a column for every way in which deltad writes one.
var writtenFields = []column.Field{
	{Name: "shop", Type: column.Of(column.String), Key: true},
	{Name: "item", Type: column.Of(column.Int64), Key: true},
	{Name: "flag", Type: column.Of(column.Bool)},
	{Name: "small", Type: column.Of(column.Int32)},
	{Name: "count", Type: column.Of(column.Int64)},
	{Name: "single", Type: column.Of(column.Float32)},
	{Name: "double", Type: column.Of(column.Float64)},
	{Name: "noise", Type: column.Of(column.Float64)},
	{Name: "price", Type: column.DecimalOf(9, 3)},
	{Name: "spend", Type: column.DecimalOf(18, 2)},
	{Name: "total", Type: column.DecimalOf(38, 10)},
	{Name: "cents", Type: column.DecimalOf(38, 2)}, // of one sign
	{Name: "status", Type: column.Of(column.String)},
	{Name: "drift", Type: column.Of(column.String)}, // few values at first, then many
	{Name: "title", Type: column.Of(column.String)},
	{Name: "raw", Type: column.Of(column.Bytes)},
	{Name: "day", Type: column.Of(column.Date)},
	{Name: "hour", Type: column.Of(column.Time)},
	{Name: "seen", Type: column.Of(column.Timestamp)},
	{Name: "tags", Type: column.ListOf(column.Of(column.String))},
	{Name: "ads", Type: column.ListOf(column.StructOf(
		column.Field{Name: "ad", Type: column.Of(column.Int64)},
		column.Field{Name: "bid", Type: column.DecimalOf(12, 2)},
		column.Field{Name: "words", Type: column.ListOf(column.Of(column.String))}))},
	{Name: "nothing", Type: column.Of(column.Null)},
	{Name: "seldom", Type: column.Of(column.String)}, // whole pages of nulls
}

func writtenValue(v *column.Vector, r *rand.Rand, name string, i int) {
	if r.IntN(7) == 0 {
		v.AppendNull()
		return
	}
	switch v.Type.Kind {
	case column.Null:
		v.AppendNull()
	case column.Bool:
		v.AppendBool(r.IntN(2) == 0)
	case column.Int32:
		v.AppendInt(int64(int32(r.Uint32() >> r.IntN(32))))
	case column.Int64:
		v.AppendInt(int64(r.Uint64() >> r.IntN(64)))
	case column.Float32:
		v.AppendFloat(float64(float32(r.IntN(100)) / 8))
	case column.Float64:
		switch {
		case name == "noise":
			v.AppendFloat(r.NormFloat64())
		case r.IntN(50) == 0:
			v.AppendFloat([]float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1)}[r.IntN(5)])
		default:
			v.AppendFloat(float64(r.IntN(1000)) / 100)
		}
	case column.Decimal:
		d := column.Int128From(r.Int64N(1_000_000_000) - 500_000_000)
		if name == "cents" {
			d = column.Int128From(r.Int64N(10_000_000))
		} else if v.Type.Precision > 18 && r.IntN(2) == 0 {
			d = column.Int128{Hi: r.Int64N(1 << 40), Lo: r.Uint64()}
		}
		v.AppendDecimal(d)
	case column.String, column.Bytes:
		switch {
		case name == "status":
			v.AppendString([]string{"active", "paused", "", "ended", "ünïcode"}[r.IntN(5)])
		case name == "drift" && i > 60_000:
			v.AppendString(fmt.Sprintf("value %d", r.IntN(100_000)))
		case name == "drift":
			v.AppendString(fmt.Sprintf("value %d", r.IntN(300)))
		case name == "seldom" && i%50_000 < 40_000:
			v.AppendNull()
		case name == "raw":
			v.AppendString(strings.Repeat("\xff\x00\x80", r.IntN(40)))
		default:
			v.AppendString(strings.Repeat(fmt.Sprintf("word%d ", r.IntN(1000)), r.IntN(5)))
		}
	case column.Date:
		v.AppendInt(r.Int64N(40_000) - 10_000)
	case column.Time:
		v.AppendInt(r.Int64N(86_400_000_000) * 1000)
	case column.Timestamp:
		v.AppendTimestamp(r.Int64N(4_000_000_000)-1_000_000_000, int32(r.IntN(1_000_000)*1000))
	case column.List:
		for range r.IntN(4) {
			writtenValue(v.Elem, r, name, i)
		}
		v.EndList()
	case column.Struct:
		for k, f := range v.Fields {
			writtenValue(f, r, v.Type.Fields[k].Name, i)
		}
		v.EndStruct()
	}
}

// written writes documents and returns them with the pattern of their files.
func written(t *testing.T, rows int) (*column.Batch, string) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(rows)))
	docs := column.NewBatch(writtenFields)
	docs.Len = rows
	for c, f := range writtenFields {
		for i := range rows {
			switch f.Name {
			case "shop":
				docs.Columns[c].AppendString(fmt.Sprintf("shop/%05d", i/7))
			case "item":
				docs.Columns[c].AppendInt(int64(i%7)*1_000_003 - 2_000_000)
			default:
				writtenValue(docs.Columns[c], r, f.Name, i)
			}
		}
	}
	dir := t.TempDir()
	w, err := sinkparquet.NewWriter(sinkparquet.Options{Fields: writtenFields, Name: "part", Put: func(_ context.Context, p sinkparquet.Part, body io.ReadSeeker) error {
		b, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, p.Name), b, 0o600)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < rows; i += 1024 {
		if err := w.WriteRows(t.Context(), docs, i, min(i+1024, rows)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return docs, filepath.Join(dir, "*.parquet")
}

// TestWrittenFilesInDuckDB holds the files of panes to an engine that shares no code with their writer: every value, and what filters
// leave, which DuckDB finds with statistics, bloom filters and dictionaries.
func TestWrittenFilesInDuckDB(t *testing.T) {
	db, err := duck.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, rows := range []int{1, 3, 4096, 5000, 135_000} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			docs, files := written(t, rows)
			got, err := db.Query(t.Context(), fmt.Sprintf("select * from read_parquet('%s', file_row_number=true) order by file_row_number", files))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != rows {
				t.Fatalf("%d rows", len(got))
			}
			for c, f := range writtenFields {
				for i := range rows {
					if want, got := ofVector(docs.Columns[c], i), ofDuck(got[i][f.Name]); want != got {
						t.Fatalf("column %s row %d: DuckDB has %s, written was %s", f.Name, i, got, want)
					}
				}
			}
			filters(t, db, docs, files)
			for _, i := range []int{0, rows / 2, rows - 1} {
				query := fmt.Sprintf("select count(*) n from read_parquet('%s') where shop = '%s' and item = %d", files, docs.Columns[0].Strings[i], docs.Columns[1].Ints[i])
				if got, err := db.Query(t.Context(), query); err != nil || ofDuck(got[0]["n"]) != "1" {
					t.Errorf("%s: %v, %v", query, got, err)
				}
			}
		})
	}
}

// filters asks for rows by the values of a few of them, column by column.
func filters(t *testing.T, db *duck.DB, docs *column.Batch, files string) {
	t.Helper()
	for c, f := range writtenFields {
		if k := f.Type.Kind; k == column.List || k == column.Null {
			continue
		}
		counts := map[string]int{}
		for i := range docs.Len {
			counts[ofVector(docs.Columns[c], i)]++
		}
		for _, i := range []int{0, docs.Len / 3, docs.Len / 2, docs.Len - 1} {
			want := ofVector(docs.Columns[c], i)
			if want == "null" {
				continue
			}
			query := fmt.Sprintf(`select count(*) n from read_parquet('%[1]s') where %[2]q = (select %[2]q from read_parquet('%[1]s', file_row_number=true) where file_row_number = %[3]d)`, files, f.Name, i)
			rows, err := db.Query(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			n := counts[want]
			if want == "0" || want == "-0" { // equal, and two in text
				n = counts["0"] + counts["-0"]
			}
			if got := ofDuck(rows[0]["n"]); got != fmt.Sprint(n) {
				t.Errorf("column %s: DuckDB finds %s rows of %s, written were %d", f.Name, got, want, n)
			}
		}
		rows, err := db.Query(t.Context(), fmt.Sprintf(`select count(*) n from read_parquet('%s') where %q is null`, files, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if got := ofDuck(rows[0]["n"]); got != fmt.Sprint(counts["null"]) {
			t.Errorf("column %s: DuckDB finds %s nulls, written were %d", f.Name, got, counts["null"])
		}
	}
}
