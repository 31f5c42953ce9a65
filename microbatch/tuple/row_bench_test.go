package tuple

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

// BenchmarkAppendRow is the time of a value within rows of one kind, and of a row
// of several.
func BenchmarkAppendRow(b *testing.B) {
	const rows = 2048
	kinds := map[string]column.Type{
		"timestamp": column.Of(column.Timestamp), "integer": column.Of(column.Int64), "small integer": column.Of(column.Int32),
		"double": column.Of(column.Float64), "decimal": column.DecimalOf(18, 4), "text": column.Of(column.String),
	}
	vectors := map[string]*column.Vector{}
	rng := rand.New(rand.NewPCG(1, 2))
	for name, t := range kinds {
		v := column.New(t)
		for range rows {
			switch name {
			case "timestamp":
				v.AppendTimestamp(1_790_000_000+rng.Int64N(60), rng.Int32N(1e6)*1000)
			case "integer":
				v.AppendInt(rng.Int64N(1 << 40))
			case "small integer":
				v.AppendInt(rng.Int64N(4))
			case "double":
				v.AppendFloat(float64(rng.IntN(500_000)) / 100)
			case "decimal":
				v.AppendDecimal(column.Int128From(rng.Int64N(90_000)))
			default:
				v.AppendString(fmt.Sprintf("Offer %d of item %d: now with %d %% off", rng.IntN(40), rng.IntN(220_000), rng.IntN(100)))
			}
		}
		vectors[name] = v
	}
	bench := func(name string, columns ...*column.Vector) {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 256*rows)
			for b.Loop() {
				dst = dst[:0]
				for i := range rows {
					dst = AppendRow(dst, columns, i)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
	for _, name := range []string{"timestamp", "integer", "small integer", "double", "decimal", "text"} {
		bench(name, vectors[name])
	}
	bench("all", vectors["timestamp"], vectors["integer"], vectors["small integer"], vectors["double"], vectors["decimal"], vectors["text"])
}
