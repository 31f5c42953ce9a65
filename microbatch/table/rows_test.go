package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

func threeCounts(t testing.TB) Shape {
	t.Helper()
	s := Shape{Keys: []column.Field{{Name: "k", Type: column.Of(column.Bytes)}}}
	for range 3 {
		fn, err := combine.Builtins()["count"].New(combine.Params{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Fns = append(s.Fns, fn)
	}
	return s
}

// frame makes a run of one block, with valid digests; size is what the block is
// said to have.
func frame(s Shape, block []byte, size, n int, first []byte) []byte {
	h := s.header()
	out := append([]byte(magic), binary.LittleEndian.AppendUint32(nil, uint32(len(h)))...)
	out = appendSum(append(out, h...), h)
	foot := binary.AppendUvarint(nil, uint64(n))
	foot = append(foot, 1)
	foot = binary.AppendUvarint(foot, uint64(len(block)))
	foot = binary.AppendUvarint(foot, uint64(size))
	foot = binary.AppendUvarint(foot, uint64(n))
	foot = appendString(foot, first)
	foot = appendSum(foot, block)
	if size > len(block) {
		foot = appendSum(foot, block)
	}
	sum := sha256.Sum256(appendSum(h, block))
	foot = append(foot, sum[:]...)
	out = append(out, block...)
	out = append(out, foot...)
	out = appendSum(out, foot)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(foot)))
	return append(out, magic...)
}

// FuzzRows goes past the digests: a block that a cursor accepts is packed into
// one that has the same rows, and into the same bytes if Verify accepts it too.
func FuzzRows(f *testing.F) {
	shape := threeCounts(f)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		r := randomRows(rng, 1+rng.IntN(30))
		block, err := new(packer).pack(nil, &r, len(r.at))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(block, uint16(len(r.at)), bytes.Clone(r.key(0)))
	}
	f.Fuzz(func(t *testing.T, block []byte, n uint16, first []byte) {
		run, err := OpenBytes(frame(shape, block, len(block), int(n), first), shape)
		if err != nil {
			return
		}
		var bufs blockBufs
		var u, again unpacked
		if _, err := run.unpack(0, &bufs, &u); err != nil {
			if c := run.Cursor(); c.Next() || c.Err() == nil {
				t.Fatalf("refused with %v, and yet walked", err)
			}
			return
		}
		var last []byte
		rows := 0
		for c := run.Cursor(); c.Next(); rows++ {
			if rows > 0 && (c.Shared() != shared(last, c.Key()) || bytes.Compare(last, c.Key()) >= 0) {
				t.Fatalf("%x shares %d with %x", c.Key(), c.Shared(), last)
			}
			last = append(last[:0], c.Key()...)
		}
		r := u.rows()
		made, err := new(packer).pack(nil, &r, u.n)
		if err != nil || rows != u.n {
			t.Fatalf("accepted %d of %d rows, refused again: %v", rows, u.n, err)
		}
		if verified := run.Verify() == nil; verified != bytes.Equal(made, block) {
			t.Fatalf("verified: %t, accepted %x, written %x", verified, block, made)
		}
		if err := again.unpack(made, 3); err != nil {
			t.Fatal(err)
		}
		if back := again.rows(); !equalRows(&back, &r) {
			t.Fatalf("accepted %x, and written other rows: %x", block, made)
		}
	})
}

func equalRows(a, b *rows) bool {
	return bytes.Equal(a.keys, b.keys) && slices.Equal(a.at, b.at) &&
		slices.EqualFunc(a.accs, b.accs, bytes.Equal) && slices.EqualFunc(a.ends, b.ends, slices.Equal)
}

