package combine_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

func TestThetaKeepsItsErrorOverDistributions(t *testing.T) {
	for _, nominal := range []int{64, 256, 1024} {
		fn := build(t, "theta", options("nominal", nominal), column.Of(column.Int64))
		bound := 1 / math.Sqrt(float64(nominal-1))
		rms, worst := errorsOf(t, fn, []int{100, 1000, 5000, 20_000}, 5)
		t.Logf("nominal %d: rms %.4f, worst %.4f, standard error %.4f", nominal, rms, worst, bound)
		if rms > 1.15*bound || worst > 5*bound {
			t.Errorf("nominal %d: rms %.4f, worst %.4f against a standard error of %.4f", nominal, rms, worst, bound)
		}
	}
}

func TestThetaImagesKeepTheirBytes(t *testing.T) {
	fn := build(t, "theta", options("output", "sketch"), column.Of(column.Int64))
	checkImages(t, "testdata/theta.golden", []combine.Fn{fn}, 1, 2, 10, 4096, 4097, 100_000)
}

// TestThetaIsTheLeastHashes takes small sketches from the images of large ones:
// with room for all values an image holds every hash.
func TestThetaIsTheLeastHashes(t *testing.T) {
	hashes := func(nominal, n int) (theta uint64, list []uint64) {
		b := []byte(extracted(t, build(t, "theta", options("nominal", nominal, "output", "sketch"), column.Of(column.Int64)), lifted(t, build(t, "theta", options("nominal", nominal, "output", "sketch"), column.Of(column.Int64)), first(n))).Strings[0])
		theta = math.MaxInt64
		if b[0] == 3 {
			theta = binary.LittleEndian.Uint64(b[16:])
		}
		for rest := b[8*int(b[0]):]; len(rest) > 0; rest = rest[8:] {
			list = append(list, binary.LittleEndian.Uint64(rest))
		}
		return theta, list
	}
	const n = 5000
	_, every := hashes(8192, n)
	if len(every) != n {
		t.Fatalf("%d hashes of %d values", len(every), n)
	}
	for _, nominal := range []int{16, 512, 4096} {
		theta, list := hashes(nominal, n)
		if theta != every[nominal] || !slices.Equal(list, every[:nominal]) {
			t.Errorf("nominal %d: theta %d and %d hashes", nominal, theta, len(list))
		}
		fn := build(t, "theta", options("nominal", nominal), column.Of(column.Int64))
		want := new(big.Float).SetPrec(200).Mul(big.NewFloat(float64(nominal)), big.NewFloat(0x1p63))
		want.Quo(want, new(big.Float).SetUint64(theta)).Add(want, big.NewFloat(0.5))
		whole, _ := want.Int64()
		if got := extracted(t, fn, lifted(t, fn, first(n))).Ints[0]; got != whole {
			t.Errorf("nominal %d: estimate %d, want %d", nominal, got, whole)
		}
	}
}

func TestThetaFormsMeet(t *testing.T) {
	formsMeet(t, build(t, "theta", options("nominal", 64), column.Of(column.Int64)), 0, 1, 2, 63, 64, 65, 95, 96, 97, 5000)
}

func FuzzTheta(f *testing.F) {
	fns := []combine.Fn{
		build(f, "theta", options("nominal", 16), column.Of(column.Int64)),
		build(f, "theta", options("nominal", 32, "output", "sketch"), column.Of(column.Int64)),
	}
	fuzzSketches(f, fns, first(0), first(1), first(16), first(17), first(500))
}
