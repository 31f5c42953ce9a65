//go:build integration

package golden_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// start is the first partition; there is one a minute.
var start = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

const (
	partitions = 4
	records    = 1500
)

// record is a row of a source object.
type record struct {
	Item  string         `parquet:"item"`
	Shard int32          `parquet:"shard"`
	TS    *int64         `parquet:"ts,optional,timestamp(microsecond)"`
	Op    string         `parquet:"op"`
	F     *float64       `parquet:"f,optional"` // any double
	G     *float32       `parquet:"g,optional"` // any float
	H     *float64       `parquet:"h,optional"` // finite
	I     *int64         `parquet:"i,optional"` // any int64
	N     *int32         `parquet:"n,optional"`
	User  *int64         `parquet:"user,optional"` // 0 or more
	D     *int64         `parquet:"d,optional,decimal(4:18)"`
	Wide  [16]byte       `parquet:"wide,decimal(10:38)"`
	S     *string        `parquet:"s,optional"`
	B     *bool          `parquet:"b,optional"`
	Raw   []byte         `parquet:"raw"`
	Day   *int32         `parquet:"day,optional,date"`
	Clock *time.Duration `parquet:"clock,optional,time(nanosecond)"`
	Tags  []string       `parquet:"tags,list"`
	Offer *offer         `parquet:"offer,optional"`
}

type offer struct {
	Name  *string `parquet:"name,optional"`
	Price *int64  `parquet:"price,optional,decimal(3:12)"`
}

// source draws values. PCG is specified, so every Go draws the same.
type source struct{ *rand.Rand }

// maybe is null one time in eight.
func maybe[T any](s source, v T) *T {
	if s.IntN(8) == 0 {
		return nil
	}
	return &v
}

func pick[T any](s source, from ...T) T { return from[s.IntN(len(from))] }

// double is any double, often a hard one.
func (s source) double() float64 {
	switch s.IntN(6) {
	case 0:
		return pick(s, math.NaN(), math.Float64frombits(0xfff8000000000001), math.Float64frombits(0x7ff0000000000001),
			math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -0x1p-1060)
	case 1:
		return math.Float64frombits(s.Uint64())
	}
	return s.finite()
}

// finite is a double of a few dozen binary orders of magnitude: adding them one
// by one rounds each time. Their products are finite, too.
func (s source) finite() float64 {
	switch s.IntN(4) {
	case 0:
		return float64(s.IntN(2000)-1000) / 8
	case 1:
		return pick(s, 0.1, -0.1, 1e16, -1e16, 1, 0x1p-1060, 1e150)
	}
	return math.Ldexp(float64(s.Int64N(1<<54)-1<<53), s.IntN(60)-80)
}

func (s source) single() float32 {
	if s.IntN(5) == 0 {
		return math.Float32frombits(s.Uint32())
	}
	return float32(s.IntN(100000)) / 7
}

func (s source) integer() int64 {
	if s.IntN(4) == 0 {
		return pick[int64](s, math.MinInt64, math.MaxInt64, 0, -1, 1<<53+1)
	}
	return int64(s.Uint64()) >> s.IntN(64)
}

// wide is a decimal of up to 36 digits.
func (s source) wide() (b [16]byte) {
	n := new(big.Int).Mul(big.NewInt(s.Int64()), big.NewInt(s.Int64N(1e17)))
	n.Rsh(n, uint(s.IntN(116)))
	if s.IntN(2) == 0 {
		n.Neg(n)
	}
	lo := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64))
	binary.BigEndian.PutUint64(b[:], uint64(new(big.Int).Rsh(n, 64).Int64()))
	binary.BigEndian.PutUint64(b[8:], lo.Uint64())
	return b
}

