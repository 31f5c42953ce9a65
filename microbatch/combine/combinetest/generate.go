package combinetest

import (
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Generate draws a multiset of records for arguments of the types: few records
// or many, distinct or much alike, with equal times, duplicates, nulls, NaN
// payloads, −0, subnormals and extremes.
func Generate(rng *rand.Rand, args []column.Type) Records {
	n := rng.IntN(8)
	if rng.IntN(8) == 0 {
		n = rng.IntN(60)
	}
	var rec Records
	for _, t := range args {
		v := column.New(t)
		alike := rng.IntN(3) == 0
		for i := range n {
			if alike && i > 0 && rng.IntN(2) == 0 {
				_ = v.AppendFrom(v, rng.IntN(i)) // equal types always append
				continue
			}
			AppendValue(rng, v)
		}
		rec.Args = append(rec.Args, v)
	}
	times := column.New(column.Of(column.Timestamp))
	content := rng.IntN(3) > 0
	for i := range n {
		switch rng.IntN(8) {
		case 0:
			times.AppendNull()
		case 1:
			AppendValue(rng, times)
		default:
			times.AppendTimestamp(int64(rng.IntN(2)), 0)
		}
		var record []byte
		if content {
			record = tuple.AppendRow(nil, rec.Args, i)
		}
		rec.Ranks = append(rec.Ranks, combine.AppendRank(nil, times, i, rng.IntN(6) == 0, record))
	}
	return rec
}

// pick draws one of the values.
func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// AppendValue appends a value of v's type, hard cases before plain ones.
func AppendValue(rng *rand.Rand, v *column.Vector) {
	if v.Type.Kind == column.Null || rng.IntN(6) == 0 {
		v.AppendNull()
		return
	}
	switch v.Type.Kind {
	case column.Bool:
		v.AppendBool(rng.IntN(2) == 0)
	case column.Int32:
		v.AppendInt(int64(int32(Int(rng))))
	case column.Int64:
		v.AppendInt(Int(rng))
	case column.Float32:
		v.AppendFloat(float64(float32(Float(rng))))
	case column.Float64:
		v.AppendFloat(Float(rng))
	case column.Decimal:
		v.AppendDecimal(decimal(rng, int(v.Type.Precision)))
	case column.String:
		v.AppendString(text(rng, "", "\x00", "a", "a\x00", "a\x00b", "é", "\u0001", "\U0010ffff", "b"))
	case column.Bytes:
		v.AppendString(text(rng, "", "\x00", "\x00\xff", "\xff", "\xff\xff", "a", "\x00\x01"))
	case column.Date:
		v.AppendInt(pick(rng, 0, -1, 1, -719162, 2932896, int64(rng.IntN(40000))))
	case column.Time:
		v.AppendInt(pick(rng, 0, 1, 86400e9-1, rng.Int64N(86400e9)))
	case column.Timestamp:
		v.AppendTimestamp(pick(rng, 0, -1, 1, -62135596800, 253402300799, rng.Int64N(2e9)), pick(rng, 0, 1, 999_999_999, rng.Int32N(1e9)))
	case column.List:
		for range rng.IntN(4) {
			AppendValue(rng, v.Elem)
		}
		v.EndList()
	case column.Struct:
		for _, f := range v.Fields {
			AppendValue(rng, f)
		}
		v.EndStruct()
	}
}

// Int draws an integer.
func Int(rng *rand.Rand) int64 {
	return pick(rng, 0, 1, -1, 255, 256, -255, -256, 1<<31-1, -1<<31, math.MaxInt64, math.MaxInt64-1, math.MinInt64,
		int64(rng.IntN(10)), int64(rng.IntN(10)), rng.Int64N(2e6)-1e6, int64(rng.Uint64()))
}

// Float draws a float.
func Float(rng *rand.Rand) float64 {
	return pick(rng, 0, math.Copysign(0, -1), 1, -1, 0.1, 1+0x1p-52, math.MaxFloat64, -math.MaxFloat64,
		math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022, 0x1.fffffffffffffp-1023,
		math.Inf(1), math.Inf(-1), math.NaN(), math.Float64frombits(0xfff0000000000001), math.Float64frombits(0x7ff8dead0000beef),
		0x1p53, 0x1p-30, -0x1p60, float64(rng.IntN(100000))/100, float64(rng.IntN(100000))/100, rng.NormFloat64(),
		math.Float64frombits(rng.Uint64()), math.Float64frombits(rng.Uint64()))
}

func decimal(rng *rand.Rand, precision int) column.Int128 {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	limit.Sub(limit, big.NewInt(1))
	x := pick(rng, big.NewInt(0), big.NewInt(1), big.NewInt(10), big.NewInt(100), big.NewInt(1050), limit, new(big.Int).SetUint64(rng.Uint64()))
	if x.Cmp(limit) > 0 {
		x = limit
	}
	if rng.IntN(2) == 0 {
		x = new(big.Int).Neg(x)
	}
	d, _ := column.Int128FromBig(x) // at most 38 digits always fit
	return d
}

func text(rng *rand.Rand, hard ...string) string {
	if rng.IntN(3) > 0 {
		return pick(rng, hard...)
	}
	b := make([]byte, rng.IntN(12))
	for i := range b {
		b[i] = byte('a' + rng.IntN(4))
	}
	return string(b)
}
