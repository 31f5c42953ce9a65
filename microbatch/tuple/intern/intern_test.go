package intern_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/tuple/intern"
)

func TestIDsAreDenseAndStable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := intern.New()
		for round := range 3 {
			want := map[string]uint32{}
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, 400), 0, 300).Draw(rt, "keys") {
				key := fmt.Sprintf("%d/%d", k%(round+1), k)
				id, added := s.ID([]byte(key))
				known, ok := want[key]
				if added == ok || ok && id != known || !ok && id != uint32(len(want)) {
					rt.Fatalf("%s: id %d, added %v, known as %d %v", key, id, added, known, ok)
				}
				want[key] = id
			}
			if s.Len() != len(want) {
				rt.Fatalf("%d ids of %d", s.Len(), len(want))
			}
			for key, id := range want {
				if string(s.Bytes(id)) != key {
					rt.Fatalf("%d is %s, want %s", id, s.Bytes(id), key)
				}
			}
			s.Reset()
			if s.Len() != 0 {
				rt.Fatal("reset leaves ids")
			}
		}
	})
}

// TestManyAreFoundAsOneByOne: ids of many at once are those of one after the
// other, whatever is new, known or there twice.
func TestManyAreFoundAsOneByOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		many, each := intern.New(), intern.New()
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			var list [][]byte
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, 900), 0, 500).Draw(rt, "keys") {
				list = append(list, []byte(fmt.Sprint(k)[min(k%5, 1):]))
			}
			if len(list) > 0 && rapid.Bool().Draw(rt, "pushed") {
				key := []byte(fmt.Sprint("pushed", many.Len()))
				many.Push(key)
				each.Push(key)
				list[0] = key
			}
			out := make([]uint32, len(list))
			many.IDs(list, out)
			for i, b := range list {
				if id, _ := each.ID(b); id != out[i] || string(many.Bytes(id)) != string(b) {
					rt.Fatalf("%s: id %d among many, %d by itself", b, out[i], id)
				}
			}
			if many.Len() != each.Len() {
				rt.Fatalf("%d ids of %d", many.Len(), each.Len())
			}
		}
	})
}

// TestSortIsByBytes: few ids and many, some of them twice, with bytes in common
// and without.
func TestSortIsByBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := intern.New()
		prefix := rapid.SampledFrom([]string{"", "k", "a long prefix "}).Draw(rt, "prefix")
		n := rapid.SampledFrom([]int{1, 2, 40, 3000}).Draw(rt, "keys")
		var ids []uint32
		for range n {
			k := rapid.IntRange(0, 2*n).Draw(rt, "key")
			key := fmt.Sprint(prefix, k)
			if k%7 == 0 {
				key += "\x00\x00\x00\x00\x00\x00\x00\x00"[:k%9] + "tail"[:k%5]
			}
			id, _ := s.ID([]byte(key))
			ids = append(ids, id)
		}
		want := slices.Clone(ids)
		slices.SortFunc(want, func(a, b uint32) int { return bytes.Compare(s.Bytes(a), s.Bytes(b)) })
		s.Sort(ids)
		if !slices.Equal(ids, want) {
			rt.Fatalf("%v, want %v", ids, want)
		}
	})
}
