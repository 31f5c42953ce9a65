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
	mem    [][]byte
	held   int64 // what mem takes
	file   *os.File
	size   int64
	err    error
}

const (
	// chunk is what a spool reserves at a time.
	chunk = 64 << 10
	// whole is how large a write is that stays in one piece.
	whole = 16 << 10
	// page is what the runtime rounds large pieces up to.
	page = 8 << 10
	// mostFilled bounds the pieces that Fill reads at once.
	mostFilled = 1 << 20
)

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

// keep adds b to what is in memory. What is there is never moved, but for the
// little that a small spool has: a spool may be of many megabytes.
func (s *Spool) keep(b []byte) {
	s.size += int64(len(b))
	if len(b) >= whole {
		s.hold(append([]byte(nil), b...))
		return
	}
	for len(b) > 0 {
		n := len(s.mem)
		if n == 0 || len(s.mem[n-1]) == cap(s.mem[n-1]) && (n > 1 || len(s.mem[0]) >= whole) {
			size := chunk
			if n == 0 {
				size = len(b) // many spools are small: the first piece grows
			}
			s.hold(make([]byte, 0, size))
			continue
		}
		last := &s.mem[n-1]
		room := cap(*last) - len(*last)
		if n == 1 && len(*last) < whole && room < len(b) {
			s.held -= int64(cap(*last))
			*last = append(*last, b...)
			s.held += int64(cap(*last))
			return
		}
		took := min(len(b), room)
		*last = append(*last, b[:took]...)
		b = b[took:]
	}
}

// hold adds a piece of memory.
func (s *Spool) hold(b []byte) {
	s.mem = append(s.mem, b)
	s.held += int64(cap(b))
}

// Fill writes what r has, to its end but no more than most bytes, and returns how
// many there were. Memory is taken for what is there, whatever most says. An
// error is r's unless Seal returns one too.
func (s *Spool) Fill(r io.Reader, most int64) (filled int64, err error) {
	var buf []byte
	for filled < most && s.err == nil {
		n := min(most-filled, max(chunk, min(s.size, mostFilled)))
		inMemory := s.file == nil && s.room(int(n))
		if inMemory || int64(len(buf)) < n {
			buf = make([]byte, n)
		}
		got, err := readFull(r, buf[:n])
		filled += int64(got)
		if inMemory && int64(got) == n {
			s.hold(buf)
			s.size += n
			buf = nil
		} else {
			_, _ = s.Write(buf[:got]) // s.err
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return filled, err
		}
	}
	return filled, s.err
}

// readFull is io.ReadFull that returns the reader's own error.
func readFull(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var got int
		got, err = r.Read(b[n:])
		n += got
	}
	return n, err
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
	need := s.held + s.takes(n) - s.taken
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

// takes is what memory n more bytes take at most, beside what is held.
func (s *Spool) takes(n int) int64 {
	if n >= whole {
		return int64(n) + page
	}
	if k := len(s.mem); k > 0 {
		last := s.mem[k-1]
		switch {
		case n <= cap(last)-len(last):
			return 0
		case k == 1 && len(last) < whole:
			return int64(2*(len(last)+n)) + page - int64(cap(last))
		}
	}
	return chunk
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
	s.file, s.mem, s.held = f, nil, 0
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
	s.budget.give(s.taken - s.held)
	s.taken = s.held
	held := &holding{budget: s.budget, taken: s.taken, file: s.file, size: s.size}
	if s.file != nil && s.budget != nil {
		s.budget.onDisk.Add(s.size)
	}
	d := &Data{mem: s.mem, starts: make([]int64, len(s.mem)), file: s.file, size: s.size, held: held}
	at := int64(0)
	for i, b := range s.mem {
		d.starts[i] = at
		at += int64(len(b))
	}
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
	mem     [][]byte
	starts  []int64 // where each begins
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
	for i := d.piece(off); n < len(p) && i < len(d.mem); i++ {
		n += copy(p[n:], d.mem[i][off+int64(n)-d.starts[i]:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// piece is the number of the one that has the byte at off.
func (d *Data) piece(off int64) int {
	i, found := slices.BinarySearch(d.starts, off)
	if !found {
		i--
	}
	return max(i, 0)
}

// View returns the n bytes at off where they lie in memory in one piece, else
// nil. They must not be changed, nor read after Close.
func (d *Data) View(off, n int64) []byte {
	if len(d.mem) == 0 || off < 0 || n < 0 || off > d.size-n {
		return nil
	}
	i := d.piece(off)
	from := off - d.starts[i]
	if n > int64(len(d.mem[i]))-from {
		return nil
	}
	return d.mem[i][from : from+n : from+n]
}

// WriteTo implements io.WriterTo: the bytes from the first to the last, without
// a copy of those in memory.
func (d *Data) WriteTo(w io.Writer) (written int64, err error) {
	if d.file != nil {
		return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{d.Section()}, make([]byte, copied))
	}
	for _, b := range d.mem {
		n, err := w.Write(b)
		if written += int64(n); err != nil {
			return written, err
		}
	}
	return written, nil
}

// copied is what WriteTo reads of a file at a time.
const copied = 256 << 10

// Close gives memory and file back at once. It must not be read after.
func (d *Data) Close() {
	d.cleanup.Stop()
	d.held.release()
	d.mem, d.starts, d.file = nil, nil, nil
}
