package tuple

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// u128 is an unsigned 128-bit integer: the magnitude of a decimal.
type u128 struct{ hi, lo uint64 }

func (x u128) zero() bool { return x.hi|x.lo == 0 }

// divSmall returns x/d and x%d.
func (x u128) divSmall(d uint64) (u128, uint64) {
	hi, r := x.hi/d, x.hi%d
	lo, r := bits.Div64(r, x.lo, d)
	return u128{hi, lo}, r
}

// mulAdd returns x*m + a; ok is false where it does not fit.
func (x u128) mulAdd(m, a uint64) (out u128, ok bool) {
	h1, lo := bits.Mul64(x.lo, m)
	h2, hi := bits.Mul64(x.hi, m)
	lo, c := bits.Add64(lo, a, 0)
	hi, c1 := bits.Add64(hi, h1, c)
	return u128{hi, lo}, h2 == 0 && c1 == 0
}

func magnitude(d column.Int128) (m u128, neg bool) {
	m = u128{uint64(d.Hi), d.Lo}
	if d.Hi >= 0 {
		return m, false
	}
	lo, b := bits.Sub64(0, m.lo, 0)
	hi, _ := bits.Sub64(0, m.hi, b)
	return u128{hi, lo}, true
}

// AppendDecimal appends d × 10^−scale. The pairs of base 100 are aligned to the
// decimal point, which makes them independent of the scale.
func AppendDecimal(dst []byte, d column.Int128, scale int) []byte {
	at := len(dst)
	dst = slices.Grow(dst, roomOfWord)
	if k := putDecimal(dst[at:at+roomOfWord], d, scale); k > 0 {
		return dst[:at+k]
	}
	return appendLongDecimal(dst, d, scale)
}

