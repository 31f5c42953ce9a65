package layers_test

import (
	"fmt"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// BenchmarkDiffer compares a pane of a hundred thousand documents of five columns with the one before, a hundredth of which differs.
func BenchmarkDiffer(b *testing.B) {
	const n, size = 100_000, 1024
	fs := []column.Field{
		{Name: "item", Type: column.Of(column.String), Key: true}, {Name: "clicks", Type: column.Of(column.Int64)}, {Name: "price", Type: column.Of(column.Float64)},
		{Name: "title", Type: column.Of(column.String)}, {Name: "at", Type: column.Of(column.Timestamp)},
	}
	h, stones := window.NewHasher(), column.NewBatch(fs[:1])
	var was, is []window.Documents
	for from := 0; from < n; from += size {
		for _, to := range []*[]window.Documents{&was, &is} {
			batch := column.NewBatch(fs)
			for i := from; i < min(n, from+size); i++ {
				clicks := i
				if to == &is && i%100 == 0 {
					clicks++
				}
				batch.Columns[0].AppendString(fmt.Sprintf("item %09d", i))
				batch.Columns[1].AppendInt(int64(clicks))
				batch.Columns[2].AppendFloat(float64(i))
				batch.Columns[3].AppendString("a title of the length that titles have, more or less")
				batch.Columns[4].AppendTimestamp(int64(i), 0)
				batch.Len++
			}
			rows := window.Documents{Docs: batch, Tombstones: stones, Hashes: h.Append(nil, batch.Columns[1:], batch.Len)}
			for i := range batch.Len {
				rows.Keys = append(rows.Keys, tuple.AppendRow(nil, batch.Columns[:1], i))
			}
			*to = append(*to, rows)
		}
	}
	pass := func(before *layers.Log, pane []window.Documents, emit func(layers.Rows) error) *layers.Log {
		d, err := layers.NewDiffer(layers.Options{Hasher: h, Fields: fs, Before: before, Whole: true, Emit: emit})
		if err != nil {
			b.Fatal(err)
		}
		for _, rows := range pane {
			if err := d.Add(rows); err != nil {
				b.Fatal(err)
			}
		}
		log, err := d.Finish()
		if err != nil {
			b.Fatal(err)
		}
		return log
	}
	before := pass(nil, was, nil)
	b.ReportAllocs()
	for b.Loop() {
		differ := 0
		pass(before, is, func(r layers.Rows) error { differ += r.Docs.Len; return nil }).Close()
		if differ != n/100 {
			b.Fatalf("%d differ", differ)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/doc")
}
