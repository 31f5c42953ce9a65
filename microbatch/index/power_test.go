package index

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

func TestPowerIsNearMathPow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		x, y := math.Ldexp(r.Float64()+0.5, r.IntN(200)-100), r.NormFloat64()*4
		got, want := power(x, y), math.Pow(x, y)
		// The library is itself off by as many ulps as y·log x has bits.
		if math.Abs(got-want) > want*1e-13+0x1p-1074 {
			t.Fatalf("%v ** %v = %v, math.Pow says %v", x, y, got, want)
		}
	}
}

func TestPowerOfSubnormals(t *testing.T) {
	for _, tt := range []struct{ x, y, want float64 }{{0x1p-1074, 0.25, math.Ldexp(math.Sqrt2, -269)}, {0x1p-1072, 0.25, 0x1p-268}, {0x1p-1074, -0.25, math.Ldexp(math.Sqrt2, 268)}} {
		if got := power(tt.x, tt.y); math.Abs(got-tt.want) > tt.want*0x1p-51 {
			t.Errorf("%v ** %v = %v, want %v", tt.x, tt.y, got, tt.want)
		}
	}
}

func TestPowerOfSquaresIsTheirRoot(t *testing.T) {
	for i := 1; i < 3000; i++ {
		x := float64(i)
		if got := power(float64(x*x), 1.5); math.Abs(got-float64(float64(x*x)*x)) > got*0x1p-51 {
			t.Errorf("(%v²) ** 1.5 = %v", x, got)
		}
		if got := power(float64(float64(x*x)*float64(x*x)), 0.25); math.Abs(got-x) > x*0x1p-51 {
			t.Errorf("(%v⁴) ** 0.25 = %v", x, got)
		}
	}
}

func TestPowerHasTheSpecialCasesOfMathPow(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, -1.5, 0.3, -0.3, 1e300, -1e300, 1e-300, math.MaxFloat64, inf, -inf, nan, 1 << 53, 1<<53 + 2}
	for _, x := range special {
		for _, y := range special {
			got, want := power(x, y), math.Pow(x, y)
			same := got == want || got != got && want != want || math.Abs(got-want) < math.Abs(want)*1e-12
			if !same || math.Signbit(got) != math.Signbit(want) && got == got {
				t.Errorf("%v ** %v = %v, math.Pow says %v", x, y, got, want)
			}
		}
	}
}

// TestPowerIsTheSameEverywhere: the bits are those of amd64, where this was
// written.
func TestPowerIsTheSameEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	hash := uint64(14695981039346656037)
	for range 100_000 {
		bits := math.Float64bits(power(math.Ldexp(float64(r.Int64N(1<<53)), r.IntN(600)-350), math.Ldexp(float64(r.Int64N(1<<53)-1<<52), -50)))
		hash = (hash ^ bits) * 1099511628211
	}
	if want := uint64(0x1d79d6e35b34a40c); hash != want {
		t.Errorf("hash %#x, want %#x", hash, want)
	}
}

func TestPowerInExpressions(t *testing.T) {
	tests := []struct {
		source string
		v, f   any
		want   any
	}{
		{"f ** 0.3", nil, 7.3, power(7.3, 0.3)},
		{"f ^ 0.3", nil, 7.3, power(7.3, 0.3)},
		{"v ** 2", int64(3), nil, 9.0},
		{"2 ** v", int64(3), nil, 8.0},
		{"2 ** 0.3", nil, nil, power(2, 0.3)},
		{"2 ** v ** 0.5", int64(3), nil, power(2, math.Sqrt(3))},
		{"v ** -f + 1", int64(3), 0.3, power(3, -0.3) + 1},
		{"float(reduce([f, 0.3], #acc ** #))", nil, 7.3, power(7.3, 0.3)},
		{"v ** 2", nil, nil, nil},
		{"2 ** f", nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.source, func(t *testing.T) {
			got, err := evaluate(t, tt.source, tt.v, tt.f, nil)
			if err != nil || got != tt.want {
				t.Errorf("got %v, err %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestNaNOfExpressionsIsTheOne: 0/0 has its sign bit set on amd64 alone.
func TestNaNOfExpressionsIsTheOne(t *testing.T) {
	for _, source := range []string{"(f - f) / (v - v)", "-((f - f) / (v - v))", "(0 - f) ** 0.3"} {
		got, err := evaluate(t, source, int64(3), 7.3, nil)
		if err != nil {
			t.Fatal(err)
		}
		dst := column.New(column.Of(column.Float64))
		if err := unbox(got, dst); err != nil {
			t.Fatal(err)
		}
		if bits := math.Float64bits(dst.Floats[0]); bits != 0x7ff8000000000000 {
			t.Errorf("%s is %x", source, bits)
		}
	}
}
