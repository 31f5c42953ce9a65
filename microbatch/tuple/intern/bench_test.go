package intern_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/tuple/intern"
)

// BenchmarkIDs looks up blocks of keys that are anywhere among all, as a window
// does that takes in a run.
func BenchmarkIDs(b *testing.B) {
	const blocks, rows = 64, 500
	for _, all := range []int{2_000, 220_000} {
		b.Run(fmt.Sprint(all), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			s := intern.New()
			keys := make([][]byte, all)
			for k := range keys {
				keys[k] = tuple.AppendInt(nil, int64(k)*2654435761%(1<<40))
				s.ID(keys[k])
			}
			var lists [blocks][][]byte
			for k := range lists {
				for range rows {
					lists[k] = append(lists[k], append([]byte(nil), keys[rng.IntN(all)]...))
				}
			}
			out := make([]uint32, rows)
			for b.Loop() {
				for k := range lists {
					s.IDs(lists[k], out)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks*rows), "ns/key")
		})
	}
}
