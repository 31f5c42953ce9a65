package tuple_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/tuple"
)

var update = flag.Bool("update", false, "rewrite golden files")

func types() []column.Type {
	var out []column.Type
	for _, k := range []column.Kind{column.Null, column.Bool, column.Int32, column.Int64, column.Float32, column.Float64,
		column.String, column.Bytes, column.Date, column.Time, column.Timestamp} {
		out = append(out, column.Of(k))
	}
	out = append(out, column.DecimalOf(38, 0), column.DecimalOf(38, 38), column.DecimalOf(38, 37), column.DecimalOf(9, 2), column.DecimalOf(9, 3))
	pair := column.StructOf(column.Field{Name: "a", Type: column.Of(column.String)}, column.Field{Name: "b", Type: column.DecimalOf(12, 3)})
	return append(out, column.ListOf(column.Of(column.Bytes)), column.ListOf(column.ListOf(column.Of(column.Int64))), pair, column.ListOf(pair))
}

// compare is the order of values, written without regard to bytes.
func compare(a *column.Vector, i int, b *column.Vector, j int) int {
	if a.Null(i) || b.Null(j) {
		return boolCmp(!a.Null(i), !b.Null(j))
	}
	switch a.Type.Kind {
	case column.Bool:
		return boolCmp(a.Bools[i], b.Bools[j])
	case column.Float32, column.Float64:
		x, y := a.Floats[i], b.Floats[j]
		switch {
		case x != x || y != y:
			return boolCmp(x != x, y != y)
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	case column.Decimal:
		x, y := a.Decimals[i].Big(), b.Decimals[j].Big()
		scale := func(v *big.Int, s uint8) *big.Int {
			return v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(s)), nil))
		}
		return scale(x, b.Type.Scale).Cmp(scale(y, a.Type.Scale))
	case column.String, column.Bytes:
		return strings.Compare(a.Strings[i], b.Strings[j])
	case column.Timestamp:
		return a.Instant(i).Compare(b.Instant(j))
	case column.List:
		m, n := int(a.Offsets[i+1]-a.Offsets[i]), int(b.Offsets[j+1]-b.Offsets[j])
		for k := range min(m, n) {
			if c := compare(a.Elem, int(a.Offsets[i])+k, b.Elem, int(b.Offsets[j])+k); c != 0 {
				return c
			}
		}
		return m - n
	case column.Struct:
		for k := range a.Fields {
			if c := compare(a.Fields[k], i, b.Fields[k], j); c != 0 {
				return c
			}
		}
		return 0
	}
	x, y := a.Ints[i], b.Ints[j]
	return boolCmp(x > y, y > x)
}

func boolCmp(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func sign(x int) int { return boolCmp(x > 0, x < 0) }

func random(rt *rapid.T) *rand.Rand { return rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2)) }

func TestOrderOfBytesIsOrderOfValues(t *testing.T) {
	for _, typ := range types() {
		t.Run(typ.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				rng, v := random(rt), column.New(typ)
				for range 12 {
					combinetest.AppendValue(rng, v)
				}
				for i := range v.Len() {
					for j := range v.Len() {
						a, b := tuple.Append(nil, v, i), tuple.Append(nil, v, j)
						if got, want := bytes.Compare(a, b), sign(compare(v, i, v, j)); got != want {
							rt.Fatalf("%x and %x compare %d, the values %d", a, b, got, want)
						}
					}
				}
			})
		})
	}
}

func TestDecimalsOfAnyScaleAreOneOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := random(rt)
		scales := rapid.SliceOfN(rapid.IntRange(0, 20), 2, 2).Draw(rt, "scales")
		a, b := column.New(column.DecimalOf(18, scales[0])), column.New(column.DecimalOf(18, scales[1]))
		combinetest.AppendValue(rng, a)
		combinetest.AppendValue(rng, b)
		x, y := tuple.Append(nil, a, 0), tuple.Append(nil, b, 0)
		if got, want := bytes.Compare(x, y), sign(compare(a, 0, b, 0)); got != want {
			rt.Fatalf("%x at %d and %x at %d compare %d, the values %d", x, scales[0], y, scales[1], got, want)
		}
	})
}

func TestDecodeReturnsTheValueAndSkipAndCheckAgree(t *testing.T) {
	for _, typ := range types() {
		t.Run(typ.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				rng, v, back := random(rt), column.New(typ), column.New(typ)
				var all []byte
				for i := range 6 {
					combinetest.AppendValue(rng, v)
					all = tuple.Append(all, v, i)
				}
				for i, rest := 0, all; len(rest) > 0; i++ {
					skipped, err := tuple.Skip(rest)
					if err != nil {
						rt.Fatalf("skip %x: %v", rest, err)
					}
					checked, err := tuple.Check(rest, &typ)
					if err != nil {
						rt.Fatalf("check %x: %v", rest, err)
					}
					after, err := tuple.Decode(rest, back)
					if err != nil {
						rt.Fatalf("decode %x: %v", rest, err)
					}
					if len(skipped) != len(after) || len(checked) != len(after) || back.Len() != i+1 || compare(v, i, back, i) != 0 {
						rt.Fatalf("value %d of %x came back as another", i, all)
					}
					rest = after
				}
			})
		})
	}
}

