package window_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/window"
)

// ads is the index of the benchmarks: integer keys, and what an ads team
// counts.
func ads(b *testing.B) *index.Bound {
	b.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"item"}, EventTime: index.EventTime{Column: "at"}, Fields: []index.FieldSpec{
		{Name: "updates", Fn: "count", Args: []string{"*"}}, {Name: "clicks", Fn: "sum", Args: []string{"clicks"}},
		{Name: "revenue", Fn: "sum", Args: []string{"price"}}, {Name: "lowest", Fn: "min", Args: []string{"price"}},
		{Name: "highest", Fn: "max", Args: []string{"price"}}, {Name: "title", Fn: "latest", Args: []string{"title"}},
	}}, combine.Builtins())
	if err != nil {
		b.Fatal(err)
	}
	types := map[string]column.Kind{"item": column.Int64, "at": column.Timestamp, "clicks": column.Int64, "price": column.Float64, "title": column.String}
	var kinds []column.Type
	for _, c := range program.Columns() {
		kinds = append(kinds, column.Of(types[c.Path]))
	}
	bound, err := program.Bind(kinds)
	if err != nil {
		b.Fatal(err)
	}
	return bound
}

// minuteOfAds is a slice of so many records over 220,000 keys, a few of which
// have most.
func minuteOfAds(b *testing.B, bound *index.Bound, at, records int) window.Source {
	b.Helper()
	rng := rand.New(rand.NewPCG(uint64(at), 7))
	batch := &column.Batch{Len: records}
	for _, c := range bound.Program().Columns() {
		switch c.Path {
		case "item", "clicks":
			v := column.New(column.Of(column.Int64))
			for range records {
				x := rng.Float64()
				v.AppendInt(int64(x * x * x * 220_000))
			}
			batch.Columns = append(batch.Columns, v)
		case "price":
			v := column.New(column.Of(column.Float64))
			for range records {
				v.AppendFloat(float64(rng.IntN(100_000)) / 100)
			}
			batch.Columns = append(batch.Columns, v)
		case "at":
			v := column.New(column.Of(column.Timestamp))
			for range records {
				v.AppendTimestamp(minute(at).Unix()+rng.Int64N(60), int32(rng.IntN(1e9)))
			}
			batch.Columns = append(batch.Columns, v)
		default:
			v := column.New(column.Of(column.String))
			for range records {
				v.AppendString(fmt.Sprint("title ", rng.IntN(1000)))
			}
			batch.Columns = append(batch.Columns, v)
		}
	}
	s := leaf(b, bound, minute(at), batch)
	s.ID = fmt.Sprint(at)
	return s
}

// BenchmarkFold: a window of 60 partitions that moves by one, folded from what
// the run before left and folded anew.
func BenchmarkFold(b *testing.B) {
	const width, moves = 60, 20
	bound := ads(b)
	var slices []window.Source
	for at := range width + moves {
		slices = append(slices, minuteOfAds(b, bound, at, 233_333))
	}
	nothing := func(window.Documents) error { return nil }
	rows := func(at int) (n int64) {
		for _, s := range slices[at : at+width] {
			n += s.Run.Rows()
		}
		return n
	}
	b.Run("rolling", func(b *testing.B) {
		var did window.Rolled
		held := 0.0
		for b.Loop() {
			b.StopTimer()
			r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: minute(1).Sub(minute(0))})
			for at := range 2 {
				if _, err := r.Fold(nil, bound, slices[at:at+width], nil, minute(at+width-1), nil, nothing); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			for at := 2; at <= moves; at++ {
				var err error
				if did, err = r.Fold(nil, bound, slices[at:at+width], nil, minute(at+width-1), nil, nothing); err != nil {
					b.Fatal(err)
				}
			}
			held = float64(r.Bytes()) / float64(r.Keys())
		}
		b.ReportMetric(held, "B/key")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*(moves-1)), "ns/move")
		b.ReportMetric(float64(did.Rows), "rows/move")
		b.ReportMetric(float64(did.Refolded), "refolds/move")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			if err := window.Fold(bound, slices[:width], nil, minute(width-1), nothing); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(rows(0)), "rows/op")
	})
}

// BenchmarkBring: the accumulators of a window of 60 partitions, folded anew,
// moved by one partition and by half a window, and when one of its partitions
// got a few more records.
func BenchmarkBring(b *testing.B) {
	const width = 60
	bound := ads(b)
	var all []window.Source
	for at := range 3 * width / 2 {
		all = append(all, minuteOfAds(b, bound, at, 233_333))
	}
	late := slices.Clone(all[:width])
	more := minuteOfAds(b, bound, 1000, 2_000)
	late[20].Run, late[20].ID = merged(b, bound, late[20].Run, more.Run), "20 and more"
	bring := func(b *testing.B, r *window.Rolling, sources []window.Source, n int) int64 {
		b.Helper()
		did, err := r.Bring(bound, sources, minute(n))
		if err != nil {
			b.Fatal(err)
		}
		return did.Rows
	}
	for _, c := range []struct {
		name     string
		workers  int
		from, to []window.Source
	}{
		{"fill", 1, nil, all[:width]}, {"fill/two", 2, nil, all[:width]}, {"apply/next", 2, all[:width], all[1 : 1+width]},
		{"apply/jump", 2, all[:width], all[width/2 : width/2+width]}, {"apply/late", 2, all[:width], late},
	} {
		b.Run(c.name, func(b *testing.B) {
			rows := int64(0)
			for b.Loop() {
				b.StopTimer()
				r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Workers: c.workers})
				if c.from != nil {
					bring(b, r, c.from, width)
				}
				runtime.GC()
				b.StartTimer()
				rows += bring(b, r, c.to, 3*width/2)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
			b.ReportMetric(float64(rows)/float64(b.N), "rows/op")
		})
	}
}