func (s source) record(partition int) record {
	at := start.Add(time.Duration(partition)*time.Minute + time.Duration(s.IntN(5))*time.Second)
	texts := []string{"", "a", "b", "ab", "B", "ä", "ä", "\x00", "日本", "zz"}
	r := record{
		Item: pick(s, "", "a", "a\x00", "é", "item", "x", "y", "z"), Shard: int32(s.IntN(6)) - 2, TS: maybe(s, at.UnixMicro()),
		Op: pick(s, "U", "U", "U", "U", "U", "U", "D"), F: maybe(s, s.double()), G: maybe(s, s.single()), H: maybe(s, s.finite()),
		I: maybe(s, s.integer()), N: maybe(s, int32(s.IntN(2001)-1000)), User: maybe(s, s.Int64N(1<<s.IntN(40))),
		D: maybe(s, s.Int64N(2e12)-1e12), Wide: s.wide(), S: maybe(s, pick(s, texts...)), B: maybe(s, s.IntN(9) > 0),
		Day: maybe(s, int32(s.IntN(40000)-10000)), Clock: maybe(s, time.Duration(s.Int64N(86400e6))*time.Microsecond),
	}
	for range s.IntN(4) {
		r.Raw = append(r.Raw, byte(s.IntN(3)))
		r.Tags = append(r.Tags, pick(s, texts...))
	}
	if s.IntN(5) > 0 {
		r.Offer = &offer{Name: maybe(s, pick(s, texts...)), Price: maybe(s, s.Int64N(1e6))}
	}
	return r
}

// fixture is the records of each partition. Some come twice, alike in all or in
// all but one column.
func fixture() [][]record {
	s := source{rand.New(rand.NewPCG(2026, 11))}
	out := make([][]record, partitions)
	for i := range records {
		p := i % partitions
		r := s.record(p)
		if had := out[p]; len(had) > 0 && s.IntN(12) == 0 {
			r = had[s.IntN(len(had))]
			if s.IntN(2) == 0 {
				r.S = maybe(s, fmt.Sprint(s.IntN(50)))
			}
		}
		out[p] = append(out[p], r)
	}
	return out
}

// variant is one way to lay the fixture out in objects.
type variant struct {
	name    string
	shuffle uint64 // the records of a partition; 0: not at all
	objects int    // of each partition
	order   []int  // the objects' names, by number: their order in a listing
	group   int    // rows of a row group; 0: all
}

// variants are all orders of four objects, and other splits.
func variants() []variant {
	var out []variant
	permutations([]int{0, 1, 2, 3}, 0, func(order []int) {
		out = append(out, variant{name: fmt.Sprint("order", len(out)), objects: 4, order: slices.Clone(order)})
	})
	for i, objects := range []int{1, 2, 3, 5, 9, 17, 40} {
		out = append(out, variant{name: fmt.Sprint("split", objects), shuffle: uint64(i + 1), objects: objects, group: []int{0, 7, 100}[i%3]})
	}
	return out
}

func permutations(list []int, from int, each func([]int)) {
	if from == len(list) {
		each(list)
		return
	}
	for i := from; i < len(list); i++ {
		list[from], list[i] = list[i], list[from]
		permutations(list, from+1, each)
		list[from], list[i] = list[i], list[from]
	}
}

// files are those of a variant, by path below the source.
func (v variant) files(t *testing.T, all [][]record) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for p, list := range all {
		list = slices.Clone(list)
		if v.shuffle > 0 {
			r := rand.New(rand.NewPCG(v.shuffle, uint64(p)))
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		for n := range v.objects {
			name := n
			if v.order != nil {
				name = v.order[n]
			}
			path := start.Add(time.Duration(p)*time.Minute).Format("2006/01/02/15/04/") + fmt.Sprintf("%03d.parquet", name)
			out[path] = object(t, list[n*len(list)/v.objects:(n+1)*len(list)/v.objects], v.group)
		}
	}
	return out
}

func object(t *testing.T, list []record, group int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[record](&b, parquet.Compression(&parquet.Snappy))
	for len(list) > 0 {
		n := len(list)
		if group > 0 {
			n = min(n, group)
		}
		if _, err := w.Write(list[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		list = list[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