// TestCompositesOrderByParts: no encoding is a prefix of another, so
// concatenation keeps the order of the first part that differs.
func TestCompositesOrderByParts(t *testing.T) {
	all := types()
	rapid.Check(t, func(rt *rapid.T) {
		rng := random(rt)
		var cols []*column.Vector
		for range rapid.IntRange(1, 4).Draw(rt, "parts") {
			v := column.New(all[rng.IntN(len(all))])
			for range 8 {
				combinetest.AppendValue(rng, v)
			}
			cols = append(cols, v)
		}
		for i := range 8 {
			for j := range 8 {
				want := 0
				for _, c := range cols {
					if want = sign(compare(c, i, c, j)); want != 0 {
						break
					}
				}
				a, b := tuple.AppendRow(nil, cols, i), tuple.AppendRow(nil, cols, j)
				if got := bytes.Compare(a, b); got != want {
					rt.Fatalf("%x and %x compare %d, the parts %d", a, b, got, want)
				}
				if want != 0 && bytes.HasPrefix(a, b) {
					rt.Fatalf("%x is a prefix of %x", b, a)
				}
			}
		}
	})
}

func TestTypesOfOneReprAgree(t *testing.T) {
	i32, i64 := column.New(column.Of(column.Int32)), column.New(column.Of(column.Int64))
	f32, f64 := column.New(column.Of(column.Float32)), column.New(column.Of(column.Float64))
	i32.AppendInt(-7)
	i64.AppendInt(-7)
	f32.AppendFloat(float64(float32(0.1)))
	f64.AppendFloat(float64(float32(0.1)))
	if a, b := tuple.Append(nil, i32, 0), tuple.Append(nil, i64, 0); !bytes.Equal(a, b) {
		t.Errorf("int32 %x, int64 %x", a, b)
	}
	if a, b := tuple.Append(nil, f32, 0), tuple.Append(nil, f64, 0); !bytes.Equal(a, b) {
		t.Errorf("float %x, double %x", a, b)
	}
}

func TestForeignBytesAreRefused(t *testing.T) {
	kind := func(k column.Kind) column.Type { return column.Of(k) }
	tests := []struct {
		name string
		typ  column.Type
		hex  string
	}{
		{"nothing", kind(column.Int64), ""},
		{"a string for an integer", kind(column.Int64), "50610001"},
		{"an integer for a string", kind(column.String), "3101"},
		{"a leading zero", kind(column.Int64), "320001"},
		{"a leading zero of a negative", kind(column.Int64), "2efffe"},
		{"beyond int64", kind(column.Int64), "388000000000000000"},
		{"beyond int32", kind(column.Int32), "350100000000"},
		{"cut integer", kind(column.Int64), "3201"},
		{"negative zero", kind(column.Float64), "107fffffffffffffff"},
		{"another NaN", kind(column.Float64), "10fff8000000000001"},
		{"negative NaN", kind(column.Float64), "100007ffffffffffff"},
		{"a double for a float", kind(column.Float32), "10bfb999999999999a"},
		{"cut float", kind(column.Float64), "10ff"},
		{"a trailing zero pair", column.DecimalOf(9, 2), "4230020100"},
		{"a leading zero pair", column.DecimalOf(9, 2), "4230010200"},
		{"no pairs", column.DecimalOf(9, 2), "423000"},
		{"a pair over 99", column.DecimalOf(9, 2), "42306500"},
		{"finer than the scale", column.DecimalOf(9, 2), "422ffd0200"},
		{"too large a decimal", column.DecimalOf(38, 2), "4231320200"},
		{"cut decimal", column.DecimalOf(9, 2), "423002"},
		{"a bare zero in a string", kind(column.String), "5000620001"},
		{"no terminator", kind(column.String), "5061"},
		{"not UTF-8", kind(column.String), "50ff0001"},
		{"bytes for a string", kind(column.String), "51610001"},
		{"nanoseconds over a second", kind(column.Timestamp), "62303b9aca00"},
		{"list without end", column.ListOf(kind(column.Bool)), "7002"},
		{"struct too long", column.StructOf(column.Field{Name: "a", Type: kind(column.Bool)}), "71020200"},
		{"struct too short", column.StructOf(column.Field{Name: "a", Type: kind(column.Bool)}), "7100"},
		{"a value for null", kind(column.Null), "02"},
		{"a bare end", kind(column.Bool), "00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(tt.hex)
			if err != nil {
				t.Fatal(err)
			}
			into := column.New(tt.typ)
			if _, err := tuple.Decode(b, into); err == nil || into.Len() != 0 {
				t.Errorf("%s was accepted as %s, %d rows", tt.hex, tt.typ, into.Len())
			}
			if _, err := tuple.Check(b, &tt.typ); err == nil {
				t.Errorf("%s was checked as %s", tt.hex, tt.typ)
			}
		})
	}
}

