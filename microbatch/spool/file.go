package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
)

// file is what spools need of an *os.File.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// batch is where writes to files end: a kernel takes several times as long for
// the same bytes in small pieces that end within its pages.
const batch = 256 << 10

// paper is a file that is being written.
type paper struct {
	file   file
	budget *Budget
	lead   int64 // where the bytes begin
	at     int64 // where what is next written goes
	buf    *[batch]byte
	n      int // of buf
}

func newPaper(f file, lead int64, budget *Budget) *paper {
	return &paper{file: f, budget: budget, lead: lead, at: lead, buf: budget.borrow()}
}

// write writes b and says how much of it was taken, which is part of the file or
// of buf.
func (p *paper) write(b []byte) (n int, err error) {
	for n < len(b) {
		rest, room := b[n:], batch-int(p.at%batch)-p.n // up to where a write ends
		if p.n == 0 && len(rest) >= room {
			k := room + (len(rest)-room)/batch*batch
			if err := p.put(rest[:k]); err != nil {
				return n, err
			}
			n += k
			continue
		}
		k := copy(p.buf[p.n:p.n+min(room, len(rest))], rest)
		p.n, n = p.n+k, n+k
		if k == room {
			if err := p.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// flush writes what is in buf.
func (p *paper) flush() error {
	if p.n == 0 {
		return nil
	}
	err := p.put(p.buf[:p.n])
	if err == nil {
		p.n = 0
	}
	return err
}

// put writes b, all of it or, as far as anybody can tell, nothing.
func (p *paper) put(b []byte) error {
	err := p.budget.onDiskFull(func() error {
		_, err := p.file.WriteAt(b, p.at)
		return err
	})
	if err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	p.at += int64(len(b))
	return nil
}

// rest lets go of what writing takes.
func (p *paper) rest() { p.budget.handBack(p.buf) }

// drop is rest of a file that nobody needs.
func (p *paper) drop() {
	p.rest()
	_ = p.file.Close() // it has no name: closing is removing
}

// nameless makes a file without a name in a directory (empty: the system's).
func nameless(dir string) (file, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	f, err := unnamed(dir)
	if !errors.Is(err, errors.ErrUnsupported) {
		if err != nil {
			return nil, fmt.Errorf("make temporary file: %w", err)
		}
		return f, nil
	}
	return unlinked(dir)
}

// unlinked makes a file and removes its name.
func unlinked(dir string) (file, error) {
	f, err := os.CreateTemp(dir, "deltad-*")
	if err != nil {
		return nil, fmt.Errorf("make temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil { // invariant 2
		return nil, errors.Join(fmt.Errorf("unlink temporary file: %w", err), f.Close())
	}
	return f, nil
}

// toFile moves what is in memory to a file without a name. Where the disk is full
// it stays in memory, and so do n more bytes.
func (s *Spool) toFile(n int) error {
	if s.disk != nil {
		return s.disk
	}
	var f file
	err := s.budget.onDiskFull(func() (err error) {
		f, err = s.create(s.dir)
		return err
	})
	if err != nil {
		return s.stay(err, n)
	}
	lead := 0
	if s.lead != nil {
		lead = s.lead()
	}
	p := newPaper(f, int64(lead), s.budget)
	for _, b := range s.mem {
		if _, err := p.write(b); err != nil {
			p.drop()
			return s.stay(err, n)
		}
	}
	s.file, s.mem, s.held = p, nil, 0
	s.budget.give(s.taken)
	s.taken = 0
	return nil
}

// stay brings back to memory what has no room on the disk, and makes room for n
// more bytes: err is why.
func (s *Spool) stay(err error, n int) error {
	if !IsFull(err) {
		return err
	}
	s.disk = err
	if p := s.file; p != nil {
		s.size = 0
		s.file = nil
		defer p.drop()
		if !s.room(int(p.at-p.lead) + p.n + 2*chunk) {
			return err
		}
		buf := make([]byte, batch)
		for at := p.lead; at < p.at; {
			some := buf[:min(batch, p.at-at)]
			if _, err := p.file.ReadAt(some, at); err != nil {
				return fmt.Errorf("read temporary file: %w", err)
			}
			s.keep(some)
			at += int64(len(some))
		}
		s.keep(p.buf[:p.n])
	}
	if !s.room(n) {
		return err
	}
	return nil
}

// IsFull says whether an error is that of a disk that has no room, or none left
// of a quota.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// OnFull says who makes room on a disk that is full, and says whether he could. It
// must be called before the budget is used.
func (b *Budget) OnFull(makeRoom func() bool) { b.full.makeRoom = makeRoom }

// onDiskFull does what the disk may have no room for, until there is some or no
// more is to be had.
func (b *Budget) onDiskFull(do func() error) error {
	for {
		err := do()
		if b == nil || !IsFull(err) || !b.makeRoom() {
			return err
		}
	}
}

// makeRoom has space given back that nobody needs, and says whether any was.
func (b *Budget) makeRoom() bool {
	b.full.Lock() // one after the other: what the first is given may do for both
	defer b.full.Unlock()
	if had := b.onDisk.Load(); had > 0 {
		runtime.GC()
		for range 20 { // files are closed soon after
			if b.onDisk.Load() < had {
				return true
			}
			time.Sleep(time.Millisecond)
		}
	}
	return b.full.makeRoom != nil && b.full.makeRoom()
}

// borrow returns memory to gather a write in, until handBack.
func (b *Budget) borrow() *[batch]byte {
	if b != nil {
		if buf, ok := b.idle.Get().(*[batch]byte); ok {
			return buf
		}
	}
	return new([batch]byte)
}

func (b *Budget) handBack(buf *[batch]byte) {
	if b != nil {
		b.idle.Put(buf)
	}
}
