package index

import (
	"math"

	"github.com/expr-lang/expr/vm/runtime"
)

// checkedPower is a ** b.
func checkedPower(args ...any) (any, error) {
	if args[0] == nil || args[1] == nil {
		return nil, errNullOperand
	}
	return power(runtime.ToFloat64(args[0]), runtime.ToFloat64(args[1])), nil
}

// power is math.Pow with the same last digit on every architecture. The
// library's differs where the exponent has a fraction: its exponential is
// assembler on some, and fused on others; so is its logarithm, which is wrong for
// subnormals on amd64.
func power(x, y float64) float64 {
	whole, part := math.Modf(y) // both of y's sign
	if part == 0 || whole == 0 && math.Abs(part) == 0.5 || !(x > 0) || math.IsInf(x, 0) || math.IsInf(y, 0) || math.IsNaN(y) {
		return math.Pow(x, y) // products of x, its square root, or nothing to compute
	}
	// x = m·2^e, with m near 1. Of x^part the power of two is split off, so that
	// what is left to the exponential is small and known to the last bit: e·part
	// is p and what its rounding lost.
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m+m, e-1
	}
	p := float64(float64(e) * part)
	k := math.Round(p)
	rest := (p - k) + math.FMA(float64(e), part, -p)
	near := exponential(float64(rest*math.Ln2) + float64(part*logarithm(m)))
	return math.Ldexp(float64(math.Pow(x, whole)*near), int(k))
}

// logarithm is the natural one of a number near 1, by the series of the inverse
// hyperbolic tangent. Each operation is rounded by itself.
func logarithm(m float64) float64 {
	s := (m - 1) / (m + 1)
	z, sum := float64(s*s), 0.0
	for k := 23; k > 0; k -= 2 {
		sum = 1/float64(k) + float64(z*sum)
	}
	return float64(2 * float64(s*sum))
}

// exponential is that of a number below 1 in magnitude, by its series.
func exponential(t float64) float64 {
	sum := 1.0
	for k := 20; k > 0; k-- {
		sum = 1 + float64(t*sum)/float64(k)
	}
	return sum
}
