package slice

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
)

// gathered is the table of a partition of 232,000 rows.
func gathered(b *testing.B, key string, fields []index.FieldSpec) (*table.Table, table.Shape) {
	b.Helper()
	x := adEvents(b, &parquet.Snappy)
	s := adBuilder(b, x, key, fields)
	built, err := s.Build(b.Context(), x.input(), nil)
	if err != nil {
		b.Fatal(err)
	}
	bound, err := s.Program.Bind(built.Built)
	if err != nil {
		b.Fatal(err)
	}
	g, err := s.newGatherer(bound, sliceStart)
	if err != nil {
		b.Fatal(err)
	}
	for _, o := range x.input().Objects {
		blob, _ := s.Open(o)
		if _, err := scan.Scan(b.Context(), blob, s.request(nil, built.Built), func(batch *column.Batch) error {
			_, err := g.add(batch, 0)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	return g.table, bound.Shape()
}

// BenchmarkRun writes the run of a partition and reads it back.
func BenchmarkRun(b *testing.B) {
	fields := adFields()
	for _, c := range []struct {
		name, key string
		fields    []index.FieldSpec
	}{{"int", "item_id", fields}, {"string", "item_key", fields}, {"int/numbers", "item_id", fields[:9]}} {
		tab, shape := gathered(b, c.key, c.fields)
		write := func(b *testing.B) *spool.Data {
			out := spool.New("", nil)
			if _, err := tab.WriteRun(out, table.Options{Room: 64 << 20}); err != nil {
				b.Fatal(err)
			}
			d, err := out.Seal()
			if err != nil {
				b.Fatal(err)
			}
			return d
		}
		data := write(b)
		run, err := table.Open(data, data.Size(), shape)
		if err != nil {
			b.Fatal(err)
		}
		slice := &Slice{Run: data}
		per := func(name string, do func(b *testing.B)) {
			b.Run(fmt.Sprintf("%s/%s", c.name, name), func(b *testing.B) {
				b.ReportAllocs()
				least := time.Duration(1 << 62)
				for b.Loop() {
					before := cpu()
					do(b)
					least = min(least, cpu()-before)
				}
				b.ReportMetric(float64(least)/float64(run.Rows()), "least-cpu-ns/row")
				b.ReportMetric(float64(data.Size())/float64(run.Rows()), "B/row")
			})
		}
		per("write", func(b *testing.B) { write(b).Close() })
		per("rest", func(b *testing.B) {
			if _, err := slice.AtRest(ID{}); err != nil {
				b.Fatal(err)
			}
		})
		per("store", func(b *testing.B) {
			body, err := slice.AtRest(ID{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, struct{ io.Reader }{body}); err != nil {
				b.Fatal(err)
			}
		})
		per("rows", func(b *testing.B) {
			n := 0
			for c := run.Cursor(); c.Next(); {
				for f := range shape.Fns {
					n += len(c.Acc(f))
				}
			}
		})
		per("blocks", func(b *testing.B) {
			for c := run.Blocks(); c.Next(); {
			}
		})
	}
}
