// Package spool keeps bytes that are written once and read often: in memory
// while the process's budget allows it, in a temporary file otherwise. Nobody
// who reads can tell the difference.
//
// Invariants:
//
//  1. The bytes of all spools in memory together stay within the Budget, but
//     for what a Write that is going on holds, a piece of the file for each spool
//     that writes one, and what 4 says.
//  2. A temporary file has no name, so that no crash leaves it behind. Its space
//     is given back when the Data is closed or collected. A name that Link gives
//     it later is another's.
//  3. Data is immutable and safe for concurrent reads. What has a name is so as
//     long as nobody writes to it in place.
//  4. A full disk fails a spool last: first what nobody uses any more is collected,
//     then others make room, see Budget.OnFull, then the bytes stay in memory,
//     beyond the budget by no more than the budget.
package spool

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// Budget is the memory that spools may hold together. A nil Budget allows
// everything.
type Budget struct {
	all    int64
	left   atomic.Int64
	onDisk atomic.Int64
	idle   sync.Pool // of *[batch]byte
	full   struct {
		sync.Mutex
		makeRoom func() bool
	}
}

// NewBudget returns a budget of bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{all: bytes}
	b.left.Store(bytes)
	return b
}

// take reserves n bytes if no less than least are left then.
func (b *Budget) take(n, least int64) bool {
	if b == nil {
		return true
	}
	for {
		left := b.left.Load()
		if left-n < least {
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

// OnDisk is how many bytes live in files: temporary ones, and those that Open was
// given.
func (b *Budget) OnDisk() int64 { return b.onDisk.Load() }

// Spool takes bytes in order. It is for one goroutine.
type Spool struct {
	dir    string
	budget *Budget
	most   int // bytes in memory; 0 is no bound but the budget's
	taken  int64
	mem    [][]byte
	held   int64 // what mem takes
	file   *paper
	lead   func() int // nil: none
	size   int64
	disk   error // why there is no file although memory was short
	err    error
	create func(dir string) (file, error)
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
func New(dir string, budget *Budget) *Spool {
	return &Spool{dir: dir, budget: budget, create: nameless}
}

// NewSmall is New for bytes that are soon done with: no more than most of them
// are held in memory, whatever the budget has left.
func NewSmall(dir string, budget *Budget, most int) *Spool {
	s := New(dir, budget)
	s.most = most
	return s
}

// Lead has as many bytes left free at the beginning of a file, if there is to be
// one, as the function says then: for the head of Data.Link. It must be called
// before anything is written.
func (s *Spool) Lead(n func() int) { s.lead = n }

// Write implements io.Writer. After an error the spool stays failed.
func (s *Spool) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.file == nil && !s.room(len(b)) {
		if s.err = s.toFile(len(b)); s.err != nil {
			return 0, s.err
		}
	}
	n := 0
	if s.file != nil {
		var err error
		n, err = s.file.write(b)
		s.size += int64(n)
		if err != nil {
			s.err = s.stay(err, len(b)-n)
		}
	}
	if s.file == nil && s.err == nil {
		s.keep(b[n:])
		n = len(b)
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
	if s.most > 0 && s.size+int64(n) > int64(s.most) && s.disk == nil {
		return false
	}
	need := s.held + s.takes(n) - s.taken
	if need <= 0 {
		return true
	}
	need = (need + chunk - 1) / chunk * chunk
	least := int64(0)
	if s.disk != nil && s.budget != nil {
		least = -s.budget.all
	}
	if !s.budget.take(need, least) {
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

// Abort gives everything back; the spool must not be used again.
func (s *Spool) Abort() {
	s.budget.give(s.taken)
	if s.file != nil {
		s.file.drop()
	}
	s.mem, s.file, s.taken, s.err = nil, nil, 0, errors.New("spool was aborted")
}

// Seal ends the writing and returns the bytes; the spool must not be used
// again.
func (s *Spool) Seal() (*Data, error) {
	if s.err == nil && s.file != nil {
		if err := s.file.flush(); err != nil {
			s.err = s.stay(err, 0)
		}
	}
	if s.err != nil {
		err := s.err
		s.Abort()
		return nil, err
	}
	s.budget.give(s.taken - s.held)
	s.taken = s.held
	d := &Data{mem: s.mem, starts: make([]int64, len(s.mem)), size: s.size}
	if s.file != nil {
		d.file, d.lead = s.file.file, s.file.lead
		s.file.rest()
	}
	at := int64(0)
	for i, b := range s.mem {
		d.starts[i] = at
		at += int64(len(b))
	}
	d.hold(s.budget, s.taken)
	s.mem, s.file, s.taken, s.err = nil, nil, 0, errors.New("spool was sealed")
	return d, nil
}
