package window

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/tuple"
)

func anyTypes() []column.Type {
	var out []column.Type
	for k := column.Null; k < column.Decimal; k++ {
		out = append(out, column.Of(k))
	}
	for _, k := range []column.Kind{column.Bool, column.Int32, column.Int64, column.Float32, column.Float64, column.String, column.Bytes, column.Date, column.Time, column.Timestamp} {
		if !slices.ContainsFunc(out, func(t column.Type) bool { return t.Kind == k }) {
			out = append(out, column.Of(k))
		}
	}
	pair := column.StructOf(column.Field{Name: "a", Type: column.Of(column.String)}, column.Field{Name: "b", Type: column.DecimalOf(12, 3)})
	return append(out, column.DecimalOf(38, 2), column.ListOf(column.Of(column.String)), pair, column.ListOf(pair))
}

// TestKeptColumnRemembers: rows that are set in any order, over and over, are
// those that come back, whatever their type, before and after compaction.
func TestKeptColumnRemembers(t *testing.T) {
	for _, typ := range anyTypes() {
		t.Run(typ.String(), func(t *testing.T) {
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 1))
				k, groups := newKept(typ), 0
				want := map[uint32]string{}
				for range 40 {
					groups += rng.IntN(20)
					k.grow(groups)
					src := column.New(typ)
					var set []uint32
					for g := range uint32(groups) {
						if rng.IntN(3) == 0 {
							set = append(set, g)
							if seed%2 == 0 || rng.IntN(3) > 0 {
								combinetest.AppendValue(rng, src)
							} else {
								src.AppendNull()
							}
							want[g] = string(exactly(src, src.Len()-1))
						}
					}
					if err := k.set(set, src); err != nil {
						t.Fatal(err)
					}
					if err := k.compact(); err != nil {
						t.Fatal(err)
					}
					remembers(t, k, rng, want)
				}
			}
		})
	}
}

func remembers(t *testing.T, k *kept, rng *rand.Rand, want map[uint32]string) {
	t.Helper()
	var ask []uint32
	for g := range want {
		ask = append(ask, g)
	}
	slices.Sort(ask)
	rng.Shuffle(len(ask), func(i, j int) { ask[i], ask[j] = ask[j], ask[i] })
	dst := column.New(k.v.Type)
	half := len(ask) / 2
	for _, some := range [][]uint32{ask[:half], ask[half:]} {
		if err := k.append(dst, some); err != nil {
			t.Fatal(err)
		}
	}
	if dst.Len() != len(ask) {
		t.Fatalf("%d rows of %d", dst.Len(), len(ask))
	}
	for i, g := range ask {
		if got := exactly(dst, i); string(got) != want[g] {
			t.Fatalf("group %d has %x, was set to %x", g, got, want[g])
		}
	}
}

// exactly is the encoding of a row, with the bits of floats behind it.
func exactly(v *column.Vector, i int) []byte {
	out := tuple.Append(nil, v, i)
	if len(v.Floats) > 0 && !v.Null(i) {
		bits := math.Float64bits(v.Floats[i])
		for range 8 {
			out, bits = append(out, byte(bits)), bits>>8
		}
	}
	return out
}

// TestKeptTextsAreCopiedOut: what a text shared its allocation with is let go.
func TestKeptTextsAreCopiedOut(t *testing.T) {
	for _, typ := range []column.Type{column.Of(column.String), column.ListOf(column.Of(column.String))} {
		k := newKept(typ)
		k.grow(100)
		groups := make([]uint32, 100)
		for i := range groups {
			groups[i] = uint32(i)
		}
		for range 50 {
			src := column.New(typ)
			for range groups {
				if typ.Kind == column.String {
					src.AppendString(string(bytes.Repeat([]byte{'x'}, 100)))
					continue
				}
				src.Elem.AppendString(string(bytes.Repeat([]byte{'x'}, 100)))
				src.EndList()
			}
			if err := k.set(groups, src); err != nil {
				t.Fatal(err)
			}
			if err := k.compact(); err != nil {
				t.Fatal(err)
			}
		}
		if most := int64(2*100*100 + textSlack + 2*foldBlock*100); k.held > most {
			t.Errorf("%s: %d bytes of texts are held, of 10,000 in use", typ, k.held)
		}
	}
}

// TestHasherIsTheEncoding: rows have equal hashes exactly where their encodings
// are equal, whatever the width of numbers and the scale of decimals.
func TestHasherIsTheEncoding(t *testing.T) {
	h := NewHasher()
	byHash := map[uint64]string{}
	for _, typ := range anyTypes() {
		for seed := range uint64(30) {
			rng := rand.New(rand.NewPCG(seed, 2))
			v := column.New(typ)
			for range 50 {
				if rng.IntN(5) == 0 {
					v.AppendNull()
				} else {
					combinetest.AppendValue(rng, v)
				}
			}
			if v.Type.Kind == column.Float64 {
				for _, f := range []float64{math.Copysign(0, -1), 0, math.NaN(), math.Float64frombits(0xfff8000000000001), math.Inf(-1)} {
					v.AppendFloat(f)
				}
			}
			sums := h.Append(nil, []*column.Vector{v}, v.Len())
			holds(t, h, v, sums, byHash)
		}
	}
	if len(byHash) < 1000 {
		t.Errorf("%d different values: the test is too tame", len(byHash))
	}
}

func holds(t *testing.T, h Hasher, v *column.Vector, sums []uint64, byHash map[uint64]string) {
	t.Helper()
	byText := map[string]uint64{}
	for i, sum := range sums {
		text := string(tuple.Append(nil, v, i))
		if was, ok := byText[text]; ok && was != sum {
			t.Fatalf("%s: %x has hashes %x and %x", v.Type, text, was, sum)
		}
		if was, ok := byHash[sum]; ok && was != text {
			t.Fatalf("%s: %x and %x have one hash", v.Type, text, was)
		}
		byText[text], byHash[sum] = sum, text
	}
	wider := map[column.Kind]column.Type{column.Int32: column.Of(column.Int64), column.Float32: column.Of(column.Float64), column.Decimal: column.DecimalOf(38, 9)}
	typ, ok := wider[v.Type.Kind]
	if !ok {
		return
	}
	wide := column.New(typ)
	for i := range v.Len() {
		if v.Type.Kind == column.Float32 && !v.Null(i) {
			wide.AppendFloat(v.Floats[i])
		} else if err := wide.AppendFrom(v, i); err != nil {
			return // beyond the type
		}
	}
	if got := h.Append(nil, []*column.Vector{wide}, wide.Len()); !slices.Equal(got, sums) {
		t.Fatalf("hashes of %s are not those of %s", typ, v.Type)
	}
}
