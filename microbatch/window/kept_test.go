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

// TestHasherTellsRowsApart: rows have equal hashes exactly where they are equal
// bit by bit, in both halves, whatever the width of numbers.
func TestHasherTellsRowsApart(t *testing.T) {
	h := NewHasher()
	for _, typ := range anyTypes() {
		byHash := [2]map[uint64]string{{}, {}}
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
			if typ.Kind == column.Float64 {
				for _, f := range []float64{math.Copysign(0, -1), 0, math.NaN(), math.Float64frombits(0xfff8000000000001), math.Inf(-1)} {
					v.AppendFloat(f)
				}
			}
			sums := h.Append(nil, []*column.Vector{v}, v.Len())
			holds(t, &h, v, sums, byHash)
		}
		if least := 5; len(byHash[0]) < least && typ.Kind != column.Bool && typ.Kind != column.Null {
			t.Errorf("%d different values of %s: the test is too tame", len(byHash), typ)
		}
	}
}

func holds(t *testing.T, h *Hasher, v *column.Vector, sums []Hash, byHash [2]map[uint64]string) {
	t.Helper()
	byText := map[string]Hash{}
	for i, sum := range sums {
		text := string(exactly(v, i))
		if was, ok := byText[text]; ok && was != sum {
			t.Fatalf("%s: %x has hashes %x and %x", v.Type, text, was, sum)
		}
		byText[text] = sum
		for k, half := range sum {
			if was, ok := byHash[k][half]; ok && was != text {
				t.Fatalf("%s: %x and %x have one half of a hash", v.Type, text, was)
			}
			byHash[k][half] = text
		}
	}
	wider := map[column.Kind]column.Type{column.Int32: column.Of(column.Int64), column.Float32: column.Of(column.Float64)}
	typ, ok := wider[v.Type.Kind]
	if !ok {
		return
	}
	wide := *v
	wide.Type = typ
	if got := h.Append(nil, []*column.Vector{&wide}, wide.Len()); !slices.Equal(got, sums) {
		t.Fatalf("hashes of %s are not those of %s", typ, v.Type)
	}
}

// TestHasherTellsColumnsApart: what is in which column, and where lists end,
// counts.
func TestHasherTellsColumnsApart(t *testing.T) {
	h := NewHasher()
	list := func(parts ...[]string) *column.Vector {
		v := column.New(column.ListOf(column.ListOf(column.Of(column.String))))
		for _, p := range parts {
			for _, s := range p {
				v.Elem.Elem.AppendString(s)
			}
			v.Elem.EndList()
		}
		v.EndList()
		return v
	}
	texts := func(s ...string) []*column.Vector {
		var out []*column.Vector
		for _, s := range s {
			v := column.New(column.Of(column.String))
			v.AppendString(s)
			out = append(out, v)
		}
		return out
	}
	null := texts("")
	null[0].Reset()
	null[0].AppendNull()
	seen := map[Hash]int{}
	rows := [][]*column.Vector{
		{list([]string{"a", "b"}, []string{"c"})}, {list([]string{"a"}, []string{"b", "c"})}, {list([]string{"a", "b", "c"})}, {list()}, {list(nil)},
		texts("a", "b"), texts("b", "a"), texts("ab", ""), texts("", "ab"), texts("ab"), texts(""), null, {},
	}
	for i, row := range rows {
		sum := h.Append(nil, row, 1)[0]
		if was, ok := seen[sum]; ok {
			t.Errorf("rows %d and %d have one hash", was, i)
		}
		seen[sum] = i
	}
}
