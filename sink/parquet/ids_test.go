package parquet

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/rle"
)

func TestIDsAreReadBack(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		width := 1 + r.IntN(20)
		var ids []int32
		for len(ids) < r.IntN(300)+1 {
			id := r.Int32N(1 << width)
			for range 1 + r.IntN(1+r.IntN(40)) {
				ids = append(ids, id)
			}
		}
		e := rle.Encoding{BitWidth: width}
		got, err := e.DecodeInt32(nil, appendIDs(nil, ids, width))
		if err != nil || len(got) < len(ids) || !slices.Equal(got[:len(ids)], ids) {
			t.Fatalf("seed %d: %v came back as %v, err %v", seed, ids, got, err)
		}
	}
}

// TestIDsAreCutAlikeEverywhere: with AVX2 the library cuts a packed stretch
// before an eight of two halves.
func TestIDsAreCutAlikeEverywhere(t *testing.T) {
	ids := []int32{0, 1, 2, 3, 4, 5, 6, 7, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 9, 9, 8}
	want := []byte{2<<1 | 1, 0x10, 0x32, 0x54, 0x76, 0x11, 0x11, 0x22, 0x22, 8 << 1, 3, 2 << 1, 9, 1 << 1, 8}
	if got := appendIDs(nil, ids, 4); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
