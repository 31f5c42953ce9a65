package window_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/window"
)

// sized is a column whose accumulators all have so many bytes.
type sized struct {
	combine.Column
	bytes int
}

func (s sized) AppendAcc(dst []byte, g uint32) []byte {
	return append(binary.BigEndian.AppendUint32(dst, g), make([]byte, s.bytes-4)...)
}

// offer shows a sampler keys 0 to n-1; those that parts refuses are of one part.
func offer(seed string, n, bytes int, parts func(i int) bool) []window.Sample {
	s := window.NewSampler(seed)
	cols := []combine.Column{sized{bytes: bytes}}
	for i := range n {
		s.Offer(fmt.Appendf(nil, "%08d", i), cols, uint32(i), parts(i))
	}
	return s.Samples()
}

func always(int) bool { return true }

func keysOf(samples []window.Sample) (keys []string) {
	for _, s := range samples {
		keys = append(keys, string(s.Key))
	}
	return keys
}

// TestPassingKeysSamplesTheSame: keys that are let go by unseen are none that a
// sampler would have taken, and most of many are.
func TestPassingKeysSamplesTheSame(t *testing.T) {
	cols := []combine.Column{sized{bytes: 20}}
	for seed := range 40 {
		n, parts := seed*seed*30, func(i int) bool { return seed%3 == 0 || i%(seed+1) > 0 }
		s, passed := window.NewSampler(fmt.Sprint(seed)), 0
		for i := 0; i < n; i++ {
			by := s.Pass(min(n-i, 1+seed*7))
			passed += by
			if i += by; i < n {
				s.Offer(fmt.Appendf(nil, "%08d", i), cols, uint32(i), parts(i))
			}
		}
		if want := offer(fmt.Sprint(seed), n, 20, parts); !reflect.DeepEqual(s.Samples(), want) {
			t.Errorf("seed %d, %d keys: got %v, want %v", seed, n, keysOf(s.Samples()), keysOf(want))
		}
		if n > 5000 && passed < n/2 {
			t.Errorf("seed %d: %d of %d keys passed", seed, passed, n)
		}
	}
}

func TestASampleIsBoundedAndAFunctionOfTheSeed(t *testing.T) {
	for _, n := range []int{0, 1, 7, 100, 100_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			got := offer("run-1", n, 20, always)
			if len(got) > window.SampleKeys || len(got) < min(n, 30) {
				t.Errorf("%d keys sampled", len(got))
			}
			if !slices.IsSorted(keysOf(got)) || len(slices.Compact(keysOf(got))) != len(got) {
				t.Errorf("sampled %v", keysOf(got))
			}
			if again := offer("run-1", n, 20, always); !reflect.DeepEqual(got, again) {
				t.Error("the same run samples other keys the second time")
			}
			for _, s := range got {
				var i uint32
				if _, err := fmt.Sscan(string(bytes.TrimLeft(s.Key[:7], "0"))+string(s.Key[7:]), &i); err != nil || binary.BigEndian.Uint32(s.Accs[0]) != i {
					t.Errorf("key %s has accumulator %x", s.Key, s.Accs[0])
				}
			}
		})
	}
}

// TestEveryKeyIsSampledSomeDay, also one that only one slice has.
func TestEveryKeyIsSampledSomeDay(t *testing.T) {
	const n = 300
	seen := map[string]int{}
	for run := range 3000 {
		for _, k := range keysOf(offer(fmt.Sprint("run-", run), n, 20, func(i int) bool { return i%10 == 0 })) {
			seen[k]++
		}
	}
	// Keys of several parts have a place in a cluster every few runs, the others
	// share its head.
	for i := range n {
		if got := seen[fmt.Sprintf("%08d", i)]; got < 1 || i%10 == 0 && got < 300 {
			t.Errorf("key %d was sampled %d times in 3,000 runs", i, got)
		}
	}
}

func TestLargeAccumulatorsAreSampledWithinABound(t *testing.T) {
	for _, c := range []struct {
		name        string
		bytes       int
		least, most int
	}{
		{"sketches", 16 << 10, 32, 32},
		{"larger ones", 200 << 10, 10, 20},
		{"the largest", 1<<20 - 100, 1, 4},
		{"beyond", 1<<20 + 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for run := range 5 {
				got, total := offer(fmt.Sprint(run), 2000, c.bytes, always), 0
				for _, s := range got {
					total += len(s.Accs[0])
				}
				if len(got) < c.least || len(got) > c.most || total > 4<<20 {
					t.Errorf("%d keys of %d bytes together", len(got), total)
				}
			}
		})
	}
}

// BenchmarkCanary is a fold of 60 slices of 10,000 keys among 50,000, and the
// canary after it.
func BenchmarkCanary(b *testing.B) {
	fields := []index.FieldSpec{
		{Fn: "count", Args: []string{"*"}}, {Fn: "sum", Args: []string{"u"}}, {Fn: "sum", Args: []string{"f"}, Over: 15 * time.Minute}, {Fn: "max", Args: []string{"u"}},
		{Fn: "latest", Args: []string{"s"}}, {Fn: "min", Args: []string{"ts"}, Over: 15 * time.Minute},
	}
	bound := bind(b, fields, 0)
	rng := rand.New(rand.NewPCG(5, 6))
	var sources []window.Source
	for at := 1; at <= 60; at++ {
		batch := &column.Batch{Len: 10_000}
		for _, c := range bound.Program().Columns() {
			v := column.New(columnType(c.Path))
			for range batch.Len {
				switch c.Path {
				case "k":
					v.AppendString(fmt.Sprintf("item-%010d", rng.IntN(50_000)))
				case "s":
					v.AppendString(fmt.Sprintf("Offer %d of the day", rng.IntN(1000)))
				case "f":
					v.AppendFloat(rng.ExpFloat64())
				case "u":
					v.AppendInt(int64(rng.IntN(100)))
				case "ts":
					v.AppendTimestamp(int64(at*60+rng.IntN(60)), 0)
				default:
					v.AppendBool(rng.IntN(1000) == 0)
				}
			}
			batch.Columns = append(batch.Columns, v)
		}
		sources = append(sources, leaf(b, bound, minute(at), batch))
	}
	fold := func(s *window.Sampler) {
		if err := window.FoldSampled(bound, sources, nil, minute(60), s, func(window.Documents) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("fold", func(b *testing.B) {
		for b.Loop() {
			fold(nil)
		}
	})
	b.Run("fold and sample", func(b *testing.B) {
		for b.Loop() {
			fold(window.NewSampler("run"))
		}
	})
	b.Run("canary", func(b *testing.B) {
		s := window.NewSampler("run")
		fold(s)
		samples := s.Samples()
		b.ReportMetric(float64(len(samples)), "keys")
		for b.Loop() {
			if err := window.Canary(bound, sources, nil, minute(60), samples); err != nil {
				b.Fatal(err)
			}
		}
	})
}
