package microbatch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch"
)

// TestGuardsOnDocuments: a pane outside the limits is not published, the error
// says by how much, and the next one inside them is.
func TestGuardsOnDocuments(t *testing.T) {
	rows := func(n int) (out []string) {
		for i := range n {
			out = append(out, row(fmt.Sprint("k", i), "03:00", 1, "t"))
		}
		return out
	}
	for _, c := range []struct {
		name          string
		guards        microbatch.Guards
		first, second int
		refused       string
	}{
		{"too few", microbatch.Guards{MinDocuments: 3}, 4, 2, "document_count"},
		{"too many", microbatch.Guards{MaxDocuments: 4}, 4, 5, "document_count"},
		{"shrinks", microbatch.Guards{MaxShrink: 0.2}, 10, 7, "document_change"},
		{"grows", microbatch.Guards{MaxGrowth: 0.5}, 4, 7, "document_change"},
		{"at the limits", microbatch.Guards{MinDocuments: 2, MaxDocuments: 4, MaxShrink: 0.5, MaxGrowth: 0.5}, 4, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, benchOptions{change: func(s *microbatch.Settings) { s.Guards = c.guards }})
			b.put("03:00", "a.ndjson", rows(c.first)...)
			b.step("03:01", microbatch.Advanced)
			b.put("03:00", "a.ndjson", rows(c.second)...)
			if c.refused == "" {
				b.step("03:02", microbatch.Refined)
				return
			}
			r := b.step("03:02", microbatch.Failed)
			if !errors.Is(r.Err, microbatch.ErrGuard) || !strings.Contains(r.Err.Error(), c.refused) {
				t.Errorf("%v", r.Err)
			}
			if got := len(b.docs()); got != c.first {
				t.Errorf("%d documents are live, want the %d of before", got, c.first)
			}
			b.put("03:00", "a.ndjson", rows(c.first)...)
			b.put("03:01", "a.ndjson")
			b.step("03:03", microbatch.Advanced)
		})
	}
}
