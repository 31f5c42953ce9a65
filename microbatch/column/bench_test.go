package column_test

import (
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

// BenchmarkAppend copies a thousand rows of an integer and a text, one by one and
// at once.
func BenchmarkAppend(b *testing.B) {
	const n = 1000
	src := []*column.Vector{column.New(column.Of(column.Int64)), column.New(column.Of(column.String))}
	var rows []int32
	for i := range n {
		src[0].AppendInt(int64(i))
		src[1].AppendString("a title of the length that titles have")
		rows = append(rows, int32(i*7%n))
	}
	for _, way := range []struct {
		name string
		add  func(to, from *column.Vector) error
	}{
		{"one by one", func(to, from *column.Vector) error {
			for _, i := range rows {
				if err := to.AppendFrom(from, int(i)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"at once", func(to, from *column.Vector) error { return to.AppendRows(from, rows) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			to := []*column.Vector{column.New(src[0].Type), column.New(src[1].Type)}
			for b.Loop() {
				for k, v := range to {
					v.Reset()
					if err := way.add(v, src[k]); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n/2, "ns/value")
		})
	}
}
