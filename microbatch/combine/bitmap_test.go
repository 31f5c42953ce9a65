package combine_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// roaringMembers reads a 32-bit image by the published format, with the offsets
// where there are any; negative is a negative upper half for 64 bits.
func roaringMembers(t *testing.T, b []byte, upper uint64) (members []uint64, rest []byte) {
	t.Helper()
	whole := b
	u16 := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	var n int
	var flags []byte
	if cookie := binary.LittleEndian.Uint32(b); cookie == 12346 {
		n = int(binary.LittleEndian.Uint32(b[4:]))
		b = b[8:]
	} else if cookie&0xffff == 12347 {
		n = int(cookie>>16) + 1
		flags, b = b[4:4+(n+7)/8], b[4+(n+7)/8:]
	} else {
		t.Fatalf("cookie %#x", cookie)
	}
	heads := b
	b = b[4*n:]
	if flags == nil || n >= 4 {
		for i := range n {
			if i == 0 && int(binary.LittleEndian.Uint32(b)) != len(whole)-len(b)+4*n {
				t.Fatalf("first offset %d", binary.LittleEndian.Uint32(b))
			}
		}
		b = b[4*n:]
	}
	for i := range n {
		base := upper | uint64(binary.LittleEndian.Uint16(heads[4*i:]))<<16
		card := int(binary.LittleEndian.Uint16(heads[4*i+2:])) + 1
		before := len(members)
		switch {
		case flags != nil && flags[i/8]>>(i%8)&1 == 1:
			runs := u16(0)
			for r := range runs {
				for x := range u16(4+4*r) + 1 {
					members = append(members, base|uint64(u16(2+4*r)+x))
				}
			}
			b = b[2+4*runs:]
		case card > 4096:
			for x := range 1 << 16 {
				if b[x/8]>>(x%8)&1 == 1 {
					members = append(members, base|uint64(x))
				}
			}
			b = b[8192:]
		default:
			for k := range card {
				members = append(members, base|uint64(u16(2*k)))
			}
			b = b[2*card:]
		}
		if len(members)-before != card {
			t.Fatalf("container %d has %d members, its head says %d", i, len(members)-before, card)
		}
	}
	return members, b
}

func integersForBitmaps(rng *rand.Rand) map[string][]int64 {
	out := map[string][]int64{"ends": {0, math.MaxInt64, 1<<32 - 1, 1 << 32, 65535, 65536}}
	for i := range int64(34_000) {
		out["run"] = append(out["run"], 100_000+i)
		out["even"] = append(out["even"], 2*i)
		out["spread"] = append(out["spread"], i<<20)
		out["random"] = append(out["random"], rng.Int64N(1<<22))
		out["random wide"] = append(out["random wide"], rng.Int64N(1<<40))
		if i%100 < 3 {
			out["short runs"] = append(out["short runs"], i)
		}
		if i < 4097 {
			out["an array too many"] = append(out["an array too many"], 7*i)
		}
	}
	for _, list := range out {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return out
}

func TestBitmapsHoldTheirNumbersInThePublishedFormat(t *testing.T) {
	wide := build(t, "bitmap", combine.Params{}, column.Of(column.Int64))
	narrow := build(t, "bitmap", options("bits", 32), column.Of(column.Int64))
	for name, values := range integersForBitmaps(rand.New(rand.NewPCG(8, 8))) {
		b := []byte(extracted(t, wide, lifted(t, wide, ints(values...))).Strings[0])
		bitmaps := binary.LittleEndian.Uint64(b)
		b = b[8:]
		var got []uint64
		for range bitmaps {
			upper := uint64(binary.LittleEndian.Uint32(b)) << 32
			var part []uint64
			part, b = roaringMembers(t, b[4:], upper)
			got = append(got, part...)
		}
		slices.Sort(values)
		values = slices.Compact(values)
		same := func(got []uint64) bool {
			return slices.EqualFunc(got, values, func(a uint64, b int64) bool { return a == uint64(b) })
		}
		if !same(got) || len(b) > 0 {
			t.Errorf("%s: %d numbers of %d, %d bytes left", name, len(got), len(values), len(b))
		}
		if values[len(values)-1] < 1<<32 {
			got, rest := roaringMembers(t, []byte(extracted(t, narrow, lifted(t, narrow, ints(values...))).Strings[0]), 0)
			if !same(got) || len(rest) > 0 {
				t.Errorf("%s, 32 bits: %d numbers of %d, %d bytes left", name, len(got), len(values), len(rest))
			}
		}
	}
}

// TestBitmapsOfParts merges parts in both orders, over shapes that change their
// form when they meet.
func TestBitmapsOfParts(t *testing.T) {
	fn := build(t, "bitmap", combine.Params{}, column.Of(column.Int64))
	sets := integersForBitmaps(rand.New(rand.NewPCG(9, 9)))
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range sets {
			if !yield(name) {
				return
			}
		}
	})
	for i, a := range names {
		for _, b := range names[i:] {
			whole := lifted(t, fn, ints(append(slices.Clone(sets[a]), sets[b]...)...)).AppendAcc(nil, 0)
			for range 2 {
				merged := lifted(t, fn, ints(sets[a]...))
				if err := merged.Merge(0, lifted(t, fn, ints(sets[b]...)).AppendAcc(nil, 0)); err != nil {
					t.Fatal(err)
				}
				if got := merged.AppendAcc(nil, 0); string(got) != string(whole) {
					t.Errorf("%s with %s: %d bytes merged, %d at once", a, b, len(got), len(whole))
				}
				a, b = b, a
			}
		}
	}
}

func TestBitmapRangesAreCheckedInExtractAlone(t *testing.T) {
	for _, c := range []struct {
		bits  int
		value int64
		want  string
	}{
		{64, -1, "bitmap of a negative number, -1"},
		{64, math.MinInt64, "bitmap of a negative number, -9223372036854775808"},
		{32, -1, "bitmap of a negative number, -1"},
		{32, 1 << 32, "bitmap of 4294967296, which exceeds 32 bits"},
	} {
		fn := build(t, "bitmap", options("bits", c.bits), column.Of(column.Int64))
		col := lifted(t, fn, ints(5, c.value))
		if err := col.Extract(0, column.New(fn.Output())); err == nil || err.Error() != c.want {
			t.Errorf("%d bits: got %v, want %s", c.bits, err, c.want)
		}
		if err := fn.Validate(col.AppendAcc(nil, 0)); err != nil {
			t.Errorf("%d: %v", c.value, err)
		}
	}
}

func TestBitmapImagesKeepTheirBytes(t *testing.T) {
	checkImages(t, "testdata/bitmap.golden", []combine.Fn{
		build(t, "bitmap", combine.Params{}, column.Of(column.Int64)),
		build(t, "bitmap", options("bits", 32), column.Of(column.Int64)),
	}, 1, 3, 1000, 100_000)
}

func FuzzBitmap(f *testing.F) {
	fns := []combine.Fn{build(f, "bitmap", combine.Params{}, column.Of(column.Int64)), build(f, "bitmap", options("bits", 32), column.Of(column.Int64))}
	fuzzSketches(f, fns, first(0), first(1), first(100), ints(1, 5, 1<<20, 1<<40, -1), ints(1, 1<<17, 1<<18, 1<<19, 1<<20))
}
