package combine

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestShortlistsKnowWhatTheyHold: the bytes that they report are those of
// their lists, whatever was done.
func TestShortlistsKnowWhatTheyHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := shortlists{limit: rapid.IntRange(1, 9).Draw(rt, "limit"), compare: func(a, b entry) int { return bytes.Compare(a.b, b.b) }}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"grow", "insert", "insert", "insert", "drop", "clear", "reset"}).Draw(rt, "what") {
			case "grow":
				s.Grow(rapid.IntRange(0, 20).Draw(rt, "groups"))
			case "insert":
				s.Grow(1)
				s.insert(uint32(rapid.IntRange(0, s.Len()-1).Draw(rt, "group")), entry{b: rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(rt, "entry")})
			case "drop":
				for g := range s.of {
					if n := len(s.of[g]); n > 0 {
						s.drop(uint32(g), n-1)
						break
					}
				}
			case "clear":
				if s.Len() > 0 {
					s.Clear(uint32(rapid.IntRange(0, s.Len()-1).Draw(rt, "group")))
				}
			case "reset":
				s.Reset()
			}
			want := int64(24*cap(s.of) + cap(s.arena))
			for _, l := range s.of {
				want += int64(16 * cap(l))
			}
			if got := s.Bytes(); got != want {
				rt.Fatalf("%d bytes are reported, %d held", got, want)
			}
		}
	})
}
