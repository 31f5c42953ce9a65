//go:build linux

package index_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// The events of the benchmarks: a partition of a minute in four objects, each in
// the order of time; about 55 thousand of 220 thousand keys by Zipf's law.
const (
	liftRows    = 233_333
	liftObjects = 4
	liftBatch   = 2048
	liftKeys    = 220_000
	liftSkew    = 1.05
)

// events returns the batches of a partition, with the columns that the program
// reads.
func events(p *index.Program, types map[string]column.Type) (batches []*column.Batch, kinds []column.Type) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range p.Columns() {
		kinds = append(kinds, types[c.Path])
	}
	for o := range liftObjects {
		var b *column.Batch
		for j := o; j < liftRows; j += liftObjects {
			if b == nil || b.Len == liftBatch {
				b = &column.Batch{}
				for _, t := range kinds {
					b.Columns = append(b.Columns, column.New(t))
				}
				batches = append(batches, b)
			}
			rank := int64(math.Pow((math.Pow(liftKeys, 1-liftSkew)-1)*rng.Float64()+1, 1/(1-liftSkew)))
			id := rank * 2654435761 % (1 << 40)
			micros := int64(j) * 60_000_000 / liftRows
			for i, c := range p.Columns() {
				switch v := b.Columns[i]; c.Path {
				case "updated_at":
					v.AppendTimestamp(start.Unix()+micros/1e6, int32(micros%1e6*1000))
				case "item_id":
					v.AppendInt(id)
				case "item":
					v.AppendString(fmt.Sprintf("shop-%02d/ad-%010x", rank%97, id))
				case "clicks":
					v.AppendInt(rng.Int64N(4))
				case "price":
					v.AppendFloat(float64(rng.IntN(500_000)) / 100)
				case "cost":
					v.AppendDecimal(column.Int128From(rng.Int64N(90_000)))
				case "title":
					v.AppendString(fmt.Sprintf("Offer %d of item %d: now with %d %% off", rng.IntN(40), rank, rng.IntN(100)))
				}
			}
			b.Len++
		}
	}
	return batches, kinds
}

// refill makes dst what src is, in storage that is used again, as a scan does.
func refill(dst, src *column.Batch, text []byte) []byte {
	dst.Len, text = src.Len, text[:0]
	for i, from := range src.Columns {
		v := dst.Columns[i]
		v.Ints, v.Nanos = append(v.Ints[:0], from.Ints...), append(v.Nanos[:0], from.Nanos...)
		v.Floats, v.Decimals = append(v.Floats[:0], from.Floats...), append(v.Decimals[:0], from.Decimals...)
		v.Strings = v.Strings[:0]
		for _, s := range from.Strings {
			at := len(text)
			text = append(text, s...)
			v.Strings = append(v.Strings, unsafe.String(&text[at], len(s)))
		}
		v.SetLen(src.Len)
	}
	return text
}

// threadTime is the processor time of the thread.
func threadTime(b *testing.B) int64 {
	b.Helper()
	const ofThread = 3 // CLOCK_THREAD_CPUTIME_ID: other clocks go by ticks
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, ofThread, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		b.Fatal(errno)
	}
	return t.Nano()
}

// BenchmarkLift gathers the records of a partition into a table that was used
// before and writes its run; each field is measured beside the key alone. What
// it reports is the fastest round: others share the machine.
func BenchmarkLift(b *testing.B) {
	types := map[string]column.Type{
		"updated_at": column.Of(column.Timestamp), "item_id": column.Of(column.Int64), "item": column.Of(column.String), "clicks": column.Of(column.Int32),
		"price": column.Of(column.Float64), "cost": column.DecimalOf(18, 4), "title": column.Of(column.String),
	}
	all := []index.FieldSpec{
		{Name: "updates", Fn: "count", Args: []string{"*"}}, {Name: "clicks", Fn: "sum", Args: []string{"clicks"}},
		{Name: "revenue", Fn: "sum", Args: []string{"price"}}, {Name: "cost", Fn: "sum", Args: []string{"cost"}},
		{Name: "lowest", Fn: "min", Args: []string{"price"}}, {Name: "highest", Fn: "max", Args: []string{"price"}},
		{Name: "title", Fn: "latest", Args: []string{"title"}},
	}
	times := []index.FieldSpec{
		{Name: "seen", Fn: "max", Args: []string{"updated_at"}}, {Name: "since", Fn: "min", Args: []string{"updated_at"}},
		{Name: "last", Fn: "latest", Args: []string{"updated_at"}}, {Name: "first", Fn: "earliest", Args: []string{"updated_at"}},
	}
	for _, c := range []struct {
		name, key string
		fields    []index.FieldSpec
	}{
		{"int/all", "item_id", all}, {"string/all", "item", all}, {"int/numbers", "item_id", all[:6]},
		{"int/count", "item_id", all[:1]}, {"string/count", "item", all[:1]}, {"int/sum of integers", "item_id", all[1:2]}, {"int/sum of doubles", "item_id", all[2:3]},
		{"int/sum of decimals", "item_id", all[3:4]}, {"int/min", "item_id", all[4:5]}, {"int/latest", "item_id", all[6:]},
		{"int/times", "item_id", times},
		{"int/newest", "item_id", []index.FieldSpec{{Name: "titles", Fn: "newest", Args: []string{"title"}, Params: map[string]any{"n": 3}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := compile(b, index.Spec{Key: []string{c.key}, EventTime: index.EventTime{Column: "updated_at"}, Fields: c.fields})
			batches, kinds := events(p, types)
			bound, err := p.Bind(kinds)
			if err != nil {
				b.Fatal(err)
			}
			tab := table.New(bound.Shape())
			scratch := column.NewBatch(nil)
			for _, t := range kinds {
				scratch.Columns = append(scratch.Columns, column.New(t))
			}
			text := make([]byte, 0, 1<<20)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			taken, written := int64(math.MaxInt64), int64(math.MaxInt64)
			for b.Loop() {
				lifted := int64(0)
				tab.Clear()
				l, err := bound.NewLifter(tab, start)
				if err != nil {
					b.Fatal(err)
				}
				for _, from := range batches {
					text = refill(scratch, from, text)
					before := threadTime(b)
					if _, err := l.Add(scratch, 0); err != nil {
						b.Fatal(err)
					}
					lifted += threadTime(b) - before
				}
				before := threadTime(b)
				if _, err := tab.WriteRun(io.Discard, table.Options{}); err != nil {
					b.Fatal(err)
				}
				taken, written = min(taken, lifted), min(written, threadTime(b)-before)
			}
			b.ReportMetric(float64(taken)/liftRows, "cpu-ns/row")
			b.ReportMetric(float64(written)/float64(tab.Len()), "cpu-ns/written")
			b.ReportMetric(float64(tab.Len()), "keys")
			b.ReportMetric(0, "ns/op")
		})
	}
}
