package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// disk is a file in memory on a disk of so many bytes.
type disk struct {
	room  *int64
	bytes []byte
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(d.bytes).ReadAt(p, off)
}

func (d *disk) WriteAt(b []byte, off int64) (int, error) {
	end := off + int64(len(b))
	if more := end - int64(len(d.bytes)); more > 0 {
		if more > *d.room {
			return 0, &fs.PathError{Op: "write", Err: syscall.ENOSPC}
		}
		*d.room -= more
		d.bytes = append(d.bytes, make([]byte, more)...)
	}
	return copy(d.bytes[off:end], b), nil
}

func (d *disk) Close() error {
	*d.room += int64(len(d.bytes))
	d.bytes = nil
	return nil
}

// TestInvariant4AFullDiskFailsLast: whatever a disk has room for, and however the
// bytes come, they come back or the spool says that the disk is full; memory stays
// within twice the budget, and all of it is given back.
func TestInvariant4AFullDiskFailsLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.Int64Range(0, 2<<20).Draw(t, "memory")
		room := rapid.Int64Range(0, 2<<20).Draw(t, "room")
		size := rapid.IntRange(0, 4<<20).Draw(t, "size")
		most := rapid.SampledFrom([]int{0, 0, 1 << 17}).Draw(t, "most")
		lead := rapid.SampledFrom([]int{0, 1, batch - 1, batch}).Draw(t, "lead")
		step := rapid.SampledFrom([]int{1 << 12, 45 << 10, 300 << 10, 1 << 20}).Draw(t, "step")
		seed := rapid.Uint64().Draw(t, "seed")
		before := room
		budget := NewBudget(memory)
		s := NewSmall("", budget, most)
		s.Lead(func() int { return lead })
		s.create = func(string) (file, error) { return &disk{room: &room}, nil }
		rng := rand.New(rand.NewPCG(seed, 1))
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		for rest := want; len(rest) > 0; {
			n := min(1+rng.IntN(step), len(rest))
			k, err := s.Write(rest[:n])
			if budget.Left() < -memory {
				t.Fatalf("%d bytes left of %d", budget.Left(), memory)
			}
			if err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				break
			}
			if k != n {
				t.Fatalf("%d of %d bytes were written", k, n)
			}
			rest = rest[n:]
		}
		d, err := s.Seal()
		if err == nil {
			got, rerr := io.ReadAll(d.Section())
			if rerr != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes came back of %d, %v", len(got), len(want), rerr)
			}
			d.Close()
		}
		if full := int64(size+lead) > before && int64(size)+4*chunk > memory; err != nil && !full {
			t.Fatalf("%d bytes have room on a disk of %d or in memory of %d: %v", size, before, memory, err)
		}
		if budget.Left() != memory || budget.OnDisk() != 0 || room != before {
			t.Fatalf("%d bytes of memory left of %d, %d on disk, %d of room left of %d", budget.Left(), memory, budget.OnDisk(), room, before)
		}
	})
}

// TestRoomIsMade: somebody makes room until a write has it, and who has nothing
// more ends that.
func TestRoomIsMade(t *testing.T) {
	want := bytes.Repeat([]byte("deltad"), 100_000)
	for _, spare := range []int64{int64(len(want)), int64(len(want)) / 2} {
		room := int64(10)
		budget := NewBudget(0)
		budget.OnFull(func() bool {
			n := min(spare, 50_000)
			room, spare = room+n, spare-n
			return n > 0
		})
		s := New("", budget)
		s.create = func(string) (file, error) { return &disk{room: &room}, nil }
		_, err := s.Write(want)
		d, sealed := s.Seal()
		if err := errors.Join(err, sealed); err != nil {
			if !errors.Is(err, syscall.ENOSPC) || spare > 0 || room >= int64(len(want)) {
				t.Errorf("%d bytes could be made room for, %d are there: %v", spare, room, err)
			}
			continue
		}
		got, err := io.ReadAll(d.Section())
		if err != nil || !bytes.Equal(got, want) || d.InMemory() != 0 {
			t.Errorf("%d bytes came back of %d, %d from memory, %v", len(got), len(want), d.InMemory(), err)
		}
		d.Close()
	}
}

