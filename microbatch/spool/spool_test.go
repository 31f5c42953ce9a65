package spool_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/spool"
)

func fill(t *testing.T, s *spool.Spool, n int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var all []byte
	for len(all) < n {
		b := make([]byte, min(1+r.IntN(30_000), n-len(all)))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if _, err := s.Write(b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func TestBytesComeBackFromMemoryAndFile(t *testing.T) {
	for _, c := range []struct {
		name     string
		budget   int64
		bytes    int
		inMemory bool
	}{
		{"empty", 1 << 20, 0, false}, {"memory", 1 << 20, 500_000, true}, {"file", 1 << 20, 3_000_000, false}, {"no budget at all", 0, 10, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			budget := spool.NewBudget(c.budget)
			s := spool.New(t.TempDir(), budget)
			want := fill(t, s, c.bytes)
			d, err := s.Seal()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes came back of %d, %v", len(got), len(want), err)
			}
			if (d.InMemory() > 0) != c.inMemory {
				t.Errorf("%d bytes are in memory", d.InMemory())
			}
			d.Close()
			if budget.Left() != c.budget || budget.OnDisk() != 0 {
				t.Errorf("after closing %d bytes of %d are left, %d on disk", budget.Left(), c.budget, budget.OnDisk())
			}
		})
	}
}

func TestInvariant1SpoolsShareOneBudget(t *testing.T) {
	budget := spool.NewBudget(1 << 20)
	dir := t.TempDir()
	var held int64
	var all []*spool.Data
	for range 20 {
		s := spool.New(dir, budget)
		fill(t, s, 200_000)
		d, err := s.Seal()
		if err != nil {
			t.Fatal(err)
		}
		all, held = append(all, d), held+d.InMemory()
	}
	if held == 0 || held > 1<<20 || budget.Left() < 0 || budget.OnDisk() == 0 {
		t.Errorf("%d bytes are held in memory, %d left of the budget, %d on disk", held, budget.Left(), budget.OnDisk())
	}
	for _, d := range all {
		d.Close()
	}
}

func TestInvariant2NoNameIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	s := spool.New(dir, spool.NewBudget(0))
	fill(t, s, 1000)
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 0 {
		t.Errorf("%v in the directory, %v", names, err)
	}
	s.Abort()
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("an aborted spool takes bytes")
	}
}

func TestCollectedDataGivesItsMemoryBack(t *testing.T) {
	budget := spool.NewBudget(1 << 20)
	func() {
		s := spool.New(t.TempDir(), budget)
		fill(t, s, 500_000)
		if _, err := s.Seal(); err != nil {
			t.Fatal(err)
		}
	}()
	for range 100 {
		if runtime.GC(); budget.Left() == 1<<20 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d bytes are left of %d after collection", budget.Left(), 1<<20)
}

func TestNoDirectoryIsAnError(t *testing.T) {
	s := spool.New("/nowhere/at/all", spool.NewBudget(0))
	if _, err := s.Write([]byte("x")); err == nil {
		t.Fatal("written to nowhere")
	}
	if _, err := s.Seal(); err == nil {
		t.Error("sealed after an error")
	}
}

func TestSmallSpoolsGoToAFile(t *testing.T) {
	for _, c := range []struct {
		name     string
		budget   *spool.Budget
		bytes    int
		inMemory bool
	}{
		{"few", nil, 100_000, true},
		{"many", nil, 100_001, false},
		{"many, of a budget with room", spool.NewBudget(1 << 20), 100_001, false},
		{"few, of a budget without", spool.NewBudget(10), 100_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := spool.NewSmall(dir, c.budget, 100_000)
			want := fill(t, s, c.bytes)
			if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
				t.Errorf("%d files have a name, %v", len(files), err)
			}
			d, err := s.Seal()
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			got, err := io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
			if err != nil || !bytes.Equal(got, want) || (d.InMemory() > 0) != c.inMemory {
				t.Errorf("%d bytes came back of %d, %d in memory, %v", len(got), len(want), d.InMemory(), err)
			}
		})
	}
}

// TestGrowIsNoMoreThanAWord: room that is announced changes neither the bytes nor the bounds.
func TestGrowIsNoMoreThanAWord(t *testing.T) {
	budget := spool.NewBudget(1 << 20)
	for _, announced := range []int{0, 1000, 900_000, 1 << 30} {
		s := spool.New(t.TempDir(), budget)
		s.Grow(announced)
		if _, err := s.Write([]byte("one")); err != nil {
			t.Fatal(err)
		}
		s.Grow(announced)
		if _, err := s.Write([]byte("two")); err != nil {
			t.Fatal(err)
		}
		if left := budget.Left(); left < 0 {
			t.Errorf("%d announced: the budget is exceeded by %d", announced, -left)
		}
		d, err := s.Seal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(d.Section())
		if err != nil || string(got) != "onetwo" || d.InMemory() != 6 {
			t.Errorf("%d announced: %q, %d bytes in memory, %v", announced, got, d.InMemory(), err)
		}
		d.Close()
		if budget.Left() != 1<<20 {
			t.Errorf("%d announced: %d bytes are left of the budget", announced, budget.Left())
		}
	}
}

// TestGrowTakesWhatIsAnnounced: bytes, not so many blocks.
func TestGrowTakesWhatIsAnnounced(t *testing.T) {
	const announced = 8 << 20
	s := spool.New(t.TempDir(), spool.NewBudget(2*announced))
	defer s.Abort()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.Grow(announced)
	if _, err := s.Write(make([]byte, announced)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 3*announced {
		t.Errorf("%d bytes were allocated for %d", took, announced)
	}
}