// randomRows are rows of three fns, some of whose accumulators look like others.
func randomRows(rng *rand.Rand, n int) rows {
	var keys [][]byte
	for range n {
		k := bytes.Repeat([]byte("prefix"), rng.IntN(4))
		for range rng.IntN(5) {
			k = append(k, byte(rng.IntN(4))*85)
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	r := newRows(3)
	longest, alike := []int{2, 20, 300}[rng.IntN(3)], rng.IntN(3)
	for _, k := range keys {
		accs := make([][]byte, 3)
		for f := range accs {
			if rng.IntN(5) == 0 {
				continue
			}
			for range 1 + rng.IntN(longest) {
				accs[f] = append(accs[f], byte(rng.IntN(256)))
			}
			if g := f - 1 - rng.IntN(2); g >= 0 && alike > 0 {
				accs[f] = append(bytes.Clone(accs[g][:rng.IntN(len(accs[g])+1)]), accs[f]...)
			}
		}
		if len(accs[0])+len(accs[1])+len(accs[2]) == 0 {
			accs[2] = []byte{7}
		}
		r.add(k, accs)
	}
	return r
}

// TestBlocksComeBack: any rows, packed and unpacked, are the rows, in memory that
// had others before.
func TestBlocksComeBack(t *testing.T) {
	var p packer
	var u unpacked
	beside := 0
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		r := randomRows(rng, rapid.IntRange(1, 400).Draw(rt, "rows"))
		n := len(r.at)
		if full := r.block(); full > 0 {
			n = full
		}
		block, err := p.pack(nil, &r, n)
		if err != nil {
			rt.Fatal(err)
		}
		if err := u.unpack(block, 3); err != nil {
			rt.Fatal(err)
		}
		for _, plain := range u.plain {
			if !plain {
				beside++
			}
		}
		back, left := u.rows(), rows{}
		whole := newRows(3)
		for i := range len(r.at) {
			var accs [][]byte
			for f := range r.accs {
				accs = append(accs, r.accs[f][from(r.ends[f], i):r.ends[f][i]])
			}
			if i < n {
				whole.add(r.key(i), accs)
				continue
			}
			if left.accs == nil {
				left = newRows(3)
			}
			left.add(r.key(i), accs)
		}
		if !equalRows(&back, &whole) {
			rt.Fatalf("%d rows came back otherwise", n)
		}
		for i := range n {
			if i > 0 && int(u.same[i]) != shared(u.key(i-1), u.key(i)) {
				rt.Fatalf("%x shares not %d bytes with %x", u.key(i), u.same[i], u.key(i-1))
			}
		}
		if r.drop(n); len(r.at) > 0 && !equalRows(&r, &left) {
			rt.Fatal("other rows are left")
		}
	})
	if beside == 0 {
		t.Error("no fn stood beside another: the test reaches too little")
	}
}

// TestLengthsComeBack: in the fewest bits, and in no other form.
func TestLengthsComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.SampledFrom([]int{0, 1, 3, 4, 15, 16, 255, 256, 65535, 65536, MaxBlock}).Draw(rt, "most")
		least := rapid.IntRange(0, 300).Draw(rt, "least")
		if least > MaxBlock-most {
			least = 0
		}
		in := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) uint32 { return uint32(least + rapid.IntRange(0, most).Draw(rt, "n")) }), 1, 40).Draw(rt, "lengths")
		b := appendLengths(nil, in)
		out, sum := make([]uint32, len(in)), uint64(0)
		for _, l := range in {
			sum += uint64(l)
		}
		r := bytesReader{b: b}
		if got := r.lengths(out); r.err != nil || got != sum || !slices.Equal(in, out) || len(r.b) > 0 {
			rt.Fatalf("%v became %v, sum %d of %d: %v", in, out, got, sum, r.err)
		}
		if bits := int(b[0]); bits > 0 && bits < 32 {
			wider := binary.AppendUvarint([]byte{byte(2 * bits)}, uint64(slices.Min(in)))
			for i := 0; i < packed(len(in), 2*bits); i++ {
				wider = append(wider, 0)
			}
			for i, l := range in {
				x := uint64(l-slices.Min(in)) << (i * 2 * bits % 8)
				for j := range 4 {
					if at := len(wider) - packed(len(in), 2*bits) + i*2*bits/8 + j; at < len(wider) {
						wider[at] |= byte(x >> (8 * j))
					}
				}
			}
			if r = (bytesReader{b: wider}); r.lengths(out) > 0 && r.err == nil {
				rt.Fatalf("%v is accepted in %d bits as well as in %d", in, 2*bits, bits)
			}
		}
	})
}

// blockOf is a block of the sections.
func blockOf(n uint32, sections ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, n)
	for _, s := range sections {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	}
	return append(b, slices.Concat(sections...)...)
}

