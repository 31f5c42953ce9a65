package combine

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

// hllEstimate is the improved raw estimator of Otmar Ertl ("New cardinality
// estimation algorithms for HyperLogLog sketches", 2017), which needs no
// tables and has no bias to correct. It uses nothing but the four operations
// and the square root, each rounded by itself, so that every architecture has
// the same estimate.
func hllEstimate(registers []byte) (int64, error) {
	// Neighbours are mostly alike: a counter that was just written is waited for.
	var four [4][maxRank + 1]int
	for i := 0; i < len(registers); i += 4 {
		four[0][registers[i]]++
		four[1][registers[i+1]]++
		four[2][registers[i+2]]++
		four[3][registers[i+3]]++
	}
	var count [maxRank + 1]int
	for k := range count {
		count[k] = four[0][k] + four[1][k] + four[2][k] + four[3][k]
	}
	m := float64(len(registers))
	z := float64(m * tau(1-float64(float64(count[maxRank])/m)))
	for k := maxRank - 1; k >= 1; k-- {
		z = float64(0.5 * (z + float64(count[k])))
	}
	z += float64(m * sigma(float64(float64(count[0])/m)))
	const alpha = 0.721347520444481703680 // 1/(2 ln 2)
	estimate := float64(float64(alpha*m)*m) / z
	if !(estimate < 1<<62) {
		return 0, errors.New("estimate exceeds int64: no set of values has this sketch")
	}
	return int64(estimate + 0.5), nil
}

// sigma corrects for registers that are 0; x is their share, less than 1.
func sigma(x float64) float64 {
	for y, z := 1.0, x; ; y += y {
		x = float64(x * x)
		was := z
		if z += float64(x * y); z == was {
			return z
		}
	}
}

// tau corrects for registers that are full; 1-x is their share.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	for y, z := 1.0, 1-x; ; {
		x = math.Sqrt(x)
		was, d := z, 1-x
		y = float64(0.5 * y)
		if z -= float64(float64(d*d) * y); z == was {
			return z / 3
		}
	}
}

// What the images of DataSketches begin with: long words or ints of preamble,
// version, family, and at given places parameters and flags.
const (
	hllVersion     = 1
	hllFamily      = 7
	hllListMode    = 2 << 2 // target HLL_8
	hllSetMode     = 2<<2 | 1
	hllArrayMode   = 2<<2 | 2
	flagCompact    = 8
	flagOutOfOrder = 16
	longestList    = 7
)

// couponImage is the compact image of DataSketches' HLL_8 for coupons in
// order: a list of up to seven, else a set.
func couponImage(coupons []uint32, precision uint8) []byte {
	n := len(coupons)
	b := []byte{2, hllVersion, hllFamily, precision, 3, flagCompact, byte(n), hllListMode}
	if n > longestList {
		// A hash table for n at three quarters full, at least 2^5 slots.
		table := max(5, bits.Len(uint((4*n+2)/3-1)))
		b = []byte{3, hllVersion, hllFamily, precision, byte(table), flagCompact, 0, hllSetMode}
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, x := range coupons {
		b = binary.LittleEndian.AppendUint32(b, x&63<<addressBits|x>>6)
	}
	return b
}

// hllImage is the image of DataSketches' HLL_8 for registers. It says that it
// is out of order, which is that no HIP estimate goes with it.
func hllImage(registers []byte) []byte {
	precision := byte(bits.Len(uint(len(registers))) - 1)
	b := make([]byte, 40, 40+len(registers))
	copy(b, []byte{10, hllVersion, hllFamily, precision, 0, flagOutOfOrder, 0, hllArrayMode})
	// The sums of 2^-rank over ranks below 32 and over the others: whole
	// numbers of 2^-31 and 2^-63, which no double has to round.
	var low, high uint64
	zeros := uint32(0)
	for _, r := range registers {
		switch {
		case r == 0:
			zeros++
			fallthrough
		case r < 32:
			low += 1 << (31 - r)
		default:
			high += 1 << (63 - r)
		}
	}
	binary.LittleEndian.PutUint64(b[16:], math.Float64bits(float64(float64(low)*0x1p-31)))
	binary.LittleEndian.PutUint64(b[24:], math.Float64bits(float64(float64(high)*0x1p-63)))
	binary.LittleEndian.PutUint32(b[32:], zeros)
	return append(b, registers...)
}
