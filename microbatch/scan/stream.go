package scan

import (
	"context"
	"io"
	"slices"
	"sync"
)

// A large object of text is read from front to back in pieces of one request each:
// those to come are asked for while one is decoded, as row groups are, within the
// same bound in bytes. Which pieces there are does not depend on it.

const (
	// pieceBytes is how much of a large text object one request reads: enough for
	// requests to be few, and little enough for a small Ahead to have room for one.
	pieceBytes = 4 << 20
	// mostPieces is how many pieces of one object wait: a store needs about as long
	// for a piece as two or three take to decode.
	mostPieces = 4
)

// stream reads a blob from front to back, at once or piece by piece. It serves one
// goroutine.
type stream struct {
	blob    Blob
	ahead   *Ahead
	whole   bool
	piece   int64 // bytes of one
	ctx     context.Context
	cancel  context.CancelFunc
	reads   sync.WaitGroup
	waiting []*piece // in order
	asked   int64    // where what was not asked for starts
	taken   int64    // bytes that were handed out or are in buf
	buf     []byte
	err     error // what ended it
}

// piece is one that is on its way, or will be read once it is needed.
type piece struct {
	span
	held int64 // of Ahead
}

// newStream does no I/O. stop must be called.
func newStream(ctx context.Context, blob Blob, lim Limits) *stream {
	s := &stream{blob: blob, ahead: lim.Ahead, whole: blob.Size() <= lim.Whole, piece: lim.piece}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// stop ends and awaits what is being read.
func (s *stream) stop() {
	s.cancel()
	s.reads.Wait()
	for len(s.waiting) > 0 {
		s.pop()
	}
	s.err, s.buf = io.ErrClosedPipe, nil
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.buf) == 0 && s.err == nil {
		s.buf = nil // before the next is there
		s.buf, s.err = s.next()
	}
	if s.err != nil {
		return 0, s.err
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	return n, nil
}

// next returns the bytes after those taken.
func (s *stream) next() ([]byte, error) {
	size := s.blob.Size()
	switch {
	case s.taken >= size:
		return nil, io.EOF
	case s.ctx.Err() != nil:
		return nil, context.Cause(s.ctx)
	case s.whole:
		s.taken = size
		return readAll(s.ctx, s.blob)
	}
	if len(s.waiting) == 0 {
		s.add(0)
	}
	p := s.pop()
	for len(s.waiting) < mostPieces && s.asked < size && s.ahead.Take(min(s.piece, size-s.asked)) {
		s.start(s.add(min(s.piece, size-s.asked)))
	}
	s.taken = p.to
	if p.done == nil { // needed now: that is the room of the piece in hand
		return readRange(s.ctx, s.blob, p.from, p.to-p.from)
	}
	if err := p.wait(s.ctx); err != nil {
		return nil, err
	}
	return p.bytes, p.err
}

// add lines up the next piece, which holds so many bytes of Ahead.
func (s *stream) add(held int64) *piece {
	p := &piece{span: span{from: s.asked, to: min(s.asked+s.piece, s.blob.Size())}, held: held}
	s.asked = p.to
	s.waiting = append(s.waiting, p)
	return p
}

// pop takes the first piece out, which has its own room from then on.
func (s *stream) pop() *piece {
	p := s.waiting[0]
	s.waiting = slices.Delete(s.waiting, 0, 1)
	s.ahead.Give(p.held)
	p.held = 0
	return p
}

// start reads a piece meanwhile.
func (s *stream) start(p *piece) {
	p.done = make(chan struct{})
	s.reads.Go(func() {
		defer close(p.done)
		defer func() { p.panicked = recover() }() // for who waits
		p.bytes, p.err = readRange(s.ctx, s.blob, p.from, p.to-p.from)
	})
}
