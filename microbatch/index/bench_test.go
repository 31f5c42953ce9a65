package index_test

import (
	"fmt"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// BenchmarkExtract makes documents of a block of keys, as a fold does.
func BenchmarkExtract(b *testing.B) {
	const keys = 1024
	kinds := map[string]column.Type{
		"id": column.Of(column.Int64), "at": column.Of(column.Timestamp), "clicks": column.Of(column.Int64),
		"cost": column.Of(column.Float64), "price": column.Of(column.Float64), "status": column.Of(column.String),
	}
	p := compile(b, index.Spec{Key: []string{"id"}, EventTime: index.EventTime{Column: "at"}, Fields: []index.FieldSpec{
		{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "clicks", Fn: "sum", Args: []string{"clicks"}},
		{Name: "cost", Fn: "sum", Args: []string{"cost"}}, {Name: "low", Fn: "min", Args: []string{"clicks"}},
		{Name: "price", Fn: "max", Args: []string{"price"}}, {Name: "status", Fn: "latest", Args: []string{"status"}},
	}})
	rows := make([]map[string]any, 4*keys)
	for i := range rows {
		rows[i] = map[string]any{"id": i % keys, "at": start, "clicks": i % 17, "cost": float64(i%1009) / 100, "price": float64(i % 31), "status": fmt.Sprintf("status %d", i%5)}
	}
	records, types := batch(b, p, kinds, rows...)
	bound, err := p.Bind(types)
	if err != nil {
		b.Fatal(err)
	}
	tab := table.New(bound.Shape())
	l, err := bound.NewLifter(tab, start)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := l.Add(records, 0); err != nil {
		b.Fatal(err)
	}
	x, err := bound.NewExtractor(nil)
	if err != nil {
		b.Fatal(err)
	}
	encoded := make([][]byte, tab.Len())
	for i := range encoded {
		encoded[i] = tab.Key(uint32(i))
	}
	docs, dead := column.NewBatch(bound.Schema()), column.NewBatch(bound.Shape().Keys)
	for b.Loop() {
		docs.Reset()
		dead.Reset()
		if err := x.Extract(encoded, tab.Columns(), docs, dead); err != nil {
			b.Fatal(err)
		}
	}
	if docs.Len != keys {
		b.Fatalf("%d documents", docs.Len)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/doc")
}
