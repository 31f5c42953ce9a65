package mem

import (
	"fmt"
	"slices"
	"testing"
)

// TestIndexOverChunks inserts, seeks and deletes over many chunks, in several orders.
func TestIndexOverChunks(t *testing.T) {
	const n = 20_011 // prime
	for _, c := range []struct {
		name string
		step int
	}{{"ascending", 1}, {"descending", n - 1}, {"scattered", 7919}} {
		t.Run(c.name, func(t *testing.T) {
			var x index
			key := func(i int) string { return fmt.Sprintf("%05d", i) }
			for i := range n {
				x.insert(key(i * c.step % n))
			}
			walk := func() (l []string) {
				for ch, at := x.seek(""); ; ch, at = x.next(ch, at) {
					k, ok := x.get(ch, at)
					if !ok {
						return l
					}
					l = append(l, k)
				}
			}
			l := walk()
			if len(l) != n || !slices.IsSorted(l) {
				t.Fatalf("%d keys, sorted %v", len(l), slices.IsSorted(l))
			}
			for _, ch := range x.chunks {
				if len(ch) == 0 || len(ch) > chunkMax {
					t.Fatalf("a chunk of %d", len(ch))
				}
			}
			for i := range n {
				if k, ok := x.get(x.seek(key(i))); !ok || k != key(i) {
					t.Fatalf("seek %s: %s", key(i), k)
				}
				if k, ok := x.get(x.seek(key(i) + "-")); ok != (i < n-1) || ok && k != key(i+1) {
					t.Fatalf("seek behind %s: %s", key(i), k)
				}
			}
			for i := range n {
				x.delete(key(i * 31 % n))
			}
			if len(walk()) != 0 || len(x.chunks) != 0 {
				t.Fatalf("%d chunks left", len(x.chunks))
			}
		})
	}
}
