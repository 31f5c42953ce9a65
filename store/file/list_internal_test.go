package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/deltad/deltad/store"
)

// TestListingReadsOnlyWhatIsInRange counts the directories that listings open in a tree of two years of hours with some minutes each.
func TestListingReadsOnlyWhatIsInRange(t *testing.T) {
	root := t.TempDir()
	for y := range 2 {
		for m := range 12 {
			for d := range 3 {
				for h := range 4 {
					for _, min := range []int{0, 30} {
						dir := filepath.Join(root, fmt.Sprintf("p/%d/%02d/%02d/%02d/%02d", 2025+y, m+1, d+1, h, min))
						if err := os.MkdirAll(dir, 0o755); err != nil {
							t.Fatal(err)
						}
						if err := os.WriteFile(filepath.Join(dir, "part"), nil, 0o644); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
	}
	for _, c := range []struct {
		name    string
		o       store.ListOptions
		entries int
		most    int
	}{
		{name: "newest hour by start-after", o: store.ListOptions{Prefix: "p/", StartAfter: "p/2026/12/03/03/00/zzz"}, entries: 1, most: 7},
		{name: "one day by prefix", o: store.ListOptions{Prefix: "p/2025/07/02/"}, entries: 8, most: 1 + 4 + 8},
		{name: "one page of the middle", o: store.ListOptions{Prefix: "p/", StartAfter: "p/2025/07/02/", MaxKeys: 3}, entries: 3, most: 5 + 6 + 2},
		{name: "years", o: store.ListOptions{Prefix: "p/", Delimiter: "/"}, entries: 2, most: 1 + 2*5},
		{name: "months after one", o: store.ListOptions{Prefix: "p/2026/", Delimiter: "/", StartAfter: store.After("p/2026/10/")}, entries: 2, most: 1 + 2*4},
		{name: "behind everything", o: store.ListOptions{Prefix: "p/", StartAfter: "p/2027/"}, entries: 0, most: 1},
		{name: "an absent year", o: store.ListOptions{Prefix: "p/2020/"}, entries: 0, most: 0},
		{name: "a partial name", o: store.ListOptions{Prefix: "p/2026/1", Delimiter: "/"}, entries: 3, most: 1 + 3*4},
	} {
		w := &walk{ctx: t.Context(), o: c.o, after: c.o.StartAfter}
		if err := w.from(root); err != nil && !errors.Is(err, errStop) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if w.n != c.entries {
			t.Errorf("%s: %d entries, want %d", c.name, w.n, c.entries)
		}
		if w.reads > c.most {
			t.Errorf("%s: read %d directories, want at most %d", c.name, w.reads, c.most)
		}
	}
}
