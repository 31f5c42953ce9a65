package combine

import (
	"encoding/binary"
	"errors"
	"math/big"
	"math/bits"
)

// A magnitude is an unsigned integer as words, least significant first, of
// which the first stands at a place counted in words. Its bytes are its place
// in bytes and its length as uvarints, then its bytes from the least
// significant one; the first and the last are not zero. Zero has no bytes.

// appendMagnitude writes a trimmed magnitude other than zero whose first word
// is not zero.
func appendMagnitude(dst []byte, mag []uint64, word int) []byte {
	low := bits.TrailingZeros64(mag[0]) / 8
	high := (bitLen(mag) + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(8*word+low))
	dst = binary.AppendUvarint(dst, uint64(high-low))
	if len(mag) <= 3 {
		var b [24]byte
		for i, w := range mag {
			binary.LittleEndian.PutUint64(b[8*i:], w)
		}
		return append(dst, b[low:high]...)
	}
	for i := low; i < high; i++ {
		dst = append(dst, byte(mag[i/8]>>(8*(i%8))))
	}
	return dst
}

// parseMagnitude reads what appendMagnitude wrote into buf, which bounds place
// and length together.
func parseMagnitude(acc []byte, buf []uint64) (mag []uint64, word int, rest []byte, err error) {
	off, acc, err := uvarint(acc)
	if err != nil {
		return nil, 0, nil, err
	}
	n, acc, err := uvarint(acc)
	if err != nil {
		return nil, 0, nil, err
	}
	most := uint64(8 * len(buf))
	if off > most || n == 0 || n > most-off || n > uint64(len(acc)) {
		return nil, 0, nil, errors.New("magnitude is out of range")
	}
	if acc[0] == 0 || acc[n-1] == 0 {
		return nil, 0, nil, errors.New("magnitude is not minimal")
	}
	mag = buf[:(int(off%8)+int(n)+7)/8]
	clear(mag)
	for i, c := range acc[:n] {
		j := int(off%8) + i
		mag[j/8] |= uint64(c) << (8 * (j % 8))
	}
	return mag, int(off / 8), acc[n:], nil
}

// magnitudeOf copies the absolute value of a two's complement number into buf
// and returns its words, trimmed at both ends, with the place of the first.
func magnitudeOf(buf, words []uint64, at int) (mag []uint64, word int, neg bool) {
	mag = buf[:copy(buf, words)]
	if neg = mag[len(mag)-1]>>63 == 1; neg {
		c := uint64(1)
		for i := range mag {
			mag[i], c = bits.Add64(^mag[i], 0, c)
		}
	}
	mag = trim(mag)
	for len(mag) > 0 && mag[0] == 0 {
		mag, at = mag[1:], at+1
	}
	return mag, at, neg
}

// quotient returns the double nearest to num/den · 2^exp, or to its square
// root; num and den are not negative, den is not zero.
func quotient(num, den *big.Int, exp int, root bool) float64 {
	// A quotient of 66 bits, and one of 132 under a root, has more than any
	// double keeps; what the division and the root leave is less than one.
	want := 66
	if root {
		want = 2 * 66
	}
	shift := max(0, want+den.BitLen()-num.BitLen())
	if root && (exp-shift)%2 != 0 {
		shift++
	}
	q, r := new(big.Int).QuoRem(new(big.Int).Lsh(num, uint(shift)), den, new(big.Int))
	exp -= shift
	sticky := r.Sign() != 0
	if root {
		s := new(big.Int).Sqrt(q)
		sticky = sticky || new(big.Int).Mul(s, s).Cmp(q) != 0
		q, exp = s, exp/2
	}
	return roundFloat(wordsOf(q), exp, sticky, false)
}

// wordsOf returns the magnitude of x.
func wordsOf(x *big.Int) []uint64 {
	b := x.FillBytes(make([]byte, (x.BitLen()+63)/64*8))
	words := make([]uint64, len(b)/8)
	for i := range words {
		words[i] = binary.BigEndian.Uint64(b[len(b)-8*i-8:])
	}
	return words
}