func TestForeignBlocksAreRefused(t *testing.T) {
	shape := threeCounts(t)
	one, none := []byte{formPlain, 0, 1, 5}, []byte{formPlain, 0, 0}
	long := slices.Concat([]byte{formPlain, 0, 9}, []byte("accumulat"))
	key := []byte{0, 0, 0, 1, 'a'}
	two := []byte{0, 0, 0, 1, 'a', 'b'}
	tests := []struct {
		name  string
		block []byte
		n     int
		want  string
	}{
		{"good", blockOf(1, key, one, none, none), 1, ""},
		{"two rows", blockOf(2, two, []byte{formPlain, 0, 1, 5, 6}, none, none), 2, ""},
		{"beside", blockOf(1, key, long, []byte{formBeside, 0, 0, 7, 0, 2, 'x', 'y'}, none), 1, ""},
		{"first key shares", blockOf(1, []byte{0, 1, 0, 0}, one, none, none), 1, "keys are out of order or a prefix is not maximal"},
		{"no accumulator", blockOf(1, key, none, none, none), 1, "row has no accumulator"},
		{"equal keys", blockOf(2, []byte{0, 0, 0, 1, 'a', 'a'}, []byte{formPlain, 0, 1, 5, 5}, none, none), 2, "keys are out of order or a prefix is not maximal"},
		{"falling keys", blockOf(2, []byte{0, 0, 0, 1, 'b', 'a'}, []byte{formPlain, 0, 1, 5, 5}, none, none), 2, "keys are out of order or a prefix is not maximal"},
		{"prefix too short", blockOf(2, []byte{0, 0, 1, 1, 0b10, 'a', 'a', 'b'}, []byte{formPlain, 0, 1, 5, 5}, none, none), 2, "keys are out of order or a prefix is not maximal"},
		{"lengths in too many bits", blockOf(2, two, []byte{formPlain, 1, 1, 0, 5, 6}, none, none), 2, "lengths are not minimal or too large"},
		{"the least too small", blockOf(2, two, []byte{formPlain, 1, 0, 0b11, 5, 6}, none, none), 2, "lengths are not minimal or too large"},
		{"bits left", blockOf(2, two, []byte{formPlain, 1, 1, 0b110, 5, 6, 7}, none, none), 2, "lengths are not minimal or too large"},
		{"seven bits", blockOf(1, key, []byte{formPlain, 7, 1, 0, 5}, none, none), 1, "lengths are not minimal or too large"},
		{"claims a lot", blockOf(1, key, []byte{formPlain, 0, 0xff, 0xff, 0xff, 0x7f, 5}, none, none), 1, "lengths are not minimal or too large"},
		{"claims too much", blockOf(1, key, []byte{formPlain, 0, 0xff, 0xff, 0xff, 0x1f, 5}, none, none), 1, "rows are larger than a block's"},
		{"a block too long", blockOf(2, []byte{0, 0, 0, 0x80, 0x80, 8, 'a', 'b'}, []byte{formPlain, 0, 1, 5, 6}, none, none), 2, "rows are larger than a block's"},
		{"bytes left", append(blockOf(1, key, one, none, none), 9), 1, "bytes are left over"},
		{"bytes left of keys", blockOf(1, append(slices.Clone(key), 'b'), one, none, none), 1, "bytes are left over"},
		{"bytes left of accumulators", blockOf(1, key, append(slices.Clone(one), 5), none, none), 1, "cut short or not minimal"},
		{"bytes left of others", blockOf(1, key, long, []byte{formBeside, 0, 0, 7, 0, 1, 'x', 'y'}, none), 1, "bytes are left over"},
		{"no rows", blockOf(0, nil, nil, nil, nil), 1, "rows are larger than a block's"},
		{"too many rows", blockOf(blockRows+1, key, one, none, none), 1, "rows are larger than a block's"},
		{"cut", blockOf(1, key, one)[:9], 1, "cut short or not minimal"},
		{"section missing", blockOf(1, key, one, none), 1, "cut short or not minimal"},
		{"another form", blockOf(1, key, one, []byte{2, 0, 0}, none), 1, "form 2 of fn 1 is unknown"},
		{"beside itself", blockOf(1, key, one, []byte{formBeside, 1, 0, 0, 0, 0}, none), 1, "fn 1 does not stand beside fn 1"},
		{"beside one beside", blockOf(1, key, long, []byte{formBeside, 0, 0, 7, 0, 0}, []byte{formBeside, 1, 0, 7, 0, 0}), 1, "fn 2 does not stand beside fn 1"},
		{"shares more than there is", blockOf(1, key, long, []byte{formBeside, 0, 0, 10, 0, 0}, none), 1, "cut short or not minimal"},
		{"shares more than it says", blockOf(1, key, long, []byte{formBeside, 0, 0, 7, 0, 1, 'a'}, none), 1, "a prefix is not maximal"},
		{"other rows than the index", blockOf(1, key, one, none, none), 2, "rows or the first key differ from the index"},
		{"another first key", blockOf(1, []byte{0, 0, 0, 1, 'b'}, one, none, none), 1, "rows or the first key differ from the index"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, err := OpenBytes(frame(shape, tt.block, len(tt.block), tt.n, []byte("a")), shape)
			if err != nil {
				t.Fatal(err)
			}
			c := run.Cursor()
			for c.Next() {
			}
			want := ""
			if tt.want != "" {
				want = "run block 0: " + tt.want
			}
			if got := fmt.Sprint(c.Err()); c.Err() == nil && want != "" || c.Err() != nil && got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			b := run.Blocks()
			for b.Next() {
			}
			if fmt.Sprint(b.Err()) != fmt.Sprint(c.Err()) {
				t.Errorf("block by block %v, row by row %v", b.Err(), c.Err())
			}
		})
	}
}

