package table

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// TestLengths: lengths are written as the format says, one bit after the other, and
// read back; what is shared is what the first difference says.
func TestLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Uint32Range(0, 1000).Draw(t, "least")
		most := rapid.SampledFrom([]uint32{0, 1, 2, 3, 4, 15, 16, 255, 256, 65535, 65536, MaxBlock - 1000}).Draw(t, "most")
		lengths := rapid.SliceOfN(rapid.Uint32Range(least, least+most), 1, 70).Draw(t, "lengths")
		low, high := lengths[0], lengths[0]
		for _, l := range lengths {
			low, high = min(low, l), max(high, l)
		}
		w := 0
		for _, n := range []int{32, 16, 8, 4, 2, 1, 0} {
			if uint64(high-low) < 1<<n {
				w = n
			}
		}
		want := binary.AppendUvarint([]byte{7, byte(w)}, uint64(low))
		bit, end := 8*len(want), 8*len(want)+w*len(lengths)
		want = append(want, make([]byte, (end-bit+7)/8)...)
		for _, l := range lengths {
			for j := range w {
				want[(bit+j)/8] |= byte((l-low)>>j&1) << ((bit + j) % 8)
			}
			bit += w
		}
		got := appendLengths([]byte{7}, lengths)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bits: %x, want %x", w, got, want)
		}
		in, out := bytesReader{b: got[1:]}, make([]uint32, len(lengths))
		sum := in.lengths(out)
		for i, l := range lengths {
			if out[i] != l {
				t.Fatalf("length %d came back as %d, not %d", i, out[i], l)
			}
			sum -= uint64(l)
		}
		if in.err != nil || sum != 0 || len(in.b) > 0 {
			t.Fatalf("%v, the sum is wrong by %d, %d bytes are left", in.err, sum, len(in.b))
		}
	})
}

func TestShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.ByteRange(0, 1), 0, 40)
		a, b := some.Draw(t, "a"), some.Draw(t, "b")
		if rapid.Bool().Draw(t, "alike") {
			b = append(bytes.Clone(a), b...)
		}
		want := 0
		for want < min(len(a), len(b)) && a[want] == b[want] {
			want++
		}
		if got := shared(a, b); got != want {
			t.Fatalf("%d bytes are shared by %x and %x, not %d", want, a, b, got)
		}
	})
}
