package bench_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/axiomhq/hyperloglog"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// side is one of the things compared: a keyed aggregate.
type side struct {
	name string
	// fresh returns functions over its own storage for so many keys: add takes
	// records, encode appends a key's bytes, merge merges such bytes.
	fresh func(keys int) keyed
}

type keyed struct {
	add    func(d *records)
	encode func(dst []byte, key int) []byte
	merge  func(key int, b []byte)
}

// records are values with their keys, in both types.
type records struct {
	keys   []uint32
	rows   []int32
	ints   *column.Vector
	floats *column.Vector
}

// shape is a number of keys and of values for each.
type shape struct{ keys, each int }

func shapes() []shape { return []shape{{1, 100_000}, {1000, 100}} }

// draw makes the records of a shape: distinct integers, lognormal floats, the
// keys in random order.
func draw(s shape) *records {
	rng := rand.New(rand.NewPCG(1, 2))
	d := &records{ints: column.New(column.Of(column.Int64)), floats: column.New(column.Of(column.Float64))}
	for i := range s.keys * s.each {
		d.keys = append(d.keys, uint32(rng.IntN(s.keys)))
		d.rows = append(d.rows, int32(i))
		d.ints.AppendInt(rng.Int64N(1 << 24))
		d.floats.AppendFloat(math.Exp(rng.NormFloat64()))
	}
	return d
}

// ours is a combine fn.
func ours(b *testing.B, name string, options map[string]any, arg func(d *records) *column.Vector) side {
	b.Helper()
	return side{"deltad", func(keys int) keyed {
		fn, err := combine.Builtins()[name].New(combine.Params{Options: options}, []column.Type{arg(&records{
			ints: column.New(column.Of(column.Int64)), floats: column.New(column.Of(column.Float64)),
		}).Type})
		if err != nil {
			b.Fatal(err)
		}
		col := fn.NewColumn()
		col.Grow(keys)
		return keyed{
			add: func(d *records) {
				if err := col.Add(&combine.Input{Groups: d.keys, Rows: d.rows, Args: []*column.Vector{arg(d)}}); err != nil {
					b.Fatal(err)
				}
			},
			encode: func(dst []byte, key int) []byte { return col.AppendAcc(dst, uint32(key)) },
			merge: func(key int, acc []byte) {
				if err := col.Merge(uint32(key), acc); err != nil {
					b.Fatal(err)
				}
			},
		}
	}}
}

func ofInts(d *records) *column.Vector   { return d.ints }
func ofFloats(d *records) *column.Vector { return d.floats }

