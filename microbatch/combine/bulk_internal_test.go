package combine

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// drawWord draws a word of any length, with zeros or ones at either end.
func drawWord(rng *rand.Rand) uint64 {
	x := rng.Uint64() >> rng.IntN(64) << rng.IntN(64)
	switch rng.IntN(4) {
	case 0:
		return 0
	case 1:
		return ^x
	}
	return x
}

// TestWindowsAreWrittenAsMagnitudes: what put writes is the magnitude of the sum,
// wherever it begins and ends, and nothing of what is behind its end stays.
func TestWindowsAreWrittenAsMagnitudes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		for range 50 {
			s := windows{win: []window{{w: [3]uint64{drawWord(rng), drawWord(rng), drawWord(rng)}, off: int32(rng.IntN(maxOff + 1))}}}
			var buf [longWords]uint64
			mag, word, neg := s.magnitude(0, buf[:])
			want, flags := []byte("x"), byte(0)
			if len(mag) > 0 {
				want, flags = appendMagnitude(want, mag, word), flagNonzero
			}
			if neg {
				flags |= flagNegative
			}
			got, gotFlags := s.win[0].append(append(make([]byte, 0, 1+rng.IntN(40)), 'x'))
			if !bytes.Equal(got, want) || gotFlags != flags {
				rt.Fatalf("%x at %d: %x with flags %x, want %x with %x", s.win[0].w, s.win[0].off, got, gotFlags, want, flags)
			}
			room := bytes.Repeat([]byte{0xa5}, roomOfWindow+1)
			if s.win[0].put(room[:roomOfWindow]); room[roomOfWindow] != 0xa5 {
				rt.Fatalf("%x at %d is written beyond its room", s.win[0].w, s.win[0].off)
			}
		}
	})
}

// TestSumsOfOneWordAreWide: what putSum writes is what a sum of three words is
// written as, and a count is a uvarint.
func TestSumsOfOneWordAreWide(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		for range 50 {
			x := drawWord(rng)
			b := make([]byte, binary.MaxVarintLen64)
			if got, want := b[:putSum(b, int64(x))], widen(int64(x)).append(nil); !bytes.Equal(got, want) {
				rt.Fatalf("%d: %x, want %x", int64(x), got, want)
			}
			if got, want := b[:putCount(b, x)], binary.AppendUvarint(nil, x); !bytes.Equal(got, want) {
				rt.Fatalf("count %d: %x, want %x", x, got, want)
			}
		}
	})
}
