package combiners

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/table"
)

const (
	rowsEnv     = "DELTAD_TEST_COMBINER_ROWS"
	defaultRows = 200_000
	// tables is how many the rows are dealt to before they are merged.
	tables = 3
)

func rowCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv(rowsEnv)
	if text == "" {
		return defaultRows
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n >= timePrime {
		t.Fatalf("%s=%s: want a number of rows", rowsEnv, text)
	}
	return n
}

// timePrime makes event times a permutation: no two records have one.
const timePrime = 15_485_863

// rows is the table r: a key k, and numbers of each kind with nulls among
// them. f is money, c is far from zero and close together, w is as wide as
// three words. No two records have one u or one ts.
const rows = `create table r as select
	(hash(j, 1) % 401)::bigint k,
	((j * 7919) % 15485863)::bigint ts,
	j::bigint u,
	case when hash(j, 2) % 20 > 0 then (hash(j, 3) % 2000000000000)::bigint - 1000000000000 end i,
	case when hash(j, 4) % 20 > 0 then cast(((hash(j, 5) % 2000000000)::bigint - 1000000000) / 10000.0 as decimal(18, 4)) end d,
	case when hash(j, 6) % 20 > 0 then (hash(j, 7) % 100000)::double / 100 end f,
	case when hash(j, 6) % 20 > 0 then 1e9 + (hash(j, 8) % 1000)::double / 1000 end c,
	((hash(j, 9) % 2000001)::double - 1000000) * pow(2.0, (hash(j, 10) % 120)::double - 60) w,
	case when hash(j, 11) % 20 > 0 then 's' || (hash(j, 12) % 300) end s,
	case when hash(j, 13) % 3 > 0 then hash(j, 14) % 1000 > 0 end b,
	'ad' || (hash(j, 15) % 7) ad,
	case when hash(j, 16) % 8 = 0 then 'D' else 'U' end op
from range(`

// generate makes the table and the file.
func generate(ctx context.Context, t *testing.T, db *duck.DB, n int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "r.parquet")
	for _, q := range []string{"set threads = 2", fmt.Sprint(rows, n, ") t(j)"), "copy r to '" + file + "' (format parquet)"} {
		if err := db.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// blob is the file as an object.
type blob struct{ b []byte }

func (o blob) Key() string                             { return "r.parquet" }
func (o blob) Size() int64                             { return int64(len(o.b)) }
func (o blob) ReadAll(context.Context) ([]byte, error) { return o.b, nil }
func (o blob) ReadRange(_ context.Context, off, n int64) ([]byte, error) {
	return o.b[off : off+n], nil
}

// deltad is what deltad makes of the file: a document for each key, in order,
// and a column for each field.
type deltad struct {
	docs   *column.Batch
	fields map[string]*column.Vector
}

func (d *deltad) keys() []int64 { return d.docs.Columns[0].Ints }

// fold indexes the file: its batches are dealt to several tables, and their
// accumulators merged. Batches are shown to each.
func fold(ctx context.Context, t *testing.T, file string, specs []index.FieldSpec, each func(*column.Batch, []index.Column)) *deltad {
	t.Helper()
	p, err := index.Compile(index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts", Unit: "us"}, Fields: specs}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	req := scan.Request{Format: scan.Parquet}
	for _, c := range p.Columns() {
		req.Columns = append(req.Columns, scan.Column{Path: c.Path, Numeric: c.Numeric})
	}
	var bound *index.Bound
	var lifters []*index.Lifter
	var parts []*table.Table
	first, n := int64(0), 0
	_, err = scan.Scan(ctx, blob{data}, req, func(b *column.Batch) error {
		if bound == nil {
			types := make([]column.Type, len(b.Columns))
			for i, v := range b.Columns {
				types[i] = v.Type
			}
			if bound, err = p.Bind(types); err != nil {
				return err
			}
			for range tables {
				part := table.New(bound.Shape())
				l, err := bound.NewLifter(part, time.Unix(0, 0))
				if err != nil {
					return err
				}
				parts, lifters = append(parts, part), append(lifters, l)
			}
		}
		each(b, p.Columns())
		if _, err := lifters[n%tables].Add(b, first); err != nil {
			return err
		}
		n++
		first += int64(b.Len)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return extract(t, bound, parts)
}

// extract merges the tables from stored bytes and extracts the documents.
func extract(t *testing.T, bound *index.Bound, parts []*table.Table) *deltad {
	t.Helper()
	var cursors []table.Cursor
	for _, p := range parts {
		cursors = append(cursors, p.Cursor())
	}
	var columns []combine.Column
	for _, fn := range bound.Shape().Fns {
		columns = append(columns, fn.NewColumn())
	}
	var keys [][]byte
	m := table.Merge(cursors)
	for m.Next() {
		keys = append(keys, slices.Clone(m.Key()))
		for f, col := range columns {
			col.Grow(len(keys))
			for _, h := range m.Holders() {
				if err := col.Merge(uint32(len(keys)-1), m.Cursor(h).Acc(f)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := m.Err(); err != nil {
		t.Fatal(err)
	}
	x, err := bound.NewExtractor(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &deltad{docs: column.NewBatch(bound.Schema()), fields: map[string]*column.Vector{}}
	if err := x.Extract(keys, columns, d.docs, column.NewBatch(bound.Shape().Keys)); err != nil {
		t.Fatal(err)
	}
	for i, f := range bound.Schema() {
		d.fields[f.Name] = d.docs.Columns[i]
	}
	return d
}

// text renders a value as the queries do: lists with spaces between, the parts
// of a struct with colons.
func text(v *column.Vector, i int) string {
	if v.Null(i) {
		return "null"
	}
	switch v.Type.Kind {
	case column.List:
		var parts []string
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			parts = append(parts, text(v.Elem, int(j)))
		}
		return strings.Join(parts, " ")
	case column.Struct:
		var parts []string
		for _, f := range v.Fields {
			parts = append(parts, text(f, i))
		}
		return strings.Join(parts, ":")
	case column.Bool:
		return strconv.FormatBool(v.Bools[i])
	case column.Float32, column.Float64:
		return strconv.FormatFloat(v.Floats[i], 'g', -1, 64)
	case column.Decimal:
		s := v.Decimals[i].Big().String()
		sign := ""
		if strings.HasPrefix(s, "-") {
			sign, s = "-", s[1:]
		}
		scale := int(v.Type.Scale)
		s = strings.Repeat("0", max(0, scale+1-len(s))) + s
		return sign + s[:len(s)-scale] + "." + s[len(s)-scale:]
	case column.String:
		return v.Strings[i]
	}
	return strconv.FormatInt(v.Ints[i], 10)
}