// TestWhatNobodyUsesMakesRoom: files of data that was dropped are not waited for.
func TestWhatNobodyUsesMakesRoom(t *testing.T) {
	room := int64(1 << 20)
	budget := NewBudget(0)
	write := func() error {
		s := New("", budget)
		s.create = func(string) (file, error) { return &disk{room: &room}, nil }
		if _, err := s.Write(make([]byte, 1<<20)); err != nil {
			s.Abort()
			return err
		}
		_, err := s.Seal()
		return err
	}
	for range 3 {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	head, body := []byte("head"), bytes.Repeat([]byte("body"), 200_000)
	spooled := func(memory int64) *Data {
		s := New(dir, NewBudget(memory))
		s.Lead(func() int { return len(head) })
		if _, err := s.Write(body); err != nil {
			t.Fatal(err)
		}
		d, err := s.Seal()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	name := filepath.Join(dir, "named")
	d := spooled(0)
	if err := d.Link([]byte("other head"), name); !errors.Is(err, ErrNoFile) {
		t.Errorf("without room for the head: %v", err)
	}
	if runtime.GOOS != "linux" {
		if err := d.Link(head, name); err == nil {
			t.Error("linked")
		}
		return
	}
	if err := d.Link(head, filepath.Join(dir, "no", "such")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	if err := d.Link(head, name); err != nil {
		t.Fatal(err)
	}
	if err := d.Link(head, name+"2"); !errors.Is(err, ErrNoFile) {
		t.Errorf("a second name: %v", err)
	}
	if err := spooled(0).Link(head, name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := spooled(1<<20).Link(head, name+"2"); !errors.Is(err, ErrNoFile) {
		t.Errorf("out of memory: %v", err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, append(bytes.Clone(head), body...)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	same := func(d *Data) {
		t.Helper()
		got, err := io.ReadAll(d.Section())
		if err != nil || !bytes.Equal(got, body) || d.InMemory() != 0 {
			t.Errorf("%d bytes came back of %d, %v", len(got), len(body), err)
		}
		var out bytes.Buffer
		if n, err := d.WriteTo(&out); err != nil || n != d.Size() || !bytes.Equal(out.Bytes(), body) {
			t.Errorf("%d bytes were written of %d, %v", n, len(body), err)
		}
		if n, err := d.ReadAt(make([]byte, 8), d.Size()-4); n != 4 || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes at the end, %v", n, err)
		}
		if _, err := d.ReadAt(make([]byte, 1), -1); err == nil {
			t.Error("read before the first byte")
		}
	}
	same(d)
	d.Close()
	if err := os.WriteFile(name, append(bytes.Clone(head), body...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	budget := NewBudget(0)
	d = Open(f, int64(len(head)), int64(len(body)), budget)
	if err := d.Link(head, name+"2"); !errors.Is(err, ErrNoFile) {
		t.Errorf("a file with a name: %v", err)
	}
	same(d)
	d.Close()
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) || budget.OnDisk() != 0 {
		t.Errorf("%v, %d bytes on disk", err, budget.OnDisk())
	}
}

// TestUnlinked: where files cannot be made without a name they lose it at once.
func TestUnlinked(t *testing.T) {
	dir := t.TempDir()
	s := New(dir, NewBudget(0))
	s.create = unlinked
	if _, err := s.Write([]byte("bytes")); err != nil {
		t.Fatal(err)
	}
	d, err := s.Seal()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := io.ReadAll(d.Section())
	names, lerr := os.ReadDir(dir)
	if string(got) != "bytes" || len(names) > 0 || err != nil || lerr != nil {
		t.Errorf("%q, %v in the directory, %v, %v", got, names, err, lerr)
	}
	if err := d.Link(nil, filepath.Join(dir, "named")); err == nil {
		t.Error("it has a name again")
	}
}

// TestIsFull: a quota that is used up is a full disk, and a disk that is broken
// is not.
func TestIsFull(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false, syscall.EROFS: false, syscall.ENOENT: false,
	} {
		if wrapped := fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "x", Err: err}); IsFull(wrapped) != want {
			t.Errorf("%v: want %v", wrapped, want)
		}
	}
	if IsFull(nil) {
		t.Error("no error is a full disk")
	}
}