// TestVerifyKnowsTheOneForm: what can be read and no writer writes.
func TestVerifyKnowsTheOneForm(t *testing.T) {
	shape := threeCounts(t)
	none := []byte{formPlain, 0, 0}
	key, long := []byte{0, 0, 0, 1, 'a'}, slices.Concat([]byte{formPlain, 0, 9}, []byte("accumulat"))
	tests := []struct {
		name  string
		block []byte
		want  string
	}{
		{"the one", blockOf(1, key, long, []byte{formBeside, 0, 0, 7, 0, 2, 'x', 'y'}, none), ""},
		{"beside for too little", blockOf(1, key, long, []byte{formBeside, 0, 0, 2, 0, 8, 'x', 'y', 'x', 'y', 'x', 'y', 'x', 'y'}, none), "run block 0: it is not in canonical form"},
		{"not beside", blockOf(1, key, long, long, none), "run block 0: it is not in canonical form"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, err := OpenBytes(frame(shape, tt.block, len(tt.block), 1, []byte("a")), shape)
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Verify(); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestHostileClaimsTakeNoMemory: a short file that claims a large block is
// refused for what it claims or what it lacks, within the bound.
func TestHostileClaimsTakeNoMemory(t *testing.T) {
	shape := threeCounts(t)
	key, one, none := []byte{0, 0, 0, 1, 'a'}, []byte{formPlain, 0, 1, 5}, []byte{formPlain, 0, 0}
	good := blockOf(1, key, one, none, none)
	index := frame(shape, good, len(good), 1, []byte("a"))
	binary.LittleEndian.PutUint32(index[len(index)-tailBytes:], math.MaxUint32)
	tests := []struct {
		name string
		run  []byte
	}{
		{"an index of more than the file", index},
		{"more than a block has", frame(shape, good, MaxBlock+1, 1, []byte("a"))},
		{"compressed from nothing", frame(shape, good[:8], 1<<20, 1, []byte("a"))},
		{"a long key", frame(shape, blockOf(1, []byte{0, 0, 0, 0x80, 0x80, 0x80, 8, 'a'}, one, none, none), 33, 1, []byte("a"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run, err := OpenBytes(tt.run, shape)
			if err == nil {
				if c := run.Cursor(); c.Next() || c.Err() == nil {
					t.Fatal("the claim was believed")
				}
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
				t.Errorf("%d bytes taken", n)
			}
		})
	}
}

// TestDigestsAreOfTheBlocks: the content's SHA-256 is over what the blocks'
// digests are, so that it stands for the bytes.
func TestDigestsAreOfTheBlocks(t *testing.T) {
	shape := threeCounts(t)
	var out bytes.Buffer
	w, err := NewWriter(&out, shape, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		if err := w.Append(binary.BigEndian.AppendUint32(nil, uint32(i)), [][]byte{{1}, nil, {byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	run, err := OpenBytes(out.Bytes(), shape)
	if err != nil {
		t.Fatal(err)
	}
	sums := shape.header()
	for _, b := range run.blocks {
		sums = binary.LittleEndian.AppendUint64(sums, xxhash.Sum64(out.Bytes()[b.off:b.off+b.stored]))
	}
	if len(run.blocks) != 3 || sha256.Sum256(sums) != s.SHA256 || s != run.Summary() {
		t.Errorf("%d blocks, %x, want %x", len(run.blocks), s.SHA256, sha256.Sum256(sums))
	}
}
