package combine_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/tuple"
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

// BenchmarkFns is the time of a record (ns/add) and of a stored accumulator of
// a hundred records (ns/merge), over 64 groups, with the bytes of one in memory
// and stored.
func BenchmarkFns(b *testing.B) {
	f64, i64, str, flag := column.Of(column.Float64), column.Of(column.Int64), column.Of(column.String), column.Of(column.Bool)
	none := combine.Params{}
	cases := []struct {
		name string
		fn   combine.Fn
	}{
		{"count", build(b, "count", none)}, {"sum of integers", build(b, "sum", none, i64)}, {"sum of floats", build(b, "sum", none, f64)},
		{"sum of decimals", build(b, "sum", none, column.DecimalOf(18, 4))}, {"mean", build(b, "mean", none, f64)},
		{"variance", build(b, "variance", none, f64)}, {"variance of integers", build(b, "variance", none, i64)},
		{"covariance", build(b, "covariance", none, f64, f64)},
		{"all_of", build(b, "all_of", none, flag)}, {"max", build(b, "max", none, f64)},
		{"latest", build(b, "latest", none, str)}, {"arg_max", build(b, "arg_max", none, str, f64)},
		{"newest", build(b, "newest", none, str)}, {"top", build(b, "top", none, f64)}, {"top with scores", build(b, "top", none, str, f64)},
		{"set", build(b, "set", none, str)}, {"distinct_exact", build(b, "distinct_exact", none, str)},
		{"counts", build(b, "counts", none, str)}, {"mode", build(b, "mode", none, str)}, {"median_exact", build(b, "median_exact", none, f64)},
		{"collect", build(b, "collect", combine.Params{By: "ad", Deletes: true, Fields: []combine.Sub{
			{Name: "n", Fn: build(b, "count", none)}, {Name: "paid", Fn: build(b, "sum", none, f64), Filtered: true},
		}}, str, flag, flag, f64)},
	}
	const groups = 64
	for _, c := range cases {
		rng := rand.New(rand.NewPCG(1, 2))
		var args []*column.Vector
		for _, typ := range c.fn.Args() {
			args = append(args, benchColumn(rng, typ, benchRows))
		}
		in := &combine.Input{Groups: benchGroups(rng, groups), Rows: all(benchRows), Args: args, Order: benchOrder(rng, args, benchRows)}
		b.Run(c.name+"/add", func(b *testing.B) {
			col := c.fn.NewColumn()
			col.Grow(groups)
			for b.Loop() {
				if err := col.Add(in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/add")
			b.ReportMetric(float64(col.Bytes())/groups, "B/group")
		})
		b.Run(c.name+"/merge", func(b *testing.B) {
			col := c.fn.NewColumn()
			col.Grow(groups)
			if err := col.Add(in); err != nil {
				b.Fatal(err)
			}
			acc := col.AppendAcc(nil, 0)
			for b.Loop() {
				if err := col.Merge(1, acc); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(acc)), "B/stored")
		})
	}
}

// benchColumn draws values of which some repeat.
func benchColumn(rng *rand.Rand, typ column.Type, n int) *column.Vector {
	v := column.New(typ)
	for range n {
		x := rng.IntN(100_000)
		switch typ.Kind {
		case column.Bool:
			v.AppendBool(x%10 > 0)
		case column.Float64:
			v.AppendFloat(float64(x) / 100)
		case column.Decimal:
			v.AppendDecimal(column.Int128From(int64(x)))
		case column.String:
			v.AppendString(fmt.Sprint("value-", x%100))
		default:
			v.AppendInt(int64(x))
		}
	}
	return v
}

// benchRanks are ranks that were made.
type benchRanks [][]byte

func (r benchRanks) Rank(i int) []byte { return r[i] }

// benchOrder ranks records by times, in no order, and content.
func benchOrder(rng *rand.Rand, args []*column.Vector, n int) benchRanks {
	at := column.New(column.Of(column.Timestamp))
	out := make(benchRanks, n)
	for i := range out {
		at.AppendTimestamp(1_790_000_000+int64(rng.IntN(3600)), 0)
		out[i] = combine.AppendRank(nil, at, i, false, tuple.AppendRow(nil, args, i))
	}
	return out
}

// BenchmarkMergeBlocks merges blocks as a window does: of a few hundred rows,
// into groups that are anywhere among all, column by column.
func BenchmarkMergeBlocks(b *testing.B) {
	const blocks, rows = 64, 500
	for _, all := range []int{2_000, 220_000} {
		rng := rand.New(rand.NewPCG(1, 1))
		fns := []combine.Fn{
			build(b, "count", combine.Params{}, column.Of(column.Int64)),
			build(b, "sum", combine.Params{}, column.Of(column.Int64)),
			build(b, "sum", combine.Params{}, column.Of(column.Float64)),
			build(b, "sum", combine.Params{}, column.DecimalOf(18, 2)),
			build(b, "min", combine.Params{}, column.Of(column.Float64)),
			build(b, "max", combine.Params{}, column.Of(column.Float64)),
			build(b, "max", combine.Params{}, column.Of(column.Timestamp)),
		}
		var groups [blocks][]uint32
		for k := range groups {
			for _, g := range rng.Perm(all)[:rows] {
				groups[k] = append(groups[k], uint32(g))
			}
		}
		accs := make([]combine.Accs, len(fns))
		for f, fn := range fns {
			arg := column.New(fn.Args()[0])
			rec := combinetest.Records{Args: []*column.Vector{arg}}
			for i := range rows {
				switch arg.Type.Kind {
				case column.Int64:
					arg.AppendInt(rng.Int64N(200) - 20)
				case column.Float64:
					arg.AppendFloat(float64(rng.IntN(100_000)) / 100)
				case column.Decimal:
					arg.AppendDecimal(column.Int128{Lo: uint64(rng.IntN(100_000))})
				default:
					arg.AppendTimestamp(1_700_000_000+rng.Int64N(60), int32(rng.IntN(1e9)))
				}
				rec.Ranks = append(rec.Ranks, binary.BigEndian.AppendUint64(nil, uint64(i)))
			}
			col := fn.NewColumn()
			col.Grow(rows)
			n := uint32(0)
			if err := col.Add(inputOf(rec, rec, func() uint32 { n++; return n - 1 })); err != nil {
				b.Fatal(err)
			}
			var list [][]byte
			for g := range uint32(rows) {
				list = append(list, col.AppendAcc(nil, g))
			}
			accs[f] = accsOf(list)
		}
		b.Run(fmt.Sprint(all), func(b *testing.B) {
			columns := make([]combine.Column, len(fns))
			for f, fn := range fns {
				columns[f] = fn.NewColumn()
				columns[f].Grow(all)
			}
			for b.Loop() {
				for k := range groups {
					for f, c := range columns {
						if err := combine.MergeAccs(c, groups[k], accs[f]); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks*rows), "ns/row")
		})
	}
}
