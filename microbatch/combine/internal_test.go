package combine

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// TestDivideFloatRoundsOnce compares with rationals; one is divided by large
// numbers in particular, where only the remainder breaks some ties.
func TestDivideFloatRoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 30_000 {
		mag := []uint64{1}
		n := rng.Uint64() | 1<<63
		if i%3 == 0 {
			mag, n = []uint64{rng.Uint64(), rng.Uint64() >> rng.IntN(64)}, rng.Uint64()>>rng.IntN(63)|1
		}
		exp := rng.IntN(40) - 20
		if i%5 == 0 {
			exp = -1074 - rng.IntN(20)
		}
		value := new(big.Rat).SetFrac(bigOf(mag, false), new(big.Int).SetUint64(n))
		scale := new(big.Int).Lsh(big.NewInt(1), uint(max(exp, -exp)))
		if exp < 0 {
			value.Quo(value, new(big.Rat).SetInt(scale))
		} else {
			value.Mul(value, new(big.Rat).SetInt(scale))
		}
		want, _ := value.Float64()
		if got := divideFloat(trim(mag), exp, n, false); got != want {
			t.Fatalf("%x·2^%d/%d = %v, want %v", mag, exp, n, got, want)
		}
	}
}

// TestDoublingNeverLosesACarry merges a sum into itself until its count is
// nearly 2^64: every window runs into its sign bit on the way.
func TestDoublingNeverLosesACarry(t *testing.T) {
	fn, err := Builtins()["sum"].New(Params{}, []column.Type{column.Of(column.Float64)})
	if err != nil {
		t.Fatal(err)
	}
	const big53 = 1<<53 - 1
	for e := -1074; e < 900; e += 13 {
		for _, xs := range [][]float64{{big53}, {-big53}, {big53, 0x1p64}, {-big53, -0x1p80}, {1, big53 * 0x1p70}, {-1, big53 * 0x1p74}, {3, -5 * 0x1p55}} {
			col := fn.NewColumn()
			col.Grow(1)
			v := column.New(column.Of(column.Float64))
			exact := new(big.Float).SetPrec(4096)
			rows := make([]int32, len(xs))
			for i, x := range xs {
				rows[i] = int32(i)
				v.AppendFloat(math.Ldexp(x, e))
				exact.Add(exact, big.NewFloat(v.Floats[i]))
			}
			if err := col.Add(&Input{Groups: make([]uint32, len(xs)), Rows: rows, Args: []*column.Vector{v}}); err != nil {
				t.Fatal(err)
			}
			for k := range 61 {
				dst := column.New(fn.Output())
				if err := col.Extract(0, dst); err != nil {
					t.Fatal(err)
				}
				want, _ := new(big.Float).SetMantExp(exact, k).Float64()
				if dst.Floats[0] != want {
					t.Fatalf("%v doubled %d times is %v, want %v", v.Floats, k, dst.Floats[0], want)
				}
				if err := col.Merge(0, col.AppendAcc(nil, 0)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestManyLargeAddendsOutgrowAWindow adds in the upper word of a window.
func TestManyLargeAddendsOutgrowAWindow(t *testing.T) {
	fn, err := Builtins()["sum"].New(Params{}, []column.Type{column.Of(column.Float64)})
	if err != nil {
		t.Fatal(err)
	}
	const n = 5000
	for _, sign := range []float64{1, -1} {
		v := column.New(column.Of(column.Float64))
		exact := new(big.Float).SetPrec(4096)
		rows := make([]int32, n)
		for i := range rows {
			rows[i] = int32(i)
			x := sign * (1<<53 - 1) * 0x1p60
			if i == 0 {
				x = sign * 0x1p-15 // pins the window's lower end
			}
			v.AppendFloat(x)
			exact.Add(exact, big.NewFloat(x))
		}
		for e := range 64 { // every place within a word
			col := fn.NewColumn()
			col.Grow(1)
			shifted := column.New(v.Type)
			for _, x := range v.Floats {
				shifted.AppendFloat(math.Ldexp(x, e))
			}
			if err := col.Add(&Input{Groups: make([]uint32, n), Rows: rows, Args: []*column.Vector{shifted}}); err != nil {
				t.Fatal(err)
			}
			dst := column.New(fn.Output())
			if err := col.Extract(0, dst); err != nil {
				t.Fatal(err)
			}
			if want, _ := new(big.Float).SetMantExp(exact, e).Float64(); dst.Floats[0] != want {
				t.Fatalf("shift %d: %v, want %v", e, dst.Floats[0], want)
			}
		}
	}
}

func TestRegistersKeepTheLastString(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var r registers
		r.Grow(8)
		want := make([][]byte, 8)
		for range 200 {
			g := rng.IntN(8)
			b := bytes.Repeat([]byte{byte(rng.IntN(256))}, 1+rng.IntN(6000))
			r.set(uint32(g), b)
			want[g] = b
			for g, b := range want {
				if !bytes.Equal(r.get(uint32(g)), b) {
					rt.Fatalf("string %d changed", g)
				}
			}
		}
		if held := len(r.arena); held > 8*6000*3+64<<10 {
			rt.Fatalf("%d bytes held", held)
		}
	})
}

// TestWindowsAgreeWithBigIntegers adds words at the edges of a window.
func TestWindowsAgreeWithBigIntegers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		edges := []uint64{0, 0, 1, 1<<62 - 1, 1 << 61, 1 << 62, 3 << 61, 1 << 63, ^uint64(0)}
		for range 50 {
			s := windows{win: make([]window, 1)}
			want := new(big.Int)
			base := rng.IntN(longWords - 7)
			for range 1 + rng.IntN(8) {
				words := make([]uint64, 1+rng.IntN(3))
				for i := range words {
					words[i] = edges[rng.IntN(len(edges))]
				}
				words = trim(words)
				at, neg := base+rng.IntN(4), rng.IntN(2) == 0
				s.addWords(0, at, words, neg)
				want.Add(want, new(big.Int).Lsh(bigOf(words, neg), uint(64*at)))
				var buf fixedPoint
				mag, word, negative := s.magnitude(0, buf[:])
				if got := new(big.Int).Lsh(bigOf(mag, negative), uint(64*word)); got.Cmp(want) != 0 {
					rt.Fatalf("%x after adding %x at %d (negative %v), want %x", got, words, at, neg, want)
				}
			}
		}
	})
}
