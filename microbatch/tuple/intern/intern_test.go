package intern_test

import (
	"fmt"
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
