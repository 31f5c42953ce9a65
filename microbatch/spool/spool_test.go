package spool_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

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

// TestPiecesDoNotShow: whatever the sizes of the writes, the bytes come back,
// read at any place, viewed, written out or filled from a reader, and no more
// memory is held than was reserved.
func TestPiecesDoNotShow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		const all = 1 << 20
		budget := spool.NewBudget(rapid.SampledFrom([]int64{0, 100_000, all}).Draw(rt, "budget"))
		had := budget.Left()
		s := spool.New(t.TempDir(), budget)
		var want []byte
		for range rapid.IntRange(0, 12).Draw(rt, "writes") {
			b := make([]byte, rng.IntN([]int{10, 3000, 20_000, 90_000}[rng.IntN(4)]))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			if len(want)+len(b) > all/2 {
				break
			}
			want = append(want, b...)
			if rng.IntN(3) > 0 {
				if _, err := s.Write(b); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			most := int64(len(b)) + rng.Int64N(2)*1000
			if n, err := s.Fill(iotest.HalfReader(bytes.NewReader(b)), most); err != nil || n != int64(len(b)) {
				rt.Fatalf("filled %d of %d: %v", n, len(b), err)
			}
			if budget.Left() < 0 {
				rt.Fatalf("%d bytes beyond the budget", -budget.Left())
			}
		}
		d, err := s.Seal()
		if err != nil {
			rt.Fatal(err)
		}
		var out bytes.Buffer
		if n, err := d.WriteTo(&out); err != nil || n != d.Size() || !bytes.Equal(out.Bytes(), want) {
			rt.Fatalf("%d of %d bytes written: %v", n, len(want), err)
		}
		if d.InMemory() > had-budget.Left() {
			rt.Errorf("%d bytes in memory, %d reserved", d.InMemory(), had-budget.Left())
		}
		for range 20 {
			off := rng.IntN(len(want) + 1)
			n := rng.IntN(len(want) - off + 1)
			got := make([]byte, n)
			if _, err := d.ReadAt(got, int64(off)); err != nil || !bytes.Equal(got, want[off:off+n]) {
				rt.Fatalf("%d bytes at %d of %d: %v", n, off, len(want), err)
			}
			if v := d.View(int64(off), int64(n)); v != nil && !bytes.Equal(v, got) {
				rt.Fatalf("%d bytes viewed at %d of %d", n, off, len(want))
			}
		}
		d.Close()
		if budget.Left() != had {
			rt.Errorf("%d bytes are left of a budget of %d", budget.Left(), had)
		}
	})
}

// TestAWriteStaysInOnePiece: what was written at once is viewed at once.
func TestAWriteStaysInOnePiece(t *testing.T) {
	s := spool.New(t.TempDir(), nil)
	at := int64(0)
	var pieces []int64
	for i := range 20 {
		n, err := s.Write(make([]byte, []int{100, 70_000 + i*1000}[i%2]))
		if err != nil {
			t.Fatal(err)
		}
		pieces, at = append(pieces, at), at+int64(n)
	}
	d, err := s.Seal()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i, from := range append(pieces, at)[1:] {
		if n := from - pieces[i]; n >= 70_000 && d.View(pieces[i], n) == nil {
			t.Errorf("the %d bytes at %d are in pieces", n, pieces[i])
		}
	}
	if d.View(0, d.Size()+1) != nil || d.View(-1, 1) != nil || d.View(1, 1<<62) != nil {
		t.Error("what is not there was shown")
	}
}

// TestFillTakesWhatIsThere: a size that is no more than a claim takes no memory,
// and a reader that breaks off is told from one that ends.
func TestFillTakesWhatIsThere(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := spool.New(t.TempDir(), nil)
	defer s.Abort()
	if n, err := s.Fill(bytes.NewReader(make([]byte, 100_000)), 1<<40); n != 100_000 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes taken", took)
	}
	for _, broken := range []error{io.ErrUnexpectedEOF, io.ErrClosedPipe} {
		if _, err := s.Fill(io.MultiReader(bytes.NewReader([]byte("x")), iotest.ErrReader(broken)), 100); !errors.Is(err, broken) {
			t.Errorf("%v, want %v", err, broken)
		}
	}
	none := spool.New("/nowhere/at/all", spool.NewBudget(0))
	if _, err := none.Fill(bytes.NewReader([]byte("x")), 1); err == nil {
		t.Error("filled nothing")
	}
	if _, err := none.Seal(); err == nil {
		t.Error("sealed after an error")
	}
}
