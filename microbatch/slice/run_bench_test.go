package slice

import (
	"io"
	"math"
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
		write := func() (*spool.Data, error) {
			out := spool.New("", nil)
			if _, err := tab.WriteRun(out, table.Options{}); err != nil {
				return nil, err
			}
			return out.Seal()
		}
		data, err := write()
		if err != nil {
			b.Fatal(err)
		}
		run, err := table.Open(data, data.Size(), shape)
		if err != nil {
			b.Fatal(err)
		}
		slice := &Slice{Run: data}
		for _, part := range []struct {
			name string
			do   func() error
		}{
			{"write", func() error {
				d, err := write()
				if err == nil {
					d.Close()
				}
				return err
			}},
			{"store", func() error {
				body, err := slice.AtRest(ID{})
				if err == nil {
					_, err = body.WriteTo(io.Discard)
				}
				return err
			}},
			{"check", func() error {
				_, err := table.Check(data, data.Size())
				return err
			}},
			{"rows", func() error {
				c, n := run.Cursor(), 0
				for c.Next() {
					for f := range shape.Fns {
						n += len(c.Acc(f))
					}
				}
				return c.Err()
			}},
			{"blocks", func() error {
				c := run.Blocks()
				for c.Next() {
				}
				return c.Err()
			}},
		} {
			b.Run(c.name+"/"+part.name, func(b *testing.B) {
				b.ReportAllocs()
				least := time.Duration(math.MaxInt64)
				for b.Loop() {
					before := cpu()
					if err := part.do(); err != nil {
						b.Fatal(err)
					}
					least = min(least, cpu()-before)
				}
				b.ReportMetric(float64(least)/float64(run.Rows()), "least-cpu-ns/row")
				b.ReportMetric(float64(data.Size())/float64(run.Rows()), "B/row")
			})
		}
	}
}
