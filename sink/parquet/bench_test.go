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
	{column.Field{Name: "updates", Type: column.Of(column.Int64)}, func(v *column.Vector, r *rand.Rand, _ int) { v.AppendInt(records(r)) }},
	{column.Field{Name: "all_clicks", Type: column.Of(column.Int64)}, func(v *column.Vector, r *rand.Rand, _ int) {
		n := int64(0)
		for range records(r) {
			n += r.Int64N(4)
		}
		v.AppendInt(n)
	}},
	{column.Field{Name: "revenue", Type: column.Of(column.Float64)}, func(v *column.Vector, r *rand.Rand, _ int) {
		x := 0.0
		for range records(r) {
			x += float64(r.IntN(500_000)) / 100
		}
		v.AppendFloat(x)
	}},
	{column.Field{Name: "all_cost", Type: column.DecimalOf(38, 4)}, func(v *column.Vector, r *rand.Rand, _ int) {
		n := int64(0)
		for range records(r) {
			n += r.Int64N(90_000)
		}
		v.AppendDecimal(column.Int128From(n))
	}},
	{column.Field{Name: "min_price", Type: column.Of(column.Float64)}, func(v *column.Vector, r *rand.Rand, _ int) {
		x := 5000.0
		for range records(r) {
			x = min(x, float64(r.IntN(500_000))/100)
		}
		v.AppendFloat(x)
	}},
	{column.Field{Name: "offer", Type: column.Of(column.String)}, func(v *column.Vector, r *rand.Rand, _ int) {
		v.AppendString(fmt.Sprintf("Offer %d of item %d: now with %d %% off", r.IntN(40), 1+r.IntN(220_000), r.IntN(100)))
	}},
}

// records is how many of an hour a key has: few have most.
func records(r *rand.Rand) int64 { return 1 + int64(20/(0.001+r.Float64())) + r.Int64N(10) }

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
		{"tick", []string{"item_id", "updates", "all_clicks", "revenue", "all_cost", "min_price", "lowest", "offer"}},
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

// BenchmarkWriteAgain writes a pane over and over, where every document is
// another each time, where one in a hundred has other numbers, and where those
// are next to each other, with pages kept and without.
func BenchmarkWriteAgain(b *testing.B) {
	fields, batch := benchmarkBatch("item_key", "price", "clicks", "seen", "status", "offer")
	texts, numbers := batch.Columns[5].Strings, batch.Columns[2].Ints
	for _, c := range []struct {
		name    string
		touched func(i, n int) bool
		texts   bool
	}{
		{"all", func(int, int) bool { return true }, true},
		{"hundredth_numbers", func(i, n int) bool { return (i+n)%100 == 0 }, false},
		{"hundredth_together", func(i, n int) bool { return i/2000 == n%100 }, true},
	} {
		for _, kept := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/kept=%t", c.name, kept), func(b *testing.B) {
				var frames *Frames
				if kept {
					frames = NewFrames(64 << 20)
				}
				spent, n := int64(0), 0
				for b.Loop() {
					n++
					for i := range numbers {
						if c.touched(i, n) {
							if numbers[i]++; c.texts {
								texts[i] = texts[i][:len(texts[i])-1] + string(rune('a'+n%26))
							}
						}
					}
					before := processor(b)
					frames.Turn()
					w, err := NewWriter(Options{Fields: fields, Name: "part", Frames: frames, Put: func(context.Context, Part, io.ReadSeeker) error { return nil }})
					if err != nil {
						b.Fatal(err)
					}
					if err := w.Write(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
					if _, err := w.Close(b.Context()); err != nil {
						b.Fatal(err)
					}
					spent += processor(b) - before
				}
				b.ReportMetric(float64(spent)/float64(b.N)/benchmarkRows, "cpu-ns/doc")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkSteady writes the panes of steps that follow each other, with pages kept: a part of the documents has other numbers and texts each
// time, or other numbers only, and of a thousand keys as many as said leave and enter.
func BenchmarkSteady(b *testing.B) {
	for _, c := range []struct {
		name                     string
		touched, texts, entering int // of a thousand
	}{
		{"touched_2_percent", 20, 20, 2},
		{"touched_2_percent/texts_stay", 20, 0, 2},
		{"touched_2_percent/texts_and_keys_stay", 20, 0, 0},
		{"touched_40_percent", 400, 250, 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			fields, docs := benchmarkBatch("item_id", "updates", "all_clicks", "revenue", "all_cost", "min_price", "lowest", "offer")
			frames := NewFrames(16 << 20)
			spent, size, n := int64(0), int64(0), uint64(0)
			for b.Loop() {
				n++
				r := rand.New(rand.NewPCG(n, 1))
				var gone []int
				for i := range docs.Len {
					if r.IntN(1000) < c.touched {
						docs.Columns[1].Ints[i]++
						docs.Columns[3].Floats[i] += 0.25
					}
					if r.IntN(1000) < c.texts {
						docs.Columns[7].Strings[i] = fmt.Sprintf("Offer %d of item %d: now with %d %% off", r.IntN(40), i, r.IntN(100))
					}
					if r.IntN(1000) < c.entering {
						gone = append(gone, i)
					}
				}
				before := processor(b)
				frames.Turn()
				w, err := NewWriter(Options{Fields: fields, Name: "part", Frames: frames, Put: func(_ context.Context, p Part, _ io.ReadSeeker) error {
					size += p.Bytes
					return nil
				}})
				if err != nil {
					b.Fatal(err)
				}
				from := 0
				for _, i := range append(gone, docs.Len) {
					if err := w.WriteRows(b.Context(), docs, from, i); err != nil {
						b.Fatal(err)
					}
					from = i + 1
				}
				if _, err := w.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				spent += processor(b) - before
			}
			b.ReportMetric(float64(spent)/float64(b.N)/benchmarkRows, "cpu-ns/doc")
			b.ReportMetric(float64(size)/float64(b.N)/benchmarkRows, "bytes/doc")
			b.ReportMetric(0, "ns/op")
		})
	}
}
