package combine_test

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// member asks an image as its published layout says; like is a filter of the
// value alone, whose bits are those to look for.
func member(image, like []byte) bool {
	for i := 32; i < len(image); i++ {
		if image[i]&like[i] != like[i] {
			return false
		}
	}
	return true
}

func TestBloomKeepsItsShareOfFalsePositives(t *testing.T) {
	for _, c := range []struct {
		expected int
		fpp      float64
	}{{10, 0.01}, {1000, 0.01}, {1000, 0.3}, {5000, 0.001}} {
		fn := build(t, "bloom", options("expected", c.expected, "fpp", c.fpp), column.Of(column.Int64))
		for name, values := range integerSets(c.expected, rand.New(rand.NewPCG(5, 5))) {
			if countDistinct(values) > c.expected {
				continue
			}
			image := []byte(extracted(t, fn, lifted(t, fn, ints(values...))).Strings[0])
			alone := func(v int64) []byte { return []byte(extracted(t, fn, lifted(t, fn, ints(v))).Strings[0]) }
			for _, v := range values[:min(len(values), 200)] {
				if !member(image, alone(v)) {
					t.Fatalf("%s: %d is no member", name, v)
				}
			}
			const asked = 4000
			wrong := 0
			for i := range asked {
				if member(image, alone(-1-int64(i)*7)) {
					wrong++
				}
			}
			if share := float64(wrong) / asked; share > 1.3*c.fpp+0.003 {
				t.Errorf("%s, %d values: %v of others are members, want %v", name, c.expected, share, c.fpp)
			}
		}
	}
}

func TestBloomImagesFollowThePublishedFormat(t *testing.T) {
	fn := build(t, "bloom", options("expected", 100), column.Of(column.Int64))
	for _, n := range []int{1, 100, 1000} {
		b := []byte(extracted(t, fn, lifted(t, fn, first(n))).Strings[0])
		set := 0
		for _, x := range b[32:] {
			set += bits.OnesCount8(x)
		}
		if string(b[:8]) != "\x04\x01\x15\x00\x07\x00\x00\x00" || binary.LittleEndian.Uint64(b[8:]) != 9001 ||
			int(binary.LittleEndian.Uint64(b[16:])) != len(b)/8-4 || int(binary.LittleEndian.Uint64(b[24:])) != set {
			t.Errorf("%d values: head %x, %d bits set", n, b[:32], set)
		}
	}
}

func TestBloomImagesKeepTheirBytes(t *testing.T) {
	checkImages(t, "testdata/bloom.golden", []combine.Fn{
		build(t, "bloom", options("expected", 5), column.Of(column.Int64)),
		build(t, "bloom", options("expected", 1000, "fpp", 0.001), column.Of(column.Int64)),
	}, 1, 5, 100, 1000)
}

func TestBloomFormsMeet(t *testing.T) {
	formsMeet(t, build(t, "bloom", options("expected", 100), column.Of(column.Int64)), 0, 1, 2, 3, 20, 30, 100, 5000)
}

func FuzzBloom(f *testing.F) {
	fns := []combine.Fn{
		build(f, "bloom", options("expected", 1, "fpp", 0.5), column.Of(column.Int64)),
		build(f, "bloom", options("expected", 50), column.Of(column.Int64)),
	}
	fuzzSketches(f, fns, first(0), first(1), first(5), first(20), first(500))
}
