//go:build unix

package table_test

import (
	"bytes"
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
)

const (
	benchRows = 1 << 16
	benchKeys = 50_000
)

func benchKeyColumn(rng *rand.Rand) *column.Vector {
	v := column.New(column.Of(column.String))
	for range benchRows {
		v.AppendString(fmt.Sprintf("tenant-%d/user/%07d", rng.IntN(4), rng.IntN(benchKeys)))
	}
	return v
}

// perRow reports the processor time of a row, of which each loop does n. Time
// on the wall says little on a shared machine.
func perRow(b *testing.B, n int) func() {
	b.Helper()
	start := processorTime(b)
	return func() {
		b.ReportMetric(float64(processorTime(b)-start)/float64(b.N)/float64(n), "cpu-ns/row")
		b.ReportMetric(0, "ns/op")
	}
}

func processorTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkGroups looks up the keys of records; its peer is a Go map of the same
// encoded keys.
func BenchmarkGroups(b *testing.B) {
	keys := benchKeyColumn(rand.New(rand.NewPCG(1, 1)))
	shape := table.Shape{Keys: []column.Field{{Name: "k", Type: keys.Type}}}
	out, rows := make([]uint32, benchRows), all(benchRows)
	b.Run("table", func(b *testing.B) {
		defer perRow(b, benchRows)()
		tab := table.New(shape)
		b.ReportAllocs()
		for b.Loop() {
			tab.Reset()
			if err := tab.Groups([]*column.Vector{keys}, rows, out); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("map", func(b *testing.B) {
		defer perRow(b, benchRows)()
		var buf []byte
		b.ReportAllocs()
		for b.Loop() {
			m := map[string]uint32{}
			for r := range benchRows {
				buf = tuple.Append(buf[:0], keys, r)
				g, ok := m[string(buf)]
				if !ok {
					g = uint32(len(m))
					m[string(buf)] = g
				}
				out[r] = g
			}
		}
	})
}

// BenchmarkAdd adds records to 50,000 groups at random; the peer is
// a slice of plain float64 sums.
func BenchmarkAdd(b *testing.B) {
	rng := rand.New(rand.NewPCG(2, 1))
	groups := make([]uint32, benchRows)
	num, dbl, str, dec := column.New(column.Of(column.Int64)), column.New(column.Of(column.Float64)), column.New(column.Of(column.String)), column.New(column.DecimalOf(12, 2))
	at := column.New(column.Of(column.Timestamp))
	var order rankList
	for i := range groups {
		groups[i] = uint32(rng.IntN(benchKeys))
		num.AppendInt(rng.Int64N(1000))
		dbl.AppendFloat(float64(rng.IntN(1_000_000)) / 100)
		str.AppendString(fmt.Sprintf("title %d", rng.IntN(1000)))
		dec.AppendDecimal(column.Int128From(rng.Int64N(1_000_000)))
		at.AppendTimestamp(1_700_000_000+int64(rng.IntN(3600)), 0)
		order = append(order, combine.AppendRank(nil, at, i, false, tuple.AppendRow(nil, []*column.Vector{num, str}, i)))
	}
	none := combine.Params{}
	for _, c := range []struct {
		fn  string
		arg *column.Vector
	}{{"count", num}, {"sum", num}, {"sum", dec}, {"sum", dbl}, {"mean", dbl}, {"max", num}, {"max", dbl}, {"latest", str}, {"set", num}, {"distinct_exact", num}} {
		b.Run(c.fn+" "+c.arg.Type.String(), func(b *testing.B) {
			defer perRow(b, benchRows)()
			col := build(b, c.fn, none, c.arg.Type).NewColumn()
			col.Grow(benchKeys)
			in := &combine.Input{Groups: groups, Rows: all(benchRows), Args: []*column.Vector{c.arg}, Order: order}
			b.ReportAllocs()
			for b.Loop() {
				if err := col.Add(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("plain float64", func(b *testing.B) {
		defer perRow(b, benchRows)()
		sums := make([]float64, benchKeys)
		for b.Loop() {
			for r, g := range groups {
				sums[g] += dbl.Floats[r]
			}
		}
	})
}

type rankList [][]byte

func (r rankList) Rank(i int) []byte { return r[i] }

// heapOfCursors is the peer of Merger.
type heapOfCursors []table.Cursor

func (h heapOfCursors) Len() int           { return len(h) }
func (h heapOfCursors) Less(i, j int) bool { return bytes.Compare(h[i].Key(), h[j].Key()) < 0 }
func (h heapOfCursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heapOfCursors) Push(x any)        { *h = append(*h, x.(table.Cursor)) }
func (h *heapOfCursors) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// BenchmarkMerge merges 60 runs; a row is one of an input. Its peers are
// container/heap over the same cursors, and a Go map from key to sum and count
// over decoded rows.
func BenchmarkMerge(b *testing.B) {
	const runs, rows = 60, 4000
	rng := rand.New(rand.NewPCG(3, 1))
	dbl := column.Of(column.Float64)
	shape := table.Shape{
		Keys: []column.Field{{Name: "k", Type: column.Of(column.String)}},
		Fns:  []combine.Fn{build(b, "count", combine.Params{}), build(b, "sum", combine.Params{}, dbl)},
	}
	var opened []*table.Run
	for range runs {
		keys, vals := column.New(column.Of(column.String)), column.New(dbl)
		for range rows {
			keys.AppendString(fmt.Sprintf("tenant-a/user/%07d", rng.IntN(60_000)))
			vals.AppendFloat(float64(rng.IntN(100_000)) / 100)
		}
		tab := table.New(shape)
		groups := make([]uint32, rows)
		if err := tab.Groups([]*column.Vector{keys}, all(rows), groups); err != nil {
			b.Fatal(err)
		}
		for j, c := range tab.Columns() {
			in := &combine.Input{Groups: groups, Rows: all(rows)}
			if j == 1 {
				in.Args = []*column.Vector{vals}
			}
			if err := c.Add(in); err != nil {
				b.Fatal(err)
			}
		}
		opened = append(opened, open(b, write(b, tab, table.Options{}), shape))
	}
	total := 0
	for _, r := range opened {
		total += int(r.Rows())
	}
	cursors := func() []table.Cursor {
		out := make([]table.Cursor, runs)
		for i, r := range opened {
			out[i] = r.Cursor()
		}
		return out
	}
	b.Run("loser tree, keys", func(b *testing.B) {
		defer perRow(b, total)()
		b.ReportAllocs()
		for b.Loop() {
			for m := table.Merge(cursors()); m.Next(); {
			}
		}
	})
	b.Run("container heap, keys", func(b *testing.B) {
		defer perRow(b, total)()
		b.ReportAllocs()
		for b.Loop() {
			h := heapOfCursors{}
			for _, c := range cursors() {
				if c.Next() {
					h = append(h, c)
				}
			}
			heap.Init(&h)
			for len(h) > 0 {
				if h[0].Next() {
					heap.Fix(&h, 0)
				} else {
					heap.Pop(&h)
				}
			}
		}
	})
	b.Run("cursors alone", func(b *testing.B) {
		defer perRow(b, total)()
		for b.Loop() {
			for _, c := range cursors() {
				for c.Next() {
				}
			}
		}
	})
	b.Run("merged run", func(b *testing.B) {
		defer perRow(b, total)()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := table.MergeRuns(io.Discard, shape, table.Options{}, cursors()...); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("map of rows, unsorted", func(b *testing.B) {
		defer perRow(b, total)()
		b.ReportAllocs()
		for b.Loop() {
			m := map[string]uint32{}
			cols := []combine.Column{shape.Fns[0].NewColumn(), shape.Fns[1].NewColumn()}
			for _, c := range cursors() {
				for c.Next() {
					g, ok := m[string(c.Key())]
					if !ok {
						g = uint32(len(m))
						m[string(c.Key())] = g
					}
					for f, col := range cols {
						col.Grow(len(m))
						if err := col.Merge(g, c.Acc(f)); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		}
	})
}
