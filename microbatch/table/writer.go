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
	// Room is what Table.WriteRun may hold of the run's rows besides the table:
	// in memory it is quicker to encode them before they are sorted.
	Room int64
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
	block  []byte // room for the frame, then the rows of the open block
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
	rw := &Writer{w: w, n: len(shape.Fns), sum: sha256.New(), block: make([]byte, frameBytes, blockSize+4096)}
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
	if empty || !w.ready(key, size) {
		return w.err
	}
	w.room(size + (2+2*len(accs))*binary.MaxVarintLen64)
	w.appendKey(key)
	w.block = appendBody(w.block, accs)
	w.end()
	return w.err
}

// appendEncoded is Append of a row whose accumulators appendBody has written.
// They are not large.
func (w *Writer) appendEncoded(key, body []byte) error {
	if len(body) == 0 || w.err != nil || !w.ready(key, len(key)+len(body)) {
		return w.err
	}
	w.room(len(key) + len(body) + 2*binary.MaxVarintLen64)
	w.appendKey(key)
	w.block = append(w.block, body...)
	w.end()
	return w.err
}

// ready checks a key, and the size of it and its accumulators.
func (w *Writer) ready(key []byte, size int) bool {
	switch {
	case w.any && bytes.Compare(key, w.last) <= 0:
		w.err = fmt.Errorf("key %x does not come after %x", key, w.last)
	case size > MaxBlock/2:
		w.err = fmt.Errorf("accumulators of key %x take %d bytes, more than a run holds (%d)", key, size, MaxBlock/2)
	case size+len(w.block)-frameBytes > MaxBlock/2:
		w.flush()
	}
	return w.err == nil
}

// room makes room for n more bytes.
func (w *Writer) room(n int) {
	if n += len(w.block); n > cap(w.block) {
		w.block = append(make([]byte, 0, max(n, 2*cap(w.block))), w.block...)
	}
}

// appendKey writes what the key does not share with the one before.
func (w *Writer) appendKey(key []byte) {
	same := 0
	if w.inRows == 0 {
		w.first = append(w.first[:0], key...)
	} else {
		same = shared(w.last, key)
	}
	w.block = binary.AppendUvarint(w.block, uint64(same))
	w.block = binary.AppendUvarint(w.block, uint64(len(key)-same))
	w.block = append(w.block, key[same:]...)
	w.last = append(w.last[:0], key...)
}

// end ends a row.
func (w *Writer) end() {
	w.any = true
	w.inRows++
	w.rows++
	if len(w.block)-frameBytes >= blockSize {
		w.flush()
	}
}

// appendBody appends a row's accumulators to dst, which has room for them, at
// most two numbers and its bytes for each.
func appendBody(dst []byte, accs [][]byte) []byte {
	at := len(dst)
	b := dst[:cap(dst)]
	var prev []byte
	for _, a := range accs {
		at = putUvarint(b, at, len(a))
		if len(a) == 0 {
			continue
		}
		same := 0
		if prev != nil {
			same = shared(prev, a)
			at = putUvarint(b, at, same)
		}
		at += copy(b[at:], a[same:])
		prev = a
	}
	return b[:at]
}

// putUvarint writes x at b[at:] and returns where it ends.
func putUvarint(b []byte, at, x int) int {
	if x < 0x80 {
		b[at] = byte(x)
		return at + 1
	}
	return at + binary.PutUvarint(b[at:], uint64(x))
}

// flush ends the open block.
func (w *Writer) flush() {
	if w.inRows == 0 {
		return
	}
	rows := w.block[frameBytes:]
	w.sum.Write(rows)
	out, how := w.block, byte(storedRaw)
	if w.enc != nil {
		w.out = w.enc.EncodeAll(rows, append(w.out[:0], make([]byte, frameBytes)...))
		if len(w.out) < len(w.block) {
			out, how = w.out, storedZstd
		}
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)-frameBytes))
	binary.LittleEndian.PutUint32(out[4:], uint32(len(rows)))
	out[8] = how
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, crcTable()))

	w.index = binary.AppendUvarint(w.index, uint64(w.size-w.prev))
	w.index = binary.AppendUvarint(w.index, uint64(w.inRows))
	w.index = appendString(w.index, string(w.first))
	w.prev = w.size
	w.blocks++
	w.write(out)
	w.block, w.inRows = w.block[:frameBytes], 0
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