// compare runs every side over every shape: adds, bytes for a key, and merges
// of what is stored into as many keys that hold it already.
func compare(b *testing.B, sides ...side) {
	b.Helper()
	for _, s := range shapes() {
		d := draw(s)
		for _, side := range sides {
			name := fmt.Sprintf("%d×%d/%s", s.keys, s.each, side.name)
			b.Run(name+"/add", func(b *testing.B) {
				for b.Loop() {
					side.fresh(s.keys).add(d)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(d.rows)), "ns/add")
				b.ReportMetric(0, "ns/op")
			})
			b.Run(name+"/merge", func(b *testing.B) {
				live := side.fresh(s.keys)
				live.add(d)
				total := 0
				stored := make([][]byte, s.keys)
				for key := range stored {
					stored[key] = live.encode(nil, key)
					total += len(stored[key])
				}
				for b.Loop() {
					for key, acc := range stored {
						live.merge(key, acc)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.keys), "ns/merge")
				b.ReportMetric(float64(total)/float64(s.keys), "bytes/key")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// perKey is a side with an object of its own for each key.
func perKey[T any](name string, make1 func() T, add func(*T, *records, int32), encode func([]byte, *T) []byte, merge func(*T, []byte)) side {
	return side{name, func(keys int) keyed {
		all := make([]T, keys)
		for i := range all {
			all[i] = make1()
		}
		return keyed{
			add: func(d *records) {
				for _, i := range d.rows {
					add(&all[d.keys[i]], d, i)
				}
			},
			encode: func(dst []byte, key int) []byte { return encode(dst, &all[key]) },
			merge:  func(key int, b []byte) { merge(&all[key], b) },
		}
	}}
}

// plainSet is a Go map of integers, stored as sorted eight-byte words.
func plainSet() side {
	return perKey("go map",
		func() map[int64]struct{} { return map[int64]struct{}{} },
		func(m *map[int64]struct{}, d *records, i int32) { (*m)[d.ints.Ints[i]] = struct{}{} },
		func(dst []byte, m *map[int64]struct{}) []byte {
			list := make([]int64, 0, len(*m))
			for x := range *m {
				list = append(list, x)
			}
			slices.Sort(list)
			for _, x := range list {
				for s := 0; s < 64; s += 8 {
					dst = append(dst, byte(x>>s))
				}
			}
			return dst
		},
		func(m *map[int64]struct{}, b []byte) {
			for ; len(b) > 0; b = b[8:] {
				var x int64
				for i := range 8 {
					x |= int64(b[i]) << (8 * i)
				}
				(*m)[x] = struct{}{}
			}
		})
}

func BenchmarkDistinct(b *testing.B) {
	axiom := func(name string, precision uint8, sparse bool) side {
		return perKey(name,
			func() *hyperloglog.Sketch {
				s, err := hyperloglog.NewSketch(precision, sparse)
				if err != nil {
					b.Fatal(err)
				}
				return s
			},
			func(s **hyperloglog.Sketch, d *records, i int32) {
				x := uint64(d.ints.Ints[i])
				(*s).Insert([]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24), byte(x >> 32), byte(x >> 40), byte(x >> 48), byte(x >> 56)})
			},
			func(dst []byte, s **hyperloglog.Sketch) []byte {
				out, err := (*s).MarshalBinary()
				if err != nil {
					b.Fatal(err)
				}
				return append(dst, out...)
			},
			func(s **hyperloglog.Sketch, acc []byte) {
				var other hyperloglog.Sketch
				if err := other.UnmarshalBinary(acc); err != nil {
					b.Fatal(err)
				}
				if err := (*s).Merge(&other); err != nil {
					b.Fatal(err)
				}
			})
	}
	compare(b, ours(b, "distinct", map[string]any{"precision": 12}, ofInts), axiom("axiomhq", 12, true), axiom("axiomhq dense", 12, false), plainSet())
}

func BenchmarkTheta(b *testing.B) {
	compare(b, ours(b, "theta", nil, ofInts), plainSet())
}

func BenchmarkBloom(b *testing.B) {
	compare(b, ours(b, "bloom", map[string]any{"expected": 1000}, ofInts), plainSet())
}

func BenchmarkBitmap(b *testing.B) {
	roaring := perKey("roaring",
		roaring64.New,
		func(m **roaring64.Bitmap, d *records, i int32) { (*m).Add(uint64(d.ints.Ints[i])) },
		func(dst []byte, m **roaring64.Bitmap) []byte {
			c := (*m).Clone()
			c.RunOptimize()
			out, err := c.ToBytes()
			if err != nil {
				b.Fatal(err)
			}
			return append(dst, out...)
		},
		func(m **roaring64.Bitmap, acc []byte) {
			other := roaring64.New()
			if _, err := other.ReadFrom(bytes.NewReader(acc)); err != nil {
				b.Fatal(err)
			}
			(*m).Or(other)
		})
	compare(b, ours(b, "bitmap", nil, ofInts), roaring, plainSet())
}

func BenchmarkQuantile(b *testing.B) {
	datadog := func(name string, make1 func() (*ddsketch.DDSketch, error)) side {
		return perKey(name,
			func() *ddsketch.DDSketch {
				s, err := make1()
				if err != nil {
					b.Fatal(err)
				}
				return s
			},
			func(s **ddsketch.DDSketch, d *records, i int32) {
				if err := (*s).Add(d.floats.Floats[i]); err != nil {
					b.Fatal(err)
				}
			},
			func(dst []byte, s **ddsketch.DDSketch) []byte { (*s).Encode(&dst, false); return dst },
			func(s **ddsketch.DDSketch, acc []byte) {
				if err := (*s).DecodeAndMergeWith(acc); err != nil {
					b.Fatal(err)
				}
			})
	}
	compare(b, ours(b, "quantile", map[string]any{"q": 0.5, "relative_error": 0.01}, ofFloats),
		datadog("datadog", func() (*ddsketch.DDSketch, error) { return ddsketch.NewDefaultDDSketch(0.01) }),
		datadog("datadog dense", func() (*ddsketch.DDSketch, error) {
			m, err := mapping.NewLogarithmicMapping(0.01)
			if err != nil {
				return nil, err
			}
			return ddsketch.NewDDSketchFromStoreProvider(m, store.DenseStoreConstructor), nil
		}))
}
