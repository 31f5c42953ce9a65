// Package spool keeps bytes that are written once and read often: in memory
// while the process's budget allows it, in a temporary file otherwise. Nobody
// who reads can tell the difference.
//
// Invariants:
//
//  1. The bytes of all spools in memory together stay within the Budget, but
//     for what a Write that is going on holds.
//  2. A temporary file has no name: it is removed as soon as it is open, so
//     that no crash leaves it behind. Its space is given back when the Data is
//     closed or collected.
//  3. Data is immutable and safe for concurrent reads.
package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Budget is the memory that spools may hold together. A nil Budget allows
// everything.
type Budget struct {
	left   atomic.Int64
	onDisk atomic.Int64
}

// NewBudget returns a budget of bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{}
	b.left.Store(bytes)
	return b
}

// take reserves n bytes if there are as many.
func (b *Budget) take(n int64) bool {
	if b == nil {
		return true
	}
	for {
		left := b.left.Load()
		if left < n {
			return false
		}
		if b.left.CompareAndSwap(left, left-n) {
			return true
		}
	}
}

func (b *Budget) give(n int64) {
	if b != nil {
		b.left.Add(n)
	}
}

// Left is how many bytes may still be held in memory.
func (b *Budget) Left() int64 { return b.left.Load() }

// OnDisk is how many bytes live in temporary files.
func (b *Budget) OnDisk() int64 { return b.onDisk.Load() }

// Spool takes bytes in order. It is for one goroutine.
type Spool struct {
	dir    string
	budget *Budget
	most   int // bytes in memory; 0 is no bound but the budget's
	taken  int64
	mem    [][]byte // of chunk bytes each, the last of fewer
	file   *os.File
	size   int64
	err    error
}

// chunk is what a spool reserves at a time.
const chunk = 64 << 10

// New returns an empty spool whose temporary file, if it needs one, is made in
// dir (empty: the system's). It does no I/O.
func New(dir string, budget *Budget) *Spool { return &Spool{dir: dir, budget: budget} }

// NewSmall is New for bytes that are soon done with: no more than most of them
// are held in memory, whatever the budget has left.
func NewSmall(dir string, budget *Budget, most int) *Spool {
	return &Spool{dir: dir, budget: budget, most: most}
}

// Write implements io.Writer. After an error the spool stays failed.
func (s *Spool) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.file == nil && !s.room(len(b)) {
		if s.err = s.toFile(); s.err != nil {
			return 0, s.err
		}
	}
	if s.file == nil {
		s.keep(b)
		return len(b), nil
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err != nil {
		s.err = fmt.Errorf("write temporary file: %w", err)
	}
	return n, s.err
}

// keep adds b to what is in memory. What is there is never moved: a spool may be
// of many megabytes.
func (s *Spool) keep(b []byte) {
	s.size += int64(len(b))
	for len(b) > 0 {
		if n := len(s.mem); n == 0 {
			s.mem = append(s.mem, nil) // many spools are small: the first chunk grows
		} else if len(s.mem[n-1]) == chunk {
			s.mem = append(s.mem, make([]byte, 0, chunk))
		}
		last := &s.mem[len(s.mem)-1]
		n := min(len(b), chunk-len(*last))
		*last = append(*last, b[:n]...)
		b = b[n:]
	}
}

// Grow says that n more bytes come soon: where they have room in memory, it is
// reserved at once and not little by little.
func (s *Spool) Grow(n int) {
	if s.err == nil && s.file == nil && s.room(n) {
		s.mem = slices.Grow(s.mem, n/chunk+1)
	}
}

// room reserves memory for n more bytes.
func (s *Spool) room(n int) bool {
	if s.most > 0 && s.size+int64(n) > int64(s.most) {
		return false
	}
	need := s.size + int64(n) - s.taken
	if need <= 0 {
		return true
	}
	need = (need + chunk - 1) / chunk * chunk
	if !s.budget.take(need) {
		return false
	}
	s.taken += need
	return true
}

// toFile moves what is in memory to a file without a name.
func (s *Spool) toFile() error {
	f, err := os.CreateTemp(s.dir, "deltad-*")
	if err != nil {
		return fmt.Errorf("make temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil { // invariant 2
		return errors.Join(fmt.Errorf("unlink temporary file: %w", err), f.Close())
	}
	for _, b := range s.mem {
		if _, err := f.Write(b); err != nil {
			return errors.Join(fmt.Errorf("write temporary file: %w", err), f.Close())
		}
	}
	s.file, s.mem = f, nil
	s.budget.give(s.taken)
	s.taken = 0
	return nil
}

// Abort gives everything back; the spool must not be used again.
func (s *Spool) Abort() {
	s.budget.give(s.taken)
	if s.file != nil {
		_ = s.file.Close() // it has no name: closing is removing
	}
	s.mem, s.file, s.taken, s.err = nil, nil, 0, errors.New("spool was aborted")
}

// Seal ends the writing and returns the bytes; the spool must not be used
// again.
func (s *Spool) Seal() (*Data, error) {
	if s.err != nil {
		err := s.err
		s.Abort()
		return nil, err
	}
	held := &holding{budget: s.budget, taken: s.taken, file: s.file, size: s.size}
	if s.file != nil && s.budget != nil {
		s.budget.onDisk.Add(s.size)
	}
	d := &Data{mem: s.mem, file: s.file, size: s.size, held: held}
	// Slices are shared by a cache and by runs; whoever lets go last would have
	// to count. The collector does.
	d.cleanup = runtime.AddCleanup(d, (*holding).release, held)
	s.mem, s.file, s.taken, s.err = nil, nil, 0, errors.New("spool was sealed")
	return d, nil
}

// holding is what a Data has of the machine.
type holding struct {
	once   sync.Once
	budget *Budget
	taken  int64
	file   *os.File
	size   int64
}

func (h *holding) release() {
	h.once.Do(func() {
		h.budget.give(h.taken)
		if h.file != nil {
			_ = h.file.Close() // it has no name: closing is removing
			if h.budget != nil {
				h.budget.onDisk.Add(-h.size)
			}
		}
	})
}

// Data is what was written.
type Data struct {
	mem     [][]byte // of chunk bytes each, the last of fewer
	file    *os.File
	size    int64
	held    *holding
	cleanup runtime.Cleanup
}

// Size is the number of bytes.
func (d *Data) Size() int64 { return d.size }

// Section reads the bytes from the first to the last.
func (d *Data) Section() *io.SectionReader { return io.NewSectionReader(d, 0, d.size) }

// InMemory is the number of bytes held in memory: all or none.
func (d *Data) InMemory() int64 {
	if d.file != nil {
		return 0
	}
	return d.size
}

// ReadAt implements io.ReaderAt.
func (d *Data) ReadAt(p []byte, off int64) (int, error) {
	if d.file != nil {
		n, err := d.file.ReadAt(p, off)
		runtime.KeepAlive(d) // the file is closed when d is collected
		return n, err
	}
	if off < 0 || off > d.size {
		return 0, fmt.Errorf("read at %d of %d bytes: %w", off, d.size, io.ErrUnexpectedEOF)
	}
	n := 0
	for at, skip := int(off/chunk), off%chunk; n < len(p) && at < len(d.mem); at, skip = at+1, 0 {
		n += copy(p[n:], d.mem[at][skip:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close gives memory and file back at once. It must not be read after.
func (d *Data) Close() {
	d.cleanup.Stop()
	d.held.release()
	d.mem, d.file = nil, nil
}