// appendLongDecimal is AppendDecimal for any number of digits.
func appendLongDecimal(dst []byte, d column.Int128, scale int) []byte {
	m, neg := magnitude(d)
	if m.zero() {
		return append(dst, tagDecZero)
	}
	var pairs [20]byte // least significant first
	n, exp := 0, -scale/2
	var r uint64
	if scale%2 != 0 {
		m, r = m.divSmall(10)
		pairs[0], n, exp = byte(r*10), 1, -(scale+1)/2
	}
	for m.hi != 0 {
		m, r = m.divSmall(100)
		pairs[n] = byte(r)
		n++
	}
	for x := m.lo; x > 0; x /= 100 { // a division by a constant is none
		pairs[n] = byte(x % 100)
		n++
	}
	low := 0
	for pairs[low] == 0 {
		low++
	}
	start := len(dst) + 1
	if neg {
		dst = append(dst, tagDecNeg)
	} else {
		dst = append(dst, tagDecPos)
	}
	dst = AppendInt(dst, int64(exp+n-1))
	for i := n - 1; i >= low; i-- {
		dst = append(dst, pairs[i]+1)
	}
	dst = append(dst, 0)
	if neg {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}

// putDecimal writes a decimal of up to 16 digits to the front of b, which has
// room for roomOfWord, and returns its length; 0 where the decimal is longer.
func putDecimal(b []byte, d column.Int128, scale int) int {
	neg := uint64(d.Hi)
	mag := (d.Lo ^ neg) - neg
	if neg+1 > 1 || neg != 0 && mag == 0 || scale < 0 {
		return 0 // of two words
	}
	if scale%2 != 0 {
		if mag > 1e15-1 {
			return 0
		}
		mag, scale = 10*mag, scale+1
	}
	switch {
	case mag > 1e16-1:
		return 0
	case mag == 0:
		b[0] = tagDecZero
		return 1
	}
	// Eight pairs, the least significant one in the lowest byte.
	pairs := uint64(0)
	if mag < 1e8 {
		pairs = fourPairs(mag)
	} else {
		high := mag / 1e8
		pairs = fourPairs(mag-1e8*high) | fourPairs(high)<<32
	}
	n, low := (bits.Len64(pairs)+7)/8, bits.TrailingZeros64(pairs)/8
	b[0] = tagDecPos - byte(neg&(tagDecPos-tagDecNeg))
	// The exponent as an integer of a byte, or of none.
	exp := n - 1 - scale/2
	sign := exp >> 63
	some := (exp | -exp) >> 63 & 1
	b[1], b[2] = byte(tagInt+(sign|some)), byte(exp+sign)
	k := 2 + some
	binary.BigEndian.PutUint64(b[k:], pairs<<((64-8*n)&63)+0x0101010101010101)
	k += n - low
	b[k] = 0
	k++
	for i := 1; neg != 0 && i < k; i++ {
		b[i] = ^b[i]
	}
	return k
}

// fourPairs are the pairs of digits of a number below 10^8. A hundredth of a
// number below 10^4 is its product with 10486, without the lowest 20 bits: so
// both halves of the number are parted at once.
func fourPairs(x uint64) uint64 {
	high := x / 10_000
	halves := x - 10_000*high | high<<32
	hundreds := halves * 10_486 >> 20 & (0x7f<<32 | 0x7f)
	pairs := halves - 100*hundreds | hundreds<<8
	return (pairs | pairs>>16) & (1<<32 - 1)
}

// decimalParts reads what follows a decimal's tag: the leading exponent and
// the pairs, most significant first.
func decimalParts(b []byte, neg bool) (exp int64, pairs [20]byte, n int, rest []byte, err error) {
	flip := byte(0)
	if neg {
		flip = 0xff
	}
	var head [9]byte
	k := 0
	for k < len(head) && k < len(b) {
		head[k] = b[k] ^ flip
		k++
	}
	exp, after, err := decodeInt(head[:k])
	if err != nil {
		return 0, pairs, 0, nil, fmt.Errorf("decimal exponent: %w", err)
	}
	b = b[k-len(after):]
	for i, c := range b {
		c ^= flip
		switch {
		case c == 0:
			if n == 0 || pairs[0] == 0 || pairs[n-1] == 0 {
				return 0, pairs, 0, nil, fmt.Errorf("decimal digits are not minimal")
			}
			return exp, pairs, n, b[i+1:], nil
		case c > 100 || n == len(pairs):
			return 0, pairs, 0, nil, fmt.Errorf("decimal digit pair 0x%02x at %d is out of range", c, n)
		}
		pairs[n] = c - 1
		n++
	}
	return 0, pairs, 0, nil, fmt.Errorf("decimal is cut short")
}

// decodeDecimal reads what follows a decimal's tag as an unscaled integer at
// the scale.
func decodeDecimal(b []byte, neg bool, t column.Type) (column.Int128, []byte, error) {
	exp, pairs, n, rest, err := decimalParts(b, neg)
	if err != nil {
		return column.Int128{}, nil, err
	}
	unfit := func() (column.Int128, []byte, error) {
		return column.Int128{}, nil, fmt.Errorf("decimal does not fit %s", t)
	}
	if exp < -40 || exp > 40 {
		return unfit()
	}
	shift := 2*(int(exp)-n+1) + int(t.Scale)
	var m u128
	ok := true
	for i := 0; i < n && ok; i++ {
		if i == n-1 && shift == -1 {
			ok = pairs[i]%10 == 0
			var fits bool
			m, fits = m.mulAdd(10, uint64(pairs[i]/10))
			ok, shift = ok && fits, 0
			continue
		}
		m, ok = m.mulAdd(100, uint64(pairs[i]))
	}
	if shift < 0 {
		return unfit()
	}
	for ; shift > 0 && ok; shift-- {
		m, ok = m.mulAdd(10, 0)
	}
	limit := u128{hi: 1 << 63}
	if !ok || m.hi > limit.hi || m.hi == limit.hi && (m.lo > 0 || !neg) {
		return unfit()
	}
	if neg {
		lo, c := bits.Sub64(0, m.lo, 0)
		hi, _ := bits.Sub64(0, m.hi, c)
		m = u128{hi, lo}
	}
	return column.Int128{Hi: int64(m.hi), Lo: m.lo}, rest, nil
}
