package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// Frames that are made here are what a decoder of zstd takes them for.
func TestFramesMadeByHand(t *testing.T) {
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	check := func(t testing.TB, frame, want []byte) {
		t.Helper()
		got, err := z.DecodeAll(frame, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes come back as %d others", len(want), len(got))
		}
	}
	for _, n := range []int{0, 1, 100, zstdBlock - 1, zstdBlock, zstdBlock + 1, 3 * zstdBlock} {
		t.Run(fmt.Sprintf("stored %d", n), func(t *testing.T) {
			b := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
			check(t, storedFrame([]byte("before"), b)[6:], b)
		})
	}
	for _, n := range []int{2, 3, 4, 127, 128, 129, 130, 131, 4096, 8191, 8192, 8193, 8194, 20_000} {
		for _, same := range []int{4, 7, 8, 11, 15, 16} {
			t.Run(fmt.Sprintf("%d wide decimals that share %d", n, same), func(t *testing.T) {
				body := []byte("levels")
				for i := range n {
					v := bytes.Repeat([]byte{0xFF}, wide)
					binary.BigEndian.PutUint64(v[8:], binary.BigEndian.Uint64(v[8:])-uint64(i)*0x9E3779B97F4A7C15)
					if i%2 == 1 {
						v[same%wide] ^= 0x55 // from here on they differ
					}
					copy(v, bytes.Repeat([]byte{0xFF}, same))
					body = append(body, v...)
				}
				frame, ok := wideFrame(nil, body, 6)
				if !ok || same < 16 && len(frame) > 6+n*(wide-same)+n/100+64 {
					t.Fatalf("%d bytes, %t", len(frame), ok)
				}
				check(t, frame, body)
			})
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		levels := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "levels")
		n, same := rapid.IntRange(0, 300).Draw(rt, "values"), rapid.IntRange(0, wide).Draw(rt, "same")
		head := rapid.SliceOfN(rapid.Byte(), same, same).Draw(rt, "head")
		body := bytes.Clone(levels)
		for range n {
			body = append(append(body, head...), rapid.SliceOfN(rapid.Byte(), wide-same, wide-same).Draw(rt, "rest")...)
		}
		if frame, ok := wideFrame(nil, body, len(levels)); ok {
			check(t, frame, body)
		} else if n >= 2 && same >= wideLeast {
			rt.Fatal("refused")
		}
	})
}
