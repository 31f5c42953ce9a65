package slice

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// adEvent is a row of the benchmarks: ten columns, as a database writes them,
// all of them optional.
type adEvent struct {
	ItemID      *int64   `parquet:"item_id,optional"`
	ItemKey     *string  `parquet:"item_key,optional,plain"`
	AdID        *int64   `parquet:"ad_id,optional,dict"`
	At          *int64   `parquet:"ts,optional,timestamp(microsecond)"`
	Clicks      *int32   `parquet:"clicks,optional,dict"`
	Impressions *int32   `parquet:"impressions,optional,dict"`
	Cost        *float64 `parquet:"cost,optional"`
	Price       *int64   `parquet:"price,optional,decimal(2:12)"`
	Status      *string  `parquet:"status,optional,dict"`
	Title       *string  `parquet:"title,optional,plain"`
}

const (
	benchObjects = 4
	benchRows    = 58_000
)

// adEvents are the objects of one partition: 55 thousand of 200 thousand keys,
// by Zipf's law, a minute of time.
func adEvents(tb testing.TB, codec compress.Codec) *texts {
	tb.Helper()
	return adObjects(tb, codec, benchObjects, benchRows)
}

// adObjects are so many objects of so many rows each.
func adObjects(tb testing.TB, codec compress.Codec, objects, each int) *texts {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"active", "paused", "deleted", "limited", "ended", "draft"}
	at := sliceStart.UnixMicro()
	x := &texts{bodies: map[string]string{}}
	harmonic := math.Log(200_000) + 0.577
	for o := range objects {
		rows := make([]adEvent, each)
		for i := range rows {
			// The inverse of Zipf's law with exponent 1 over 200,000 keys.
			id := int64(math.Exp(rnd.Float64()*harmonic-0.577) * 1.0)
			id = id * 0x9e3779b1 % 200_003
			key, ad, ts := fmt.Sprintf("item-%010d", id), rnd.Int64N(5000), at+rnd.Int64N(60_000_000)
			clicks, views := rnd.Int32N(5), rnd.Int32N(50)
			cost, price := rnd.ExpFloat64()*0.37, rnd.Int64N(100_000)
			title := fmt.Sprintf("Offer %d of the day, number %d", id%977, rnd.IntN(1000))
			rows[i] = adEvent{&id, &key, &ad, &ts, &clicks, &views, &cost, &price, &names[rnd.IntN(6)], &title}
			if rnd.IntN(500) == 0 {
				rows[i].Status = nil
			}
		}
		var buf bytes.Buffer
		w := parquet.NewGenericWriter[adEvent](&buf, parquet.Compression(codec), parquet.PageBufferSize(1<<20))
		if _, err := w.Write(rows); err != nil {
			tb.Fatal(err)
		}
		if err := w.Close(); err != nil {
			tb.Fatal(err)
		}
		x.bodies[fmt.Sprint(o)] = buf.String()
	}
	return x
}

// adFields are a dozen fields over most of the columns.
func adFields() []index.FieldSpec {
	return []index.FieldSpec{
		{Name: "events", Fn: "count", Args: []string{"*"}},
		{Name: "clicks", Fn: "sum", Args: []string{"clicks"}},
		{Name: "impressions", Fn: "sum", Args: []string{"impressions"}},
		{Name: "cost", Fn: "sum", Args: []string{"cost"}},
		{Name: "min_price", Fn: "min", Args: []string{"price"}},
		{Name: "max_price", Fn: "max", Args: []string{"price"}},
		{Name: "max_clicks", Fn: "max", Args: []string{"clicks"}},
		{Name: "first_seen", Fn: "min", Args: []string{"ts"}},
		{Name: "last_seen", Fn: "max", Args: []string{"ts"}},
		{Name: "status", Fn: "latest", Args: []string{"status"}},
		{Name: "title", Fn: "latest", Args: []string{"title"}},
	}
}

func adBuilder(tb testing.TB, x *texts, key string, fields []index.FieldSpec) Builder {
	tb.Helper()
	program, err := index.Compile(index.Spec{Key: []string{key}, EventTime: index.EventTime{Column: "ts"}, Fields: fields}, combine.Builtins())
	if err != nil {
		tb.Fatal(err)
	}
	return Builder{Program: program, Format: scan.Parquet, Reuse: &Reuse{}, Open: func(o partition.Object) (scan.Blob, map[string]string) {
		return textBlob{x, o.Key}, nil
	}}
}

// cpu is the processor time that the process took: the wall of a shared machine
// says little.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBuild builds the slice of a partition of 232,000 rows.
func BenchmarkBuild(b *testing.B) {
	codecs := map[string]compress.Codec{"snappy": &parquet.Snappy, "zstd": &parquet.Zstd}
	fields := adFields()
	for _, c := range []struct {
		name, codec, key string
		fields           []index.FieldSpec
	}{
		{"int", "snappy", "item_id", fields},
		{"string", "snappy", "item_key", fields},
		{"int/zstd", "zstd", "item_id", fields},
		{"int/numbers", "snappy", "item_id", fields[:9]},
		{"string/numbers", "snappy", "item_key", fields[:9]},
		{"int/sums", "snappy", "item_id", fields[:4]},
		{"string/sums", "snappy", "item_key", fields[:4]},
	} {
		x := adEvents(b, codecs[c.codec])
		s := adBuilder(b, x, c.key, c.fields)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				slice, err := s.Build(b.Context(), x.input(), nil)
				if err != nil {
					b.Fatal(err)
				}
				slice.Run.Close()
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N)/(benchObjects*benchRows), "cpu-ns/row")
		})
		b.Run(c.name+"/scan", func(b *testing.B) {
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				for _, o := range x.input().Objects {
					blob, _ := s.Open(o)
					_, err := scan.Scan(context.Background(), blob, s.request(nil, nil), func(*column.Batch) error { return nil })
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N)/(benchObjects*benchRows), "cpu-ns/row")
		})
	}
}

// BenchmarkBuildSmall builds the slice of a partition of one object of few rows,
// of which a long window has many: what is the same for every slice weighs.
func BenchmarkBuildSmall(b *testing.B) {
	const rows, together = 1000, 20
	fields := adFields()
	for _, c := range []struct {
		name   string
		fields []index.FieldSpec
	}{{"all", fields}, {"sums", fields[:4]}} {
		b.Run(c.name, func(b *testing.B) {
			x := adObjects(b, &parquet.Zstd, 1, rows)
			s := adBuilder(b, x, "item_id", c.fields)
			first, err := s.Build(b.Context(), x.input(), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			least := time.Duration(math.MaxInt64)
			for b.Loop() {
				before := cpu()
				for range together {
					slice, err := s.Build(b.Context(), x.input(), first.Built)
					if err != nil {
						b.Fatal(err)
					}
					slice.Run.Close()
				}
				least = min(least, cpu()-before)
			}
			b.ReportMetric(float64(least.Microseconds())/together, "least-cpu-us/slice")
		})
	}
}
