package combine

import (
	"math"
	"math/big"
	"math/bits"
)

// trim drops high zero words.
func trim(mag []uint64) []uint64 {
	for len(mag) > 0 && mag[len(mag)-1] == 0 {
		mag = mag[:len(mag)-1]
	}
	return mag
}

// bitLen is the length of a trimmed magnitude in bits.
func bitLen(mag []uint64) int {
	if len(mag) == 0 {
		return 0
	}
	return 64*(len(mag)-1) + bits.Len64(mag[len(mag)-1])
}

// shiftedRight returns the low 64 bits of mag>>s, the bit just below, and
// whether any bit lower still is set. s is at least 1.
func shiftedRight(mag []uint64, s int) (low uint64, half, rest bool) {
	at := func(i int) uint64 {
		if i < len(mag) {
			return mag[i]
		}
		return 0
	}
	word, bit := s/64, s%64
	low = at(word)>>bit | at(word+1)<<(64-bit)
	below := s - 1
	half = at(below/64)>>(below%64)&1 == 1
	rest = at(below/64)&(1<<(below%64)-1) != 0
	for i := 0; i < below/64 && i < len(mag) && !rest; i++ {
		rest = mag[i] != 0
	}
	return low, half, rest
}

// roundFloat returns the double nearest to ±(mag + ε)·2^exp, ties to even,
// where 0 < ε < 1 if sticky and 0 otherwise. mag is little-endian and trimmed;
// with sticky it has more than 54 bits or lies wholly below the subnormals.
// Too large becomes infinite.
func roundFloat(mag []uint64, exp int, sticky, neg bool) float64 {
	if len(mag) == 0 {
		return 0
	}
	quantum := max(bitLen(mag)-1+exp-52, -1074)
	var m uint64
	if shift := quantum - exp; shift <= 0 {
		m = mag[0] << -shift
	} else {
		low, half, rest := shiftedRight(mag, shift)
		m = low
		if half && (rest || sticky || m&1 == 1) {
			m++
		}
	}
	f := math.Inf(1)
	if quantum <= 971 {
		// m is below 2^52 only at the subnormal quantum, so its implicit bit
		// and a carry out of rounding both land in the exponent field.
		f = math.Float64frombits(uint64(quantum+1074)<<52 + m)
	}
	if neg {
		f = -f
	}
	return f
}

// divideFloat returns the double nearest to ±mag·2^exp / n, n > 0: two words of
// zeros below mag leave more quotient bits than any double keeps.
func divideFloat(mag []uint64, exp int, n uint64, neg bool) float64 {
	q := make([]uint64, len(mag)+2)
	r := uint64(0)
	for i := len(q) - 1; i >= 0; i-- {
		word := uint64(0)
		if i >= 2 {
			word = mag[i-2]
		}
		q[i], r = bits.Div64(r, word, n)
	}
	return roundFloat(trim(q), exp-128, r != 0, neg)
}

// bigOf returns ±mag as a big.Int.
func bigOf(mag []uint64, neg bool) *big.Int {
	b := make([]byte, 8*len(mag))
	for i, w := range mag {
		for j := range 8 {
			b[len(b)-1-8*i-j] = byte(w >> (8 * j))
		}
	}
	x := new(big.Int).SetBytes(b)
	if neg {
		x.Neg(x)
	}
	return x
}
