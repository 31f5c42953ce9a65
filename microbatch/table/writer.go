package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// Options are choices about a run's container. They never change its rows or
// the SHA-256 of its content.
type Options struct {
	// Compress stores blocks with zstd where that makes them smaller.
	Compress bool
}

// Summary says what a run holds.
type Summary struct {
	Rows int64
	// Size is the length of the run in bytes, as stored.
	Size int64
	// SHA256 is that of the header and of the digests of all blocks.
	SHA256 [sha256.Size]byte
}

// Writer writes a run row by row. After an error it stays failed, and what it
// wrote is no run.
type Writer struct {
	w      io.Writer
	sum    hash.Hash
	enc    *zstd.Encoder
	err    error
	size   int64
	rows   int64
	last   []byte // the last key written
	any    bool   // whether there is one
	bytes  int    // that Append has added to the open rows
	index  []byte
	blocks int
	was    int // the rows of the last
	desk
}

// desk is what a writer works with.
type desk struct {
	open   rows // those that are not written yet
	packer packer
	block  []byte
	out    []byte
}

func (d *desk) bytes() int64 {
	return d.open.bytes() + int64(cap(d.block)+cap(d.out)+4*cap(d.packer.same)+4*cap(d.packer.rest))
}

// NewWriter writes the header and returns a writer of rows.
func NewWriter(w io.Writer, shape Shape, o Options) (*Writer, error) {
	rw := &Writer{w: w, sum: sha256.New()}
	rw.open.reset(len(shape.Fns))
	if o.Compress {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, fmt.Errorf("make zstd encoder: %w", err)
		}
		rw.enc = enc
	}
	payload := shape.header()
	if len(payload) > maxHeader {
		return nil, fmt.Errorf("header of %d bytes exceeds %d", len(payload), maxHeader)
	}
	rw.sum.Write(payload)
	head := append([]byte(nil), magic...)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(payload)))
	rw.write(appendSum(append(head, payload...), payload))
	return rw, rw.err
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.size += int64(n)
	if err != nil {
		w.err = fmt.Errorf("write run: %w", err)
	}
}

// Append adds a row: its key, greater than the one before, and one accumulator
// for each fn, empty for the identity. A row of identities is left out. The
// arguments are not kept.
func (w *Writer) Append(key []byte, accs [][]byte) error {
	if w.err != nil {
		return w.err
	}
	if len(accs) != len(w.open.accs) {
		w.err = fmt.Errorf("%d accumulators given, a row has %d", len(accs), len(w.open.accs))
		return w.err
	}
	size := 0
	for _, a := range accs {
		size += len(a)
	}
	if size == 0 {
		return nil
	}
	last, some := w.last, w.any
	if n := len(w.open.at); n > 0 {
		last, some = w.open.key(n-1), true
	}
	switch size += len(key); {
	case some && bytes.Compare(key, last) <= 0:
		w.err = unordered(key, last)
	case size > MaxBlock/2:
		w.err = tooLarge(key, size)
	default:
		w.open.add(key, accs)
		if w.bytes += size; w.bytes >= blockBytes || len(w.open.at) == blockRows {
			w.flush(false)
		}
	}
	return w.err
}

func tooLarge(key []byte, size int) error {
	return fmt.Errorf("accumulators of key %x take %d bytes, more than a run holds (%d)", key, size, MaxBlock/2)
}

// flush writes the blocks that the open rows make, and at the end what is left.
func (w *Writer) flush(end bool) {
	for w.err == nil {
		n := w.open.block()
		if end && n == 0 {
			n = len(w.open.at)
		}
		if n == 0 {
			return
		}
		w.writeBlock(n)
		w.open.drop(n)
	}
}

// writeBlock writes the first n of the open rows.
func (w *Writer) writeBlock(n int) {
	if w.any && bytes.Compare(w.open.key(0), w.last) <= 0 {
		w.err = unordered(w.open.key(0), w.last)
		return
	}
	if w.block, w.err = w.packer.pack(w.block[:0], &w.open, n); w.err != nil {
		return
	}
	out := w.block
	if w.enc != nil {
		if w.out = w.enc.EncodeAll(w.block, w.out[:0]); len(w.out) < len(w.block) {
			out = w.out
		}
	}
	w.index = binary.AppendUvarint(w.index, uint64(len(out)))
	w.index = binary.AppendUvarint(w.index, uint64(len(w.block)))
	w.index = binary.AppendUvarint(w.index, uint64(n))
	w.index = appendString(w.index, w.open.key(0))
	at := len(w.index)
	w.index = appendSum(w.index, w.block)
	w.sum.Write(w.index[at:])
	if len(out) < len(w.block) {
		w.index = appendSum(w.index, out)
	}
	w.write(out)
	w.blocks++
	w.rows += int64(n)
	w.was, w.bytes = n, 0
	w.last, w.any = append(w.last[:0], w.open.key(n-1)...), true
}

// Close ends the run; it does not close the underlying writer.
func (w *Writer) Close() (Summary, error) {
	if w.err != nil {
		return Summary{}, w.err
	}
	w.flush(true)
	if w.err != nil {
		return Summary{}, w.err
	}
	w.writeFooter()
	if w.err != nil {
		return Summary{}, w.err
	}
	s := Summary{Rows: w.rows, Size: w.size}
	w.sum.Sum(s.SHA256[:0])
	w.err = errors.New("run is closed")
	return s, nil
}

// writeFooter writes the footer and the trailer. The index may be large: it is
// not copied.
func (w *Writer) writeFooter() {
	head := binary.AppendUvarint(nil, uint64(w.rows))
	head = binary.AppendUvarint(head, uint64(w.blocks))
	n := uint64(len(head)) + uint64(len(w.index)) + sha256.Size
	if n > math.MaxUint32 {
		w.err = fmt.Errorf("block index of %d bytes exceeds %d: the keys are too long for one run", n, uint32(math.MaxUint32))
		return
	}
	tail := w.sum.Sum(nil)
	digest := xxhash.New()
	for _, part := range [][]byte{head, w.index, tail} {
		_, _ = digest.Write(part) // which has no errors
	}
	tail = binary.LittleEndian.AppendUint64(tail, digest.Sum64())
	tail = binary.LittleEndian.AppendUint32(tail, uint32(n))
	w.write(head)
	w.write(w.index)
	w.write(append(tail, magic...))
}
