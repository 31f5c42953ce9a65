package oracle

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// tiers are where a history's processes find the slices of those before them.
// Of four histories one has none, one a directory, one the bucket, and one both
// with damage done to them at every restart.
type tiers struct {
	directory, bucket, damage bool
	dir                       string
	damaged                   int

	mu   sync.Mutex
	seen map[string]int
}

// tiersOf are those of a seed; counts gets what became of slices when the
// history is over.
func tiersOf(t *testing.T, seed uint64, counts map[string]int) *tiers {
	t.Helper()
	x := &tiers{directory: seed%2 == 1, bucket: seed%4 >= 2, damage: seed%4 == 3, seen: map[string]int{}}
	t.Cleanup(func() {
		for what, n := range x.seen {
			counts["slices, "+what] += n
		}
	})
	return x
}

func (x *tiers) use(t *testing.T, set *microbatch.Settings) {
	t.Helper()
	if x.directory && x.dir == "" {
		x.dir = scratch(t)
	}
	if x.directory {
		set.SliceDir = shelf.NewDir(x.dir, 1<<20, zap.NewNop()).Scope(pipeline)
	}
	set.KeepSlices = x.bucket
	set.ObserveSlices = func(tier, outcome string, n int) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.seen[tier+" "+outcome] += n
	}
}

// spoil changes a byte of every other file and of every third object; every
// fourth of these is cut off instead.
func (x *tiers) spoil(t *testing.T, out *mem.Store) {
	t.Helper()
	if !x.damage {
		return
	}
	spoilt := func(b []byte) []byte {
		x.damaged++
		if at := x.damaged * 7919 % len(b); x.damaged%4 == 0 {
			b = b[:at]
		} else {
			b[at] ^= 0x10
		}
		return b
	}
	n := 0
	err := filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if n++; err != nil || n%2 == 0 || len(b) == 0 {
			return err
		}
		return os.WriteFile(path, spoilt(b), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range store.Pages(t.Context(), out, store.ListOptions{Prefix: "state/cache/"}) {
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range p.Objects {
			if i%3 > 0 || o.Size == 0 {
				continue
			}
			b, _, err := store.ReadAll(t.Context(), out, o.Key, o.Size, store.GetOptions{})
			if err == nil {
				_, err = store.PutBytes(t.Context(), out, o.Key, spoilt(b), store.PutOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
