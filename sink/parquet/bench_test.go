//go:build unix

package parquet

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

// benchmarkRows is about a pane of the flight data or of an hour of ads.
const benchmarkRows = 200_000

// benchmarkColumns are the columns of panes, each with the values that are usual for it.
var benchmarkColumns = []struct {
	field column.Field
	fill  func(v *column.Vector, r *rand.Rand, i int)
}{
	{column.Field{Name: "item_id", Type: column.Of(column.Int64), Key: true}, func(v *column.Vector, r *rand.Rand, i int) { v.AppendInt(int64(i)*5 + r.Int64N(5)) }},
	{column.Field{Name: "item_key", Type: column.Of(column.String), Key: true}, func(v *column.Vector, r *rand.Rand, i int) {
		v.AppendString(fmt.Sprintf("item_%010d", i*5+r.IntN(5)))
	}},
	{column.Field{Name: "count", Type: column.Of(column.Int64)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendInt(skewed(r, 100_000)) }},
	{column.Field{Name: "clicks", Type: column.Of(column.Int64)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendInt(skewed(r, 1000)) }},
	{column.Field{Name: "cost", Type: column.Of(column.Float64)}, func(v *column.Vector, r *rand.Rand, _ int) {
		v.AppendFloat(float64(r.IntN(100)*int(skewed(r, 1000))) / 100)
	}},
	{column.Field{Name: "rate", Type: column.Of(column.Float64)}, func(v *column.Vector, r *rand.Rand, _ int) {
		if n := r.IntN(50); n > 0 {
			v.AppendFloat(float64(r.IntN(n)) / float64(n))
		} else {
			v.AppendNull()
		}
	}},
	{column.Field{Name: "lowest", Type: column.Of(column.Float64)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendFloat(float64(r.IntN(500_000)) / 100) }},
	{column.Field{Name: "low", Type: column.Of(column.Int32)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendInt(r.Int64N(11)) }},
	{column.Field{Name: "price", Type: column.DecimalOf(12, 2)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendDecimal(column.Int128From(r.Int64N(100_000))) }},
	{column.Field{Name: "spend", Type: column.DecimalOf(38, 2)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendDecimal(column.Int128From(r.Int64N(10_000_000))) }},
	{column.Field{Name: "seen", Type: column.Of(column.Timestamp)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendTimestamp(1_700_000_000+r.Int64N(3600), 0) }},
	{column.Field{Name: "status", Type: column.Of(column.String)}, func(v *column.Vector, r *rand.Rand, _ int) {
		v.AppendString([]string{"active", "paused", "ended", "deleted", "draft", "review"}[r.IntN(6)])
	}},
	{column.Field{Name: "title", Type: column.Of(column.String)}, func(v *column.Vector, r *rand.Rand, _ int) {
		words := []string{"red", "blue", "summer", "shoes", "shirt", "small", "large", "offer", "garden", "chair", "of", "for", "with"}
		v.AppendString(fmt.Sprintf("%s %s %s %d", words[r.IntN(len(words))], words[r.IntN(len(words))], words[r.IntN(len(words))], r.IntN(1_000_000)))
	}},
	{column.Field{Name: "tags", Type: column.ListOf(column.Of(column.String))}, func(v *column.Vector, r *rand.Rand, _ int) {
		for range r.IntN(4) {
			v.Elem.AppendString([]string{"new", "sale", "used", "local", "bulk"}[r.IntN(5)])
		}
		v.EndList()
	}},
	{column.Field{Name: "ads", Type: column.ListOf(column.StructOf(column.Field{Name: "ad", Type: column.Of(column.Int64)}, column.Field{Name: "bid", Type: column.Of(column.Float64)}))}, func(v *column.Vector, r *rand.Rand, _ int) {
		for range r.IntN(4) {
			v.Elem.Fields[0].AppendInt(r.Int64N(1 << 40))
			v.Elem.Fields[1].AppendFloat(float64(r.IntN(500)) / 100)
			v.Elem.EndStruct()
		}
		v.EndList()
	}},
}

// skewed is small most of the time, as counts are.
func skewed(r *rand.Rand, most int64) int64 { return 1 + r.Int64N(1+r.Int64N(1+r.Int64N(most))) }

func benchmarkBatch(names ...string) ([]column.Field, *column.Batch) {
	b := &column.Batch{Len: benchmarkRows}
	var fields []column.Field
	for _, name := range names {
		for _, c := range benchmarkColumns {
			if c.field.Name != name {
				continue
			}
			r := rand.New(rand.NewPCG(1, uint64(len(fields))))
			v := column.New(c.field.Type)
			for i := range benchmarkRows {
				c.fill(v, r, i)
			}
			fields, b.Columns = append(fields, c.field), append(b.Columns, v)
		}
	}
	return fields, b
}

// processor is what the process has used of it, in nanoseconds.
func processor(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkWrite writes panes of 200,000 documents. cpu-ns/doc is time of processors, all of them; ns/op is time of day.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name    string
		columns []string
	}{
		{"numbers", []string{"item_id", "count", "clicks", "cost", "rate", "low", "price", "seen"}},
		{"text", []string{"item_key", "count", "clicks", "cost", "rate", "price", "status", "title"}},
		{"ads", []string{"item_id", "count", "clicks", "cost", "spend", "lowest", "title"}},
		{"lists", []string{"item_id", "count", "tags", "ads"}},
		{"int_key", []string{"item_id"}},
		{"string_key", []string{"item_key"}},
		{"int64", []string{"item_id", "count"}},
		{"double", []string{"item_id", "cost"}},
		{"double_or_null", []string{"item_id", "rate"}},
		{"int32", []string{"item_id", "low"}},
		{"decimal", []string{"item_id", "price"}},
		{"decimal38", []string{"item_id", "spend"}},
		{"timestamp", []string{"item_id", "seen"}},
		{"few_strings", []string{"item_id", "status"}},
		{"many_strings", []string{"item_id", "title"}},
		{"list_of_string", []string{"item_id", "tags"}},
		{"list_of_struct", []string{"item_id", "ads"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			fields, batch := benchmarkBatch(c.columns...)
			var size int64
			before := processor(b)
			for b.Loop() {
				size = 0
				w, err := NewWriter(Options{Fields: fields, Name: "part", Put: func(_ context.Context, p Part, _ io.ReadSeeker) error {
					size += p.Bytes
					return nil
				}})
				if err != nil {
					b.Fatal(err)
				}
				for at := 0; at < batch.Len; at += 1024 { // as documents are folded
					if err := w.WriteRows(b.Context(), batch, at, min(at+1024, batch.Len)); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := w.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processor(b)-before)/float64(b.N)/benchmarkRows, "cpu-ns/doc")
			b.ReportMetric(float64(size)/benchmarkRows, "bytes/doc")
		})
	}
}
