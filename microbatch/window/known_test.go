package window

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
)

// runOf is a run of these keys.
func runOf(t testing.TB, keys [][]byte) *table.Run {
	t.Helper()
	fn, err := combine.Builtins()["count"].New(combine.Params{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shape := table.Shape{Keys: []column.Field{{Name: "k", Type: column.Of(column.String)}}, Fns: []combine.Fn{fn}}
	var out bytes.Buffer
	w, err := table.NewWriter(&out, shape, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := w.Append(key, [][]byte{{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := table.OpenBytes(out.Bytes(), shape)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestKnownKeysAreADictionary: a key has one group whatever came before, found
// by going through what is known or looked up, and all are in order.
func TestKnownKeysAreADictionary(t *testing.T) {
	walked, hashed, tied, shortened := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		k := newKnown()
		want := map[string]uint32{}
		many := rapid.SampledFrom([]int{20, 3000}).Draw(rt, "keys")
		for range rapid.IntRange(1, 6).Draw(rt, "runs") {
			form := rapid.SampledFrom([]string{"%d", "%05d", "a common beginning %d", "a common beginning %07d and end", "%07d and end", "%03d\x00\x00"}).Draw(rt, "form")
			var keys [][]byte
			n := rapid.SampledFrom([]int{1, 2, many}).Draw(rt, "records")
			from := rapid.IntRange(0, many).Draw(rt, "from")
			for i := range n {
				text := fmt.Sprintf(form, from+i*rapid.SampledFrom([]int{1, 3, 7}).Draw(rt, "gap")*n/100)
				if rapid.IntRange(0, 9).Draw(rt, "bare") == 0 {
					keys = append(keys, []byte(text)) // not as any tuple has it
				} else {
					keys = append(keys, tuple.AppendString(nil, text))
				}
			}
			slices.SortFunc(keys, bytes.Compare)
			keys = slices.CompactFunc(keys, bytes.Equal)
			run, common := runOf(t, keys), len(k.common)
			k.begin(run)
			if k.hashed {
				hashed++
			} else {
				walked++
			}
			for walk := run.Blocks(); walk.Next(); {
				list := walk.Block().Keys
				out := make([]uint32, len(list))
				k.find(list, out)
				for i, key := range list {
					g, there := want[string(key)]
					if !there {
						g = uint32(len(want))
						want[string(key)] = g
					}
					if out[i] != g || !bytes.Equal(k.keys.Bytes(g), key) {
						rt.Fatalf("%q is group %d, want %d", key, out[i], g)
					}
				}
			}
			if len(k.common) < common {
				shortened++
			}
			if k.ties > 0 {
				tied++
			}
			k.end(run)
			if len(k.groups) != len(want) || len(k.words) != len(want) || k.keys.Len() != len(want) {
				rt.Fatalf("%d groups, %d words, %d keys of %d", len(k.groups), len(k.words), k.keys.Len(), len(want))
			}
			for i := 1; i < len(k.groups); i++ {
				if bytes.Compare(k.keys.Bytes(k.groups[i-1]), k.keys.Bytes(k.groups[i])) >= 0 {
					rt.Fatalf("key %d is out of order", i)
				}
			}
		}
	})
	if walked == 0 || hashed == 0 || tied == 0 || shortened == 0 {
		t.Errorf("%d walked, %d looked up, %d with ties, %d with less in common: the test is too tame", walked, hashed, tied, shortened)
	}
}
