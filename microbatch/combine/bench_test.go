package combine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// distributions are the values that exact sums are timed over, from narrow to
// as wide as doubles are.
func distributions() []struct {
	name string
	draw func(rng *rand.Rand) float64
} {
	return []struct {
		name string
		draw func(rng *rand.Rand) float64
	}{
		{"money", func(rng *rand.Rand) float64 { return float64(rng.IntN(100_000)) / 100 }},
		{"normal", func(rng *rand.Rand) float64 { return rng.NormFloat64() }},
		{"wide", func(rng *rand.Rand) float64 { return rng.NormFloat64() * math.Ldexp(1, rng.IntN(120)-60) }},
		{"all", func(rng *rand.Rand) float64 {
			for {
				if x := math.Float64frombits(rng.Uint64()); !math.IsNaN(x) && !math.IsInf(x, 0) {
					return x
				}
			}
		}},
	}
}

const benchRows = 8192

// benchGroups deals rows to so many groups.
func benchGroups(rng *rand.Rand, n int) []uint32 {
	groups := make([]uint32, benchRows)
	for i := range groups {
		groups[i] = uint32(rng.IntN(n))
	}
	return groups
}

// BenchmarkSumOfFloats is the time of one addend: exact beside the peer, plain
// += into a float64 for each group. 1 and 64 groups are hot, 200,000 are not.
func BenchmarkSumOfFloats(b *testing.B) {
	fn := build(b, "sum", combine.Params{}, column.Of(column.Float64))
	for _, d := range distributions() {
		for _, n := range []int{1, 64, 200_000} {
			rng := rand.New(rand.NewPCG(1, 2))
			batches := make([]*combine.Input, 16)
			for k := range batches {
				v := column.New(column.Of(column.Float64))
				for range benchRows {
					v.AppendFloat(d.draw(rng))
				}
				batches[k] = &combine.Input{Groups: benchGroups(rng, n), Rows: all(benchRows), Args: []*column.Vector{v}}
			}
			b.Run(fmt.Sprintf("exact/%s/%d", d.name, n), func(b *testing.B) {
				col := fn.NewColumn()
				col.Grow(n)
				for i := 0; b.Loop(); i++ {
					if err := col.Add(batches[i%len(batches)]); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/add")
				b.ReportMetric(float64(col.Bytes())/float64(n), "B/group")
			})
			b.Run(fmt.Sprintf("plain/%s/%d", d.name, n), func(b *testing.B) {
				sums := make([]float64, n)
				for i := 0; b.Loop(); i++ {
					in := batches[i%len(batches)]
					for _, r := range in.Rows {
						sums[in.Groups[r]] += in.Args[0].Floats[r]
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/add")
				b.ReportMetric(8, "B/group")
			})
		}
	}
}

// BenchmarkVariance is the time of one value, and BenchmarkMergeOfVariance
// that of one accumulator with its validation.
func BenchmarkVariance(b *testing.B) {
	fn := build(b, "variance", combine.Params{}, column.Of(column.Float64))
	for _, d := range distributions() {
		b.Run(d.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			v := column.New(column.Of(column.Float64))
			for range benchRows {
				v.AppendFloat(d.draw(rng))
			}
			in := &combine.Input{Groups: benchGroups(rng, 64), Rows: all(benchRows), Args: []*column.Vector{v}}
			col := fn.NewColumn()
			col.Grow(64)
			for b.Loop() {
				if err := col.Add(in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/add")
			b.ReportMetric(float64(col.Bytes())/64, "B/group")
			b.ReportMetric(float64(len(col.AppendAcc(nil, 0))), "B/encoded")
		})
	}
}

func BenchmarkMergeOfVariance(b *testing.B) {
	fn := build(b, "variance", combine.Params{}, column.Of(column.Float64))
	for _, d := range distributions() {
		b.Run(d.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			v := column.New(column.Of(column.Float64))
			for range 100 {
				v.AppendFloat(d.draw(rng))
			}
			acc := accumulate(b, fn, v)
			col := fn.NewColumn()
			col.Grow(1)
			for b.Loop() {
				if err := col.Merge(0, acc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// accumulate is the accumulator of the rows as one group.
func accumulate(t testing.TB, fn combine.Fn, args ...*column.Vector) []byte {
	t.Helper()
	n := args[0].Len()
	col := fn.NewColumn()
	col.Grow(1)
	order := make(times, n)
	for i := range order {
		order[i] = time.Unix(int64(i), 0)
	}
	if err := col.Add(&combine.Input{Groups: make([]uint32, n), Rows: all(n), Args: args, Order: order}); err != nil {
		t.Fatal(err)
	}
	return col.AppendAcc(nil, 0)
}
