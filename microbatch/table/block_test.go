package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestABlockIsReadIntoAnyOther: whatever a block had before, of a run of as many
// fns or of another, what is read into it is what a cursor reads.
func TestABlockIsReadIntoAnyOther(t *testing.T) {
	shapes := []Shape{threeCounts(t), threeCounts(t)}
	shapes[1].Fns = shapes[1].Fns[:1]
	run := func(seed uint64, rows int) *Run {
		shape, rng := shapes[seed%2], rand.New(rand.NewPCG(seed, 1))
		var out bytes.Buffer
		w, err := NewWriter(&out, shape, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			accs := make([][]byte, len(shape.Fns))
			for j := range accs {
				if j == 0 || rng.IntN(3) > 0 {
					accs[j] = bytes.Repeat([]byte{byte(rng.IntN(9))}, 1+rng.IntN(60))
				}
			}
			if err := w.Append(fmt.Appendf(nil, "key %06d", i), accs); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(out.Bytes(), shape)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	runs := []*Run{run(0, 1), run(1, 5000), run(2, 5000), run(3, 700), run(4, 0), run(5, 1)}
	most := 0
	rapid.Check(t, func(rt *rapid.T) {
		blocks := make([]Block, 2)
		for range rapid.IntRange(1, 5).Draw(rt, "walks") {
			r := rapid.SampledFrom(runs).Draw(rt, "run")
			most = max(most, len(r.blocks))
			walk, c := r.Blocks(), r.Cursor()
			for {
				b := &blocks[rapid.IntRange(0, 1).Draw(rt, "block")]
				if !walk.Into(b) {
					break
				}
				if len(b.Accs) != r.fns || len(b.Keys) == 0 || b.Bytes() <= 0 {
					rt.Fatalf("%d columns of %d fns, %d keys, %d bytes", len(b.Accs), r.fns, len(b.Keys), b.Bytes())
				}
				for i, key := range b.Keys {
					if !c.Next() || !bytes.Equal(c.Key(), key) {
						rt.Fatalf("key %q, a cursor has %q", key, c.Key())
					}
					for f := range b.Accs {
						if !bytes.Equal(c.Acc(f), b.Accs[f].At(i)) {
							rt.Fatalf("key %q has %x of fn %d, of a cursor %x", key, b.Accs[f].At(i), f, c.Acc(f))
						}
					}
				}
			}
			if err := walk.Err(); err != nil || c.Next() {
				rt.Fatalf("rows are left over, or %v", err)
			}
		}
	})
	if most < 3 {
		t.Errorf("runs have at most %d blocks: the test is too tame", most)
	}
}
