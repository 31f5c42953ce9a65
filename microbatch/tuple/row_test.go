package tuple

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// TestShortDecimalsAreLongOnes: a decimal that is written at once has the bytes
// that it has when it is written pair by pair.
func TestShortDecimalsAreLongOnes(t *testing.T) {
	hold := func(rt *rapid.T, d column.Int128, scale int) {
		want := appendLongDecimal([]byte("x"), d, scale)
		if got := AppendDecimal([]byte("x"), d, scale); !bytes.Equal(got, want) {
			rt.Fatalf("%v at scale %d: %x, want %x", d, scale, got, want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		scale := rapid.IntRange(0, 38).Draw(rt, "scale")
		x := rapid.Int64().Draw(rt, "x")
		// Around every power of ten, and with zeros at the end.
		power := int64(1)
		for range rapid.IntRange(0, 18).Draw(rt, "power") {
			power *= 10
		}
		for _, x := range []int64{x, x % power, power, -power, power - 1, power + 1, 1 - power, x / power * power, math.MinInt64, math.MaxInt64, 0} {
			hold(rt, column.Int128From(x), scale)
			hold(rt, column.Int128{Hi: x, Lo: uint64(x)}, scale)
			hold(rt, column.Int128{Hi: -1, Lo: uint64(x)}, scale)
			hold(rt, column.Int128{Lo: uint64(x)}, scale)
		}
	})
}

// TestPairsAreDigits: each half of a number below 10^8 is parted as it is by
// divisions, whatever the other half is.
func TestPairsAreDigits(t *testing.T) {
	for x := range uint64(10_000) {
		for _, other := range []uint64{0, 9_999, x, 9_999 - x} {
			want := x%100 | x/100<<8 | other%100<<16 | other/100<<24
			if got := fourPairs(x + 10_000*other); got != want {
				t.Fatalf("%d and %d: %x, want %x", other, x, got, want)
			}
		}
	}
}

// TestRowsAreTheirColumns: a row is the encodings of its columns, one after the
// other, whatever is free behind them, and one of them is found in it.
func TestRowsAreTheirColumns(t *testing.T) {
	types := []column.Type{column.Of(column.Null), column.ListOf(column.Of(column.String)), column.DecimalOf(38, 4), column.DecimalOf(9, 3),
		column.StructOf(column.Field{Name: "a", Type: column.Of(column.Int64)})}
	for _, k := range []column.Kind{column.Bool, column.Int32, column.Int64, column.Float32, column.Float64, column.String, column.Bytes, column.Date, column.Time, column.Timestamp} {
		types = append(types, column.Of(k))
	}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var row []*column.Vector
		for range rng.IntN(6) {
			v := column.New(types[rng.IntN(len(types))])
			for range 3 {
				drawValue(rng, v)
			}
			row = append(row, v)
		}
		for i := range 3 {
			want := []byte("x")
			for _, v := range row {
				want = Append(want, v, i)
			}
			if got := AppendRow(append(make([]byte, 0, 1+rng.IntN(200)), 'x'), row, i); !bytes.Equal(got, want) {
				rt.Fatalf("row %d: %x, want %x", i, got, want)
			}
			mark := rng.IntN(len(row)+2) - 1
			got, from, to := AppendMarked([]byte("x"), row, i, mark)
			value := []byte{}
			if mark >= 0 && mark < len(row) {
				value = Append(nil, row[mark], i)
			}
			if !bytes.Equal(got, want) || !bytes.Equal(got[from:to], value) {
				rt.Fatalf("row %d: %x with column %d at %d to %d, want %x with %x", i, got, mark, from, to, want, value)
			}
		}
	})
}

// drawValue appends a value, or null.
func drawValue(rng *rand.Rand, v *column.Vector) {
	x := int64(rng.Uint64()) >> rng.IntN(64)
	if rng.IntN(5) == 0 {
		v.AppendNull()
		return
	}
	switch v.Type.Kind {
	case column.Bool:
		v.AppendBool(x > 0)
	case column.Int32, column.Int64, column.Date, column.Time:
		v.AppendInt(x)
	case column.Float32, column.Float64:
		v.AppendFloat([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(-1), float64(x), -1.5}[rng.IntN(6)])
	case column.Decimal:
		v.AppendDecimal(column.Int128From(x))
	case column.Timestamp:
		v.AppendTimestamp(x, rng.Int32N(1e9))
	case column.String, column.Bytes:
		v.AppendString(string(make([]byte, rng.IntN(3))) + "some text that may be long"[:rng.IntN(27)])
	case column.List:
		for range rng.IntN(3) {
			drawValue(rng, v.Elem)
		}
		v.EndList()
	case column.Struct:
		drawValue(rng, v.Fields[0])
		v.EndStruct()
	default:
		v.AppendNull()
	}
}
