package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

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
	// SHA256 is that of the uncompressed canonical content.
	SHA256 [sha256.Size]byte
}

// Writer writes a run row by row. After an error it stays failed, and what it
// wrote is no run.
type Writer struct {
	w      io.Writer
	n      int
	sum    hash.Hash
	enc    *zstd.Encoder
	err    error
	size   int64
	rows   int64
	block  []byte // rows of the open block
	inRows int    // their number
	first  []byte // their first key
	last   []byte // the last key
	any    bool   // whether there is one
	out    []byte
	index  []byte
	blocks int
	prev   int64 // offset of the last block
}

// NewWriter writes the header and returns a writer of rows.
func NewWriter(w io.Writer, shape Shape, o Options) (*Writer, error) {
	rw := &Writer{w: w, n: len(shape.Fns), sum: sha256.New()}
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
	head = append(head, payload...)
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(payload, crcTable()))
	rw.write(head)
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
	if len(accs) != w.n {
		w.err = fmt.Errorf("%d accumulators given, a row has %d", len(accs), w.n)
		return w.err
	}
	size, empty := len(key), true
	for _, a := range accs {
		size += len(a)
		empty = empty && len(a) == 0
	}
	switch {
	case empty:
		return nil
	case w.any && bytes.Compare(key, w.last) <= 0:
		w.err = fmt.Errorf("key %x does not come after %x", key, w.last)
	case size > MaxBlock/2:
		w.err = fmt.Errorf("accumulators of key %x take %d bytes, more than a run holds (%d)", key, size, MaxBlock/2)
	case size+len(w.block) > MaxBlock/2:
		w.flush()
	}
	if w.err != nil {
		return w.err
	}
	same := 0
	if w.inRows == 0 {
		w.first = append(w.first[:0], key...)
	} else {
		same = shared(w.last, key)
	}
	b := binary.AppendUvarint(w.block, uint64(same))
	b = binary.AppendUvarint(b, uint64(len(key)-same))
	b = append(b, key[same:]...)
	var prev []byte
	for _, a := range accs {
		b = binary.AppendUvarint(b, uint64(len(a)))
		if len(a) == 0 {
			continue
		}
		same := 0
		if prev != nil {
			same = shared(prev, a)
			b = binary.AppendUvarint(b, uint64(same))
		}
		b = append(b, a[same:]...)
		prev = a
	}
	w.block = b
	w.last = append(w.last[:0], key...)
	w.any = true
	w.inRows++
	w.rows++
	if len(w.block) >= blockSize {
		w.flush()
	}
	return w.err
}

// flush ends the open block.
func (w *Writer) flush() {
	if w.inRows == 0 {
		return
	}
	w.sum.Write(w.block)
	stored, how := w.block, byte(storedRaw)
	w.out = append(w.out[:0], make([]byte, frameBytes)...)
	if w.enc != nil {
		w.out = w.enc.EncodeAll(w.block, w.out)
		if len(w.out)-frameBytes < len(w.block) {
			stored, how = nil, storedZstd
		} else {
			w.out = w.out[:frameBytes]
		}
	}
	w.out = append(w.out, stored...)
	binary.LittleEndian.PutUint32(w.out, uint32(len(w.out)-frameBytes))
	binary.LittleEndian.PutUint32(w.out[4:], uint32(len(w.block)))
	w.out[8] = how
	w.out = binary.LittleEndian.AppendUint32(w.out, crc32.Checksum(w.out, crcTable()))

	w.index = binary.AppendUvarint(w.index, uint64(w.size-w.prev))
	w.index = binary.AppendUvarint(w.index, uint64(w.inRows))
	w.index = appendString(w.index, string(w.first))
	w.prev = w.size
	w.blocks++
	w.write(w.out)
	w.block, w.inRows = w.block[:0], 0
}

// Close ends the run; it does not close the underlying writer.
func (w *Writer) Close() (Summary, error) {
	if w.err != nil {
		return Summary{}, w.err
	}
	w.flush()
	foot := binary.AppendUvarint(nil, uint64(w.rows))
	foot = binary.AppendUvarint(foot, uint64(w.blocks))
	foot = append(foot, w.index...)
	foot = w.sum.Sum(foot)
	n := len(foot)
	foot = binary.LittleEndian.AppendUint32(foot, crc32.Checksum(foot, crcTable()))
	foot = binary.LittleEndian.AppendUint32(foot, uint32(n))
	foot = append(foot, magic...)
	w.write(foot)
	if w.err != nil {
		return Summary{}, w.err
	}
	s := Summary{Rows: w.rows, Size: w.size}
	w.sum.Sum(s.SHA256[:0])
	w.err = errors.New("run is closed")
	return s, nil
}
