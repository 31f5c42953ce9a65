package bench_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// keysOf are vectors of keys of different types.
func keysOf() map[string]*column.Vector {
	ints, texts, doubles := column.New(column.Of(column.Int64)), column.New(column.Of(column.String)), column.New(column.Of(column.Float64))
	for i := range int64(4096) {
		x := i * 2654435761 % (1 << 40)
		ints.AppendInt(x)
		texts.AppendString(fmt.Sprintf("shop-%02d/ad-%010x", i%97, x))
		doubles.AppendFloat(float64(x) / 100)
	}
	return map[string]*column.Vector{"int64": ints, "string": texts, "double": doubles}
}

// BenchmarkTuple is a key's canonical bytes, there and back: ns for one key.
func BenchmarkTuple(b *testing.B) {
	for name, v := range keysOf() {
		b.Run("append/"+name, func(b *testing.B) {
			var buffer []byte
			for i := range b.N {
				buffer = tuple.Append(buffer[:0], v, i&4095)
			}
			b.SetBytes(int64(len(buffer)))
		})
		b.Run("decode/"+name, func(b *testing.B) {
			var all [][]byte
			for i := range v.Len() {
				all = append(all, tuple.Append(nil, v, i))
			}
			into := column.New(v.Type)
			b.ResetTimer()
			for i := range b.N {
				if i&4095 == 0 {
					into.Reset()
				}
				if _, err := tuple.Decode(all[i&4095], into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkListing is what a step finds out before it knows whether it is idle:
// the objects of a window, with twice as many partitions before it.
func BenchmarkListing(b *testing.B) {
	for _, window := range []int{60, 300, 1440} {
		b.Run(fmt.Sprint(window), func(b *testing.B) {
			const objects = 4
			bucket := mem.New("bench")
			first := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			for i := range 3 * window {
				for o := range objects {
					key := first.Add(time.Duration(i)*time.Minute).Format("2006/01/02/15/04/") + fmt.Sprintf("part-%d.parquet", o)
					if _, err := bucket.Put(b.Context(), key, strings.NewReader("x"), store.PutOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			}
			layout, err := partition.ParseLayout("%Y/%m/%d/%H/%M", partition.LayoutOptions{})
			if err != nil {
				b.Fatal(err)
			}
			src, err := source.New(bucket, source.Options{Layout: layout})
			if err != nil {
				b.Fatal(err)
			}
			newest := first.Add(time.Duration(3*window-1) * time.Minute)
			now, after := newest.Add(time.Minute), newest.Add(-time.Duration(window)*time.Minute)
			calls := 0
			b.ResetTimer()
			for range b.N {
				l, err := src.Scan(context.Background(), now, after)
				if err != nil || len(l.Objects) != window {
					b.Fatalf("%d partitions, %v", len(l.Objects), err)
				}
				calls = l.Calls
			}
			b.ReportMetric(float64(calls), "calls")
		})
	}
}