// TestGoldenVectors holds the format.
func TestGoldenVectors(t *testing.T) {
	var out strings.Builder
	line := func(what string, v *column.Vector) {
		fmt.Fprintf(&out, "%s\t%s\t%x\n", v.Type, what, tuple.Append(nil, v, 0))
	}
	of := func(typ column.Type, what string, add func(v *column.Vector)) {
		v := column.New(typ)
		add(v)
		line(what, v)
	}
	for _, typ := range []column.Type{column.Of(column.Bool), column.ListOf(column.Of(column.Bool))} {
		of(typ, "null", (*column.Vector).AppendNull)
	}
	for _, b := range []bool{false, true} {
		of(column.Of(column.Bool), fmt.Sprint(b), func(v *column.Vector) { v.AppendBool(b) })
	}
	for _, x := range []int64{math.MinInt64, -65536, -256, -255, -1, 0, 1, 255, 256, 1e9, math.MaxInt64} {
		of(column.Of(column.Int64), fmt.Sprint(x), func(v *column.Vector) { v.AppendInt(x) })
	}
	for _, x := range []float64{math.Inf(-1), -math.MaxFloat64, -1.5, -math.SmallestNonzeroFloat64, math.Copysign(0, -1), 0,
		math.SmallestNonzeroFloat64, 1, 1.5, math.MaxFloat64, math.Inf(1), math.NaN(), math.Float64frombits(0xfff0000000000001)} {
		of(column.Of(column.Float64), fmt.Sprint(x), func(v *column.Vector) { v.AppendFloat(x) })
	}
	for _, d := range []struct{ unscaled, scale int64 }{{1234, 2}, {12340, 3}, {-1234, 2}, {0, 4}, {1, 0}, {100, 2}, {5, 3}, {-5, 3}, {100000, 0}} {
		of(column.DecimalOf(18, int(d.scale)), fmt.Sprint(d.unscaled), func(v *column.Vector) { v.AppendDecimal(column.Int128From(d.unscaled)) })
	}
	for _, s := range []string{"", "a", "a\x00", "a\x00b", "é", "\U0010ffff"} {
		of(column.Of(column.String), fmt.Sprintf("%q", s), func(v *column.Vector) { v.AppendString(s) })
	}
	for _, s := range []string{"", "\x00", "\xff\x00\xff"} {
		of(column.Of(column.Bytes), fmt.Sprintf("%q", s), func(v *column.Vector) { v.AppendString(s) })
	}
	of(column.Of(column.Date), "20787", func(v *column.Vector) { v.AppendInt(20787) })
	of(column.Of(column.Time), "86399999999999", func(v *column.Vector) { v.AppendInt(86399999999999) })
	for _, s := range []int64{-62135596800, -1, 0, 1796000000} {
		of(column.Of(column.Timestamp), fmt.Sprintf("%d+999999999", s), func(v *column.Vector) { v.AppendTimestamp(s, 999999999) })
	}
	of(column.ListOf(column.Of(column.Int64)), "[]", (*column.Vector).EndList)
	of(column.ListOf(column.Of(column.Int64)), "[null 1]", func(v *column.Vector) {
		v.Elem.AppendNull()
		v.Elem.AppendInt(1)
		v.EndList()
	})
	pair := column.StructOf(column.Field{Name: "a", Type: column.Of(column.String)}, column.Field{Name: "b", Type: column.Of(column.Bool)})
	of(pair, "{a: x, b: null}", func(v *column.Vector) {
		v.Fields[0].AppendString("x")
		v.Fields[1].AppendNull()
		v.EndStruct()
	})

	const path = "testdata/vectors.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("encodings changed:\n%s\nwant:\n%s", out.String(), want)
	}
}

// FuzzDecode: whatever Decode accepts, Append writes again byte for byte.
func FuzzDecode(f *testing.F) {
	all := types()
	f.Add(uint8(3), []byte{0x31, 7})
	f.Add(uint8(11), []byte{0x42, 0x30, 2, 0})
	f.Add(uint8(len(all)-1), []byte{0x70, 0x71, 0x50, 'a', 0, 1, 0x41, 0, 0})
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		typ := all[int(which)%len(all)]
		v := column.New(typ)
		rest, err := tuple.Decode(b, v)
		if _, cerr := tuple.Check(b, &typ); (err == nil) != (cerr == nil) {
			t.Fatalf("decode says %v, check %v", err, cerr)
		}
		if err != nil {
			if v.Len() != 0 {
				t.Fatal("a refused value left a row")
			}
			return
		}
		used := b[:len(b)-len(rest)]
		if got := tuple.Append(nil, v, 0); !bytes.Equal(got, used) {
			t.Fatalf("%x of type %s came out as %x", used, typ, got)
		}
		if after, err := tuple.Skip(b); err != nil || len(after) != len(rest) {
			t.Fatalf("skip leaves %d of %d bytes, err %v", len(after), len(rest), err)
		}
	})
}
